//! The part of a record that the machines read: its owner, its state, and how long it is valid.

use crate::owner::OwnerId;
use crate::time::{Stamp, Timestamp};

/// A record without its answer and the results of its steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordMeta {
    pub owner: OwnerId,
    pub state: State,
    pub attempt: u32,
    /// How many earlier attempts were released or undone. They do not count for `max_attempts`.
    pub released_attempts: u32,
    pub created_at: Timestamp,
    /// Only in a finished record. No two completions of one owner have the same time.
    pub completed_at: Option<Timestamp>,
    /// Epoch seconds.
    pub expires_at: i64,
    /// The size of the map of steps, if the attribute exists.
    pub steps: Option<usize>,
    /// Whether the fingerprint is that of this call's request.
    pub is_same_request: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Pending {
        lease_expires_at: Timestamp,
    },
    Completed,
    /// A failure that is kept.
    Failed,
    /// No call holds the key. Each call may replace the record by compare-and-set.
    Released,
}

/// The status attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Pending,
    Completed,
    Failed,
    Released,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Released => "RELEASED",
        }
    }
}

impl State {
    pub const fn status(self) -> Status {
        match self {
            Self::Pending { .. } => Status::Pending,
            Self::Completed => Status::Completed,
            Self::Failed => Status::Failed,
            Self::Released => Status::Released,
        }
    }

    pub const fn lease_expires_at(self) -> Option<Timestamp> {
        match self {
            Self::Pending { lease_expires_at } => Some(lease_expires_at),
            Self::Completed | Self::Failed | Self::Released => None,
        }
    }
}

/// The version of a record, which a compare-and-set compares.
///
/// A renewal and a completion keep the owner, so a takeover that compared only the owner would overwrite
/// both. An owner may store a step after its lease has expired. That changes only the number of steps, so
/// a takeover that did not compare the number would run the step again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    pub owner: OwnerId,
    pub status: Status,
    pub lease_expires_at: Option<Timestamp>,
    pub steps: Option<usize>,
}

/// Which attempt a record is of, and of which life of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempts {
    /// The number of the attempt.
    pub number: u32,
    pub released: u32,
    /// `None` until it is known: only in an execution without a record.
    pub created_at: Option<Timestamp>,
}

impl Attempts {
    pub(crate) const FIRST: Self = Self { number: 1, released: 0, created_at: None };

    pub(crate) fn of(record: &RecordMeta) -> Self {
        let (number, released) = (record.attempt, record.released_attempts);
        Self { number, released, created_at: Some(record.created_at) }
    }

    /// The record, without steps, that `owner` writes. `now` is its `created_at` if none is known.
    pub(crate) fn meta(
        self,
        owner: &OwnerId,
        now: Timestamp,
        state: State,
        completed_at: Option<Timestamp>,
        expires_at: i64,
    ) -> RecordMeta {
        RecordMeta {
            owner: *owner,
            state,
            attempt: self.number,
            // Nothing counts the attempts of an operation that has completed.
            released_attempts: if state == State::Completed { 0 } else { self.released },
            created_at: self.created_at.unwrap_or(now),
            completed_at,
            expires_at,
            steps: None,
            is_same_request: true,
        }
    }
}

/// The `created_at` of a new record: later than that of the record that it may replace, so that the two are
/// distinguishable.
pub(crate) fn created_at(stamp: Stamp, seen: Option<&RecordMeta>) -> Timestamp {
    seen.map_or(stamp.at, |seen| stamp.at.max(seen.created_at.shifted(1)))
}

impl RecordMeta {
    pub fn version(&self) -> Version {
        Version {
            owner: self.owner,
            status: self.state.status(),
            lease_expires_at: self.state.lease_expires_at(),
            steps: self.steps,
        }
    }

    pub fn is_pending_of(&self, owner: &OwnerId) -> bool {
        self.owner == *owner && matches!(self.state, State::Pending { .. })
    }

    pub fn is_completed(&self) -> bool {
        self.state == State::Completed
    }

    /// Whether the retention of the record is over at `now`, in store time.
    pub const fn is_past_retention(&self, now: Timestamp) -> bool {
        now.millis() > self.expires_at.saturating_mul(1000)
    }
}

/// The record that an undo restores. It has the state of `taken_over` and the counters of `undone`. An
/// abandoned record gets an owner id that no call has, so DynamoDB rejects delayed writes of the call
/// that undoes its acquisition. If there is no state to restore (`None`), the record is released.
pub(crate) fn restored(taken_over: Option<&RecordMeta>, undone: &RecordMeta) -> Option<RecordMeta> {
    let taken_over = taken_over?;
    match taken_over.state {
        State::Pending { .. } => Some(RecordMeta {
            owner: undone.owner.alternate(),
            state: taken_over.state,
            completed_at: None,
            ..undone.clone()
        }),
        State::Failed => Some(RecordMeta { state: State::Failed, ..undone.clone() }),
        // No call takes over these.
        State::Completed | State::Released => {
            debug_assert!(false, "a {:?} record was taken over", taken_over.state);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undo_restores_a_kept_failure() {
        let attempts = Attempts { number: 2, ..Attempts::FIRST };
        let of = |state| attempts.meta(&OwnerId(1), Timestamp::from_millis(0), state, None, 0);
        let restored_failure = restored(Some(&of(State::Failed)), &of(State::Released));
        assert_eq!(restored_failure.map(|record| record.state), Some(State::Failed));
        assert!(restored(None, &of(State::Released)).is_none());
    }

    #[test]
    fn an_undo_of_a_takeover_restores_the_abandoned_record_under_a_new_owner() {
        let lease_expires_at = Timestamp::from_millis(5);
        let (start, ended) = (Timestamp::from_millis(0), Some(Timestamp::from_millis(7)));
        let attempts = Attempts { number: 2, ..Attempts::FIRST };
        let undone = attempts.meta(&OwnerId(1), start, State::Released, ended, 0);
        let abandoned = RecordMeta { state: State::Pending { lease_expires_at }, ..undone.clone() };
        let restored = restored(Some(&abandoned), &undone).unwrap();
        assert_eq!(restored.state, abandoned.state);
        assert_eq!(restored.completed_at, None);
        assert_eq!(restored.owner, OwnerId(1).alternate());
        assert_ne!(restored.owner, undone.owner);
    }
}
