//! The writes that acquire a key under a lease, and the verification of the lease.

use std::time::Duration;

use super::{
    Acquisition, AfterPause, Command, Goal, Intent, Next, Obstacle, Reason, Resolution, Step,
};
use crate::condition::{Condition, Term};
use crate::fault_point::{FaultPoint, is_broken};
use crate::lease::LeaseTerm;
use crate::machine::{Cause, Reply};
use crate::record::{Attempts, Header, State, created_at};
use crate::rules::MIN_LIMIT;
use crate::time::{Now, Stamp, Timestamp};
use crate::write::{Kind, Write};

/// How many writes a call sends before it gives up a contended key.
pub(super) const MAX_WRITES: u32 = 8;

impl Acquisition {
    /// A read or a rejected write has shown this call's own record.
    pub(super) fn acquired(&mut self, now: Now, lease_expires_at: Timestamp) -> Command {
        if let Some(own) = self.knowledge.own() {
            self.attempts = Attempts::of(own);
        }
        self.verify_lease(now, lease_expires_at)
    }

    /// Runs the handler if the response that has shown the own record proves that the lease is right, and
    /// if no other write of this call can still change it. Otherwise the lease is stamped again.
    pub(super) fn verify_lease(&mut self, now: Now, lease_expires_at: Timestamp) -> Command {
        self.obstacle = Obstacle::Nothing;
        let is_settled = self.knowledge.is_settled() || is_broken(FaultPoint::RunBeforeSettled);
        match self.rules.window(now, self.rules.deadline, lease_expires_at, self.time) {
            Some(window) if is_settled => Command::Return(Next::Run(window)),
            Some(_) | None => self.write(now, Intent::Restamp { lease_expires_at }),
        }
    }

    /// Begins a write. From the third write on, a pause comes first.
    pub(super) fn write(&mut self, now: Now, intent: Intent) -> Command {
        if self.goal == Goal::LookUp {
            return self.end(now, Reason::Free);
        }
        self.writes += 1;
        if self.may_have_resolved_another() {
            self.is_contended = true;
            return self.contended(now, intent);
        }
        if self.writes > 2 {
            self.back_off(now, AfterPause::Write(intent))
        } else {
            self.send(now, intent)
        }
    }

    /// Ends the call: other calls keep writing to this key, or DynamoDB confirms no lease.
    fn contended(&mut self, now: Now, intent: Intent) -> Command {
        if let Intent::Restamp { .. } = intent {
            return self.give_up(now, Reason::NoLease, Cause::Outage);
        }
        let lease_left = match self.lease_left_of_other(now) {
            Some(left) => left,
            None if self.is_contended => Duration::ZERO,
            // No other call was seen to write, so DynamoDB itself is failing.
            None => return self.give_up(now, Reason::Error, Cause::Outage),
        };
        self.end(now, Reason::InProgress { lease_left })
    }

    pub(super) fn note_doubt(&mut self, reply: &Reply, step: &Step) {
        let is_in_doubt = reply.is_in_doubt || reply.outcome.is_unknown();
        if is_in_doubt && matches!(step, Step::Writing { intent: Intent::Resolve(_), .. }) {
            self.doubtful_resolution = self.resolution.as_ref().map(|(version, _)| version.clone());
        }
    }

    /// Whether a resolution may have been applied to another version than the one seen last. If so, the call
    /// begins no other write, because two finished records of one owner would be indistinguishable.
    pub(super) fn may_have_resolved_another(&self) -> bool {
        let seen = self.knowledge.seen().record().map(Header::version);
        self.doubtful_resolution.is_some() && self.doubtful_resolution != seen
    }

    pub(super) fn send(&mut self, now: Now, intent: Intent) -> Command {
        let is_transaction = matches!(self.goal, Goal::Transact { .. });
        if !is_transaction && self.writes > MAX_WRITES {
            return self.contended(now, intent);
        }
        let Some(length) = self.rules.lease_length(now) else {
            return self.give_up(now, Reason::DeadlineOver, Cause::Other);
        };
        // A call that owns the key may still correct its lease, for example after a freeze.
        let is_owner = matches!(intent, Intent::Restamp { .. });
        if now.is_over(self.budget) && !is_owner {
            return self.give_up(now, Reason::TimedOut, Cause::Outage);
        }
        let Some(stamp) = now.stamp() else { return self.read(now) };
        self.note_replaced(stamp, intent);
        if is_transaction {
            return self.transact(now, intent);
        }
        self.send_lease(now, stamp, intent, length)
    }

