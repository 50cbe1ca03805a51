//! What a caller does about the record that it found: a pure function, without clock or store.
//!
//! The numbers in comments are the rules of `docs/protocol.md`, section "Decide".

use std::time::Duration;

use super::record::{Header, State};
use super::rules::Rules;
use super::time::Timestamp;
use crate::owner::OwnerId;
use crate::policy::{Completed, Failure, Takeover};

/// What the record asks for. All of it is about the record as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Our own write has happened, whatever became of its response.
    Acquired { lease_expires_at: Timestamp },
    /// A call that has run nothing has finished it: with a hook's resolution, or with a transaction.
    Finished,
    /// There is no record: write one where there is none.
    Create,
    /// The record no longer counts, or is in nobody's hands: put a new one in its place, if it is
    /// still this version; so many attempts count on.
    Replace { attempts: u32 },
    /// The operation goes on in our hands, if the record is still this version.
    TakeOver,
    /// Somebody ran it and never said how it ended: a hook has to judge.
    Reconcile,
    /// The key belongs to another request.
    Mismatch,
    /// The operation has completed.
    Replay,
    /// The operation has failed for good.
    ReplayFailure,
    /// Somebody runs it.
    InProgress { lease_left: Duration },
    /// Somebody ran it and never said how it ended; policy forbids to run it again.
    Abandoned,
}

/// Decides by the record and by `now`, the store's time on the response that brought it.
pub fn decide(record: Option<&Header>, me: &OwnerId, now: Timestamp, rules: &Rules) -> Decision {
    let Some(record) = record else { return Decision::Create };
    let is_own = record.owner == *me;
    let lease_left = match record.state {
        // D1: after a retry, or arriving late, our own earlier write is ours.
        State::Pending { lease_expires_at } if is_own => {
            return Decision::Acquired { lease_expires_at };
        }
        // D1: what a call finishes before it has run anything.
        State::Completed | State::Failed if is_own => return Decision::Finished,
        State::Pending { lease_expires_at } if now <= lease_expires_at => {
            Some(lease_expires_at.since(now))
        }
        State::Pending { .. } | State::Completed | State::Failed | State::Released => None,
    };
    // D3: past its retention a record is garbage that TTL has not collected yet.
    if lease_left.is_none() && record.is_past_retention(now) {
        return Decision::Replace { attempts: 0 };
    }
    // D4
    if record.state != State::Released && !record.is_same_request {
        return Decision::Mismatch;
    }
    // What was released does not count: a key that was refused three times has all its runs before it.
    let runs = record.attempt.saturating_sub(record.released_attempts);
    match (record.state, lease_left) {
        // D5
        (State::Completed, _) => match rules.completed {
            Completed::Replay => Decision::Replay,
            Completed::Execute => Decision::TakeOver,
        },
        // D6
        (State::Failed, _) => match rules.failure {
            Failure::Retain { max_attempts } if runs < max_attempts => Decision::TakeOver,
            // A failure kept under another policy, or for its steps: this one lets it run again.
            Failure::Release => Decision::TakeOver,
            Failure::Retain { .. } | Failure::Replay => Decision::ReplayFailure,
        },
        // D7
        (State::Pending { .. }, Some(lease_left)) => Decision::InProgress { lease_left },
        // D8
        (State::Pending { .. }, None) if rules.reconciles => Decision::Reconcile,
        (State::Pending { .. }, None) => match (rules.takeover, rules.failure) {
            (Takeover::Reject, _) => Decision::Abandoned,
            // A run that never said how it ended is one of those that are allowed.
            (_, Failure::Retain { max_attempts }) if runs >= max_attempts => {
                Decision::ReplayFailure
            }
            (Takeover::Execute, _) => Decision::TakeOver,
        },
        // D9: what nobody holds is anybody's, whatever the request.
        (State::Released, _) => Decision::Replace { attempts: record.attempt },
    }
}

#[cfg(test)]
mod tests;
