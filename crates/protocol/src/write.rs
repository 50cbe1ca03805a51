//! A conditional write of a record as a plain value, and what the store says of it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::condition::Condition;
use super::record::Header;
use super::time::{Now, StoreTime};

/// One conditional write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    pub form: Form,
    pub condition: Condition,
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
