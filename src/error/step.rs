//! The error of a step.

use std::error::Error as StdError;
use std::fmt;

use super::Error;

/// The error of [`Execution::step`](crate::Execution::step). The variant says whether the work ran.
///
/// ```
/// use dynamodb_idempotency::StepError;
///
/// let error = StepError::Failed("sold out");
/// assert!(error.idempotency().is_none());
/// assert_eq!(error.to_string(), "sold out");
/// assert_eq!(error.into_failed().ok(), Some("sold out"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StepError<E> {
    /// The work ran and failed with this error. Nothing is stored; the next attempt runs it again.
    Failed(E),
    /// The work did **not** run now. See the [kind](Error::kind).
    NotRun(Error),
    /// The work **ran**, but its result is not in the record. With the kind
    /// [`AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable), no later attempt runs it again;
    /// with other kinds, a later attempt may.
    NotStored(Error),
}

impl<E> StepError<E> {
    /// Returns the work's own error.
    ///
    /// ```
    /// use dynamodb_idempotency::StepError;
    ///
    /// let error = StepError::Failed("sold out");
    /// assert!(matches!(error.into_failed(), Ok("sold out")));
    /// ```
    ///
    /// # Errors
    /// The crate's error, if this is one.
    pub fn into_failed(self) -> Result<E, Error> {
        match self {
            Self::Failed(error) => Ok(error),
            Self::NotRun(error) | Self::NotStored(error) => Err(error),
        }
    }

    /// Returns the crate's error, if this is one.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// use dynamodb_idempotency::ErrorKind;
    ///
    /// let operation = idempotency.operation("order").key("42");
    /// operation
    ///     .run(async |execution| {
    ///         let step = execution.step("", async { Ok::<_, std::io::Error>(()) }).await;
    ///         let error = step.unwrap_err(); // a step needs a name
    ///         let kind = error.idempotency().map(|error| error.kind());
    ///         assert_eq!(kind, Some(ErrorKind::InvalidInput));
    ///         Ok::<_, std::io::Error>(())
    ///     })
    ///     .await?;
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn idempotency(&self) -> Option<&Error> {
        match self {
            Self::Failed(_) => None,
            Self::NotRun(error) | Self::NotStored(error) => Some(error),
        }
    }
}

impl<E: fmt::Display> fmt::Display for StepError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::NotRun(error) | Self::NotStored(error) => error.fmt(f),
        }
    }
}

/// `E` need not implement `Error`: with `Box<dyn Error>`, `?` still works in a handler that returns
/// it. For the same reason the work's error has no source here.
impl<E: fmt::Debug + fmt::Display> StdError for StepError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Failed(_) => None,
            Self::NotRun(error) | Self::NotStored(error) => error.source(),
        }
    }
}
