//! A lease: how long it is, what is stamped, and for how long its holder may act.

use std::time::Duration;

use super::time::{End, Now, StoreTime, Timestamp};
use crate::policy::Lease;

/// For an operation without a deadline under [`Lease::Invocation`].
const DEFAULT_RENEWED: Duration = Duration::from_secs(30);

impl Lease {
    /// How long a lease is that is taken or renewed now, with so much left until the deadline. What its
    /// stamp may be short by and not be found so (`margin`) is added to an invocation's.
    pub fn length(self, deadline_left: Option<Duration>, margin: Duration) -> Duration {
        match (self, deadline_left) {
            (Self::Invocation, Some(left)) => left + margin,
            (Self::Invocation, None) => DEFAULT_RENEWED,
            (Self::Fixed(length) | Self::Renewed(length), _) => length,
        }
    }

    /// How much of its length may be over, or may not be known to be there, when it is granted.
    pub fn may_lack(self, deadline: Option<End>, margin: Duration) -> Duration {
        match (self, deadline) {
            (Self::Invocation, Some(_)) => margin,
            (Self::Invocation, None) => margin.max(DEFAULT_RENEWED / 3),
            (Self::Fixed(length) | Self::Renewed(length), _) => margin.max(length / 3),
        }
    }

    /// How long a lease is that has to be renewed, if it has to.
    pub fn renewed(self, deadline: Option<End>) -> Option<Duration> {
        match (self, deadline) {
            (Self::Renewed(length), _) => Some(length),
            (Self::Invocation, None) => Some(DEFAULT_RENEWED),
            (Self::Invocation, Some(_)) | (Self::Fixed(_), _) => None,
        }
    }
}

/// How long a record is held that is stamped now, and how long it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseTerm {
    pub lease_expires_at: Timestamp,
    /// Epoch seconds.
    pub expires_at: i64,
}

impl LeaseTerm {
    /// The same term, with an end that is none of `others`.
    pub fn unlike(mut self, others: &[Timestamp]) -> Self {
        while others.contains(&self.lease_expires_at) {
            self = self.not_before(self.lease_expires_at.shifted(1));
        }
        self
    }

    /// So much longer, the retention after it included.
    pub fn not_before(mut self, lease_expires_at: Timestamp) -> Self {
        let longer = lease_expires_at.since(self.lease_expires_at);
        let expires_at = Timestamp::from_millis(self.expires_at.saturating_mul(1000));
        self.expires_at = expires_at.plus(longer).seconds_up();
        self.lease_expires_at = self.lease_expires_at.plus(longer);
        self
    }
}

/// The time in which the holder of a lease may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// What the record says, in store time.
    pub lease_expires_at: Timestamp,
    /// By this machine's clocks; not after the lease, whatever the store's clock can show by then.
    pub end: End,
}

impl Window {
    /// What a response leaves that has shown a lease of `length`, of which `may_lack` may be over or
    /// unknown, and whose stamp can be wrong by `margin`.
    pub(crate) fn verified(
        now: Now,
        lease_expires_at: Timestamp,
        time: Option<StoreTime>,
        length: Duration,
        may_lack: Duration,
        margin: Duration,
    ) -> Option<Self> {
        let bounds = Bounds { length, may_lack, margin };
        let (seen, left) = if let Some(time) = time {
            let left = bounds.left(lease_expires_at, time.date, time.latest(), time.elapsed());
            (time.received, left)
        } else {
            let store = now.guess().0;
            (now.local, bounds.left(lease_expires_at, store, store, Duration::ZERO))
        };
        Some(Self { lease_expires_at, end: seen.plus(left?) })
    }

    /// As a later response leaves it. Where the machine's clocks have come apart since, one of them may say
    /// too little from now on: its end is what the store's time leaves.
    pub(crate) fn heard(self, time: StoreTime) -> Self {
        if !self.end.is_apart(time.received) {
            return self;
        }
        let left = self.lease_expires_at.since(time.latest());
        Self { end: self.end.or(time.received.plus(left)), ..self }
    }
}

/// What a lease has to be that is to be used.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    length: Duration,
    /// How much of that may be over, or may not be known to be there.
    may_lack: Duration,
    /// What a stamp can be wrong by.
    margin: Duration,
}

impl Bounds {
    /// What is left of a lease for sure, where the store's clock is known to lie between two times, after
    /// a round trip that `took` so long.
    fn left(
        self,
        lease_expires_at: Timestamp,
        earliest: Timestamp,
        latest: Timestamp,
        took: Duration,
    ) -> Option<Duration> {
        let left = lease_expires_at.since(latest);
        let is_enough = !left.is_zero() && self.length.saturating_sub(left) <= self.may_lack;
        let longest = self.length.saturating_add(self.margin).saturating_add(took);
        let is_too_long = lease_expires_at.since(earliest) > longest;
        (is_enough && !is_too_long).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(60);

    /// What is left of a lease that was stamped by a clock ahead of the store's, where the request took
    /// so long to the store and back; all in ms.
    fn left(store: i64, ahead: i64, there: i64, back: i64) -> Option<Duration> {
        let margin = Duration::from_secs(2);
        let bounds = Bounds { length: LENGTH, may_lack: LENGTH / 3, margin };
        let at = Timestamp::from_millis;
        let lease_expires_at = at(store - there + ahead).plus(LENGTH);
        let took = at(there + back).since(at(0));
        let date = at(store.div_euclid(1000) * 1000);
        bounds.left(lease_expires_at, date, date.shifted(999).plus(took), took)
    }

    #[test]
    fn the_lease_of_an_exact_clock_is_used_and_never_for_longer_than_it_lasts() {
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
    fn a_slow_clock_does_not_hide_behind_a_slow_response() {
        let left = left(104_000, -4_000, 0, 13_000).expect("two thirds of it");
        assert!(left <= Duration::from_secs(43), "{left:?}");
    }
}
