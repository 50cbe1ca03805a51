//! Idempotent `lambda_runtime` handlers of any JSON event.
//!
//! ```no_run
//! use dynamodb_idempotency::{Execution, Idempotency};
//! use lambda_runtime::{Error, LambdaEvent};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct Import { file: String }
//!
//! #[derive(Serialize, Deserialize)]
//! struct Imported { rows: u64 }
//!
//! async fn import(event: LambdaEvent<Import>, _: Execution) -> Result<Imported, Error> {
//!     # let _ = event;
//!     Ok(Imported { rows: 3 }) // your business here
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     let idempotency = Idempotency::from_env().await?;
//!     let key_of = |import: &Import| import.file.clone();
//!     lambda_runtime::run(idempotency.event("import", key_of, import)).await
//! }
//! ```
//!
//! 1. `key_of` finds the key in the event, or [`event_by`](Idempotency::event_by) takes it from parts of the
//!    JSON. Without a key, nothing runs, and the invocation fails with [`ErrorKind::InvalidInput`].
//! 2. The same key with another event fails with [`ErrorKind::Mismatch`]. Events are compared by their
//!    JSON value. To compare only parts of them, use [`Event::fingerprint`].
//! 3. The lease follows the deadline of the invocation, from its `Context`.
//! 4. A repeat gets the first run's answer. If an asynchronous invocation fails, Lambda sends the same
//!    event again. After a failure of the handler, it runs again by default.
//! 5. Lambda accepts an answer of at most 6,291,556 bytes of JSON. The crate does not store a larger
//!    one. Lambda then reports the first run as failed, and repeats fail with
//!    [`ErrorKind::AnswerUnavailable`].
//!
//! For batches of messages, see [`messages`](crate::messages).
//!
//! [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
//! [`ErrorKind::Mismatch`]: crate::ErrorKind::Mismatch
//! [`ErrorKind::AnswerUnavailable`]: crate::ErrorKind::AnswerUnavailable

mod service;
mod snapstart;

use std::future::Future;
use std::sync::Arc;

use lambda_runtime::{Diagnostic, LambdaEvent};

pub use self::service::{Event, run_concurrent};
pub use crate::json_event::JsonEvent;

use self::service::KeyOf;
use crate::call::execution::Execution;
use crate::error::{Details, Error, ErrorKind, RunError};
use crate::idempotency::Idempotency;
use crate::json::JsonKey;
use crate::operation::OperationConfig;
use crate::store::key::Scope;

impl Idempotency {
    /// Makes a `lambda_runtime` handler idempotent under `scope`.
    ///
    /// `key_of` returns the key of an event as a `String` or an `Option<String>`. The handler receives
    /// the event and the [`Execution`]. Its answer is stored as JSON. Pass the result to
    /// `lambda_runtime::run`.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use lambda_runtime::{Error, LambdaEvent};
    /// use serde_json::Value;
    ///
    /// let key_of = |event: &Value| event["file"].as_str().map(str::to_owned);
    /// let handler = idempotency.event("import", key_of, async |event: LambdaEvent<Value>, _| {
    ///     Ok::<_, Error>(event.payload["file"].clone()) // your business here
    /// });
    /// # }
    /// ```
    pub fn event<P, Key, F, Fut>(
        &self,
        scope: impl Into<Scope>,
        key_of: impl Fn(&P) -> Key + Send + Sync + 'static,
        handler: F,
    ) -> Event<P, F>
    where
        Key: Into<Option<String>>,
        F: Fn(LambdaEvent<P>, Execution) -> Fut,
        Fut: Future,
    {
        // An empty key is an error when the operation runs.
        let key_of =
            move |payload: &P, _: &JsonEvent| Ok(key_of(payload).into().unwrap_or_default());
        self.event_with(scope.into(), Arc::new(key_of), handler)
    }

    /// Like [`event`](Self::event), with parts of the event's JSON as its key: see [`JsonKey`].
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use lambda_runtime::{Error, LambdaEvent};
    /// use serde_json::Value;
    ///
    /// let handler = idempotency.event_by("import", ["/file", "/day"], async |event: LambdaEvent<Value>, _| {
    ///     Ok::<_, Error>(event.payload["file"].clone()) // your business here
    /// })?;
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if a JSON pointer is invalid.
    ///
    /// [`ErrorKind::Configuration`]: crate::ErrorKind::Configuration
    pub fn event_by<P, F, Fut>(
        &self,
        scope: impl Into<Scope>,
        key: impl Into<JsonKey>,
        handler: F,
    ) -> Result<Event<P, F>, Error>
    where
        F: Fn(LambdaEvent<P>, Execution) -> Fut,
        Fut: Future,
    {
        let key = key.into();
        if let Some(wrong) = key.wrong() {
            return Err(Error::new(ErrorKind::Configuration, wrong));
        }
        let key_of = move |_: &P, event: &JsonEvent| key.find_in(event.get().as_bytes());
        Ok(self.event_with(scope.into(), Arc::new(key_of), handler))
    }

    fn event_with<P, F>(&self, scope: Scope, key_of: KeyOf<P>, handler: F) -> Event<P, F> {
        let calls = OperationConfig::new(self, scope);
        Event { calls, fingerprint: None, key_of, handler: Arc::new(handler) }
    }
}

/// Converts the error into Lambda's report of a failed invocation: `Idempotency.` and the
/// [`ErrorKind`], which alarms can match.
impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        diagnostic(error.details())
    }
}

/// The handler's own diagnostic, or the one of the crate's error. The crate's error is also recognized if
/// the handler returns it, in a box or as the cause of a boxed error.
impl<E: Into<Diagnostic> + 'static> From<RunError<E>> for Diagnostic {
    fn from(error: RunError<E>) -> Self {
        match error {
            RunError::Handler(error) => match Details::of(&error) {
                Some(details) => diagnostic(details),
                None => error.into(),
            },
            RunError::Idempotency(error) => error.into(),
        }
    }
}

fn diagnostic(details: &Details) -> Diagnostic {
    Diagnostic {
        error_type: format!("Idempotency.{}", details.kind.name()),
        error_message: details.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_can_match_the_kind_and_the_handlers_own_error_stays_its_own() {
        let error = Error::new(ErrorKind::Mismatch, "another event");
        let diagnostic = Diagnostic::from(RunError::<String>::from(error));
        assert_eq!(diagnostic.error_type, "Idempotency.Mismatch");
        assert_eq!(diagnostic.error_message, "another event");
        let boxed =
            || lambda_runtime::Error::from(Error::new(ErrorKind::Mismatch, "another event"));
        assert_eq!(Diagnostic::from(RunError::Handler(boxed())), diagnostic);
        let step = RunError::<lambda_runtime::Error>::Handler(RunError::Handler(boxed()).into());
        assert_eq!(Diagnostic::from(step), diagnostic);
        let handlers = Diagnostic::from(RunError::Handler("no such file".to_owned()));
        assert_eq!(handlers, Diagnostic::from("no such file".to_owned()));
    }
}
