//! Decides what a call does about the record that it has met. A pure function.
//!
//! The numbers in the comments are the rules of `docs/protocol.md`, section "Decide". The library's
//! decoder applies D2: it returns an error for an item that this version cannot read.

use std::time::Duration;

use crate::fault_point::{FaultPoint, is_broken};
use crate::owner::OwnerId;
use crate::policy::{Failure, Takeover};
use crate::record::{RecordMeta, State};
use crate::rules::Rules;
use crate::time::Timestamp;

/// What a call does about the record that it saw last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// An acquisition of this call was applied, even if its response was lost.
    Acquired { lease_expires_at: Timestamp },
    /// This call has finished the record, with a hook's resolution or with a transaction.
    Finished,
    /// Write the record, on the condition that it is still absent.
    Create,
    /// Replace the record by compare-and-set: its retention is over, or it is released. The new attempt's
    /// number is `attempts` + 1.
    Replace { attempts: u32 },
    /// Take over or run again, by compare-and-set.
    TakeOver,
    /// The operation is abandoned, and a hook decides about it.
    Reconcile,
    /// The key belongs to another request.
    Mismatch,
    /// The operation has completed.
    Replay,
    /// The operation has failed for good.
    ReplayFailure,
    /// Another owner runs the operation.
    InProgress { lease_left: Duration },
    /// The operation is abandoned, and the policy forbids another run.
    Abandoned,
}

/// Decides by the record and by `now`, the store time of the response that returned it.
pub fn decide(
    record: Option<&RecordMeta>,
    me: &OwnerId,
    now: Timestamp,
    rules: &Rules,
) -> Decision {
    let Some(record) = record else { return Decision::Create };
    let is_own = record.owner == *me && !is_broken(FaultPoint::ForgetOwnOwner);
    let lease_left = match record.state {
        // D1: an earlier try or a delayed request of this call was applied.
        State::Pending { lease_expires_at } if is_own => {
            return Decision::Acquired { lease_expires_at };
        }
        // D1: a hook's resolution or a transaction of this call was applied.
        State::Completed | State::Failed if is_own => return Decision::Finished,
        State::Pending { lease_expires_at } if now <= lease_expires_at => {
            Some(lease_expires_at.since(now))
        }
        State::Pending { .. } | State::Completed | State::Failed | State::Released => None,
    };
    // D3: TTL has not deleted the record yet.
    if lease_left.is_none() && record.is_past_retention(now) {
        return Decision::Replace { attempts: 0 };
    }
    // D4
    if record.state != State::Released && !record.is_same_request {
        return Decision::Mismatch;
    }
    // Released attempts do not count.
    let runs = record.attempt.saturating_sub(record.released_attempts);
    match (record.state, lease_left) {
        // D5
        (State::Completed, _) => Decision::Replay,
        // D6
        (State::Failed, _) => match rules.failure {
            Failure::Retain { max_attempts } if runs < max_attempts => Decision::TakeOver,
            // The failure was kept under another policy, or because the record has steps.
            Failure::Release => Decision::TakeOver,
            Failure::Retain { .. } | Failure::Replay => Decision::ReplayFailure,
        },
        // D7
        (State::Pending { .. }, Some(lease_left)) => Decision::InProgress { lease_left },
        // D8
        (State::Pending { .. }, None) if rules.reconciles => Decision::Reconcile,
        (State::Pending { .. }, None) => match (rules.takeover, rules.failure) {
            (Takeover::Reject, _) => Decision::Abandoned,
            // An abandoned run counts too.
            (_, Failure::Retain { max_attempts }) if runs >= max_attempts => {
                Decision::ReplayFailure
            }
            (Takeover::Execute, _) => Decision::TakeOver,
        },
        // D9: whatever the request.
        (State::Released, _) => Decision::Replace { attempts: record.attempt },
    }
}

#[cfg(test)]
mod tests;
