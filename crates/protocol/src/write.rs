//! A conditional write of a record as a plain value, and what the store says of it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::record::{Header, State, Version};
use super::time::{Now, StoreTime, Timestamp};
use crate::owner::OwnerId;

/// One conditional write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    pub form: Form,
    pub guard: Guard,
    /// The record after it.
    pub record: Header,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The whole record.
    Put,
    /// What the protocol changes of a record: its steps, its fingerprint, `created_at`, and attributes of
    /// a later version stay. Where there is none, the whole of it.
    Update,
    /// The lease, where there is one, and until when the record is kept.
    Stamp,
    /// What tells a version from others: its owner, its lease, an empty map of steps. It says the same.
    Touch,
    /// The whole record, and the caller's items with it.
    Transaction,
}

/// What the record must be for the write to land. `:me` is who writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// There is none.
    Absent,
    /// Exactly what was seen.
    Unchanged(Version),
    /// `owner = :me AND status = PENDING`: what every write of an owner's asks for.
    Held,
    /// Held, and its lease ends then.
    HeldUntil(Timestamp),
    /// Held, and its lease ends before.
    HeldForLess(Timestamp),
    /// Held, and no step was ever stored.
    HeldWithoutSteps,
    /// Held, or there is none.
    AbsentOrHeld,
    /// Absent, RELEASED after no later attempt than this, or held: the effect has happened, whoever
    /// released the record.
    FreeOrHeld(u32),
}

impl Guard {
    /// Whether a write of `me`'s lands on `record`.
    pub fn holds(&self, me: &OwnerId, record: Option<&Header>) -> bool {
        let is_held = record.is_some_and(|record| record.is_pending_of(me));
        let lease = record.and_then(|record| record.state.lease_expires_at());
        let is_free = |attempt: u32| match record {
            None => true,
            Some(record) => record.state == State::Released && record.attempt <= attempt,
        };
        match self {
            Self::Absent => record.is_none(),
            Self::Unchanged(seen) => record.is_some_and(|record| seen.is_of(record)),
            Self::Held => is_held,
            Self::HeldUntil(end) => is_held && lease == Some(*end),
            Self::HeldForLess(end) => is_held && lease < Some(*end),
            Self::HeldWithoutSteps => {
                let has_steps = record.is_some_and(|record| record.steps.is_some());
                is_held && !has_steps
            }
            Self::AbsentOrHeld => is_held || record.is_none(),
            Self::FreeOrHeld(attempt) => is_free(*attempt) || is_held,
        }
    }
}

impl Version {
    /// Whether the record is in this state still.
    pub fn is_of(&self, record: &Header) -> bool {
        self.owner == record.owner
            && self.status == record.state.status()
            && self.lease_expires_at == record.state.lease_expires_at()
            && self.steps == record.steps
    }
}

impl Write {
    /// Whether it only moves the time until when a finished record is kept.
    pub fn is_extension(&self) -> bool {
        self.form == Form::Stamp && self.record.state.lease_expires_at().is_none()
    }

    /// The record that it leaves where it lands.
    pub fn applied_to(&self, record: Option<&Header>) -> Header {
        match (self.form, record) {
            (Form::Put | Form::Transaction, _) | (_, None) => self.record.clone(),
            (Form::Update, Some(before)) => Header {
                steps: before.steps,
                created_at: before.created_at,
                is_same_request: before.is_same_request,
                ..self.record.clone()
            },
            (Form::Touch, Some(before)) => Header {
                owner: self.record.owner,
                state: self.record.state,
                steps: self.record.steps.or(before.steps),
                ..before.clone()
            },
            (Form::Stamp, Some(before)) => Header {
                state: self.record.state,
                expires_at: self.record.expires_at,
                ..before.clone()
            },
        }
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Command<S> {
    Read {
        is_consistent: bool,
        limit: Duration,
    },
    Send {
        write: Write,
        limit: Duration,
    },
    /// Wait: at least half of `bound`, at most all of it, and no longer than `max`.
    Pause {
        bound: Duration,
        max: Duration,
    },
    Stop(S),
}

/// What sends and waits, without doing either.
pub trait Machine {
    /// What it needs of others than the store and the time.
    type Stop;

    /// What was read or sent last has had its answer.
    fn replied(&mut self, now: Now, reply: &Reply) -> Command<Self::Stop>;

    /// The pause is over.
    fn woke(&mut self, now: Now) -> Command<Self::Stop>;
}

/// Shared with code that reads the machine between its steps.
impl<M: Machine> Machine for &Mutex<M> {
    type Stop = M::Stop;

    fn replied(&mut self, now: Now, reply: &Reply) -> Command<M::Stop> {
        self.lock().unwrap_or_else(PoisonError::into_inner).replied(now, reply)
    }

    fn woke(&mut self, now: Now) -> Command<M::Stop> {
        self.lock().unwrap_or_else(PoisonError::into_inner).woke(now)
    }
}

/// What a request has come to, and the store's clock when it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    pub outcome: Outcome,
    /// An earlier try of the same request may have been executed, or may yet be.
    pub is_in_doubt: bool,
    pub time: Option<StoreTime>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The write is in the table.
    Applied,
    /// Its condition did not hold; with the record it lost to, where the store sent it.
    Refused(Option<Header>),
    /// A read has shown this.
    Found(Option<Header>),
    /// A read has shown this, or what was there before.
    Stale(Option<Header>),
    /// It did not happen, because another write or transaction was at the item.
    Conflict,
    /// It did not happen, and never will as it is: DynamoDB does not take these values.
    Invalid,
    /// It did not happen.
    NotApplied(Cause),
    /// Nobody knows: no answer, or a server error, to this try or to an earlier one.
    Unknown,
    /// The items of a transaction do not allow it: nothing of it was written.
    ItemsRefused,
}

impl Outcome {
    /// Whether the same write would come to nothing else.
    pub(super) const fn is_final(&self) -> bool {
        match self {
            Self::Applied
            | Self::Refused(_)
            | Self::Invalid
            | Self::ItemsRefused
            | Self::NotApplied(Cause::Other) => true,
            Self::Found(_)
            | Self::Stale(_)
            | Self::Conflict
            | Self::NotApplied(Cause::Outage)
            | Self::Unknown => false,
        }
    }
}

/// Why something did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The store is out of reach, or too busy: a later try may do better.
    Outage,
    /// Anything else: a later try will not.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn released(attempt: u32) -> Header {
        let times = (Timestamp::from_millis(0), None, 0);
        Header::of(&OwnerId(2), State::Released, (attempt, 0), times)
    }

    #[test]
    fn a_slow_owner_does_not_complete_a_record_that_was_released_after_a_later_attempt() {
        let guard = Guard::FreeOrHeld(3);
        assert!(guard.holds(&OwnerId(1), Some(&released(3))));
        assert!(!guard.holds(&OwnerId(1), Some(&released(4))));
    }
}
