//! The lease of an execution, and its renewal.

use std::time::Duration;

use super::{Tenure, Waiting};
use crate::condition::{Condition, Term};
use crate::fault_point::{FaultPoint, is_broken};
use crate::lease::{LeaseTerm, Window};
use crate::machine::{Command, Outcome, Reply, WriteResult};
use crate::record::State;
use crate::time::{Deadline, Now, Stamp, StoreTime, Timestamp};
use crate::write::{Kind, Write};

/// The renewals of a lease, while the handler runs and its answer is stored. They go on beside the other
/// requests of the tenure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Renewals {
    /// The length of a renewed lease.
    length: Duration,
    /// The request in flight. Boxed, because there is none most of the time.
    write: Option<Box<Write>>,
}

/// How a renewal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Renewal {
    /// The next one begins after this time.
    Next(Duration),
    /// It was the last one: the operation has ended, the handler was stopped, or store time is not known. Or the
    /// record is not this call's, and a write in flight or a dropped commit may be the reason.
    Ended,
    /// Another owner has the record, or it was deleted. The handler is stopped.
    Lost,
}

/// The result of a write that renews the lease.
enum Renewed {
    Right,
    /// The record has this end, and store time does not prove that it is right: a clock has jumped, or the response
    /// was slow.
    Wrong,
    Failed,
    Ended,
    Lost,
}

impl Renewals {
    /// Also returns when the first renewal begins. `None` if the lease is not renewed.
    pub fn new(tenure: &Tenure, now: Now) -> Option<(Self, Duration)> {
        tenure.window?;
        let length = tenure.rules.lease.renewed(tenure.rules.deadline)?;
        let this = Self { length, write: None };
        let first = this.pause(tenure, now);
        Some((this, first))
    }

    /// Begins a renewal.
    pub fn begin(&mut self, tenure: &mut Tenure, now: Now) -> Command<Renewal> {
        self.send(tenure.renewal(now))
    }

    /// Continues with the result of the request.
    pub fn replied(&mut self, tenure: &mut Tenure, now: Now, reply: &Reply) -> Command<Renewal> {
        let Some(write) = self.write.take() else {
            debug_assert!(false, "a defect of this crate: a reply to a renewal that was not sent");
            return Command::Return(Renewal::Next(self.length / 24));
        };
        Command::Return(match tenure.renewed(now, &write, reply) {
            Renewed::Right => Renewal::Next(self.pause(tenure, now)),
            Renewed::Wrong if write.kind == Kind::Renew => {
                return self.send(tenure.restamp(now));
            }
            Renewed::Failed | Renewed::Wrong => Renewal::Next(self.length / 24),
            Renewed::Ended => Renewal::Ended,
            Renewed::Lost => Renewal::Lost,
        })
    }

    /// A third of the lease, or half of what is left if that is sooner.
    fn pause(&self, tenure: &Tenure, now: Now) -> Duration {
        let left = tenure.runs_until().map_or(Duration::ZERO, |end| now.left(end));
        (self.length / 3).min(left / 2)
    }

    /// Each request takes at most a sixth of the lease, so that time is left for another one.
    fn send(&mut self, write: Option<Write>) -> Command<Renewal> {
        let Some(write) = write else { return Command::Return(Renewal::Ended) };
        self.write = Some(Box::new(write.clone()));
        Command::Send { write, limit: self.length / 6 }
    }
}

impl Tenure {
    pub const fn attempt(&self) -> u32 {
        self.attempts.number
    }

    pub const fn window(&self) -> Option<Window> {
        self.window
    }

    /// Whether a renewal or a step has found that another owner has the record, or that it was deleted; or a commit
    /// has, and was not applied.
    pub const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// When the handler is stopped: it is not polled from then on. `None` if it is stopped now, because the lease is
    /// lost. Only for an execution with a record: one without a record has no lease.
    pub fn runs_until(&self) -> Option<Deadline> {
        let end = self.window.map(|window| window.end);
        end.filter(|_| !self.is_lost)
    }

    /// Adjusts the window to the store time of a response.
    pub(super) fn heard(&mut self, time: Option<StoreTime>) {
        if let (Some(window), Some(time)) = (&mut self.window, time) {
            *window = window.heard(time);
        }
    }

