//! The crate's error: its kinds, and what the caller should do about each.

mod condition;
mod json_fault;
mod mismatch;
mod run_error;
mod text;

#[cfg(any(feature = "event", test))]
use std::any::Any;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::time::Duration;

pub use self::condition::{ConditionFailed, MAX_TRANSACTION_ITEMS};
pub(crate) use self::json_fault::json_fault;
pub use self::mismatch::MismatchedRecord;
pub use self::run_error::RunError;
use self::text::Cause;
pub(crate) use self::text::one_line;

type Source = Box<dyn StdError + Send + Sync>;

/// The error of a call, a step, a commit, a transaction or a setting.
///
/// Match on [`kind`](Self::kind). The message is for people, and contains neither the key nor the
/// tenant. The handler's own error is in [`RunError`].
///
/// ```
/// use dynamodb_idempotency::{Error, ErrorKind, Fingerprint};
///
/// fn advice(error: &Error) -> &'static str {
///     match error.kind() {
///         ErrorKind::Mismatch => "use a new key",
///         ErrorKind::Configuration => "fix the deployment",
///         _ if error.is_outcome_unknown() => "it may have happened: ask again with the same key",
///         _ if error.retry_after().is_some() => "it is running: wait, then ask again",
///         _ if error.is_retryable() => "ask again",
///         _ => "look at it",
///     }
/// }
///
/// // JSON has no maps with such keys.
/// let payload = std::collections::HashMap::from([((1, 2), 3)]);
/// let error = Fingerprint::of(&payload).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// assert_eq!(advice(&error), "look at it");
/// ```
#[derive(derive_more::Debug, derive_more::Display)]
// One line with the kind and all causes. A `main` that returns the error prints this line.
#[debug("{}", self.with_causes(format!("{self} ({:?})", details.kind)))]
#[display("{}", details.message)]
pub struct Error {
    // Boxed, so that an error takes only one word in a `Result`.
    details: Box<Details>,
}

/// What an error contains. It is an error too, whose text is the kind, so that [`RunError::source`] can
/// return it: [`Details::of`] then recognizes the error among the causes of another one, and no text
/// is printed twice.
#[derive(derive_more::Debug, derive_more::Display)]
#[debug("{kind:?}")]
#[display("{kind:?}")]
pub(crate) struct Details {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    source: Option<Cause>,
    condition_failed: Option<ConditionFailed>,
    mismatched: Option<MismatchedRecord>,
    step_ran: bool,
    is_denied: bool,
}

impl StdError for Details {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

impl Details {
    /// Returns the crate's error that a handler returned as `error`: as it is, in a box, or as a cause.
    #[cfg(any(feature = "event", test))]
    pub(crate) fn of<E: 'static>(error: &E) -> Option<&Self> {
        let error: &dyn Any = error;
        if let Some(boxed) = error.downcast_ref::<Source>() {
            return Self::find(&**boxed);
        }
        let of_run_error = || error.downcast_ref::<RunError<Source>>().and_then(Self::of_run_error);
        error.downcast_ref::<Error>().map(Error::details).or_else(of_run_error)
    }

    #[cfg(any(feature = "event", test))]
    fn find<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |&error| error.source()).find_map(|error| {
            let of_run_error =
                || error.downcast_ref::<RunError<Source>>().and_then(Self::of_run_error);
            let of_error = || error.downcast_ref::<Error>().map(Error::details);
            error.downcast_ref::<Self>().or_else(of_error).or_else(of_run_error)
        })
    }

    /// A box is not an error itself, so the chain of causes ends at [`RunError::Handler`].
    #[cfg(any(feature = "event", test))]
    fn of_run_error(error: &RunError<Source>) -> Option<&Self> {
        match error {
            RunError::Handler(boxed) => Self::find(&**boxed),
            RunError::Idempotency(error) => Some(error.details()),
        }
    }
}

