//! The crate's error: its kinds, and what the caller does about each.

mod step;
mod transaction;

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

pub use self::step::StepError;
pub(crate) use self::transaction::Failed;
pub use self::transaction::{
    CommitError, ConditionFailed, InvalidTransaction, MAX_TRANSACTION_ITEMS, TransactionError,
};

type Source = Box<dyn StdError + Send + Sync>;

/// The error of an operation that returned no answer.
///
/// Match on [`kind`](Self::kind). The message is for people and contains neither the key nor the
/// tenant. It never contains the handler's own error: see [`RunError`].
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
pub struct Error {
    // Boxed: every `Result` of the crate holds an error of one word.
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Source>,
}

/// What the caller should do about an [`Error`].
///
/// ```
/// use dynamodb_idempotency::{Error, ErrorKind};
///
/// fn status(error: &Error) -> u16 {
///     match error.kind() {
///         ErrorKind::InvalidInput => 400,
///         ErrorKind::Mismatch => 422,
///         ErrorKind::InProgress { .. } | ErrorKind::LeaseLost => 409,
///         ErrorKind::Unavailable | ErrorKind::DeadlineExceeded => 503,
///         _ => 500,
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call itself is wrong: the key is missing or too long, the payload cannot be serialized,
    /// or two steps have the same name. **Fix the call.** Nothing ran.
    InvalidInput,
    /// The key was used before with another payload. **Use a new key for a new request.** Nothing
    /// ran.
    Mismatch,
    /// Another execution of this key holds a live lease. **Try again after `retry_after`.**
    /// Nothing ran.
    InProgress {
        /// How long to wait before a retry: at least one second, at most five, and not much longer
        /// than the current lease.
        retry_after: Duration,
    },
    /// An earlier execution failed, its failure is kept, and the policy allows no further attempt.
    /// **Look at the failure; use a new key to try again.** Nothing ran now.
    Failed,
    /// An earlier owner's lease expired without an answer, and the policy is
    /// [`Takeover::Reject`](crate::policy::Takeover::Reject) or the reconcile hook returned
    /// [`Refuse`](crate::Reconciled::Refuse). **Check whether its effect exists; release the record
    /// to let it run again.** Nothing ran now.
    Abandoned,
    /// The handler ran, but its lease had expired and another execution owns the key now. The
    /// answer of this execution was not stored. **Retry with the same key** to get the other
    /// owner's answer.
    LeaseLost,
    /// The lease expired or was lost while the handler ran, and the handler was stopped
    /// ([`LeaseExpired::Stop`](crate::policy::LeaseExpired::Stop)). **All or part of its effect may have
    /// happened. Retry with the same key**, and use a longer lease. The record did not change: when
    /// the lease has expired by DynamoDB's clock, [`Takeover`](crate::policy::Takeover) or the hook decides
    /// about a repeat.
    LeaseExpired,
    /// The invocation's deadline has passed or is too near for the operation. **Retry.** Nothing
    /// ran.
    DeadlineExceeded,
    /// A setting is out of its bounds, the table is missing or has other keys, or permissions or
    /// credentials are missing. **Fix the settings or the deployment.** Nothing ran.
    Configuration,
    /// DynamoDB could not be reached, throttled or failed. **Retry.** Either nothing ran, or the
    /// handler ran up to a commit that was not confirmed and of which nothing was written.
    Unavailable,
    /// The outcome of a completion, commit or transaction is unknown. **Retry with the same key.**
    ///
    /// - The handler ran, and its completion was not confirmed (only under
    ///   [`Unconfirmed::Error`](crate::policy::Unconfirmed::Error)). Its effect has probably happened. If
    ///   the completion was not applied, the handler runs again once the lease has expired.
    /// - A commit or a transaction was not confirmed. DynamoDB applied all of it or nothing, and a
    ///   repeat finds out which.
    OutcomeUnknown,
    /// The item under this key is not a record that this version understands: `format` is missing
    /// or unknown, an attribute is missing or has another type, or another program wrote the item.
    /// The crate never overwrites it. **Look at the item.** Nothing ran.
    UnknownRecord,
    /// A newer version of this crate wrote the record, in a `format` or with a fingerprint recipe
    /// that this version does not know, so it cannot compare the requests. **Retry: an instance of
    /// the newer version can; finish rolling it out.** Nothing ran, and the record did not change.
    NewerRecord,
    /// The operation, or one of its [steps](crate::Execution::step), is done, but its result could
    /// not be stored or cannot be read. **Its effect has happened; read its result from your own
    /// data.** Nothing ran now, except with [`StepError::NotStored`](crate::StepError::NotStored).
    ///
    /// The result was too large or could not be serialized; a part is missing or damaged; the
    /// result is larger than [`Policy::max_answer_bytes`](crate::Policy::max_answer_bytes); it is
    /// compressed and this program was built without the feature `compression`; or its
    /// [`AnswerCodec`](crate::AnswerCodec) is missing or fails.
    AnswerUnavailable,
    /// An earlier attempt stored [steps](crate::Execution::step) whose results this program cannot
    /// read: the [`AnswerCodec`](crate::AnswerCodec) that wrote them is missing or fails, or
    /// [`reject_plain_answers`](crate::Builder::reject_plain_answers) rejects them. The operation
    /// is **not** done. **Retry: a process that has the codec continues it.** Nothing ran, and the
    /// record did not change.
    StepsUnreadable,
    /// The stored answer cannot be decoded into the requested type. **Use the type that the answer
    /// was stored with.** Nothing ran now.
    AnswerUnreadable,
}

