//! Leases: their length, their stamp, and the window in which the owner may act.

use std::time::Duration;

use crate::fault_point::{FaultPoint, is_broken};
use crate::policy::Lease;
use crate::time::{Deadline, Interval, Now, StoreTime, Timestamp};

/// The length of a lease under [`Lease::Invocation`] if the call has no deadline.
const DEFAULT_RENEWED: Duration = Duration::from_secs(30);

impl Lease {
    /// The length of a lease that is acquired or renewed now. The lease of an invocation ends `margin`
    /// after the deadline, because its stamp may be that much too early without being detected.
    pub fn length(self, deadline_left: Option<Duration>, margin: Duration) -> Duration {
        match (self, deadline_left) {
            (Self::Invocation, Some(left)) => left + margin,
            (Self::Invocation, None) => DEFAULT_RENEWED,
            (Self::Fixed(length) | Self::Renewed(length), _) => length,
        }
    }

    /// A response verifies a lease only if the time that is certainly left is at most this much shorter
    /// than the length.
    pub fn slack(self, deadline: Option<Deadline>, margin: Duration) -> Duration {
        match (self, deadline) {
            (Self::Invocation, Some(_)) => margin,
            (Self::Invocation, None) => margin.max(DEFAULT_RENEWED / 3),
            (Self::Fixed(length) | Self::Renewed(length), _) => margin.max(length / 3),
        }
    }

    /// The length of each renewal. `None` if the lease is not renewed.
    pub fn renewed(self, deadline: Option<Deadline>) -> Option<Duration> {
        match (self, deadline) {
            (Self::Renewed(length), _) => Some(length),
            (Self::Invocation, None) => Some(DEFAULT_RENEWED),
            (Self::Invocation, Some(_)) | (Self::Fixed(_), _) => None,
        }
    }
}

/// When the lease of a record expires, and when the record itself expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseTerm {
    pub lease_expires_at: Timestamp,
    /// Epoch seconds.
    pub expires_at: i64,
}

impl LeaseTerm {
    /// Moves the end later by milliseconds, until none of `others` equals it.
    pub fn unlike(mut self, others: &[Timestamp]) -> Self {
        while others.contains(&self.lease_expires_at) {
            self = self.not_before(self.lease_expires_at.shifted(1));
        }
        self
    }

    /// Moves the end to at least `lease_expires_at`, and `expires_at` by as much.
    pub fn not_before(mut self, lease_expires_at: Timestamp) -> Self {
        let longer = lease_expires_at.since(self.lease_expires_at);
        let expires_at = Timestamp::from_millis(self.expires_at.saturating_mul(1000));
        self.expires_at = expires_at.plus(longer).seconds_up();
        self.lease_expires_at = self.lease_expires_at.plus(longer);
        self
    }
}

/// The time in which the owner of a lease may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The end of the lease in the record, in store time.
    pub lease_expires_at: Timestamp,
    /// The end of the window by this computer's clocks. It is never after the end of the lease.
    pub end: Deadline,
}

impl Window {
    /// The window of a lease that a response has shown. `None` if `bounds` forbid its use, or if store time is
    /// not known.
    pub(crate) fn verified(
        now: Now,
        lease_expires_at: Timestamp,
        time: Option<StoreTime>,
        bounds: Bounds,
        tolerance: Duration,
    ) -> Option<Self> {
        let (seen, left) = if let Some(time) = time {
            let left = bounds.left(lease_expires_at, time.date, time.latest(), time.elapsed());
            (time.received, left)
        } else {
            let Interval { earliest, latest } = now.interval(tolerance)?;
            (now.local, bounds.left(lease_expires_at, earliest, latest, Duration::ZERO))
        };
        let left = if is_broken(FaultPoint::OwnersClock) { bounds.length } else { left? };
        Some(Self { lease_expires_at, end: seen.plus(left) })
    }

    /// The window after a later response. If this computer's two clocks have moved by different amounts since
    /// the window was set, one of them is wrong, so the end is computed from store time again.
    pub(crate) fn heard(self, time: StoreTime) -> Self {
        if !self.end.is_apart(time.received) {
            return self;
        }
        let left = self.lease_expires_at.since(time.latest());
        Self { end: self.end.min(time.received.plus(left)), ..self }
    }
}