/// The kind of an [`Error`], which says what the caller should do.
///
/// ```
/// use dynamodb_idempotency::{Error, ErrorKind};
///
/// fn status(error: &Error) -> u16 {
///     match error.kind() {
///         ErrorKind::InvalidInput => 400,
///         ErrorKind::Mismatch => 422,
///         ErrorKind::InProgress { .. } | ErrorKind::LeaseLost => 409,
///         ErrorKind::Abandoned | ErrorKind::ConditionFailed => 409,
///         ErrorKind::OutcomeUnknown => 500,
///         _ if error.is_retryable() => 503,
///         _ => 500,
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call is wrong: its key is missing or too long, or its payload cannot be serialized. **Fix
    /// the call.** Nothing ran.
    InvalidInput,
    /// The handler used its [`Execution`](crate::Execution) wrongly. Either the name of a step is empty,
    /// too long or used already; or the record has no room for the step; or a step or commit came after
    /// the end of the operation. **Fix the handler.** No commit was written. The step did not start,
    /// unless [`step_ran`](Error::step_ran) is `true`.
    InvalidUse,
    /// The key was used before with another payload. **Use a new key for a new request.** Nothing ran.
    Mismatch,
    /// Another execution of this key holds a live lease. **Retry after `retry_after`.** Nothing ran.
    InProgress {
        /// The remaining time of the lease, but at least one second and at most five.
        retry_after: Duration,
    },
    /// An earlier execution failed, and the policy allows no further attempt. **Look at the failure,
    /// and use a new key to try again.** Nothing ran now.
    Failed,
    /// An earlier owner's lease expired without an answer.
    /// [`Takeover::Reject`](crate::policy::Takeover::Reject), or a hook that returned
    /// [`Refuse`](crate::Reconciled::Refuse), forbids another run. **Check whether the effect exists.
    /// To let the operation run again, release the record.** Nothing ran now.
    Abandoned,
    /// While the handler ran, either the lease expired and another execution took over, or the record was
    /// deleted. This execution's answer was not stored. **Retry with the same key** to get the other
    /// owner's answer. No commit was or will be written. A
    /// [step](crate::Execution::step) returns this error as soon as the lease has expired, even if no other
    /// execution has taken over. Its work did not start, unless [`step_ran`](Error::step_ran) is `true`.
    LeaseLost,
    /// The lease expired or was lost while the handler ran, and the handler was stopped
    /// ([`LeaseExpired::Stop`](crate::policy::LeaseExpired::Stop)). **All or part of its effect may
    /// have happened. Retry with the same key**, and use a longer lease. The record did not change. A
    /// commit in doubt can still be applied until another call takes over. Once the lease has expired
    /// by DynamoDB's clock, [`Takeover`](crate::policy::Takeover) or the hook decides about a repeat.
    LeaseExpired,
    /// The deadline of the call has passed, or is too near for the operation. **Retry.** No handler ran.
    DeadlineExceeded,
    /// A setting is out of its bounds, the table is missing or has other keys, or permissions or
    /// credentials are missing. **Fix the settings or the deployment.** Nothing ran. A commit with this
    /// error was not written.
    Configuration,
    /// DynamoDB could not be reached, throttled the request or failed, or the AWS credentials have lapsed
    /// or cannot be loaded at the moment. **Retry.** Nothing ran. A commit with this error was not
    /// written, and the execution continues.
    Unavailable,
    /// A condition of an item in a commit or transaction was false.
    /// [`condition_failed`](Error::condition_failed) returns the item. **Do something else, or retry
    /// when the item has changed.** Nothing was written, and the execution continues.
    ConditionFailed,
    /// The items or the answer of a commit or transaction are invalid. The message has the reason, and the
    /// index of the item, counted from 0, or its table and field if a `rows::Table` could not build it.
    /// **Fix the handler.** Nothing was written, and the execution continues.
    InvalidTransaction,
    /// An earlier commit of this execution was applied. **Commit once.** Nothing of this commit was
    /// written, and the execution has ended.
    AlreadyCommitted,
    /// A commit can no longer be applied, because the handler dropped its future and the crate recorded a
    /// failure. **Retry.** Nothing of the commit was written, and the execution has ended.
    NothingCommitted,
    /// The outcome of a completion, step, commit or transaction is unknown. **Retry with the same
    /// key.**
    ///
    /// - The handler ran, and its completion was not confirmed (only with
    ///   [`Unconfirmed::Error`](crate::policy::Unconfirmed::Error)). Its effect has probably happened.
    ///   If the completion was not applied, the handler runs again once the lease has expired.
    /// - A commit or transaction was not confirmed. DynamoDB applied all of it or nothing, and a repeat
    ///   finds out which. The execution has ended.
    /// - A step ran, and its result was not confirmed. A later attempt may run it again.
    /// - An earlier attempt may have sent the request of a
    ///   [`step_at_most_once`](crate::Execution::step_at_most_once), and the look-up could not tell. Nothing was
    ///   sent now, and a repeat asks again.
    OutcomeUnknown,
    /// The item under this key is not a valid record: another program wrote it, `format` is missing or
    /// below 1, or an attribute is missing or has another type. **Look at the item.** Nothing ran. The
    /// crate never overwrites the item.
    UnknownRecord,
    /// A newer version of this crate wrote the record, and this version does not know its `format` or
    /// its fingerprint recipe. **Retry, and finish the rollout: the newer version can read it.**
    /// Nothing ran, and the record did not change.
    NewerRecord,
    /// The operation or one of its [steps](crate::Execution::step) is done, but its result is not
    /// available. **Its effect has happened: read the result from your own data.** Nothing ran now,
    /// unless [`step_ran`](Error::step_ran) is `true`.
    ///
    /// The result was too large or could not be serialized, or a part of it is missing or damaged. It
    /// may also exceed [`Policy::max_answer_bytes`](crate::Policy::max_answer_bytes), or need the
    /// feature `compression` or an [`AnswerCodec`](crate::AnswerCodec) that is missing or fails.
    AnswerUnavailable,
    /// An earlier attempt stored [steps](crate::Execution::step) whose results this process cannot
    /// read. Their [`AnswerCodec`](crate::AnswerCodec) is missing or fails, or
    /// [`reject_plain_answers`](crate::Builder::reject_plain_answers) rejects them, or they exceed
    /// [`Policy::max_answer_bytes`](crate::Policy::max_answer_bytes). The operation is **not** done.
    /// **Retry: a process that can read them continues it.** Nothing ran, and the record did not change.
    StepsUnreadable,
    /// The stored answer cannot be decoded as the requested type. **Use the type that the answer was
    /// stored with.** Nothing ran now.
    AnswerUnreadable,
}