#[cfg(feature = "http")]
impl ErrorKind {
    /// Whether the client may read the message of this error. Other messages go to the log only.
    pub(crate) const fn is_public(self) -> bool {
        match self {
            Self::InvalidInput
            | Self::Mismatch
            | Self::InProgress { .. }
            | Self::Failed
            | Self::Abandoned
            | Self::LeaseLost
            | Self::LeaseExpired
            | Self::DeadlineExceeded
            | Self::OutcomeUnknown => true,
            Self::Unavailable
            | Self::AnswerUnavailable
            | Self::AnswerUnreadable
            | Self::NewerRecord
            | Self::StepsUnreadable
            | Self::UnknownRecord
            | Self::Configuration => false,
        }
    }
}

impl ErrorKind {
    /// The name of the kind without its data, for alarms and for clients that match on it.
    #[cfg(feature = "event")]
    pub(crate) fn name(self) -> String {
        let shown = format!("{self:?}");
        shown.split(' ').next().unwrap_or_default().to_owned()
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { inner: Box::new(Inner { kind, message: message.into(), source: None }) }
    }

    pub(crate) fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// The error and its causes, in one line.
    pub(crate) fn in_full(&self) -> String {
        format!("{self}{}", Causes(self))
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
        self.inner.kind
    }

    /// Returns whether the same call may succeed later, unchanged and with the same key.
    ///
    /// ```
    /// use dynamodb_idempotency::Scope;
    ///
    /// let error = Scope::from_encoded("tenant%2").unwrap_err();
    /// assert!(!error.is_retryable()); // the same call would fail again
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
                | ErrorKind::OutcomeUnknown
                | ErrorKind::NewerRecord
                | ErrorKind::StepsUnreadable
        )
    }

    /// Returns whether the handler ran while its answer may not be stored.
    ///
    /// The effect may then have happened.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, idempotency| {
    /// sandbox.record("charge", "order-42").pending(std::time::Duration::from_secs(30)).await?;
    /// let charge = idempotency.operation("charge").key("order-42");
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

    /// Returns how long to wait before a retry, for [`ErrorKind::InProgress`].
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, idempotency| {
    /// use std::time::Duration;
    ///
    /// sandbox.record("charge", "order-42").pending(Duration::from_secs(30)).await?; // it is running
    /// let charge = idempotency.operation("charge").key("order-42");
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
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

/// Writes one line with the kind and the chain of causes, which a `main` that returns it prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}){}", self.inner.message, self.inner.kind, Causes(self))
    }
}

/// The causes of an error, each after a colon.
struct Causes<'a>(&'a Error);

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_deref().map(|source| source as _)
    }
}

/// Where JSON is invalid. The parser's own message quotes the text, which may be personal data.
#[derive(Debug)]
pub(crate) struct JsonFault {
    what: &'static str,
    line: usize,
    column: usize,
}

impl From<serde_json::Error> for JsonFault {
    fn from(error: serde_json::Error) -> Self {
        use serde_json::error::Category;
        let what = match error.classify() {
            Category::Syntax => "it is not JSON",
            Category::Eof => "it ends too early",
            Category::Data => "it has another shape",
            Category::Io => "it could not be read",
        };
        Self { what, line: error.line(), column: error.column() }
    }
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        match self.line {
            0 => Ok(()),
            line => write!(f, ", at line {line}, column {}", self.column),
        }
    }
}

impl StdError for JsonFault {}

/// The error of [`Call::run`](crate::Call::run): the handler's own, or the crate's.
///
/// The two are never mixed up. An error of the handler stays [`Handler`](Self::Handler) even if it
/// has the crate's type, and a failure of DynamoDB never hides the handler's error.
///
/// ```
/// use dynamodb_idempotency::RunError;
///
/// #[derive(Debug, PartialEq)]
/// struct Declined;
///
/// fn explain(error: &RunError<Declined>) -> String {
///     match error {
///         RunError::Handler(Declined) => "the card was declined".to_owned(),
///         RunError::Idempotency(error) => format!("try later: {error}"),
///     }
/// }
///
/// let error = RunError::Handler(Declined);
/// assert_eq!(explain(&error), "the card was declined");
/// assert!(error.idempotency().is_none());
/// assert_eq!(error.into_handler().ok(), Some(Declined));
/// ```
#[derive(Debug)]
pub enum RunError<E> {
    /// The handler ran and failed with this error.
    Handler(E),
    /// The idempotency layer could not give an answer; see [`ErrorKind`].
    Idempotency(Error),
}

