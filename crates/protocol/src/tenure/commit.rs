//! Commits: the answer and the caller's items in one transaction.
//!
//! A commit requires the end of the lease that was seen last; that of an execution without a record requires that the
//! key is absent or RELEASED, or that this call holds it. While the handler runs, a write that moves this
//! end by a millisecond closes off a commit in doubt. DynamoDB applies only one of the two, and the
//! handler keeps the key. Once the handler has returned, the write that fails the attempt closes the
//! commit off.

use super::{
    Command, NoCommit, Order, Over, Purpose, Stage, Tenure, TenureEnd, Waiting, not_applied,
};
use crate::condition::{Condition, Term};
use crate::fault_point::{FaultPoint, is_broken};
use crate::lease::LeaseTerm;
use crate::machine::{Outcome, Reply, WriteResult};
use crate::record::State;
use crate::time::{Deadline, Now, Stamp, Timestamp};
use crate::tries::Tries;
use crate::write::{Kind, Write};

impl Tenure {
    pub fn may_commit(&self) -> Result<(), NoCommit> {
        match self.stage {
            // Without a record, nothing closes off a commit whose future was dropped. No second one follows.
            Stage::Open if !self.is_protected && self.has_commit_in_doubt() => {
                Err(NoCommit::Over(Over::Unknown))
            }
            Stage::Open => Ok(()),
            Stage::Over(over) => Err(NoCommit::Over(over)),
            Stage::Closed => Err(NoCommit::Closed),
        }
    }

    /// Notes that the caller's items are about to be sent alone, because the call has no record (idempotency is
    /// switched off). Their outcome is unknown until [`items_ended`](Self::items_ended).
    pub fn begin_items(&mut self) -> Result<(), NoCommit> {
        self.may_commit()?;
        self.stage = Stage::Over(Over::Unknown);
        Ok(())
    }

    /// Notes the result of the items. `None` if the handler continues.
    pub fn items_ended(&mut self, over: Option<Over>) {
        self.stage = over.map_or(Stage::Open, Stage::Over);
    }

    /// Commits, and tries until `until`.
    pub fn commit(&mut self, now: Now, until: Deadline) -> Command {
        // The handler may have dropped the future of an earlier commit, which stays in doubt.
        let _ = self.interrupted();
        self.begin(now, Order::Commit, until)
    }

    /// The time of the last commit that was sent.
    pub const fn completed_at(&self) -> Option<Timestamp> {
        self.completed_at
    }

    /// Whether a commit of this execution may have been applied, or may still be applied.
    pub fn has_commit_in_doubt(&self) -> bool {
        self.knowledge.may_transact()
    }

    /// The `completed_at` of a completion at `now`. It differs from that of each commit.
    pub(super) fn next_completion(&self, now: Timestamp) -> Timestamp {
        self.completed_at.map_or(now, |last| now.max(last.shifted(1)))
    }

    pub(super) fn commit_write(&mut self, stamp: Stamp) -> (Write, Purpose) {
        let completed_at = self.next_completion(stamp.at);
        self.completed_at = Some(completed_at);
        let condition = if self.is_protected { self.held() } else { self.completable() };
        let expires_at = self.expires_at(completed_at);
        let record = self.meta(stamp, State::Completed, Some(completed_at), expires_at);
        let write = Write { kind: Kind::Commit, condition, record };
        (write, Purpose::Commit { completed_at })
    }

    /// The condition of a try of a commit.
    pub(super) fn commit_condition(&mut self) -> Condition {
        let condition = self.require_recorded_lease();
        if is_broken(FaultPoint::CommitAnyStatus) {
            return Condition::all(&[Term::Owner(*self.knowledge.me())]);
        }
        condition.unless(FaultPoint::TransactUnfenced)
    }

    /// Notes the end of the lease, if this response shows it. A renewal may have moved it since an earlier one.
    pub(super) fn note_lease(&mut self, reply: &Reply) {
        let was_applied = reply.outcome == Outcome::Write(WriteResult::Applied);
        if was_applied || reply.outcome.record().is_some() {
            let own = self.knowledge.own().and_then(|own| own.state.lease_expires_at());
            self.recorded_lease = own.unwrap_or(self.recorded_lease);
        }
    }

