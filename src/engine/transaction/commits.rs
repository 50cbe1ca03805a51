//! What the commits of one execution have brought about.

use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, PoisonError};

use crate::answer::Answer;
use crate::error::{Error, ErrorKind};

/// What the commits of one execution have come to.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// How many tokens were used.
    pub(super) tokens: AtomicU32,
    /// How they have ended the operation.
    outcome: Mutex<Option<CommitOutcome>>,
}

impl Commits {
    /// The operation is over, whatever its handler returns.
    pub(crate) fn decide(&self, outcome: CommitOutcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }

    pub(super) fn take(&self) -> Option<CommitOutcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
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

/// For a commit of which nobody knows.
pub(crate) fn commit_unknown() -> Error {
    let message = "the commit could not be confirmed: it has happened as a whole or not at all";
    Error::new(ErrorKind::OutcomeUnknown, message)
}