    /// [`verify_lease`](Self::verify_lease) checks the stamp before anything runs.
    fn send_lease(&mut self, now: Now, stamp: Stamp, intent: Intent, length: Duration) -> Command {
        let term = self.rules.term(stamp, length).unlike(&self.stamped);
        self.stamped.push(term.lease_expires_at);
        let write = self.lease_write(stamp, intent, term);
        self.dispatch(now, write, intent)
    }

    /// Continues the counters of the record that the write replaces.
    fn note_replaced(&mut self, stamp: Stamp, intent: Intent) {
        let seen = self.knowledge.seen().record().cloned();
        match (intent, seen) {
            (Intent::Create, _) => self.start_from_scratch(stamp.at, 0),
            (Intent::Replace { attempts }, seen) => {
                self.start_from_scratch(created_at(stamp, seen.as_ref()), attempts);
            }
            (Intent::TakeOver, Some(seen)) => {
                let number =
                    seen.attempt.saturating_add(u32::from(!is_broken(FaultPoint::AttemptStays)));
                self.attempts = Attempts { number, ..Attempts::of(&seen) };
                self.taken_over = Some(seen);
            }
            // A resolution is not an attempt.
            (Intent::Resolve(_), Some(seen)) => self.attempts = Attempts::of(&seen),
            (Intent::Restamp { .. } | Intent::TakeOver | Intent::Resolve(_), _) => {}
        }
    }

    /// The earlier attempts have left nothing, so they do not count.
    fn start_from_scratch(&mut self, created_at: Timestamp, attempts: u32) {
        let (number, created_at) = (attempts.saturating_add(1), Some(created_at));
        self.attempts = Attempts { number, released: attempts, created_at };
        self.taken_over = None;
    }

    fn lease_write(&mut self, stamp: Stamp, intent: Intent, term: LeaseTerm) -> Write {
        let state = State::Pending { lease_expires_at: term.lease_expires_at };
        let pending = self.header(stamp, state, None, term.expires_at);
        let at = *self.resolved_at.get_or_insert(stamp.at);
        let retained = at.plus(self.rules.retention).seconds_up();
        self.retention.stamped(stamp);
        let (kind, condition, record) = match intent {
            Intent::Create => {
                let absent = Condition::absent().unless(FaultPoint::CreateUnfenced);
                (Kind::Acquire, absent, pending)
            }
            Intent::Replace { .. } => (Kind::Replace, self.unchanged(), pending),
            Intent::TakeOver => {
                let unchanged = self.unchanged().unless(FaultPoint::TakeOverUnfenced);
                (Kind::TakeOver, unchanged, pending)
            }
            Intent::Restamp { lease_expires_at } => {
                let stamped = self.held().and(Term::LeaseExpiresAt(lease_expires_at));
                let may_shorten = is_broken(FaultPoint::RestampMayShorten);
                (Kind::StampAgain, if may_shorten { self.held() } else { stamped }, pending)
            }
            Intent::Resolve(Resolution::Completed) => {
                let record = self.header(stamp, State::Completed, Some(at), retained);
                let unchanged = self.unchanged().unless(FaultPoint::SettleUnfenced);
                (Kind::ResolveCompleted, unchanged, record)
            }
            Intent::Resolve(Resolution::Committed) => {
                let record = self.header(stamp, State::Completed, Some(at), retained);
                let unchanged = self.unchanged().unless(FaultPoint::HookCommitUnfenced);
                (Kind::ResolveByCommit, unchanged, record)
            }
            Intent::Resolve(Resolution::Failed | Resolution::Execute | Resolution::Refuse) => {
                let record = self.header(stamp, State::Failed, Some(at), retained);
                (Kind::ResolveFailed, self.unchanged(), record)
            }
        };
        Write { kind, condition, record }
    }

    pub(super) fn unchanged(&self) -> Condition {
        let seen = self.knowledge.seen().record();
        seen.map_or_else(Condition::absent, |seen| Condition::unchanged(&seen.version()))
    }

    pub(super) fn held(&self) -> Condition {
        Condition::held_by(*self.knowledge.me())
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

    pub(super) fn dispatch(&mut self, now: Now, write: Write, intent: Intent) -> Command {
        self.knowledge.send(&write);
        let limit = match (self.goal, intent) {
            (Goal::Transact { .. }, _) => self.limit(now).min(self.tries.limit(now)).max(MIN_LIMIT),
            (Goal::Own | Goal::LookUp, Intent::Restamp { .. }) => self.limit(now).max(MIN_LIMIT),
            (Goal::Own | Goal::LookUp, _) => self.limit(now),
        };
        self.step = Step::Writing { write: write.clone(), intent };
        Command::Send { write, limit }
    }
}
