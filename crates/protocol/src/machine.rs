//! The commands that a machine returns, and the replies that it gets.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::record::RecordMeta;
use crate::time::{Now, StoreTime};
use crate::write::Write;

/// What the caller of a machine does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Command<T> {
    Read {
        is_consistent: bool,
        limit: Duration,
    },
    Send {
        write: Write,
        limit: Duration,
    },
    /// Wait between half of `bound` and all of it, but no longer than `max`.
    Pause {
        bound: Duration,
        max: Duration,
    },
    /// The result. The machine waits for no reply and no pause.
    Return(T),
}

/// A state machine whose caller sends the requests and waits.
pub trait Machine {
    type Output;

    /// Continues with the result of the last read or write.
    fn replied(&mut self, now: Now, reply: &Reply) -> Command<Self::Output>;

    /// Continues after the pause.
    fn woke(&mut self, now: Now) -> Command<Self::Output>;

    /// Whether the pause is a wait for another call's answer. The caller may then drop the machine, as if
    /// the wait had timed out.
    fn is_waiting(&self) -> bool {
        false
    }
}

impl<M: Machine> Machine for &Mutex<M> {
    type Output = M::Output;

    fn replied(&mut self, now: Now, reply: &Reply) -> Command<M::Output> {
        self.lock().unwrap_or_else(PoisonError::into_inner).replied(now, reply)
    }

    fn woke(&mut self, now: Now) -> Command<M::Output> {
        self.lock().unwrap_or_else(PoisonError::into_inner).woke(now)
    }

    fn is_waiting(&self) -> bool {
        self.lock().unwrap_or_else(PoisonError::into_inner).is_waiting()
    }
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    pub outcome: Outcome,
    /// An earlier try is in doubt. The library sets this only for a transaction.
    pub is_in_doubt: bool,
    /// Store time, as the response showed it.
    pub time: Option<StoreTime>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Read(ReadResult<RecordMeta>),
    Write(WriteResult<RecordMeta>),
}

/// The result of a read. `R` is the record, and `E` the error.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum ReadResult<R, E = Cause> {
    /// From a strongly consistent read.
    Found(Option<R>),
    /// From an eventually consistent read, which can return an earlier state.
    Stale(Option<R>),
    Failed(E),
}

/// The result of a conditional write. `R` is the record, and `E` the error. `I` says why the caller's
/// items do not allow a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum WriteResult<R, E = Cause, I = ()> {
    Applied,
    /// The write's condition failed. Contains the record that DynamoDB returned. `None` if there is no record. (A store
    /// that returns no record also answers `None`. So a read follows, except after a renewal or the write of a failure,
    /// after which stopping is safe.)
    Rejected(Option<R>),
    /// The caller's items do not allow the transaction. Nothing of it was applied.
    ItemsRejected(I),
    /// Not applied, because of a conflict with another write or transaction.
    Conflict(E),
    /// The token of the transaction was used with other contents. The transaction was not executed.
    TokenUsed(E),
    /// Not applied, because DynamoDB does not accept the answer or the result of the step. Another try can succeed
    /// only if the caller sends other contents.
    Invalid(E),
    /// Not applied, for any other reason, such as throttling or a denied access.
    NotApplied(E),
    /// This try or an earlier one got no response, or a server error.
    Unknown(E),
}

/// Whether another try of a failed request may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// DynamoDB is out of reach or too busy.
    Outage,
    /// Anything else, such as a denied access. Another try seldom succeeds, so only a write that must be applied is
    /// tried again.
    Other,
}

impl Outcome {
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Write(WriteResult::Unknown(_)))
    }

    /// The record that a consistent read or a rejected write returned.
    pub const fn record(&self) -> Option<&RecordMeta> {
        match self {
            Self::Read(ReadResult::Found(record)) | Self::Write(WriteResult::Rejected(record)) => {
                record.as_ref()
            }
            Self::Read(ReadResult::Stale(_) | ReadResult::Failed(_)) | Self::Write(_) => None,
        }
    }
}

impl<R> WriteResult<R> {
    /// Whether another try of the same write is useless.
    pub(crate) const fn is_final(&self) -> bool {
        match self {
            Self::Applied
            | Self::Rejected(_)
            | Self::Invalid(_)
            | Self::ItemsRejected(())
            | Self::NotApplied(Cause::Other) => true,
            Self::Conflict(_)
            | Self::TokenUsed(_)
            | Self::NotApplied(Cause::Outage)
            | Self::Unknown(_) => false,
        }
    }
}
