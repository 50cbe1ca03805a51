//! Releases a key by hand.

use super::{Admin, StoredRecord, StoredState};
use crate::error::{Error, ErrorKind};
use crate::store::WriteResult;
use crate::store::record::{Item, random_owner};

/// The result of a release.
///
/// ```
/// # doc_examples::run(async |sandbox, idempotency| {
/// use std::time::Duration;
///
/// use dynamodb_idempotency::admin::Released;
///
/// let pending = sandbox.record("payments", "order-42");
/// pending.pending(Duration::from_secs(30)).await?;
/// pending.abandoned().await?;
/// let shown = pending.read().await?.expect("a record");
/// pending.pending(Duration::from_secs(30)).await?; // another call has taken it over since
/// match idempotency.admin().release(&shown).await? {
///     Released::Changed(now) => assert_ne!(now.owner, shown.owner),
///     other => panic!("{other:?}"),
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub enum Released {
    /// This request or another one has released the record. The next request runs the operation
    /// again.
    Released,
    /// The record no longer exists: its retention ended, or it was deleted.
    Gone,
    /// Nothing was written: the record has changed since it was shown, and now has this state.
    Changed(Box<StoredRecord>),
}

impl Admin<'_> {
    /// Releases a record if it has not changed since it was read.
    ///
    /// Owner, state, lease and number of steps must be the same. The answer and the steps are
    /// removed; the number of attempts stays. The owner becomes an id that no call has.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::ErrorKind;
    /// use dynamodb_idempotency::admin::Released;
    ///
    /// let pending = sandbox.record("payments", "order-42");
    /// pending.pending(Duration::from_secs(30)).await?;
    /// let admin = idempotency.admin();
    /// let live = pending.read().await?.expect("a record");
    /// assert_eq!(admin.release(&live).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    ///
    /// pending.abandoned().await?;
    /// let stuck = pending.read().await?.expect("a record");
    /// assert!(matches!(admin.release(&stuck).await?, Released::Released));
    /// let released = pending.read().await?.expect("a record");
    /// assert_eq!(released.status(), "RELEASED");
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the record has [dangers](StoredRecord::dangers); nothing is
    /// sent. [`ErrorKind::OutcomeUnknown`] if DynamoDB does not respond: the record may be
    /// released, so read it again. Other errors are those of every request.
    pub async fn release(&self, record: &StoredRecord) -> Result<Released, Error> {
        if record.dangers().is_empty() {
            return self.force_release(record).await;
        }
        let message = "releasing this record can do harm: see its dangers, or use force_release";
        Err(Error::new(ErrorKind::InvalidInput, message))
    }

    /// Releases a record like [`release`](Self::release), even if it has dangers.
    ///
    /// An owner that is still running can store its answer after the release, unless a later attempt
    /// has started.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::admin::Released;
    ///
    /// let payment = sandbox.record("payments", "order-42");
    /// payment.pending(std::time::Duration::from_secs(30)).await?;
    /// let live = payment.read().await?.expect("a record");
    /// let released = idempotency.admin().force_release(&live).await?;
    /// assert!(matches!(released, Released::Released));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for `release`, except for the dangers.
    pub async fn force_release(&self, record: &StoredRecord) -> Result<Released, Error> {
        let table = self.table();
        let StoredRecord { record_key, attempt, version, .. } = record;
        // A fresh id: a call that finds its own id knows that its own write released the record.
        let owner = random_owner()?;
        let reply = table.release_seen(record_key, owner, *attempt, version).await;
        match known(reply.outcome, "it is unknown whether the record is released: read it again")? {
            Ok(()) => Ok(Released::Released),
            Err(None) => Ok(Released::Gone),
            Err(Some(item)) => {
                let now = self.core.judging_time(reply.time)?;
                let now = StoredRecord::read(self.core, record_key.clone(), item, now)?;
                // Released by an earlier try whose response was lost, or by another request. No attempt
                // has started since.
                let is_released = now.state == StoredState::Released
                    && (now.attempt, now.created_at) == (record.attempt, record.created_at);
                Ok(if is_released { Released::Released } else { Released::Changed(Box::new(now)) })
            }
        }
    }
}

/// Returns whether a write was applied. The inner error is the current item.
pub(super) fn known(
    outcome: WriteResult,
    unknown: &str,
) -> Result<Result<(), Option<Item>>, Error> {
    match outcome {
        WriteResult::Applied => Ok(Ok(())),
        WriteResult::Rejected(found) => Ok(Err(found)),
        WriteResult::Conflict(error)
        | WriteResult::TokenUsed(error)
        | WriteResult::Invalid(error)
        | WriteResult::NotApplied(error) => Err(error),
        WriteResult::Unknown(error) => {
            Err(Error::new(ErrorKind::OutcomeUnknown, unknown).with_source(error))
        }
    }
}