    /// Makes sure that a commit in doubt was applied, or cannot be applied any more. An execution without a
    /// record can only look for it.
    pub(super) fn close_off(&mut self, now: Now, completed_at: Timestamp) -> Command {
        if !self.is_protected {
            return self.look_for(now, Purpose::LookForCommit { completed_at });
        }
        self.tries = Tries::until(self.tries_until(now));
        let write = self.closing_write();
        self.send(now, write, Purpose::CloseOff { completed_at })
    }

    pub(super) fn closing_write(&mut self) -> Write {
        let condition = self.require_recorded_lease();
        // The write changes only the lease.
        let later = LeaseTerm { lease_expires_at: self.recorded_lease.shifted(1), expires_at: 0 };
        let LeaseTerm { lease_expires_at, expires_at } = later.unlike(&self.used_ends);
        let state = State::Pending { lease_expires_at };
        let me = self.knowledge.me();
        let record = self.attempts.meta(me, lease_expires_at, state, None, expires_at);
        Write { kind: Kind::CloseOff, condition, record }
    }

    /// The record is PENDING, and this call owns it. The handler continues, unless a commit that may still
    /// be applied requires the current end of the lease. In that case the end is moved again.
    pub(super) fn closed_off(&mut self, now: Now, completed_at: Timestamp) -> Command {
        if let Some(nothing) = self.knowledge.no_completion() {
            return not_applied(nothing);
        }
        let write = self.closing_write();
        self.retry(now, Some(Box::new(write)), Purpose::CloseOff { completed_at })
    }

    /// The handler has returned: [`may_commit`](Self::may_commit) allows no further commit, and
    /// [`is_over`](Self::is_over) tells the caller to begin no step. If a commit has ended the operation, its result
    /// is returned. The write of a failure resolves a commit whose future was dropped.
    /// `None` if the handler's result counts.
    pub fn close(&mut self, now: Now) -> Option<Command> {
        let interrupted = self.interrupted();
        if let Stage::Over(over) = self.stage {
            return Some(Command::Return(TenureEnd::Over(over)));
        }
        self.stage = Stage::Closed;
        interrupted.map(|completed_at| self.close_off_by_ending(now, completed_at))
    }

    /// Like [`close`](Self::close), for a handler that was stopped at the end of its lease. A commit in doubt
    /// is only read, not resolved. A failed or released record would let the operation run again at once,
    /// whatever else the handler had done. `None` if no commit is in doubt, and none has ended the operation: the
    /// call ends as one whose lease has expired.
    pub fn expire(&mut self, now: Now) -> Option<Command> {
        let interrupted = self.interrupted();
        match self.stage {
            Stage::Over(Over::NotCommitted(_)) => return None,
            Stage::Over(over) => return Some(Command::Return(TenureEnd::Over(over))),
            Stage::Open | Stage::Closed => self.stage = Stage::Closed,
        }
        let completed_at = interrupted?;
        Some(self.look_for(now, Purpose::LookForCommitOfStopped { completed_at }))
    }

    /// The time of a commit or completion whose future was dropped before it had a result.
    fn interrupted(&mut self) -> Option<Timestamp> {
        self.retention.abandon();
        let purpose = match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            // Nothing was sent yet, or the result is known.
            Waiting::Nothing | Waiting::Learning(_) => return None,
            Waiting::Writing(write, purpose) => {
                self.knowledge.mark_unknown(&write);
                purpose
            }
            Waiting::Reading(_, purpose) | Waiting::Pausing(_, purpose) => purpose,
        };
        purpose.completed_at()
    }

    /// Fails the attempt, so that DynamoDB rejects a commit in flight. A commit requires a PENDING record,
    /// and a record that has left PENDING never returns to it under the same owner.
    fn close_off_by_ending(&mut self, now: Now, completed_at: Timestamp) -> Command {
        if is_broken(FaultPoint::DoubtLeftOpen) {
            let nothing = Over::NotCommitted(crate::knowledge::NoCompletion::unproved());
            return self.over(Purpose::CloseOffByEnding { completed_at }, nothing);
        }
        if !self.is_protected {
            return self.look_for(now, Purpose::CloseOffByEnding { completed_at });
        }
        let (until, write) = (self.tries_until(now), self.failure_write());
        self.begin(now, Order::CloseOffByEnding(completed_at, write), until)
    }

    fn look_for(&mut self, now: Now, purpose: Purpose) -> Command {
        self.tries.until = self.tries_until(now);
        self.read(now, None, purpose)
    }
}
