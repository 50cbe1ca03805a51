//! The guarantees that the search checks, and the outcomes of calls.

use std::fmt;

use dynamodb_idempotency::ErrorKind;

/// The outcome of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    Executed(String),
    Replayed(String),
    Reconciled(String),
    NothingExecuted(String),
    Unconfirmed(String),
    Unprotected(String),
    HandlerError(String),
    Error(ErrorKind),
    /// The call's future was dropped.
    Dropped,
}

/// A guarantee. A violation is reported under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// At any instant of store time at most one owner is live: its handler is running or may have
    /// succeeded, and its confirmed lease has not expired.
    OneLiveOwner,
    /// No handler starts under an expired lease.
    LeaseHoldsAtStart,
    /// No handler is polled after its lease has expired in store time, unless two faults of its machine's
    /// clocks can cancel out or the policy lets the handler continue.
    NotPastTheLease,
    /// A former owner does not change a record that another owner holds or has completed.
    ForeignRecordStays,
    /// A completed answer never changes.
    CompletedAnswerStays,
    /// Each takeover increments the attempt, and the handler receives that number.
    AttemptsAreCounted,
    /// A lease and a margin after the schedule, a key is completed, failed or free.
    KeyComesFree,
    /// The handler succeeds exactly once, unless an owner pauses past its lease, is dropped, or cannot
    /// confirm its completion.
    RunsOnce,
    /// Items in one transaction with the answer are written at most once, and never after the call
    /// reported that they were not written.
    EffectsOnce,
    /// An answer that is returned as stored is stored, byte for byte.
    AnswersAreStored,
    /// No owner with a live lease runs a step whose result was stored before.
    StoredStepsStay,
    /// A rejected duplicate has changed nothing.
    RejectedChangesNothing,
    /// No call is rejected because of its own record.
    NotRejectedByItself,
    /// Every call returns an outcome that fits what happened.
    OutcomeFits,
}

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) guarantee: Guarantee,
    pub(crate) detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.guarantee, self.detail)
    }
}
