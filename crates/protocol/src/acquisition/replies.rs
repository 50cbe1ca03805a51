//! What an acquisition does after a read or a write. This depends on the result and on the record.

use std::time::Duration;

use super::ending::done;
use super::{
    Acquisition, AfterPause, CallResult, Command, Goal, Intent, Next, ObservedLease, Obstacle,
    Reason, Resolution, Step,
};
use crate::decide::{Decision, decide};
use crate::fault_point::{FaultPoint, is_broken};
use crate::machine::{Cause, ReadResult, WriteResult};
use crate::record::{Header, State};
use crate::time::{Now, Timestamp};

/// How often a call reads again because responses have no `Date`.
const MAX_UNDATED_READS: u32 = 2;

impl Acquisition {
    pub(super) fn after_read(
        &mut self,
        now: Now,
        result: &ReadResult<Header>,
        is_first: bool,
    ) -> Command {
        match result {
            ReadResult::Found(_) => self.decide(now),
            ReadResult::Stale(record) if is_broken(FaultPoint::TrustStaleReads) => {
                self.knowledge.see(record.clone());
                self.decide(now)
            }
            ReadResult::Stale(record) => self.after_stale_read(now, record.as_ref()),
            // The write finds out what the read did not. If both fail by an outage, `Outage` decides. After any
            // other error, no handler runs without a record, because one may exist that cannot be read.
            ReadResult::Failed(cause)
                if is_first && self.goal != Goal::LookUp && now.stamp().is_some() =>
            {
                if *cause == Cause::Other {
                    self.obstacle = Obstacle::MustNotRun;
                }
                self.write(now, Intent::Create)
            }
            ReadResult::Failed(Cause::Outage) if is_first => self.read(now),
            ReadResult::Failed(cause) => self.after_failed_read(now, *cause),
        }
    }

    /// A completed operation stays completed, so even a stale read can replay. In any other case the record
    /// may have changed since, and a write follows. If the stale record forbids a run, the call does not run
    /// the handler without a record, even if DynamoDB fails from now on.
    pub(super) fn after_stale_read(&mut self, now: Now, record: Option<&Header>) -> Command {
        let Some(judging) = now.judging(self.time, self.rules.tolerance) else {
            return self.undated(now, record.is_some());
        };
        match decide(record, self.knowledge.me(), judging, &self.rules) {
            Decision::Replay => return done(CallResult::Replay),
            _ if is_broken(FaultPoint::ForgetStaleReads) => {}
            // An execution without a record would run the stored steps again.
            Decision::TakeOver if record.is_some_and(|record| record.steps.is_some()) => {
                self.obstacle = Obstacle::MustNotRun;
            }
            Decision::Create | Decision::Replace { .. } | Decision::TakeOver => {}
            // Not reported: the operation may have ended since.
            Decision::InProgress { .. }
            | Decision::Mismatch
            | Decision::ReplayFailure
            | Decision::Abandoned
            | Decision::Reconcile
            | Decision::Finished
            | Decision::Acquired { .. } => self.obstacle = Obstacle::MustNotRun,
        }
        self.write(now, Intent::Create)
    }

    /// Continues a wait for another owner. Without a wait, only a transaction reads again after an outage.
    pub(super) fn after_failed_read(&mut self, now: Now, cause: Cause) -> Command {
        if let Some(observed) = self.observed()
            && !self.rules.wait_left(now, self.started).is_zero()
        {
            return self.wait(now, observed.left);
        }
        match self.goal {
            Goal::Transact { .. } if cause == Cause::Outage => self.back_off(now, AfterPause::Read),
            Goal::Transact { .. } | Goal::Own | Goal::LookUp => {
                self.give_up(now, Reason::Error, cause)
            }
        }
    }

    pub(super) fn after_write(
        &mut self,
        now: Now,
        result: &WriteResult<Header>,
        intent: Intent,
    ) -> Command {
        match (result, intent) {
            (WriteResult::Applied, Intent::Resolve(_)) => done(CallResult::Reconciled),
            (WriteResult::Applied, _) => match self.knowledge.own().map(|own| own.state) {
                Some(State::Pending { lease_expires_at }) => {
                    self.verify_lease(now, lease_expires_at)
                }
                _ => self.read(now),
            },
            (WriteResult::Rejected(Some(_)), intent) => {
                let replaces = !matches!(intent, Intent::Create | Intent::Restamp { .. });
                self.is_contended |= replaces;
                self.decide(now)
            }
            (WriteResult::Conflict(_) | WriteResult::TokenUsed(_), _) => {
                self.is_contended = true;
                self.read(now)
            }
            // The answer cannot be stored. The next write stores the reason instead.
            (WriteResult::Invalid(_), Intent::Resolve(_))
            | (WriteResult::Rejected(None) | WriteResult::Unknown(_), _) => self.read(now),
            (WriteResult::Invalid(_), _) => self.give_up(now, Reason::Error, Cause::Other),
            (WriteResult::NotApplied(cause), _) => self.give_up(now, Reason::Error, *cause),
            // Only a hook's commit has items here.
            (WriteResult::ItemsRejected(()), _) => self.end(now, Reason::ItemsRejected),
        }
    }

