//! What a call goes by: its policy, its deadline and the builder's settings, as plain data.

use std::time::Duration;

use super::acquire::RELEASED_FOR;
use super::condition::Condition;
use super::lease::{LeaseTerm, Window};
use super::record::{Header, State};
use super::time::{End, Now, Stamp, StoreTime, Timestamp, Uptime};
use super::write::{Form, Write};
use crate::policy::{Completed, Failure, InProgress, Lease, Outage, Takeover};

/// What must be left of a deadline for an answer to get out.
pub const COMPLETION_MARGIN: Duration = Duration::from_millis(500);

/// What even a request gets for which no time is left: long enough for an answer to come.
pub const MIN_LIMIT: Duration = Duration::from_millis(100);

/// To how much a `Date` is exact.
pub const DATE_RESOLUTION: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    pub completed: Completed,
    pub failure: Failure,
    pub takeover: Takeover,
    /// Whether a hook judges an abandoned operation, in the place of `takeover`.
    pub reconciles: bool,
    pub lease: Lease,
    pub in_progress: InProgress,
    pub outage: Outage,
    pub retention: Duration,
    pub completion_timeout: Duration,
    /// When the caller's time is over.
    pub deadline: Option<End>,
    /// What a `Date` may be wrong by.
    pub tolerance: Duration,
    /// How long an acquisition may take, all that it sends together.
    pub request_timeout: Duration,
}

/// The deadline is over: nothing may be written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLate;

impl Rules {
    /// Whether the record of a completed operation may be another's by now.
    pub fn replaces_completed(&self) -> bool {
        self.completed == Completed::Execute
    }

    /// By when a round trip must be over, so that the answer gets out before the deadline.
    pub fn answer_by(&self) -> Option<End> {
        self.deadline.map(|deadline| deadline.minus(COMPLETION_MARGIN))
    }

    /// `until`, or when the answer has to get out where that is sooner.
    pub fn before_answer(&self, until: End) -> End {
        self.answer_by().map_or(until, |answer_by| until.or(answer_by))
    }

    /// How long a request may last, so that the answer gets out before the deadline.
    pub fn time_until_answer(&self, now: Now) -> Duration {
        self.answer_by().map_or(Duration::MAX, |until| now.left(until).max(MIN_LIMIT))
    }

    /// How long a call that began at `started` still waits for an operation that another owner runs.
    pub fn wait_left(&self, now: Now, started: Uptime) -> Duration {
        let InProgress::Wait { timeout } = self.in_progress else { return Duration::ZERO };
        now.left(self.before_answer(End::lasting_from(started, timeout)))
    }

    /// How long the lease of an owner is that starts now.
    pub fn lease_length(&self, now: Now) -> Result<Duration, TooLate> {
        let left = self.deadline.map(|deadline| now.left(deadline));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(TooLate);
        }
        Ok(self.lease.length(left, self.lease_margin()))
    }

    /// The length of a renewal. No deadline bounds it, because the lease of an invocation is not renewed.
    pub fn renewed_length(&self) -> Duration {
        self.lease.length(None, self.lease_margin())
    }

    /// A lease that begins now. The response to its write verifies it ([`window`](Self::window)).
    ///
    /// Where a slow response has told the time, the lease is rather too short than longer than its length:
    /// the owner may crash before it hears that the lease is wrong.
    pub fn term(&self, stamp: Stamp, length: Duration) -> LeaseTerm {
        self.term_from(stamp.at.min(stamp.earliest.plus(self.lease_margin())), length)
    }

    /// As [`term`](Self::term), for a lease that this call holds. A wall clock that has jumped forward never
    /// makes it longer: the owner may be stopped while the write is in flight. After a freeze it is too
    /// short, which the response shows.
    pub fn held_term(&self, stamp: Stamp, length: Duration) -> LeaseTerm {
        let earliest = stamp.earliest.min(stamp.by_uptime);
        self.term_from(stamp.at.min(earliest.plus(self.lease_margin())), length)
    }

    fn term_from(&self, begins: Timestamp, length: Duration) -> LeaseTerm {
        let lease_expires_at = begins.plus(length);
        // As long as the retention lasts, what was left unfinished is known as that.
        let expires_at = lease_expires_at.plus(self.retention).seconds_up();
        LeaseTerm { lease_expires_at, expires_at }
    }

    /// The write that corrects `expires_at` of a finished record, where the response that has shown the
    /// record says that it expires too early. `made`: when the record was stamped.
    ///
    /// The monotonic clock alone measures the time since: a wall clock that was corrected meanwhile would
    /// hide the error.
    pub(super) fn extension(
        &self,
        shown: &Header,
        made: Uptime,
        time: Option<StoreTime>,
    ) -> Option<Write> {
        let time = time?;
        let kept_for = match shown.state {
            State::Completed | State::Failed => self.retention,
            State::Released => RELEASED_FOR,
            State::Pending { .. } => return None,
        };
        let stamped = time.date.minus(time.received.uptime.since(made));
        let least = stamped.plus(kept_for).minus(self.lease_margin());
        if shown.expires_at >= least.seconds_up() {
            return None;
        }
        let expires_at = time.latest().plus(kept_for).seconds_up();
        let record = Header { expires_at, ..shown.clone() };
        let condition = Condition::unchanged(&shown.version());
        Some(Write { form: Form::Stamp, condition, record })
    }

    /// What a stamp can be wrong by and not be found so: the tolerance, and a `Date`'s resolution.
    fn lease_margin(&self) -> Duration {
        self.tolerance + DATE_RESOLUTION
    }

    /// The window that a response leaves which has shown the lease in our hands. Nothing where it was
    /// stamped wrong, or is over for more than a third: then it has to be stamped anew.
    pub fn window(
        &self,
        now: Now,
        lease_expires_at: Timestamp,
        time: Option<StoreTime>,
    ) -> Option<Window> {
        self.window_until(now, self.deadline, lease_expires_at, time)
    }

    /// As [`window`](Self::window), of a lease that was renewed.
    pub fn renewed_window(
        &self,
        now: Now,
        lease_expires_at: Timestamp,
        time: Option<StoreTime>,
    ) -> Option<Window> {
        self.window_until(now, None, lease_expires_at, time)
    }

    fn window_until(
        &self,
        now: Now,
        deadline: Option<End>,
        lease_expires_at: Timestamp,
        time: Option<StoreTime>,
    ) -> Option<Window> {
        let margin = self.lease_margin();
        let length = self.lease.length(deadline.map(|deadline| now.left(deadline)), margin);
        let may_lack = self.lease.may_lack(deadline, margin);
        Window::verified(now, lease_expires_at, time, length, may_lack, margin)
    }
}
