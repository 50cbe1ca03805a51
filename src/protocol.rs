//! What a caller does about the record that it found: a pure function, without clock or store.
//!
//! The numbers in comments are the rules of `docs/protocol.md`, section "Decide".

use std::time::Duration;

use crate::clock::Timestamp;
use crate::fault_injection::{Mutant, mutant};
use crate::fingerprint::Fingerprint;
use crate::policy::{Completed, Failure, Policy, Takeover};
use crate::record::{Owner, Record, State, Taken, Version};
use crate::response::Stored;
use crate::steps::Checkpoints;

/// Who asks, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) owner: &'a Owner,
    pub(crate) fingerprint: &'a Fingerprint,
    pub(crate) policy: &'a Policy,
    /// Whether a hook judges an abandoned operation, in the place of the policy.
    pub(crate) reconciles: bool,
}

#[derive(Debug)]
#[must_use]
pub(crate) enum Decision {
    /// Our own write has happened, whatever became of its response.
    Acquired {
        attempt: u32,
        created_at: Timestamp,
        lease_expires_at: Timestamp,
        steps: Option<Checkpoints>,
        released_attempts: u32,
    },
    /// The hook's word on an abandoned operation, which we wrote, is in the record.
    Reconciled,
    /// There is no record: write one where there is none.
    Create,
    /// The record no longer counts, or is in nobody's hands: put a new one in its place, if it is
    /// still this version.
    Replace {
        version: Version,
        /// How many attempts count on.
        attempts: u32,
    },
    /// The operation goes on in our hands, if the record is still this version.
    TakeOver(Orphan),
    /// Somebody ran it and never said how it ended: a hook has to judge.
    Reconcile { orphan: Orphan, lease_ended_at: Timestamp },
    /// The key belongs to another request.
    Mismatch,
    /// The operation has completed.
    Replay {
        answer: Stored,
        /// Until when, in epoch seconds.
        expires_at: i64,
    },
    /// The operation has failed for good; with the failure, if it was kept.
    ReplayFailure(Option<Stored>),
    /// Somebody runs it.
    InProgress { lease_left: Duration },
    /// Somebody ran it and never said how it ended; policy forbids to run it again.
    Abandoned,
}

/// An operation that was started and is in nobody's hands, as it was seen.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) version: Version,
    /// Of the last owner.
    pub(crate) attempt: u32,
    pub(crate) created_at: Timestamp,
    pub(crate) steps: Option<Checkpoints>,
    pub(crate) released_attempts: u32,
    pub(crate) taken: Taken,
}

/// Decides by the record and by `now`, the store's time on the response that brought it.
pub(crate) fn decide(record: Option<Record>, now: Timestamp, request: Request<'_>) -> Decision {
    let Some(record) = record else { return Decision::Create };
    let is_own = record.owner == *request.owner && !mutant(Mutant::ForgetOwnOwner);
    let lease_left = match record.state {
        State::Pending { lease_expires_at } if is_own => {
            // D1: after a retry, or arriving late, our own earlier write is ours.
            let Record { attempt, created_at, steps, released_attempts, .. } = record;
            return Decision::Acquired {
                attempt,
                created_at,
                lease_expires_at,
                steps,
                released_attempts,
            };
        }
        // D1: what a call finishes before it has run anything, a hook has told it.
        State::Completed { .. } | State::Failed { .. } if is_own => {
            return Decision::Reconciled;
        }
        State::Pending { lease_expires_at } if now <= lease_expires_at => {
            Some(lease_expires_at.since(now))
        }
        State::Pending { .. }
        | State::Completed { .. }
        | State::Failed { .. }
        | State::Released => None,
    };
    // D3: past its retention a record is garbage that TTL has not collected yet.
    if lease_left.is_none() && record.is_past_retention(now) {
        return Decision::Replace { version: record.version(), attempts: 0 };
    }
    // D4
    let is_released = matches!(record.state, State::Released);
    if !is_released && !request.fingerprint.matches(&record.fingerprint) {
        return Decision::Mismatch;
    }
    let version = record.version();
    let Record { attempt, created_at, state, steps, expires_at, released_attempts, .. } = record;
    // What was released does not count: a key that was refused three times has all its runs before it.
    let runs = attempt.saturating_sub(released_attempts);
    let taken = match &state {
        State::Pending { lease_expires_at } => {
            Taken::Abandoned { lease_expires_at: *lease_expires_at }
        }
        State::Failed { response, .. } => Taken::Failed { response: response.clone() },
        State::Completed { .. } | State::Released => Taken::Nothing,
    };
    let orphan = Orphan { version, attempt, created_at, steps, released_attempts, taken };
    match (state, lease_left) {
        // D5
        (State::Completed { answer }, _) => match request.policy.completed {
            Completed::Replay => Decision::Replay { answer, expires_at },
            Completed::Execute => Decision::TakeOver(orphan),
        },
        // D6
        (State::Failed { answer, .. }, _) => match request.policy.failure {
            Failure::Retain { max_attempts } if runs < max_attempts => Decision::TakeOver(orphan),
            // A failure kept under another policy, or for its steps: this one lets it run again.
            Failure::Release => Decision::TakeOver(orphan),
            Failure::Retain { .. } | Failure::Replay => Decision::ReplayFailure(answer),
        },
        // D7
        (State::Pending { .. }, Some(lease_left)) => Decision::InProgress { lease_left },
        // D8
        (State::Pending { lease_expires_at: lease_ended_at }, None) if request.reconciles => {
            Decision::Reconcile { orphan, lease_ended_at }
        }
        (State::Pending { .. }, None) => match (&request.policy.takeover, request.policy.failure) {
            (Takeover::Reject, _) => Decision::Abandoned,
            // A run that never said how it ended is one of those that are allowed.
            (_, Failure::Retain { max_attempts }) if runs >= max_attempts => {
                Decision::ReplayFailure(None)
            }
            (Takeover::Execute, _) => Decision::TakeOver(orphan),
        },
        // D9: what nobody holds is anybody's, whatever the request.
        (State::Released, _) => Decision::Replace { version: orphan.version, attempts: attempt },
    }
}

#[cfg(test)]
mod tests;
