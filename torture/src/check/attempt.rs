//! The runs of a key's handler, as its processes wrote them down.

use crate::event::{Entry, Event};

/// One run of the handler.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) owner: String,
    pub(super) number: u32,
    pub(super) started: i64,
    /// The latest end that the owner knew of.
    pub(super) lease_ends: i64,
    /// When it was about to fail, and so to give its lease up.
    pub(super) failing: Option<i64>,
    /// When it was about to commit: a commit that is not confirmed gives the lease up too.
    pub(super) committing: Option<i64>,
}

/// Why two attempts were not both owners at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Why {
    /// The lease of the earlier one had run out this many milliseconds before the later began.
    LeaseOver { gap: i64 },
    /// The earlier one had failed, or given up an unconfirmed commit.
    Failed,
    /// The later one is no owner: its process was stopped between acquiring and starting.
    Late,
}

impl Attempt {
    /// Its lease was over before its handler began.
    pub(super) fn is_late(&self) -> bool {
        self.lease_ends <= self.started
    }

    /// It may have given its record up by then.
    pub(super) fn may_be_released_by(&self, at: i64) -> bool {
        [self.failing, self.committing].into_iter().flatten().any(|given_up| given_up <= at)
    }

    /// Why this attempt and one that began before it do not overlap, if they do not.
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

/// All attempts, in the order in which their handlers began.
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
