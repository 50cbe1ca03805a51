//! The error of a call, a step or a transaction: the caller's own, or the crate's.

use std::error::Error as StdError;
use std::fmt;

use super::Error;

/// The error of a call, a step or a transaction: the handler's own error, or the crate's.
///
/// [`Call::run`](crate::Call::run), [`Call::run_transaction`](crate::Call::run_transaction) and
/// [`Execution::step`](crate::Execution::step) return it. An error of the handler is always
/// [`Handler`](Self::Handler), even if it has the crate's type. If DynamoDB then fails too, the caller still
/// gets this error.
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
#[derive(Debug, derive_more::Display, derive_more::From)]
pub enum RunError<E> {
    /// The error of the handler, of a step's work, or of the closure that builds the transaction. It can
    /// also be a stored error, which is replayed.
    #[from(skip)]
    Handler(E),
    /// The crate's error. Its [`ErrorKind`](crate::ErrorKind) says what to do.
    Idempotency(Error),
}

impl<E> RunError<E> {
    /// Returns the handler's own error.
    ///
    /// ```
    /// use dynamodb_idempotency::RunError;
    ///
    /// let error = RunError::Handler("sold out");
    /// assert_eq!(error.to_string(), "sold out");
    /// assert!(matches!(error.into_handler(), Ok("sold out")));
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

// Deliberately no `From`: with it, the compiler could no longer infer the handler's error in
// `call.run(async |_| Ok(7)).await?`.
impl<E> RunError<RunError<E>> {
    /// Merges two levels: the error of a [step](crate::Execution::step) in a handler, and of the call.
    ///
    /// It no longer says which of the two the crate's error belongs to.
    ///
    /// ```
    /// use dynamodb_idempotency::{Idempotency, RunError};
    /// # async fn post(_: &str) -> Result<u32, std::io::Error> { Ok(7) }
    ///
    /// async fn charge(idempotency: &Idempotency) -> Result<u32, RunError<std::io::Error>> {
    ///     let call = idempotency.operation("charge").key("order-42").payload(&1200);
    ///     let charged = call.run(async |execution| execution.step("post", post("order-42")).await);
    ///     charged.await.map_err(RunError::flatten)
    /// }
    /// ```
    ///
    /// If the handler's error is a `Box<dyn Error>`, or has a `From` for the error of the step, `?` in the
    /// handler leaves only one level:
    ///
    /// ```
    /// use dynamodb_idempotency::{Idempotency, RunError};
    /// # async fn post(_: &str) -> Result<u32, std::io::Error> { Ok(7) }
    ///
    /// type BoxError = Box<dyn std::error::Error + Send + Sync>;
    ///
    /// async fn charge(idempotency: &Idempotency) -> Result<u32, RunError<BoxError>> {
    ///     let call = idempotency.operation("charge").key("order-42").payload(&1200);
    ///     call.run(async |execution| Ok(execution.step("post", post("order-42")).await?)).await
    /// }
    /// ```
    #[must_use]
    pub fn flatten(self) -> RunError<E> {
        match self {
            Self::Handler(error) => error,
            Self::Idempotency(error) => RunError::Idempotency(error),
        }
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> RunError<E> {
    /// Converts the error into a `Box<dyn Error>` that keeps its causes and its type.
    ///
    /// Use it for an `E` that does not implement `std::error::Error`, such as `lambda_runtime::Error`,
    /// `anyhow::Error` or a string.
    ///
    /// ```
    /// use dynamodb_idempotency::{Idempotency, RunError};
    /// use lambda_runtime::Error;
    ///
    /// async fn charge(idempotency: &Idempotency) -> Result<u32, Error> {
    ///     let operation = idempotency.operation("charge").key("order-42").payload(&1200);
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

/// `E` need not implement `Error`, so that it can be a `Box<dyn Error>`. Therefore `source()` does not
/// return the handler's error. The cause of the crate's error is its kind, so that no text is printed
/// twice.
impl<E: fmt::Debug + fmt::Display> StdError for RunError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Handler(_) => None,
            Self::Idempotency(error) => Some(error.details()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Details, ErrorKind};

    #[test]
    fn an_error_of_the_handlers_that_is_our_type_stays_the_handlers() {
        let theirs: RunError<Error> = RunError::Handler(Error::new(ErrorKind::Mismatch, "theirs"));
        assert!(theirs.idempotency().is_none());
        assert_eq!(theirs.into_handler().unwrap().to_string(), "theirs");
    }

    #[test]
    fn two_levels_become_one() {
        let ours = || Error::new(ErrorKind::Mismatch, "ours");
        for (nested, expected) in [
            (RunError::Handler(RunError::Handler("theirs")), "theirs"),
            (RunError::Handler(RunError::Idempotency(ours())), "ours"),
            (RunError::Idempotency(ours()), "ours"),
        ] {
            let is_ours = expected == "ours";
            let error = nested.flatten();
            assert_eq!(
                (error.to_string().as_str(), error.idempotency().is_some()),
                (expected, is_ours)
            );
        }
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
    fn the_crates_error_is_found_among_the_causes_and_printed_once() {
        type Boxed = Box<dyn StdError + Send + Sync>;
        let ours = || Error::new(ErrorKind::Mismatch, "ours").with_source("the cause");
        let error = RunError::<String>::from(ours());
        let causes = std::iter::successors(Some(&error as &dyn StdError), |&it| it.source());
        let texts: Vec<_> = causes.map(ToString::to_string).collect();
        assert_eq!(texts, ["ours", "Mismatch", "the cause"]);
        let boxed: Boxed = error.into();
        let nested: Boxed = RunError::Handler(boxed).into();
        let found = |error| Details::of(&error).map(|details| details.message.clone());
        let ours_is_found = Some("ours".to_owned());
        assert_eq!(found(nested), ours_is_found);
        assert_eq!(found(ours().into()), ours_is_found);
        assert_eq!(found(Box::<dyn StdError + Send + Sync>::from("theirs")), None);
        assert_eq!(Details::of(&ours()).unwrap().message, "ours");
        let run_error = RunError::Handler(Boxed::from(ours()));
        assert_eq!(Details::of(&run_error).unwrap().message, "ours");
    }
}
