//! How an acquisition that has run nothing ends.

use std::time::Duration;

use super::{
    Acquisition, CallResult, Command, Goal, Next, ObservedLease, Obstacle, Reason, Resolution,
};
use crate::knowledge::NoCompletion;
use crate::machine::Cause;
use crate::policy::Outage;
use crate::time::Now;

impl Acquisition {
    /// The lease of the other owner that was seen last.
    pub(super) const fn observed(&self) -> Option<ObservedLease> {
        match self.obstacle {
            Obstacle::Running(observed) => Some(observed),
            Obstacle::Nothing | Obstacle::Unjudged | Obstacle::MustNotRun => None,
        }
    }

    /// The rest of the other owner's lease, if it has not expired since.
    pub(super) fn lease_left_of_other(&self, now: Now) -> Option<Duration> {
        let observed = self.observed()?;
        observed.left.checked_sub(now.local.uptime.since(observed.at))
    }

    /// Ends the call after an error. In an outage, the result is [`Reason::InProgress`] if another owner's
    /// lease is live. If no other lease was seen, the handler can run without a record ([`Outage::Open`]).
    pub(super) fn give_up(&mut self, now: Now, reason: Reason, cause: Cause) -> Command {
        if cause == Cause::Outage && self.goal == Goal::Own {
            // The other lease may have expired since.
            if let Some(lease_left) = self.lease_left_of_other(now) {
                return self.end(now, Reason::InProgress { lease_left });
            }
            if self.may_run_unprotected() {
                return Command::Return(Next::RunUnprotected);
            }
        }
        self.end(now, reason)
    }

    pub(super) fn may_run_unprotected(&self) -> bool {
        let is_resolved = match self.resolution {
            Some((_, Resolution::Completed | Resolution::Committed | Resolution::Failed)) => true,
            Some((_, Resolution::Execute | Resolution::Refuse)) | None => false,
        };
        let is_free = self.obstacle == Obstacle::Nothing && !is_resolved && !self.is_in_doubt();
        self.rules.outage == Outage::Open && is_free
    }

    /// Ends a call that has run nothing. An acquisition that may have been applied is undone first, and a
    /// transaction in doubt is settled.
    pub(super) fn end(&mut self, now: Now, reason: Reason) -> Command {
        match self.goal {
            Goal::Own if self.knowledge.may_hold_key() => self.undo(now, reason),
            Goal::Own | Goal::LookUp if !self.is_in_doubt() => self.report(reason),
            Goal::Own | Goal::LookUp | Goal::Transact { .. } => {
                self.ending = Some((reason, 0));
                self.end_transaction(now)
            }
        }
    }

    pub(super) fn report(&self, reason: Reason) -> Command {
        done(match self.no_completion() {
            Some(proof) => CallResult::Nothing(reason, proof),
            None => CallResult::Unknown,
        })
    }

    pub(super) fn no_completion(&self) -> Option<NoCompletion> {
        match self.goal {
            // A hook can commit.
            Goal::Own => self.knowledge.no_transaction(),
            Goal::LookUp => Some(NoCompletion::without_completions()),
            Goal::Transact { .. } => self.knowledge.no_effect(),
        }
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.no_completion().is_none()
    }
}

pub(super) const fn done(result: CallResult) -> Command {
    Command::Return(Next::Done(result))
}