    /// Decides by the record that was seen last.
    pub(super) fn decide(&mut self, now: Now) -> Command {
        let record = self.knowledge.seen().record();
        let Some(judging) = now.judging(self.time, self.rules.tolerance) else {
            let is_present = record.is_some();
            return self.undated(now, is_present);
        };
        let completed_at = record.and_then(|record| record.completed_at);
        let decision = decide(record, self.knowledge.me(), judging, &self.rules);
        // What was seen earlier no longer counts. `InProgress` below notes a live lease again.
        match self.obstacle {
            Obstacle::Running(_) | Obstacle::Unjudged => self.obstacle = Obstacle::Nothing,
            Obstacle::Nothing | Obstacle::MustNotRun => {}
        }
        match decision {
            Decision::Acquired { lease_expires_at } => self.acquired(now, lease_expires_at),
            Decision::Finished => done(self.finished(completed_at)),
            Decision::Create => self.write(now, Intent::Create),
            Decision::Replace { attempts } => self.write(now, Intent::Replace { attempts }),
            Decision::TakeOver => self.write(now, Intent::TakeOver),
            Decision::Reconcile => self.run_hook(now),
            Decision::InProgress { lease_left } => {
                let at = now.local.uptime;
                self.obstacle = Obstacle::Running(ObservedLease { left: lease_left, at });
                if self.is_in_doubt() {
                    self.end(now, Reason::InProgress { lease_left })
                } else {
                    self.wait(now, lease_left)
                }
            }
            Decision::Replay => done(CallResult::Replay),
            Decision::ReplayFailure => self.end(now, Reason::Failed),
            Decision::Mismatch => self.end(now, Reason::Mismatch),
            Decision::Abandoned => self.end(now, Reason::Abandoned),
        }
    }

    /// This call has finished the record.
    pub(super) fn finished(&self, completed_at: Option<Timestamp>) -> CallResult {
        match self.goal {
            Goal::Own | Goal::LookUp => CallResult::Reconciled,
            Goal::Transact { .. } if completed_at == self.completed_at => CallResult::Executed,
            // An earlier transaction of this call was applied.
            Goal::Transact { .. } => CallResult::Replay,
        }
    }

    /// No response has shown store time yet, and a record can neither be judged nor written without it. The call
    /// reads again, twice at most.
    fn undated(&mut self, now: Now, is_present: bool) -> Command {
        let is_forgotten = is_broken(FaultPoint::ForgetUndatedRecords);
        if is_present && self.obstacle == Obstacle::Nothing && !is_forgotten {
            self.obstacle = Obstacle::Unjudged;
        }
        self.undated_reads += 1;
        if self.undated_reads > MAX_UNDATED_READS {
            return self.end(now, Reason::NoStoreTime);
        }
        self.read(now)
    }

    pub(super) fn run_hook(&mut self, now: Now) -> Command {
        let version = self.knowledge.seen().record().map(Header::version);
        match &self.resolution {
            Some((judged, resolution)) if version.as_ref() == Some(judged) => {
                let resolution = *resolution;
                self.resolve(now, resolution)
            }
            _ => Command::Return(Next::RunHook),
        }
    }

    pub(super) fn resolve(&mut self, now: Now, resolution: Resolution) -> Command {
        if let Some(record) = self.knowledge.seen().record() {
            self.resolution = Some((record.version(), resolution));
        }
        match resolution {
            Resolution::Completed | Resolution::Committed | Resolution::Failed => {
                self.write(now, Intent::Resolve(resolution))
            }
            Resolution::Execute => self.write(now, Intent::TakeOver),
            Resolution::Refuse => self.end(now, Reason::Abandoned),
        }
    }

    /// Waits for another owner, or reports that the operation is in progress.
    pub(super) fn wait(&mut self, now: Now, lease_left: Duration) -> Command {
        let left = self.rules.wait_left(now, self.started);
        if left.is_zero() {
            return self.end(now, Reason::InProgress { lease_left });
        }
        self.step = Step::Pausing(AfterPause::ReadAgain);
        Command::Pause { bound: self.waiting.next_bound(), max: left }
    }

    pub(super) fn read(&mut self, now: Now) -> Command {
        if now.is_over(self.budget) {
            return self.give_up(now, Reason::TimedOut, Cause::Outage);
        }
        self.step = Step::Reading { is_first: false };
        Command::Read { is_consistent: true, limit: self.limit(now) }
    }
}
