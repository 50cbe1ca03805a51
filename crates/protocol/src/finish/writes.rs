//! The writes that finish an execution, and their tries.

use super::{Command, EndWrite, Finish, FinishResult, Order, Purpose, Step};
use crate::condition::{Condition, Term};
use crate::fault_point::{FaultPoint, is_broken};
use crate::record::{Header, State, Status, created_at, restored};
use crate::retention::released_until;
use crate::time::{Deadline, Now, Stamp, Timestamp};
use crate::tries::Tries;
use crate::write::{Kind, Write};

impl Finish {
    pub(super) fn begin(&mut self, now: Now, order: Order, until: Deadline) -> Command {
        self.tries = Tries::until(until);
        self.retention.abandon();
        self.carry_out(now, order)
    }

    /// Sends the write. Without store time, a read comes first: an execution without a record may never have
    /// had a response.
    pub(super) fn carry_out(&mut self, now: Now, order: Order) -> Command {
        let Some(stamp) = now.stamp() else { return self.learn(now, order) };
        let seen = self.knowledge.seen().record();
        self.attempts.created_at.get_or_insert_with(|| created_at(stamp, seen));
        self.retention.stamped(stamp);
        let (write, purpose) = match order {
            Order::Commit => self.commit_write(stamp),
            Order::Complete { kept_until } => self.completion(stamp, kept_until),
            Order::Fail(failure) => {
                (self.end_write(stamp, failure), Purpose::Fail { is_in_doubt: false })
            }
            Order::ResolveCommit(completed_at, failure) => {
                (self.end_write(stamp, failure), Purpose::ResolveCommit { completed_at })
            }
        };
        self.send(now, write, purpose)
    }

    pub(super) fn learn(&mut self, now: Now, order: Order) -> Command {
        self.step = Step::Learning(order);
        Command::Read { is_consistent: true, limit: self.tries.limit(now) }
    }

    pub(super) fn after_learning(&mut self, now: Now, order: Order) -> Command {
        if now.stamp().is_some() {
            return self.carry_out(now, order);
        }
        if let Some(bound) = self.tries.pause(now) {
            self.step = Step::Learning(order);
            return Command::Pause { bound, max: bound };
        }
        match (order, self.knowledge.no_effect()) {
            (Order::Commit, Some(nothing)) => Command::Return(FinishResult::NotCommitted(nothing)),
            (Order::ResolveCommit(..), _) | (Order::Commit, None) => {
                self.over(FinishResult::Unknown)
            }
            (Order::Complete { .. } | Order::Fail(_), _) => {
                Command::Return(FinishResult::Unconfirmed)
            }
        }
    }

    pub(super) fn completion(&self, stamp: Stamp, kept_until: i64) -> (Write, Purpose) {
        let completed_at = self.next_completion(stamp.at);
        let condition = if self.completed_at.is_some() {
            self.completable()
        } else {
            self.completable().unless(FaultPoint::CompleteUnfenced)
        };
        let expires_at = self.expires_at(completed_at).max(kept_until);
        let record = self.header(stamp, State::Completed, Some(completed_at), expires_at);
        (Write { kind: Kind::Complete, condition, record }, Purpose::Complete { completed_at })
    }

    pub(super) fn end_write(&self, stamp: Stamp, end: EndWrite) -> Write {
        let expires_at = self.expires_at(stamp.at);
        let failed = || self.header(stamp, State::Failed, Some(stamp.at), expires_at);
        match end {
            EndWrite::Keep => self.keep(Kind::Keep, failed()),
            EndWrite::Undo => {
                // A handler has seen the attempt, so its number is not used again. The attempt does not
                // count.
                let released_attempts = self.attempts.released.saturating_add(1);
                let undone = Header { released_attempts, ..failed() };
                match restored(self.taken_over.as_ref(), &undone) {
                    Some(record) => self.keep(Kind::Undo, record),
                    None => self.release(stamp),
                }
            }
            EndWrite::Release => self.release(stamp),
            EndWrite::ReleaseSucceeded => {
                let condition = self.held().unless(FaultPoint::ReleaseSucceededUnfenced);
                Write { kind: Kind::ReleaseSucceeded, condition, record: self.released(stamp) }
            }
        }
    }

    fn keep(&self, kind: Kind, record: Header) -> Write {
        Write { kind, condition: self.held().unless(FaultPoint::KeepFailureUnfenced), record }
    }

    fn release(&self, stamp: Stamp) -> Write {
        let owner = Term::Owner(*self.knowledge.me());
        let pending = Term::Status(Status::Pending);
        let condition = if is_broken(FaultPoint::ReleaseUnfenced) {
            Condition::all(&[pending, Term::NoSteps])
        } else if is_broken(FaultPoint::ReleaseAnyStatus) {
            Condition::all(&[owner, Term::NoSteps])
        } else {
            self.held().and(Term::NoSteps)
        };
        Write { kind: Kind::Release, condition, record: self.released(stamp) }
    }

    fn released(&self, stamp: Stamp) -> Header {
        let until = released_until(stamp.at, self.lease_expires_at());
        self.header(stamp, State::Released, None, until)
    }

    pub(super) fn held(&self) -> Condition {
        Condition::held_by(*self.knowledge.me())
    }

    pub(super) fn completable(&self) -> Condition {
        Condition::completable_by(*self.knowledge.me(), self.attempts.number)
    }

    pub(super) fn header(
        &self,
        stamp: Stamp,
        state: State,
        completed_at: Option<Timestamp>,
        expires_at: i64,
    ) -> Header {
        self.attempts.header(self.knowledge.me(), stamp.at, state, completed_at, expires_at)
    }

    pub(super) fn send(&mut self, now: Now, mut write: Write, purpose: Purpose) -> Command {
        // The lease may have been renewed between two tries, and no record expires before its lease.
        if write.record.is_completed() {
            let lease_ends = self.lease_expires_at().seconds_up();
            write.record.expires_at = write.record.expires_at.max(lease_ends);
        }
        if self.is_protected && matches!(purpose, Purpose::Commit { .. }) {
            write.condition = self.require_recorded_lease();
        }
        self.knowledge.send(&write);
        self.step = Step::Writing(write.clone(), purpose);
        Command::Send { write, limit: self.tries.limit(now) }
    }

    pub(super) fn read(&mut self, now: Now, write: Option<Write>, purpose: Purpose) -> Command {
        self.step = Step::Reading(write, purpose);
        Command::Read { is_consistent: true, limit: self.tries.limit(now) }
    }

    /// Sends the same write again, if there is time.
    pub(super) fn retry(&mut self, now: Now, write: Option<Write>, purpose: Purpose) -> Command {
        let may_retry = self.is_protected || matches!(purpose, Purpose::Commit { .. });
        match (write, self.tries.pause(now)) {
            (Some(write), Some(bound)) if may_retry => {
                self.step = Step::Pausing(write, purpose);
                Command::Pause { bound, max: bound }
            }
            _ => self.out_of_time(now, purpose),
        }
    }
}