/// The limits within which a lease may be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) length: Duration,
    /// The time that is certainly left must be at most this much shorter than `length`.
    pub(crate) slack: Duration,
    /// How wrong a stamp may be.
    pub(crate) margin: Duration,
}

impl Bounds {
    /// The time that is certainly left of a lease, if store time is between `earliest` and `latest`.
    fn left(
        self,
        lease_expires_at: Timestamp,
        earliest: Timestamp,
        latest: Timestamp,
        took: Duration,
    ) -> Option<Duration> {
        let left = lease_expires_at.since(latest);
        let is_enough = !left.is_zero() && self.length.saturating_sub(left) <= self.slack;
        let longest = self.length.saturating_add(self.margin).saturating_add(took);
        let is_too_long = lease_expires_at.since(earliest) > longest;
        (is_enough && !is_too_long).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Local, Uptime};

    const LENGTH: Duration = Duration::from_secs(60);

    /// What is left of a lease whose stamp is `ahead` of store time. The request took `there`, and the
    /// response took `back`. Times are in ms.
    fn left(store: i64, ahead: i64, there: i64, back: i64) -> Option<Duration> {
        let margin = Duration::from_secs(2);
        let bounds = Bounds { length: LENGTH, slack: LENGTH / 3, margin };
        let at = Timestamp::from_millis;
        let lease_expires_at = at(store - there + ahead).plus(LENGTH);
        let took = at(there + back).since(at(0));
        let date = at(store.div_euclid(1000) * 1000);
        bounds.left(lease_expires_at, date, date.shifted(999).plus(took), took)
    }

    #[test]
    fn the_lease_of_an_exact_clock_is_never_used_for_longer_than_it_lasts() {
        for store in (100_000..101_000).step_by(37) {
            for (there, back) in [(0, 0), (40, 60), (0, 1000), (1000, 7000), (900, 0)] {
                let left = left(store, 0, there, back).expect("it is right");
                let truly =
                    LENGTH.saturating_sub(Duration::from_millis((there + back).unsigned_abs()));
                assert!(left <= truly, "{store} {there} {back}: {left:?}");
                let lost = Duration::from_millis(1_000 + there.unsigned_abs());
                assert!(left + lost >= truly, "{store} {there} {back}: {left:?}");
            }
        }
    }

    #[test]
    fn the_stamp_of_a_clock_that_is_far_off_is_not_used() {
        for ahead in [-60_000, -21_000, 3_100, 60_000, 3_600_000] {
            assert_eq!(left(100_300, ahead, 50, 50), None, "{ahead}");
        }
    }

    #[test]
    fn a_slow_response_does_not_hide_a_slow_clock() {
        let left = left(104_000, -4_000, 0, 13_000).expect("two thirds of it");
        assert!(left <= Duration::from_secs(43), "{left:?}");
    }

    #[test]
    fn a_lease_may_be_longer_only_by_the_margin() {
        let at = Timestamp::from_millis;
        let second = Duration::from_secs(1);
        let bounds = Bounds { length: LENGTH, slack: LENGTH, margin: second };
        let left = |end| bounds.left(at(end), at(0), at(0), second);
        assert_eq!(left(62_000), Some(Duration::from_secs(62)));
        assert_eq!(left(62_001), None);
        assert_eq!(left(0), None);
    }

    #[test]
    fn a_window_is_shortened_only_if_the_clocks_have_come_apart() {
        let at =
            |wall, uptime| Local { wall: Timestamp::from_millis(wall), uptime: Uptime(uptime) };
        let lease_expires_at = Timestamp::from_millis(30_000);
        let window = Window { lease_expires_at, end: at(0, 0).plus(Duration::from_secs(30)) };
        let heard = |received: Local, date| {
            let date = Timestamp::from_millis(date);
            window.heard(StoreTime { date, sent: received, received })
        };
        assert_eq!(heard(at(1_000, 1_000), 20_000), window);
        let left = Duration::from_millis(30_000 - 20_999);
        let shortened = window.end.min(at(20_000, 1_000).plus(left));
        assert_eq!(heard(at(20_000, 1_000), 20_000).end, shortened);
        assert_ne!(shortened, window.end);
    }
}
