//! The lease of an execution, and its renewal.

use super::{Finish, Renewal, Step};
use crate::condition::{Condition, Term};
use crate::fault_point::{FaultPoint, is_broken};
use crate::lease::{LeaseTerm, Window};
use crate::machine::{Outcome, Reply, WriteResult};
use crate::record::State;
use crate::time::{Now, Stamp, StoreTime, Timestamp};
use crate::write::{Kind, Write};

impl Finish {
    pub const fn attempt(&self) -> u32 {
        self.attempts.number
    }

    pub const fn window(&self) -> Option<Window> {
        self.window
    }

    pub const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Adjusts the window to the store time of a response.
    pub fn heard(&mut self, time: Option<StoreTime>) {
        if let (Some(window), Some(time)) = (&mut self.window, time) {
            *window = window.heard(time);
        }
    }

    /// Ends the renewals, because the handler was stopped.
    pub fn stop(&mut self) {
        self.window = None;
    }

    /// The end of the lease, or the epoch if there is none.
    pub(super) fn lease_expires_at(&self) -> Timestamp {
        self.window.map_or(Timestamp::from_millis(0), |window| window.lease_expires_at)
    }

    /// The write that renews the lease. `None` if there is no lease, or if store time is unknown. The caller
    /// passes the result of the write to [`renewed`](Self::renewed).
    pub fn renewal(&self, now: Now) -> Option<Write> {
        self.window?;
        let stamp = now.stamp()?;
        let term =
            self.rules.renewal_term(stamp, self.rules.renewed_length()).unlike(&self.corrected);
        let is_shorter = Term::LeaseExpiresBefore(term.lease_expires_at);
        let may_shorten = is_broken(FaultPoint::RenewalMayShorten);
        let condition = if may_shorten { self.held() } else { self.held().and(is_shorter) };
        let condition = condition.unless(FaultPoint::RenewUnfenced);
        Some(self.lease_write(Kind::Renew, stamp, term, condition))
    }

    /// The write that corrects a wrong end of the lease. The owner relies on the lease in `window`, so the
    /// new end is never before the end of that lease.
    pub fn restamp(&mut self, now: Now, wrong: Timestamp) -> Option<Write> {
        let (held, stamp) = (self.window?, now.stamp()?);
        if !self.corrected.contains(&wrong) {
            self.corrected.push(wrong);
        }
        let term = self.rules.renewal_term(stamp, self.rules.renewed_length());
        let term = term.not_before(held.lease_expires_at).unlike(&self.corrected);
        let stamped = self.held().and(Term::LeaseExpiresAt(wrong));
        let stamped = if is_broken(FaultPoint::RestampMayShorten) { self.held() } else { stamped };
        Some(self.lease_write(Kind::StampAgain, stamp, term, stamped))
    }

    fn lease_write(
        &self,
        kind: Kind,
        stamp: Stamp,
        term: LeaseTerm,
        condition: Condition,
    ) -> Write {
        let state = State::Pending { lease_expires_at: term.lease_expires_at };
        let record = self.header(stamp, state, None, term.expires_at);
        Write { kind, condition, record }
    }

    /// Uses a renewed lease if store time proves that its end is right.
    pub fn renewed(&mut self, now: Now, write: &Write, reply: &Reply) -> Renewal {
        self.heard(reply.time);
        let lease_expires_at = match &reply.outcome {
            Outcome::Write(WriteResult::Applied) => write.record.state.lease_expires_at(),
            Outcome::Write(WriteResult::Rejected(Some(record)))
                if record.owner != *self.knowledge.me() =>
            {
                None
            }
            // An earlier try has set a later end, or this execution has completed.
            Outcome::Write(WriteResult::Rejected(Some(record))) => {
                match record.state.lease_expires_at() {
                    Some(end) => Some(end),
                    None => return Renewal::Ended,
                }
            }
            Outcome::Write(WriteResult::Rejected(None)) => None,
            Outcome::Read(_) | Outcome::Write(_) => return Renewal::Failed,
        };
        let Some(lease_expires_at) = lease_expires_at else {
            // A write that finishes or releases the record may be in flight. Its result decides.
            if !matches!(self.step, Step::Idle) || self.is_over() {
                return Renewal::Ended;
            }
            self.is_lost = true;
            return Renewal::Lost;
        };
        self.recorded_lease = lease_expires_at;
        match self.rules.window(now, None, lease_expires_at, reply.time) {
            None => Renewal::Wrong(lease_expires_at),
            Some(window) => {
                self.window = self.window.map(|_| window);
                Renewal::Renewed
            }
        }
    }
}
