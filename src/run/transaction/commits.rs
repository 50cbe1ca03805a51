//! The commits of one execution.

use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, PoisonError};

use crate::answer::Answer;
use crate::error::{Error, ErrorKind};

/// What the commits of one execution have sent. Only the machine keeps their results.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// How many tokens were used.
    pub(super) tokens: AtomicU32,
    /// The answer of the last commit, as its caller gets it.
    last: Mutex<Option<Answer>>,
}

impl Commits {
    /// Keeps the answer of a commit that is about to be sent.
    pub(super) fn begin(&self, answer: Answer) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    /// The answer of the last commit, which was applied.
    pub(super) fn applied(&self) -> Option<Answer> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The error of a commit whose record is released, failed or absent.
pub(crate) fn nothing_committed() -> Error {
    let message =
        "the commit could not be confirmed, and can no longer be applied: nothing was written";
    Error::new(ErrorKind::NothingCommitted, message)
}

/// The error of a commit that has waited too long for another one.
pub(super) fn other_commit() -> Error {
    let message = "another commit of this execution did not end in time, perhaps because its future is \
                   not polled: nothing of this commit was written. Await one commit before the next";
    Error::new(ErrorKind::Unavailable, message)
}

/// The error of a commit whose outcome is unknown.
pub(crate) fn commit_unknown() -> Error {
    let message = "the commit could not be confirmed: it has happened as a whole or not at all";
    Error::new(ErrorKind::OutcomeUnknown, message)
}
