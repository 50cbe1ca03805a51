//! Between a function's answer and its stored form, and what a call is told where there is none.

use std::panic::AssertUnwindSafe;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::acquire::Acquisition;
use crate::error::{Error, ErrorKind, JsonFault};
use crate::response::Answer;

/// Stands in the place of an answer that serde cannot write.
pub(super) const NOT_SERIALISABLE: &str = "it could not be serialised";

/// A function's answer as JSON; or why it cannot be stored.
pub(super) fn serialise<T: Serialize>(value: &T) -> Result<String, String> {
    match std::panic::catch_unwind(AssertUnwindSafe(|| serde_json::to_string(value))) {
        Ok(Ok(json)) => Ok(json),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("its serialisation panicked".to_owned()),
    }
}

/// A reconcile hook's answer as it is stored.
pub(super) fn encode_value<T: Serialize>(value: &T) -> Answer {
    serialise(value).map_or_else(
        |reason| {
            tracing::error!(
                reason,
                "a reconcile hook's answer cannot be stored: repeats get an error"
            );
            Answer::Unavailable(NOT_SERIALISABLE.to_owned())
        },
        Answer::Json,
    )
}

pub(crate) fn lease_lost() -> Error {
    let message = "the handler outlived its lease and another execution owns the key: this answer \
                   was not stored, ask again for the other's";
    Error::new(ErrorKind::LeaseLost, message)
}

pub(crate) fn lease_expired() -> Error {
    let message = "the lease ended while the handler ran, and the handler was stopped: its effect may \
                   have happened in part, ask again with the same key";
    Error::new(ErrorKind::LeaseExpired, message)
}

pub(crate) fn outcome_unknown(source: Error) -> Error {
    let message = "the handler ran and its completion could not be confirmed";
    Error::new(ErrorKind::OutcomeUnknown, message).with_source(source)
}

/// Why a call neither runs nor replays.
pub(crate) fn refusal(acquisition: &Acquisition) -> Error {
    match *acquisition {
        Acquisition::InProgress { retry_after } => Error::new(
            ErrorKind::InProgress { retry_after },
            "another execution of this key is running: try again later",
        ),
        // The latter two only where there is a hook, which then has its say.
        Acquisition::Abandoned | Acquisition::Reconcile(_) | Acquisition::Reconciled => Error::new(
            ErrorKind::Abandoned,
            "an earlier execution ended without an answer and may not be repeated: look whether \
             its effect exists",
        ),
        Acquisition::Mismatch => Error::new(
            ErrorKind::Mismatch,
            "the idempotency key was used before with a different request: use a new key",
        ),
        Acquisition::ReplayFailure(_) | Acquisition::Acquired(_) | Acquisition::Replay(_) => {
            failed()
        }
    }
}

pub(super) fn failed() -> Error {
    let message = "an earlier execution failed, and the policy allows no further one";
    Error::new(ErrorKind::Failed, message)
}

pub(crate) fn answer_unavailable(reason: &str) -> Error {
    let message =
        format!("the operation completed earlier, but its answer is not to be had: {reason}");
    Error::new(ErrorKind::AnswerUnavailable, message)
}

pub(crate) fn decode<T: DeserializeOwned>(answer: &Answer) -> Result<T, Error> {
    match answer {
        Answer::Json(json) => serde_json::from_str(json).map_err(|source| {
            Error::new(
                ErrorKind::AnswerUnreadable,
                "the stored answer is not of the type asked for",
            )
            .with_source(JsonFault::from(source))
        }),
        Answer::Unavailable(reason) => Err(answer_unavailable(reason)),
        Answer::Http(_) => Err(Error::new(
            ErrorKind::AnswerUnreadable,
            "the stored answer is an HTTP response: this scope is used by an HTTP handler too",
        )),
    }
}
