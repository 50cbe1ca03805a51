//! What a caller does about the record that it found: a pure function, without clock or store.
//!
//! The numbers in comments are the rules of `docs/protocol.md`, section "Decide".

use std::time::Duration;

use crate::clock::Timestamp;
use crate::fault_injection::{Mutant, mutant};
use crate::fingerprint::Fingerprint;
use crate::policy::{Completed, Failure, Policy, Takeover};
use crate::record::{Owner, Record, State, Version};
use crate::response::Answer;

/// Who asks, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) owner: &'a Owner,
    pub(crate) fingerprint: &'a Fingerprint,
    pub(crate) policy: &'a Policy,
}

#[derive(Debug)]
#[must_use]
pub(crate) enum Decision {
    /// Our own write has happened, whatever became of its response.
    Acquired { attempt: u32, created_at: Timestamp, lease_expires_at: Timestamp },
    /// There is no record: write one where there is none.
    Create,
    /// The record no longer counts: put a new one in its place, if it is still this version.
    Replace(Version),
    /// The operation goes on in our hands, if the record is still this version.
    TakeOver { version: Version, attempt: u32, created_at: Timestamp },
    /// The key belongs to another request.
    Mismatch,
    /// The operation has completed.
    Replay(Answer),
    /// The operation has failed for good; with the failure, if it was kept.
    ReplayFailure(Option<Answer>),
    /// Somebody runs it.
    InProgress { lease_left: Duration },
    /// Somebody ran it and never said how it ended; policy forbids to run it again.
    Abandoned,
}

/// Decides by the record and by `now`, the store's time on the response that brought it.
pub(crate) fn decide(record: Option<Record>, now: Timestamp, request: Request<'_>) -> Decision {
    let Some(record) = record else { return Decision::Create };
    let is_own = record.owner == *request.owner && !mutant(Mutant::ForgetOwnOwner);
    let lease_left = match record.state {
        State::Pending { lease_expires_at } if is_own => {
            // D1: after a retry, or arriving late, our own earlier write is ours.
            let (attempt, created_at) = (record.attempt, record.created_at);
            return Decision::Acquired { attempt, created_at, lease_expires_at };
        }
        State::Pending { lease_expires_at } if now <= lease_expires_at => {
            Some(lease_expires_at.since(now))
        }
        State::Pending { .. } | State::Completed { .. } | State::Failed { .. } => None,
    };
    // D3: past its retention a record is garbage that TTL has not collected yet.
    if lease_left.is_none() && now.millis() > record.expires_at.saturating_mul(1000) {
        return Decision::Replace(record.version());
    }
    // D4
    if record.fingerprint != *request.fingerprint {
        return Decision::Mismatch;
    }
    let version = record.version();
    let next = Decision::TakeOver {
        version,
        attempt: record.attempt.saturating_add(u32::from(!mutant(Mutant::AttemptStays))),
        created_at: record.created_at,
    };
    match (record.state, lease_left) {
        // D5
        (State::Completed { answer }, _) => match request.policy.completed {
            Completed::Replay => Decision::Replay(answer),
            Completed::Execute => next,
        },
        // D6
        (State::Failed { answer }, _) => match request.policy.failure {
            Failure::Retain { max_attempts } if record.attempt < max_attempts => next,
            // A failure kept under another policy: this one would not have kept it.
            Failure::Release => next,
            Failure::Retain { .. } | Failure::Replay => Decision::ReplayFailure(answer),
        },
        // D7
        (State::Pending { .. }, Some(lease_left)) => Decision::InProgress { lease_left },
        // D8
        (State::Pending { .. }, None) => match request.policy.takeover {
            Takeover::Execute => next,
            Takeover::Reject => Decision::Abandoned,
        },
    }
}

#[cfg(test)]
mod tests;
