//! The executions of a key's handler, from the logs of its processes.

use crate::event::{Entry, Event};

/// One execution of the handler.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) owner: String,
    pub(super) number: u32,
    pub(super) started: i64,
    /// The latest expiry of the lease that the owner knew of.
    pub(super) lease_ends: i64,
    /// When the handler was about to fail, which releases its lease.
    pub(super) failing: Option<i64>,
    /// When the handler was about to commit. A commit that is not confirmed releases the lease too.
    pub(super) committing: Option<i64>,
}

/// Why two attempts were not owners at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Why {
    /// The lease of the earlier attempt had expired this many milliseconds before the later one started.
    LeaseOver { gap: i64 },
    /// The earlier attempt had failed, or had given up an unconfirmed commit.
    Failed,
    /// The later attempt is not an owner: its process was paused between acquiring and starting.
    Late,
}

impl Attempt {
    /// Whether its lease had expired before its handler started.
    pub(super) fn is_late(&self) -> bool {
        self.lease_ends <= self.started
    }

    /// Whether it may have released its record by then.
    pub(super) fn may_be_released_by(&self, at: i64) -> bool {
        [self.failing, self.committing].into_iter().flatten().any(|given_up| given_up <= at)
    }

    /// Returns why this attempt and an earlier one do not overlap, if they do not.
    pub(super) fn apart_from(&self, earlier: &Self) -> Option<Why> {
        let gap = self.started - earlier.lease_ends;
        if self.is_late() || earlier.is_late() {
            return Some(Why::Late);
        }
        if earlier.may_be_released_by(self.started) {
            return Some(Why::Failed);
        }
        (gap >= 0).then_some(Why::LeaseOver { gap })
    }
}

/// Returns all attempts in the order of their starts.
pub(super) fn attempts(entries: &[Entry]) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for Entry { at, event, .. } in entries {
        match event {
            Event::Started { owner, attempt, lease_ends } => attempts.push(Attempt {
                owner: owner.clone(),
                number: *attempt,
                started: *at,
                lease_ends: *lease_ends,
                failing: None,
                committing: None,
            }),
            Event::Renewed { owner, lease_ends } => {
                if let Some(attempt) = attempts.iter_mut().find(|one| one.owner == *owner) {
                    attempt.lease_ends = attempt.lease_ends.max(*lease_ends);
                }
            }
            Event::Failing { owner } => {
                if let Some(attempt) = attempts.iter_mut().find(|one| one.owner == *owner) {
                    attempt.failing = Some(*at);
                }
            }
            Event::Committing { owner } => {
                if let Some(attempt) = attempts.iter_mut().find(|one| one.owner == *owner) {
                    attempt.committing = Some(*at);
                }
            }
            Event::Answered { .. } | Event::Refused { .. } => {}
        }
    }
    attempts
}
