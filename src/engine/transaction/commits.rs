//! What the commits of one execution have brought about.

use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, PoisonError};

use crate::answer::Answer;
use crate::error::{Error, ErrorKind};

/// What the commits of one execution have sent. How they ended is kept by the machine alone.
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

/// How an operation ended before its handler did.
#[derive(Debug)]
pub(crate) enum CommitOutcome {
    /// The effect and this answer are in the tables.
    Committed(Answer),
    /// Another owner has the key; with its answer, if it has completed. Nothing was written.
    LeaseLost(Option<Answer>),
    /// The record was given up. Nothing was written.
    GivenUp,
    /// The store was not heard of in time: all was written, or nothing.
    Unknown,
}

/// For a record that was given up.
pub(crate) fn given_up() -> Error {
    let message =
        "the commit could not be confirmed, and can no longer be applied: nothing was written";
    Error::new(ErrorKind::Unavailable, message)
}

/// For a commit that has waited too long for another one.
pub(super) fn other_commit() -> Error {
    let message = "another commit of this execution did not end in time, perhaps because its future is \
                   not polled: nothing of this commit was written. Await one commit before the next";
    Error::new(ErrorKind::Unavailable, message)
}

/// For a commit of which nobody knows.
pub(crate) fn commit_unknown() -> Error {
    let message = "the commit could not be confirmed: it has happened as a whole or not at all";
    Error::new(ErrorKind::OutcomeUnknown, message)
}
