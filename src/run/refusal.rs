//! The errors of calls without an answer, the same in every adapter.

use crate::error::{Error, ErrorKind};
use crate::run::acquire::AcquireResult;

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
pub(crate) fn refusal(acquisition: &AcquireResult) -> Error {
    match *acquisition {
        AcquireResult::InProgress { retry_after } => Error::new(
            ErrorKind::InProgress { retry_after },
            "another execution of this key is running: try again later",
        ),
        // Only a call with a hook gets the last two, and its adapter handles them before.
        AcquireResult::Abandoned | AcquireResult::Reconcile(_) | AcquireResult::Reconciled => {
            Error::new(
                ErrorKind::Abandoned,
                "an earlier execution ended without an answer and may not be repeated: look whether \
             its effect exists",
            )
        }
        AcquireResult::Mismatch => Error::new(
            ErrorKind::Mismatch,
            "the idempotency key was used before with a different request: use a new key",
        ),
        AcquireResult::ReplayFailure(_) | AcquireResult::Acquired(_) | AcquireResult::Replay(_) => {
            failed()
        }
    }
}

pub(crate) fn failed() -> Error {
    let message = "an earlier execution failed, and the policy allows no further one";
    Error::new(ErrorKind::Failed, message)
}

pub(crate) fn answer_unavailable(reason: &str) -> Error {
    let message =
        format!("the operation completed earlier, but its answer is not available: {reason}");
    Error::new(ErrorKind::AnswerUnavailable, message)
}
