//! What a reconcile hook gets, and what it returns.

use std::time::SystemTime;

use aws_sdk_dynamodb::types::TransactWriteItem;
use serde::de::DeserializeOwned;

use crate::answer::Answer;
use crate::answer::codec::Coding;
use crate::error::Error;
use crate::store::key::RecordKey;
use crate::store::key::derived::DerivedKey;
use crate::store::record::{Record, StoredSteps, sent_by};

/// An abandoned operation, as a [reconcile hook](crate::Call::reconcile) sees it.
///
/// The lease of its owner expired without an answer. The owner has usually died, but it may only be slow:
/// an effect that the hook does not find may still happen. Look for the effect by the operation's [derived
/// key](Self::derive_key) or [steps](Self::step). If the effect stays unknown, return [`Reconciled::Refuse`].
///
/// ```
/// use dynamodb_idempotency::{Abandoned, Error, Reconciled, RunError};
///
/// async fn judge(abandoned: Abandoned) -> Result<Reconciled<String, Error>, Error> {
///     println!(
///         "attempt {} since {:?}, given up {:?}, steps: {:?}, its key: {}",
///         abandoned.attempt(),
///         abandoned.created_at(),
///         abandoned.lease_ended_at(),
///         abandoned.steps().collect::<Vec<_>>(),
///         abandoned.derive_key("charge"),
///     );
///     Ok(match abandoned.step::<String>("charge")? {
///         Some(charge) => Reconciled::Completed(charge),
///         None => Reconciled::Execute,
///     })
/// }
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Abandoned {{ operation: {:?}, attempt: {}, .. }}", key.operation(), record.meta.attempt)]
pub struct Abandoned {
    pub(crate) coding: Coding,
    pub(crate) key: RecordKey,
    pub(crate) record: Record,
}

/// What a reconcile hook decides about an abandoned operation.
///
/// ```
/// use dynamodb_idempotency::Reconciled;
///
/// /// What a card network says of a charge.
/// fn judge(state: Option<&str>) -> Reconciled<String, String> {
///     match state {
///         Some("succeeded") => Reconciled::Completed("paid".to_owned()),
///         Some("declined") => Reconciled::Failed("declined".to_owned()),
///         None => Reconciled::Execute,
///         Some(_) => Reconciled::Refuse,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reconciled<T, E> {
    /// The operation has completed with this answer, which is stored. This call and every repeat get it.
    Completed(T),
    /// Like `Completed`, and these items are written in the same transaction, as by
    /// [`Execution::commit`](crate::Execution::commit). This is for a handler that commits rows: the effect
    /// happened, its rows are missing.
    ///
    /// If a condition of an item fails, the call ends with
    /// [`ConditionFailed`](crate::ErrorKind::ConditionFailed). Then nothing is written, and the next call
    /// runs the hook again. The answer must fit into the record.
    Commit {
        /// What this call and every repeat get.
        answer: T,
        /// At most [`MAX_TRANSACTION_ITEMS`](crate::MAX_TRANSACTION_ITEMS).
        items: Vec<TransactWriteItem>,
    },
    /// It has failed with this error. The record becomes FAILED, and [`Failure`](crate::policy::Failure)
    /// decides about the next call. That call runs under [`Release`](crate::policy::Failure::Release), and
    /// while [`Retain`](crate::policy::Failure::Retain) has attempts left. Otherwise it gets the failure.
    Failed(E),
    /// Its effect does not exist. The operation runs again, from the first step that is not done.
    Execute,
    /// It is unknown whether its effect exists. The call gets
    /// [`ErrorKind::Abandoned`](crate::ErrorKind::Abandoned), and the record does not change.
    Refuse,
}

