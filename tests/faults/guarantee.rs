//! What is promised, and how a call can end.

use std::fmt;

use dynamodb_idempotency::ErrorKind;

/// How one call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Executed(String),
    Replayed(String),
    Reconciled(String),
    NothingExecuted(String),
    Unconfirmed(String),
    Unprotected(String),
    HandlerError(String),
    Refused(ErrorKind),
    /// Its future was dropped.
    Died,
}

/// A guarantee, by the name under which a violation is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// At any instant of store time at most one owner is live: its handler runs, or it may have run
    /// to success, and the lease that it was promised is not over.
    OneLiveOwner,
    /// A handler does not begin under a lease that is over.
    LeaseHoldsAtStart,
    /// No handler is polled after its lease, by the store's time, as long as not both of its machine's
    /// clocks are wrong; but where the policy lets it go on.
    NotPastTheLease,
    /// A former owner changes no record that another holds or has completed.
    ForeignRecordStays,
    /// A completed answer never changes.
    CompletedAnswerStays,
    /// Each takeover counts the attempts on, and the handler is told that number.
    AttemptsAreCounted,
    /// Within one lease and a margin a key is completed, failed or free.
    KeyComesFree,
    /// Without a pause past the lease, a death or an unconfirmed completion, the handler runs to
    /// success exactly once.
    RunsOnce,
    /// What is written together with the answer is written at most once, and never after its caller
    /// was told that nothing was.
    EffectsOnce,
    /// No answer is given out as stored that is not stored, byte for byte.
    AnswersAreStored,
    /// No owner under a live lease does a step again whose result was stored.
    StoredStepsStay,
    /// A rejected duplicate has changed nothing.
    RejectedChangesNothing,
    /// Nobody is rejected because of its own record.
    NotRejectedByItself,
    /// Every call ends, with an outcome that fits what happened.
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
