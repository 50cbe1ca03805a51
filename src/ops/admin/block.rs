//! Blocks a key by hand.

use std::time::Duration;

use super::release::known;
use super::{Admin, StoredRecord, StoredState};
use crate::error::{Error, ErrorKind};
use crate::store::key::{KeyForm, RecordKey, Scope};
use crate::store::record::random_owner;

/// The result of a block.
///
/// ```
/// # doc_examples::run(async |sandbox, idempotency| {
/// use std::time::Duration;
///
/// use dynamodb_idempotency::Scope;
/// use dynamodb_idempotency::admin::Blocked;
/// use dynamodb_idempotency::policy::KeyForm;
///
/// sandbox.record("payments", "order-42").completed("re_1").await?;
/// let (scope, day) = (Scope::new("payments"), Duration::from_secs(86_400));
/// match idempotency.admin().block(&scope, "order-42", KeyForm::Verbatim, day).await? {
///     Blocked::Exists(record) => assert_eq!(record.status(), "COMPLETED"),
///     other => panic!("it is not absent: {other:?}"),
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub enum Blocked {
    /// The key is blocked.
    Written,
    /// The key is blocked, by a forced block, in place of this record.
    Replaced(Box<StoredRecord>),
    /// Nothing was written, because the key has this record. It has not expired.
    Exists(Box<StoredRecord>),
}

/// How many times a key is written whose expired record changes meanwhile.
const TRIES: u32 = 5;

impl Admin<'_> {
    /// Blocks a key whose effect is known to have happened, but whose record is lost: until `lasts` is
    /// over, every request with the key is a mismatch, and none runs.
    ///
    /// The blocker is a record of an operation that has ended, with the fingerprint of no request, all
    /// zeros. It is written only if the key has no record, or one that has expired.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::admin::Blocked;
    /// use dynamodb_idempotency::policy::KeyForm;
    /// use dynamodb_idempotency::{ErrorKind, RunError, Scope};
    ///
    /// let (scope, day) = (Scope::new("payments"), Duration::from_secs(86_400));
    /// let blocked = idempotency.admin().block(&scope, "order-42", KeyForm::Verbatim, day).await?;
    /// assert!(matches!(blocked, Blocked::Written));
    /// let charge = idempotency.operation("payments").key("order-42").payload(&1200);
    /// let refused = charge.run(async |_| Ok::<_, std::io::Error>("re_1".to_owned())).await;
    /// let Err(RunError::Idempotency(error)) = refused else { panic!("{refused:?}") };
    /// assert_eq!(error.kind(), ErrorKind::Mismatch);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::OutcomeUnknown`] if DynamoDB does not respond: a retry is safe, and then returns
    /// the blocker as the record that exists. [`ErrorKind::UnknownRecord`] if the key has an item that
    /// is not a record of a layout that this version knows; it stays.
    /// [`InvalidInput`](ErrorKind::InvalidInput) if the key is empty or too long. Other errors are
    /// those of every request.
    pub async fn block(
        &self,
        scope: &Scope,
        key: &str,
        form: KeyForm,
        lasts: Duration,
    ) -> Result<Blocked, Error> {
        self.put_blocker((scope, key, form), lasts, |_| false).await
    }

    /// Blocks a key like [`block`](Self::block), also one whose record does not keep requests from
    /// running: an abandoned operation, a failure that is kept, or a release.
    ///
    /// The record is replaced only if it has not changed since it was read, so nothing is written over an
    /// attempt that has started meanwhile. A live lease, a completed record and a blocker stay. The steps
    /// of the record are lost.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::Scope;
    /// use dynamodb_idempotency::admin::Blocked;
    /// use dynamodb_idempotency::policy::KeyForm;
    ///
    /// let payment = sandbox.record("payments", "order-42");
    /// payment.pending(Duration::from_secs(30)).await?;
    /// payment.abandoned().await?;
    /// let (scope, day) = (Scope::new("payments"), Duration::from_secs(86_400));
    /// match idempotency.admin().force_block(&scope, "order-42", KeyForm::Verbatim, day).await? {
    ///     Blocked::Replaced(record) => assert!(record.abandoned_for().is_some()),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for `block`.
    pub async fn force_block(
        &self,
        scope: &Scope,
        key: &str,
        form: KeyForm,
        lasts: Duration,
    ) -> Result<Blocked, Error> {
        self.put_blocker((scope, key, form), lasts, can_run).await
    }

    /// Puts a blocker over no record, an expired one, or one that may be replaced.
    async fn put_blocker(
        &self,
        (scope, key, form): (&Scope, &str, KeyForm),
        lasts: Duration,
        may_be_replaced: impl Fn(&StoredRecord) -> bool,
    ) -> Result<Blocked, Error> {
        let table = self.table();
        let key = RecordKey::new(scope, key, form, table.schema.max_key_bytes())?;
        let owner = random_owner()?;
        let mut replaced: Option<StoredRecord> = None;
        let written = |replaced: Option<StoredRecord>| match replaced {
            Some(record) if !record.is_expired() => Blocked::Replaced(Box::new(record)),
            Some(_) | None => Blocked::Written,
        };
        for _ in 0..TRIES {
            // While a record lives, no two attempts have the same number.
            let last = replaced.as_ref().filter(|record| !record.is_expired());
            let attempt = last.map_or(1, |record| record.attempt.max(1));
            let version = replaced.as_ref().map(|record| (&record.version, record.epoch_expiry()));
            let reply = table.put_blocker(&key, owner, lasts, attempt, version).await;
            let unknown = "it is unknown whether the key is blocked: block it again";
            match known(reply.outcome, unknown)? {
                Ok(()) => return Ok(written(replaced)),
                Err(None) => replaced = None,
                Err(Some(item)) => {
                    let now = self.core.judging_time(reply.time)?;
                    let record = StoredRecord::read(self.core, key.clone(), item, now)?;
                    if record.owner == owner.to_string() {
                        return Ok(written(replaced)); // by an earlier try whose response was lost
                    }
                    if !record.is_expired() && !may_be_replaced(&record) {
                        return Ok(Blocked::Exists(Box::new(record)));
                    }
                    replaced = Some(record);
                }
            }
        }
        let message = "the record changes all the time, and nothing was written: block it again";
        Err(Error::new(ErrorKind::Unavailable, message))
    }
}

/// Whether a request with the record's key can run now.
fn can_run(record: &StoredRecord) -> bool {
    match record.state {
        StoredState::Pending { .. } => record.lease_left().is_none(),
        StoredState::Failed { .. } | StoredState::Released => true,
        StoredState::Completed { .. } | StoredState::Blocked => false,
    }
}
