//! The rules of a call: its policy, its deadline and the settings of the builder, as plain data.

use std::time::Duration;

use crate::fault_point::{FaultPoint, is_broken};
use crate::lease::{Bounds, LeaseTerm, Window};
use crate::policy::{Failure, InProgress, Lease, Outage, Takeover};
use crate::time::{Deadline, Now, Stamp, StoreTime, Timestamp, Uptime};

/// The last request ends this long before the deadline, so that the answer is returned in time.
pub const COMPLETION_MARGIN: Duration = Duration::from_millis(500);

/// The shortest time limit of a request, even if no time is left.
pub const MIN_LIMIT: Duration = Duration::from_millis(100);

/// The resolution of a `Date` header.
pub const DATE_RESOLUTION: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    pub failure: Failure,
    pub takeover: Takeover,
    /// Whether a hook judges an abandoned operation, instead of `takeover`.
    pub reconciles: bool,
    pub lease: Lease,
    pub in_progress: InProgress,
    pub outage: Outage,
    pub retention: Duration,
    pub completion_timeout: Duration,
    /// When the caller's time is over.
    pub deadline: Option<Deadline>,
    /// By how much local time may differ from store time.
    pub tolerance: Duration,
    /// How long all requests of an acquisition may take together.
    pub request_timeout: Duration,
}

impl Rules {
    /// When the last request must end: [`COMPLETION_MARGIN`] before the deadline.
    pub fn answer_by(&self) -> Option<Deadline> {
        self.deadline.map(|deadline| deadline.minus(COMPLETION_MARGIN))
    }

    /// `until`, or [`answer_by`](Self::answer_by) if that is earlier.
    pub fn before_answer(&self, until: Deadline) -> Deadline {
        self.answer_by().map_or(until, |answer_by| until.min(answer_by))
    }

    /// The time limit of a request that ends by [`answer_by`](Self::answer_by).
    pub fn time_until_answer(&self, now: Now) -> Duration {
        self.answer_by().map_or(Duration::MAX, |until| now.left(until).max(MIN_LIMIT))
    }

    /// How long a call that began at `started` still waits for another owner.
    pub fn wait_left(&self, now: Now, started: Uptime) -> Duration {
        let InProgress::Wait { timeout } = self.in_progress else { return Duration::ZERO };
        now.left(self.before_answer(Deadline::lasting_from(started, timeout)))
    }

    /// The length of a lease that is acquired now. `None` if the deadline is over.
    pub fn lease_length(&self, now: Now) -> Option<Duration> {
        let left = self.deadline.map(|deadline| now.left(deadline));
        let is_over = left.is_some_and(|left| left.is_zero());
        (!is_over).then(|| self.lease.length(left, self.lease_margin()))
    }

    /// The length of a renewal. No deadline bounds it: a lease that ends with a deadline is not renewed.
    pub fn renewed_length(&self) -> Duration {
        self.lease.length(None, self.lease_margin())
    }

    /// A lease that begins now. The response to its write verifies it ([`window`](Self::window)).
    ///
    /// After a slow response, store time is uncertain. So the lease begins at most
    /// [`lease_margin`](Self::lease_margin) after the earliest possible store time. If that makes the
    /// lease too short, it is stamped again. A lease that is too long would stay if the owner crashed.
    pub fn term(&self, stamp: Stamp, length: Duration) -> LeaseTerm {
        self.term_from(stamp.at.min(stamp.earliest.plus(self.lease_margin())), length)
    }

    /// Like [`term`](Self::term), for a lease that this call holds. The monotonic clock bounds it too. So a
    /// wall clock that jumps forward makes the lease longer by at most the margin, even if the owner crashes
    /// before it can correct the lease. After a freeze the lease is too short, and is corrected after the
    /// response.
    pub fn renewal_term(&self, stamp: Stamp, length: Duration) -> LeaseTerm {
        let earliest = stamp.earliest.min(stamp.by_uptime);
        self.term_from(stamp.at.min(earliest.plus(self.lease_margin())), length)
    }

    fn term_from(&self, begins: Timestamp, length: Duration) -> LeaseTerm {
        let lease_expires_at = begins.plus(length);
        // An abandoned record is kept for the retention as well.
        let begins =
            if is_broken(FaultPoint::ExpireBeforeLease) { begins } else { lease_expires_at };
        let expires_at = begins.plus(self.retention).seconds_up();
        LeaseTerm { lease_expires_at, expires_at }
    }

    /// How wrong a stamp may be without being detected: the tolerance and the resolution of a `Date`.
    pub(crate) fn lease_margin(&self) -> Duration {
        self.tolerance + DATE_RESOLUTION
    }

    /// The window of the own lease, which a response has shown. `None` if the stamp is wrong, or if too
    /// much of the lease is over ([`Lease::slack`]), or if store time is not known. Then the call stamps the lease again. For a
    /// lease that was renewed, `deadline` is `None`.
    pub fn window(
        &self,
        now: Now,
        deadline: Option<Deadline>,
        lease_expires_at: Timestamp,
        time: Option<StoreTime>,
    ) -> Option<Window> {
        let margin = self.lease_margin();
        let length = self.lease.length(deadline.map(|deadline| now.left(deadline)), margin);
        let bounds = Bounds { length, slack: self.lease.slack(deadline, margin), margin };
        Window::verified(now, lease_expires_at, time, bounds, self.tolerance)
    }
}