    /// Ends the renewals, because the handler was stopped.
    pub fn stop(&mut self) {
        self.window = None;
    }

    /// The end of the lease that was verified last, or the epoch if there is none. The record can have a later end.
    pub(super) fn lease_expires_at(&self) -> Timestamp {
        self.window.map_or(Timestamp::from_millis(0), |window| window.lease_expires_at)
    }

    /// The write that renews the lease. `None` if there is no lease, or if store time is unknown.
    pub(super) fn renewal(&mut self, now: Now) -> Option<Write> {
        self.window?;
        let stamp = now.stamp()?;
        let recorded = self.require_recorded_lease();
        let term =
            self.rules.renewal_term(stamp, self.rules.renewed_length()).unlike(&self.used_ends);
        let is_shorter = Term::LeaseExpiresBefore(term.lease_expires_at);
        let recorded = if is_broken(FaultPoint::RenewAnyEnd) { self.held() } else { recorded };
        let may_shorten = is_broken(FaultPoint::RenewalMayShorten);
        let condition = if may_shorten { self.held() } else { recorded.and(is_shorter) };
        let condition = condition.unless(FaultPoint::RenewUnfenced);
        Some(self.lease_write(Kind::Renew, stamp, term, condition))
    }

    /// The write that corrects a wrong end of the lease. The owner relies on the lease in `window`, so the
    /// new end is never before the end of that lease.
    pub(super) fn restamp(&mut self, now: Now) -> Option<Write> {
        let (held, stamp) = (self.window?, now.stamp()?);
        let recorded = self.require_recorded_lease();
        let term = self.rules.renewal_term(stamp, self.rules.renewed_length());
        let term = term.not_before(held.lease_expires_at).unlike(&self.used_ends);
        let may_shorten = is_broken(FaultPoint::RestampMayShorten);
        let condition = if may_shorten { self.held() } else { recorded };
        Some(self.lease_write(Kind::StampAgain, stamp, term, condition))
    }

    /// The condition that the owner holds the record, with the end of the lease that was seen last. This end is not
    /// stamped again.
    pub(super) fn require_recorded_lease(&mut self) -> Condition {
        // No write stamps an end before the verified one.
        let verified = self.lease_expires_at();
        self.used_ends.retain(|end| *end >= verified);
        if !self.used_ends.contains(&self.recorded_lease) {
            self.used_ends.push(self.recorded_lease);
        }
        self.held().and(Term::LeaseExpiresAt(self.recorded_lease))
    }

    fn lease_write(
        &self,
        kind: Kind,
        stamp: Stamp,
        term: LeaseTerm,
        condition: Condition,
    ) -> Write {
        let state = State::Pending { lease_expires_at: term.lease_expires_at };
        let record = self.meta(stamp, state, None, term.expires_at);
        Write { kind, condition, record }
    }

    /// Uses a renewed lease if store time proves that its end is right.
    fn renewed(&mut self, now: Now, write: &Write, reply: &Reply) -> Renewed {
        self.heard(reply.time);
        let lease_expires_at = match &reply.outcome {
            Outcome::Write(WriteResult::Applied) => write.record.state.lease_expires_at(),
            Outcome::Write(WriteResult::Rejected(Some(record)))
                if record.owner != *self.knowledge.me() =>
            {
                None
            }
            // An earlier try has set a later end, or this execution has ended.
            Outcome::Write(WriteResult::Rejected(Some(record))) => {
                match record.state.lease_expires_at() {
                    Some(end) => Some(end),
                    None => return Renewed::Ended,
                }
            }
            Outcome::Write(WriteResult::Rejected(None)) => None,
            Outcome::Read(_) | Outcome::Write(_) => return Renewed::Failed,
        };
        let Some(lease_expires_at) = lease_expires_at else {
            // A write that finishes or releases the record may be in flight, and its result decides. After a
            // dropped commit, the end of the window stops the handler.
            if self.waiting != Waiting::Nothing || self.is_over() {
                return Renewed::Ended;
            }
            self.is_lost = true;
            return Renewed::Lost;
        };
        self.recorded_lease = lease_expires_at;
        match self.rules.window(now, None, lease_expires_at, reply.time) {
            None => Renewed::Wrong,
            Some(window) => {
                self.window = self.window.map(|_| window);
                Renewed::Right
            }
        }
    }
}