impl Abandoned {
    /// Returns the number of the attempt that was abandoned.
    ///
    /// ```
    /// # doc_examples::with_abandoned(|abandoned| {
    /// assert_eq!(abandoned.attempt(), 1);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.record.meta.attempt
    }

    /// Returns when attempt 1 started, by DynamoDB's clock; after a release, when the next attempt started.
    ///
    /// ```
    /// # doc_examples::with_abandoned(|abandoned| {
    /// assert!(abandoned.created_at() < abandoned.lease_ended_at());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn created_at(&self) -> SystemTime {
        self.record.meta.created_at.to_system()
    }

    /// Returns when the last owner's lease expired, by DynamoDB's clock.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use dynamodb_idempotency::Abandoned;
    ///
    /// /// Whether the other service had the time that it needs to show what it did.
    /// fn is_settled(abandoned: &Abandoned, now: SystemTime) -> bool {
    ///     now >= abandoned.lease_ended_at() + Duration::from_secs(10)
    /// }
    /// ```
    #[must_use]
    pub fn lease_ended_at(&self) -> SystemTime {
        let meta = &self.record.meta;
        meta.state.lease_expires_at().unwrap_or(meta.created_at).to_system()
    }

    /// Returns the result of a step; `None` if the step is not done, and for any name that [`steps`](Self::steps)
    /// does not return.
    ///
    /// ```
    /// # doc_examples::with_abandoned(|abandoned| {
    /// let charge: Option<String> = abandoned.step("charge")?;
    /// assert_eq!(charge.as_deref(), Some("ch_1"));
    /// assert_eq!(abandoned.step::<String>("ship")?, None);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`AnswerUnreadable`](crate::ErrorKind::AnswerUnreadable) if the result has another type,
    /// [`AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable) if it could not be stored, and
    /// [`StepsUnreadable`](crate::ErrorKind::StepsUnreadable) if the [`AnswerCodec`](crate::AnswerCodec)
    /// cannot decode it.
    pub fn step<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let found = self.record.steps.as_ref().and_then(|steps| steps.get(name));
        // The note of a step that is sent at most once is not a result.
        let found = found.filter(|_| sent_by(name).is_none());
        found.map(|step| step.read(name, self.coding.of(&self.key))).transpose()
    }

    /// Returns the names of the steps that are done, in no particular order.
    ///
    /// ```
    /// # doc_examples::with_abandoned(|abandoned| {
    /// assert_eq!(abandoned.steps().collect::<Vec<_>>(), ["charge"]);
    /// # Ok(()) });
    /// ```
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        let names = self.record.steps.iter().flat_map(StoredSteps::keys).map(String::as_str);
        names.filter(|name| sent_by(name).is_none())
    }

    /// Derives the same key as [`Execution::derive_key`](crate::Execution::derive_key), with which
    /// the operation's attempts call another service.
    ///
    /// ```
    /// # doc_examples::with_abandoned(|abandoned| {
    /// let key = abandoned.derive_key("charge"); // what the attempt called the other service with
    /// assert_eq!(key, abandoned.derive_key("charge"));
    /// assert_ne!(key, abandoned.derive_key("refund"));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn derive_key(&self, label: &str) -> DerivedKey {
        DerivedKey::child(&self.key, label)
    }
}

/// What a hook returns for a handler with answers `T` and errors `E`.
pub(crate) type HookResult<T, E> = Result<Reconciled<T, E>, E>;

/// What a hook has returned, in one word. `None` if the deadline came first.
pub(crate) const fn name_of<T, E>(returned: Option<&HookResult<T, E>>) -> &'static str {
    match returned {
        Some(Ok(Reconciled::Completed(_))) => "Completed",
        Some(Ok(Reconciled::Commit { .. })) => "Commit",
        Some(Ok(Reconciled::Failed(_))) => "Failed",
        Some(Ok(Reconciled::Execute)) => "Execute",
        Some(Ok(Reconciled::Refuse)) => "Refuse",
        Some(Err(_)) => "with an error",
        None => "nothing before the deadline",
    }
}

/// A hook's resolution in its stored form: the answer, or what repeats get for the failure.
pub(crate) type Resolved = Reconciled<Answer, Option<Answer>>;

impl<T, E> Reconciled<T, E> {
    pub(crate) fn resolved(
        &self,
        completed: impl FnOnce(&T) -> Answer,
        failed: impl FnOnce(&E) -> Option<Answer>,
    ) -> Resolved {
        match self {
            Self::Completed(value) => Reconciled::Completed(completed(value)),
            Self::Commit { answer, items } => {
                Reconciled::Commit { answer: completed(answer), items: items.clone() }
            }
            Self::Failed(error) => Reconciled::Failed(failed(error)),
            Self::Execute => Reconciled::Execute,
            Self::Refuse => Reconciled::Refuse,
        }
    }
}