impl ErrorKind {
    /// The name of the kind without its data. Alarms and clients match on it.
    #[cfg(feature = "event")]
    pub(crate) fn name(self) -> String {
        let shown = format!("{self:?}");
        shown.split(' ').next().unwrap_or_default().to_owned()
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = one_line(message.into());
        let details = Details {
            kind,
            message,
            source: None,
            condition_failed: None,
            mismatched: None,
            step_ran: false,
            is_denied: false,
        };
        Self { details: Box::new(details) }
    }

    pub(crate) fn details(&self) -> &Details {
        &self.details
    }

    /// Marks an error of [`ErrorKind::Unavailable`] that is no outage: DynamoDB, or the source of the
    /// credentials, denied the request.
    pub(crate) fn of_denial(mut self) -> Self {
        self.details.is_denied = true;
        self
    }

    /// Whether DynamoDB cannot be reached, throttles or fails. `Outage` decides only about these errors.
    pub(crate) fn is_outage(&self) -> bool {
        self.kind() == ErrorKind::Unavailable && !self.details.is_denied
    }

    /// Creates an error of the kind [`ErrorKind::InvalidTransaction`].
    pub(crate) fn invalid_transaction(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidTransaction, message)
    }

    /// DynamoDB responded, but did not show its time.
    pub(crate) fn no_store_time() -> Self {
        let message = "DynamoDB's responses have no `Date` header, so its time is unknown and nothing was run. Let \
                       the header pass through what is between this program and DynamoDB, or declare \
                       Builder::local_store_time()";
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Adds the record of the request that used the key before.
    pub(crate) fn with_mismatched(mut self, record: Option<MismatchedRecord>) -> Self {
        self.details.mismatched = record;
        self
    }

    /// Marks the error of a step whose work ran.
    pub(crate) fn of_step_that_ran(mut self) -> Self {
        self.details.step_ran = true;
        self
    }

    /// Adds a cause, of which only the texts are kept. For an error with which DynamoDB responded, the
    /// cause is `store::error_code::Response`.
    pub(crate) fn with_source(mut self, source: impl Into<Source>) -> Self {
        let source: Source = source.into();
        self.details.source = Some(Cause::of(&*source));
        self
    }

    /// The error and its causes, in one line.
    #[doc(hidden)]
    #[must_use]
    pub fn in_full(&self) -> String {
        self.with_causes(self.to_string())
    }

    /// Appends the causes of the error, each after a colon.
    fn with_causes(&self, text: String) -> String {
        let causes = std::iter::successors(self.source(), |&cause| cause.source());
        causes.fold(text, |text, cause| format!("{text}: {cause}"))
    }

    /// Returns the kind, which says what the caller should do.
    ///
    /// ```
    /// use dynamodb_idempotency::{ErrorKind, Scope};
    ///
    /// let error = Scope::from_encoded("tenant%2").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::InvalidInput);
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.details.kind
    }

    /// Returns whether the same call with the same key may succeed later.
    ///
    /// ```
    /// use dynamodb_idempotency::Scope;
    ///
    /// let error = Scope::from_encoded("tenant%2").unwrap_err();
    /// assert!(!error.is_retryable()); // the same call would fail again
    /// ```
    ///
    /// A failed condition does not count as retryable, because only your program knows whether the item
    /// will change.
    ///
    /// ```
    /// use dynamodb_idempotency::Error;
    ///
    /// fn is_worth_a_retry(error: &Error) -> bool {
    ///     error.is_retryable() || error.condition_failed().is_some() // the item may change
    /// }
    /// ```
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::InProgress { .. }
                | ErrorKind::LeaseLost
                | ErrorKind::LeaseExpired
                | ErrorKind::DeadlineExceeded
                | ErrorKind::Unavailable
                | ErrorKind::NothingCommitted
                | ErrorKind::OutcomeUnknown
                | ErrorKind::NewerRecord
                | ErrorKind::StepsUnreadable
        )
    }

    /// Returns whether the handler ran without a confirmed answer in the record. The effect may then have
    /// happened.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// let record = sandbox.record("charge", "order-42").payload(&1200);
    /// record.pending(std::time::Duration::from_secs(30)).await?;
    /// let charge = idempotency.operation("charge").key("order-42").payload(&1200);
    /// let ran = charge.run(async |_| Ok::<_, std::io::Error>(())).await;
    /// let error = ran.unwrap_err().into_handler().unwrap_err();
    /// // Another execution of the key is running: this call ran nothing.
    /// assert!(error.is_retryable() && !error.is_outcome_unknown());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::OutcomeUnknown | ErrorKind::LeaseLost | ErrorKind::LeaseExpired
        )
    }

    /// Returns how long to wait before a retry, for [`ErrorKind::InProgress { .. }`](ErrorKind::InProgress).
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use std::time::Duration;
    ///
    /// let record = sandbox.record("charge", "order-42").payload(&1200);
    /// record.pending(Duration::from_secs(30)).await?; // it is running
    /// let charge = idempotency.operation("charge").key("order-42").payload(&1200);
    /// let ran = charge.run(async |_| Ok::<_, std::io::Error>(())).await;
    /// let error = ran.unwrap_err().into_handler().unwrap_err();
    /// assert!(error.is_retryable() && !error.is_outcome_unknown());
    /// let wait = error.retry_after().expect("the error has a delay");
    /// assert!(wait >= Duration::from_secs(1) && wait <= Duration::from_secs(5));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind() {
            ErrorKind::InProgress { retry_after } => Some(retry_after),
            _ => None,
        }
    }

    /// Returns the conditions that were false, for [`ErrorKind::ConditionFailed`].
    ///
    /// ```
    /// use aws_sdk_dynamodb::types::TransactWriteItem;
    /// use dynamodb_idempotency::{Error, Execution};
    ///
    /// async fn buy(execution: Execution, last_one: TransactWriteItem) -> Result<String, Error> {
    ///     match execution.commit("bought", [last_one]).await {
    ///         Ok(()) => Ok("bought".to_owned()),
    ///         // Nothing was written, and the execution continues.
    ///         Err(error) if error.condition_failed().is_some() => Ok("sold out".to_owned()),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn condition_failed(&self) -> Option<&ConditionFailed> {
        self.details.condition_failed.as_ref()
    }

    /// Returns the record of the request that used the key before, for [`ErrorKind::Mismatch`].
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let charge = |amount: u32| idempotency.operation("charge").key("order-42").payload(&amount);
    /// charge(1200).run(async |_| Ok::<_, std::io::Error>(())).await?;
    /// let ran = charge(1300).run(async |_| Ok::<_, std::io::Error>(())).await;
    /// let error = ran.unwrap_err().into_handler().unwrap_err();
    /// let record = error.mismatched_record().expect("the key was used for 1200");
    /// assert_eq!(record.attempt(), 1);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn mismatched_record(&self) -> Option<&MismatchedRecord> {
        self.details.mismatched.as_ref()
    }

    /// Returns whether the work of a [step](crate::Execution::step) ran, although its result is not
    /// confirmed in the record.
    ///
    /// A later attempt may run the step again, unless the kind is
    /// [`AnswerUnavailable`](ErrorKind::AnswerUnavailable).
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::ErrorKind;
    ///
    /// let order = idempotency.operation("order").key("42").payload("a pen");
    /// order
    ///     .run(async |execution| {
    ///         let name = ""; // a step needs a name
    ///         let step = execution.step(name, async { Ok::<_, std::io::Error>(()) }).await;
    ///         let error = step.unwrap_err().into_handler().unwrap_err();
    ///         assert_eq!(error.kind(), ErrorKind::InvalidUse);
    ///         assert!(!error.step_ran());
    ///         Ok::<_, std::io::Error>(())
    ///     })
    ///     .await?;
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn step_ran(&self) -> bool {
        self.details.step_ran
    }
}

impl From<ConditionFailed> for Error {
    fn from(failed: ConditionFailed) -> Self {
        let mut error = Self::new(ErrorKind::ConditionFailed, failed.to_string());
        error.details.condition_failed = Some(failed);
        error
    }
}

/// A write that contains no items of the caller cannot be rejected because of such an item.
#[doc(hidden)]
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.details.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_kept_and_not_printed_twice() {
        let error = Error::new(ErrorKind::Unavailable, "DynamoDB did not answer")
            .with_source(std::io::Error::other("connection reset"));
        assert_eq!(error.to_string(), "DynamoDB did not answer");
        assert_eq!(error.source().unwrap().to_string(), "connection reset");
    }

    #[test]
    fn unknown_outcomes_are_retryable_with_the_same_key() {
        for kind in [ErrorKind::OutcomeUnknown, ErrorKind::LeaseLost, ErrorKind::LeaseExpired] {
            let error = Error::new(kind, "");
            assert!(error.is_outcome_unknown() && error.is_retryable());
        }
        assert!(!Error::new(ErrorKind::Mismatch, "").is_retryable());
    }
}
