//! The errors of calls without an answer, the same in every adapter.

use std::time::Duration;

use crate::error::{Error, ErrorKind, MismatchedRecord};
use crate::protocol::RecordMeta;

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

pub(crate) fn too_late() -> Error {
    let message = "the deadline of the operation is over or too near: nothing was run";
    Error::new(ErrorKind::DeadlineExceeded, message)
}

/// The error of a commit whose record is released, failed or absent.
pub(crate) fn nothing_committed() -> Error {
    let message =
        "the commit could not be confirmed, and can no longer be applied: nothing was written";
    Error::new(ErrorKind::NothingCommitted, message)
}

pub(crate) fn commit_unknown() -> Error {
    let message = "the commit could not be confirmed: it has happened as a whole or not at all";
    Error::new(ErrorKind::OutcomeUnknown, message)
}

pub(crate) fn outcome_unknown(source: Error) -> Error {
    let message = "the handler ran and its completion could not be confirmed";
    Error::new(ErrorKind::OutcomeUnknown, message).with_source(source)
}

/// `retry_after` is what is left of the lease, at least 1 s. It is at most 5 s, because most owners finish
/// long before their lease expires. HTTP sends it as `Retry-After`.
pub(crate) fn in_progress(lease_left: Duration) -> Error {
    let retry_after = lease_left.clamp(Duration::from_secs(1), Duration::from_secs(5));
    let message = "another execution of this key is running: try again later";
    Error::new(ErrorKind::InProgress { retry_after }, message)
}

pub(crate) fn abandoned() -> Error {
    let message = "an earlier execution ended without an answer and may not be repeated: look whether \
                   its effect exists";
    Error::new(ErrorKind::Abandoned, message)
}

pub(crate) fn mismatch(record: Option<&RecordMeta>) -> Error {
    let message = "the idempotency key was used before with a different request: use a new key";
    let record = record.map(|meta| MismatchedRecord {
        created_at: meta.created_at.to_system(),
        attempt: meta.attempt,
    });
    Error::new(ErrorKind::Mismatch, message).with_mismatched(record)
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