impl<E> RunError<E> {
    /// Returns the handler's own error.
    ///
    /// ```
    /// use dynamodb_idempotency::RunError;
    ///
    /// let error = RunError::Handler("declined");
    /// assert!(matches!(error.into_handler(), Ok("declined")));
    /// ```
    ///
    /// # Errors
    /// The crate's error, if this is one.
    pub fn into_handler(self) -> Result<E, Error> {
        match self {
            Self::Handler(error) => Ok(error),
            Self::Idempotency(error) => Err(error),
        }
    }

    /// Returns the crate's error, if this is one.
    ///
    /// ```
    /// use dynamodb_idempotency::{ErrorKind, RunError, Scope};
    ///
    /// let error = RunError::<std::io::Error>::from(Scope::from_encoded("%").unwrap_err());
    /// assert_eq!(error.idempotency().map(|error| error.kind()), Some(ErrorKind::InvalidInput));
    /// ```
    #[must_use]
    pub fn idempotency(&self) -> Option<&Error> {
        match self {
            Self::Handler(_) => None,
            Self::Idempotency(error) => Some(error),
        }
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> RunError<E> {
    /// Converts the error into a `Box<dyn Error>` that keeps its causes and its type.
    ///
    /// For handlers whose errors do not implement `std::error::Error`, such as
    /// `lambda_runtime::Error`, `anyhow::Error` and strings.
    ///
    /// ```
    /// use dynamodb_idempotency::{Idempotency, RunError};
    /// use lambda_runtime::Error;
    ///
    /// async fn charge(idempotency: &Idempotency) -> Result<u32, Error> {
    ///     let operation = idempotency.operation("charge").key("order-42");
    ///     operation.run(async |_| Ok::<_, Error>("1200".parse()?)).await.map_err(RunError::into_boxed)
    /// }
    /// ```
    #[must_use]
    pub fn into_boxed(self) -> Box<dyn StdError + Send + Sync> {
        match self {
            Self::Handler(error) => error.into(),
            Self::Idempotency(error) => error.into(),
        }
    }
}

impl<E> From<Error> for RunError<E> {
    fn from(error: Error) -> Self {
        Self::Idempotency(error)
    }
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(error) => error.fmt(f),
            Self::Idempotency(error) => error.fmt(f),
        }
    }
}

/// `E` need not implement `Error`: with `Box<dyn Error>`, `?` still works in a handler that returns
/// it. For the same reason the handler's error has no source here.
impl<E: fmt::Debug + fmt::Display> StdError for RunError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Handler(_) => None,
            Self::Idempotency(error) => error.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_json_names_its_position_and_quotes_nothing() {
        for (text, message) in [
            (r#"{"n": "secret"}"#, "it has another shape, at line 1, column 14"),
            (r#"{"secret": "#, "it ends too early, at line 1, column 11"),
            ("{secret", "it is not JSON, at line 1, column 2"),
        ] {
            let fault = serde_json::from_str::<std::collections::BTreeMap<String, u8>>(text);
            assert_eq!(JsonFault::from(fault.unwrap_err()).to_string(), message);
        }
        let tree = serde_json::from_value::<u8>("secret".into()).unwrap_err();
        assert_eq!(JsonFault::from(tree).to_string(), "it has another shape");
    }

    #[test]
    fn source_is_kept_and_not_printed_twice() {
        let error = Error::new(ErrorKind::Unavailable, "DynamoDB did not answer")
            .with_source(std::io::Error::other("connection reset"));
        assert_eq!(error.to_string(), "DynamoDB did not answer");
        assert_eq!(error.source().unwrap().to_string(), "connection reset");
    }

    #[test]
    fn an_error_of_the_handlers_that_is_our_type_stays_the_handlers() {
        let theirs: RunError<Error> = RunError::Handler(Error::new(ErrorKind::Mismatch, "theirs"));
        assert!(theirs.idempotency().is_none());
        assert_eq!(theirs.into_handler().unwrap().to_string(), "theirs");
    }

    #[test]
    fn a_boxed_error_is_the_handlers_own_or_the_crates() {
        type Boxed = Box<dyn StdError + Send + Sync>;
        let theirs = RunError::<Boxed>::Handler(std::io::Error::other("theirs").into());
        assert!(theirs.into_boxed().is::<std::io::Error>());
        let ours = RunError::<Boxed>::from(Error::new(ErrorKind::Mismatch, "ours"));
        assert!(ours.into_boxed().is::<Error>());
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
