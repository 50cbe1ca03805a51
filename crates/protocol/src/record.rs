//! What the protocol sees of a record: who has it, how it stands, and until when.

use super::time::Timestamp;
use crate::owner::OwnerId;

/// A record without what it carries: its answer and the results of its steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    pub owner: OwnerId,
    pub state: State,
    pub attempt: u32,
    /// How many of the attempts were released, or given back with nothing executed.
    pub released_attempts: u32,
    pub created_at: Timestamp,
    /// Of a finished one. No two completions of one owner have the same.
    pub completed_at: Option<Timestamp>,
    /// Epoch seconds.
    pub expires_at: i64,
    /// How many steps are stored, where the attribute is there.
    pub steps: Option<usize>,
    /// Whether it is of the request that this call makes.
    pub is_same_request: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Pending {
        lease_expires_at: Timestamp,
    },
    Completed,
    /// A failure that was kept.
    Failed,
    /// In nobody's hands: whoever comes may replace it, by compare-and-set.
    Released,
}

/// The state's name in the table.
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

/// Which state of a record was seen: what a compare-and-set compares.
///
/// A renewal keeps the owner and a completion keeps it too, so the owner alone would let a taker
/// overwrite either. A step that an owner stores after its lease changes none of the three, and a
/// taker that does not know of it would run it again: steps only get more, so their number tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    pub owner: OwnerId,
    pub status: Status,
    pub lease_expires_at: Option<Timestamp>,
    pub steps: Option<usize>,
}

impl Header {
    /// A record that its owner writes without steps: with its attempt and those of them that were released,
    /// and when it was created, completed, and expires.
    pub(crate) fn of(
        owner: &OwnerId,
        state: State,
        (attempt, released_attempts): (u32, u32),
        (created_at, completed_at, expires_at): (Timestamp, Option<Timestamp>, i64),
    ) -> Self {
        Self {
            owner: *owner,
            state,
            attempt,
            released_attempts,
            created_at,
            completed_at,
            expires_at,
            steps: None,
            is_same_request: true,
        }
    }

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

    /// Whether it is garbage, at `now` in store time, that TTL has not collected yet; a PENDING one
    /// only once its lease is over as well.
    pub const fn is_past_retention(&self, now: Timestamp) -> bool {
        now.millis() > self.expires_at.saturating_mul(1000)
    }
}

/// A record that was taken, as it was found: what there was before stays counted. What is abandoned again
/// gets an owner that nobody is, so that no late write of the one that gives it back changes it. `None`
/// where it is left in nobody's hands: there was nothing that is to stay.
pub(crate) fn as_found(taken: Option<&Header>, given_back: &Header) -> Option<Header> {
    let taken = taken?;
    match taken.state {
        State::Pending { .. } => Some(Header {
            owner: given_back.owner.alternate(),
            state: taken.state,
            completed_at: None,
            ..given_back.clone()
        }),
        State::Failed => Some(Header { state: State::Failed, ..given_back.clone() }),
        // Its answer is gone once it is taken.
        State::Completed | State::Released => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_was_taken_over_is_there_again_when_nothing_was_executed() {
        let times = (Timestamp::from_millis(0), None, 0);
        let of = |state| Header::of(&OwnerId(1), state, (2, 0), times);
        let found = as_found(Some(&of(State::Failed)), &of(State::Released));
        assert_eq!(found.map(|record| record.state), Some(State::Failed));
        assert!(as_found(None, &of(State::Released)).is_none());
    }
}
