//! Time, waiting and randomness: the only file through which they enter the crate.
//!
//! Leases compare the clocks of two machines. DynamoDB stamps every response with a `Date`, which
//! makes the store the clock that both agree on: an owner stamps its lease in store time as it
//! last saw it, and a taker judges a lease by the `Date` of the very response that brought the
//! record.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use aws_smithy_async::time::SharedTimeSource;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::fault_injection::{self, Mutant, mutant};

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(i64);

impl Timestamp {
    pub(crate) const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub(crate) fn from_system(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Self(millis(after)),
            Err(before) => Self(-millis(before.duration())),
        }
    }

    pub(crate) fn to_system(self) -> SystemTime {
        let distance = Duration::from_millis(self.0.unsigned_abs());
        let epoch = SystemTime::UNIX_EPOCH;
        let time =
            if self.0 < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
        // No clock that this program can run under shows such a time.
        time.unwrap_or(epoch)
    }

    pub(crate) const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds, rounded up: a TTL attribute must never lie before the instant it stands for.
    pub(crate) const fn seconds_up(self) -> i64 {
        self.0.div_euclid(1000) + (self.0.rem_euclid(1000) != 0) as i64
    }

    pub(crate) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    pub(crate) fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }

    pub(crate) fn shifted(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// The time from `earlier` to `self`; zero if it is the other way round.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).try_into().unwrap_or(0))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// What one response told about the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreTime {
    /// The response's `Date`: the store's clock read this, cut to the whole second, at some instant
    /// between `sent` and `received`.
    pub(crate) date: Timestamp,
    /// Local time when the request left.
    pub(crate) sent: Timestamp,
    /// Local time when the response was there.
    pub(crate) received: Timestamp,
}

impl StoreTime {
    /// The least and the most that the store's clock can be ahead of the local one, in ms: it read
    /// `date` to `date + 999` somewhere between `sent` and `received`.
    fn bounds(self) -> (i64, i64) {
        let least = self.date.0.saturating_sub(self.received.0);
        let most = self.date.0.saturating_add(999).saturating_sub(self.sent.0);
        // A local clock that was set back in between would turn them round.
        (least.min(most), most.max(least))
    }
}

/// How far the store's clock is ahead of the local one, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset(i64);

impl Offset {
    #[cfg_attr(not(feature = "admin"), expect(dead_code, reason = "for people"))]
    pub(crate) const fn millis(self) -> i64 {
        self.0
    }

    pub(crate) fn to_store(self, local: Timestamp) -> Timestamp {
        local.shifted(self.0)
    }

    /// Whether a stamp made with this offset was certainly wrong by more than `tolerance`, or may be
    /// too early by more than that and the second to which a `Date` is exact.
    pub(crate) fn is_off(self, observed: StoreTime, tolerance: Duration) -> bool {
        let (least, most) = observed.bounds();
        let tolerance = millis(tolerance);
        let certainly_late = self.0.saturating_sub(most) > tolerance;
        let certainly_early = least.saturating_sub(self.0) > tolerance;
        // A request that was long on its way leaves room for a slow clock to hide in.
        let maybe_early = most.saturating_sub(self.0) > tolerance.saturating_add(1000);
        certainly_late || certainly_early || maybe_early
    }
}

/// When something ends, by a clock that may be set and by one that is not: whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    at: Timestamp,
    /// `None` where it is further away than that clock can tell.
    by: Option<Instant>,
}

/// The local clock and what is known of the store's.
pub(crate) struct Clock {
    source: SharedTimeSource,
    offset: AtomicI64,
}

impl Clock {
    pub(crate) fn new(source: SharedTimeSource) -> Self {
        Self { source, offset: AtomicI64::new(0) }
    }

    pub(crate) fn local_now(&self) -> Timestamp {
        Timestamp::from_system(self.source.now())
    }

    /// The offset as last observed; zero before the first response.
    pub(crate) fn offset(&self) -> Offset {
        Offset(self.offset.load(Ordering::Relaxed))
    }

    /// Store time, as well as it is known here.
    pub(crate) fn store_now(&self) -> Timestamp {
        self.offset().to_store(self.local_now())
    }

    /// Moves the offset as little as the response asks for: the bounds of many responses close in
    /// on the truth, and a clock that was right stays untouched by a `Date`'s coarseness.
    pub(crate) fn observe(&self, time: Option<StoreTime>) {
        if let Some(time) = time {
            let (least, most) = time.bounds();
            let closer = self.offset.load(Ordering::Relaxed).clamp(least, most);
            self.offset.store(closer, Ordering::Relaxed);
        }
    }

    /// The time by which to judge a record that a response brought: never later than the store's
    /// own at that instant. Without a `Date`, the local clock less the tolerance.
    pub(crate) fn judging_time(&self, time: Option<StoreTime>, tolerance: Duration) -> Timestamp {
        match time {
            Some(_) if mutant(Mutant::TakersClock) => self.local_now(),
            Some(time) => time.date,
            None => self.store_now().minus(tolerance),
        }
    }

    /// The end of something that ends at `at`, in store time.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub(crate) fn end(&self, at: Timestamp) -> End {
        End { at, by: Instant::now().checked_add(at.since(self.store_now())) }
    }

    /// Whether that is over: by the wall clock, or by the time that has passed since
    /// [`end`](Self::end), if the wall clock was set back meanwhile.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub(crate) fn is_over(&self, end: End) -> bool {
        self.store_now() > end.at || end.by.is_some_and(|by| Instant::now() > by)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub(crate) async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Runs `future` for at most `limit`; `None` if it did not end by then.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub(crate) async fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::time::timeout(limit, future).await.ok()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("offset_ms", &self.offset).finish_non_exhaustive()
    }
}

/// Bytes from the operating system at the moment of the call: two microVMs restored from one
/// snapshot draw different ones, which a seeded generator in memory would not.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn entropy<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    if fault_injection::entropy(&mut bytes) {
        return Ok(bytes);
    }
    getrandom::fill(&mut bytes).map_err(|source| {
        Error::new(ErrorKind::Unavailable, "the operating system gives no random bytes")
            .with_source(source)
    })?;
    Ok(bytes)
}

/// Waiting times between tries: each drawn from the upper half of a bound that doubles.
#[derive(Debug)]
pub(crate) struct Backoff {
    bound: Duration,
    most: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, most: Duration) -> Self {
        Self { bound: first, most }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let bound = self.bound;
        self.bound = (self.bound * 2).min(self.most);
        // Without entropy there is no jitter; the bound itself is a right waiting time too.
        let share = entropy::<1>().map_or(1.0, |[byte]| f64::from(byte) / 255.0);
        bound.mul_f64(0.5 + share / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_async::time::StaticTimeSource;

    use super::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn read(date: i64, sent: i64, received: i64) -> StoreTime {
        StoreTime { date: at(date), sent: at(sent), received: at(received) }
    }

    #[test]
    fn seconds_are_rounded_up() {
        for (millis, seconds) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (-1, 0)] {
            assert_eq!(at(millis).seconds_up(), seconds, "{millis}");
        }
    }

    #[test]
    fn an_exact_clock_is_not_found_off_by_a_dates_coarseness() {
        // Any instant of the store's second; a second on the way there, any time on the way back.
        for store in (100_000..101_000).step_by(37) {
            for (there, back) in [(0, 0), (40, 60), (0, 1000), (1000, 7000), (900, 0)] {
                let time = read(store / 1000 * 1000, store - there, store + back);
                assert!(!Offset(0).is_off(time, Duration::from_secs(1)), "{time:?}");
            }
        }
    }

    #[test]
    fn a_clock_off_by_more_than_tolerance_and_resolution_is_found() {
        for skew in [-60_000, -2_200, 2_200, 60_000] {
            let time = read(100_000, 100_300 - skew, 100_400 - skew);
            assert!(Offset(0).is_off(time, Duration::from_secs(1)), "{skew}");
        }
    }

    #[test]
    fn a_slow_clock_does_not_hide_behind_a_slow_response() {
        // Four seconds behind; the store handled it at once, the response took three seconds.
        let time = read(104_000, 100_200, 103_200);
        assert!(Offset(0).is_off(time, Duration::from_secs(1)));
    }

    #[test]
    fn responses_close_in_on_the_true_offset() {
        for skew in [-7_300, 0, 421, 86_400_000] {
            let clock = Clock::new(SharedTimeSource::new(StaticTimeSource::from_secs(0)));
            // A response each 370 ms of store time, 20 ms after its request.
            for store in (1_000_000..1_010_000).step_by(370) {
                let date = store / 1000 * 1000;
                clock.observe(Some(read(date, store - skew - 10, store - skew + 10)));
            }
            let error = clock.offset().0 - skew;
            assert!(error.abs() <= 150, "{skew}: {error}");
        }
    }

    #[test]
    fn a_record_is_judged_by_the_date_that_came_with_it() {
        let clock = Clock::new(SharedTimeSource::new(StaticTimeSource::from_secs(0)));
        let time = read(50_000, 0, 0);
        assert_eq!(clock.judging_time(Some(time), Duration::from_secs(1)), at(50_000));
        assert_eq!(clock.judging_time(None, Duration::from_secs(1)), at(-1_000));
        clock.observe(Some(time));
        assert_eq!(clock.judging_time(None, Duration::from_secs(1)), at(49_000));
    }

    #[test]
    fn backoff_doubles_to_its_bound_and_never_halves_below_it() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(150));
        for bound in [50, 100, 150, 150] {
            let bound = Duration::from_millis(bound);
            let wait = backoff.next();
            assert!(wait >= bound / 2 && wait <= bound, "{wait:?} of {bound:?}");
        }
    }

    #[test]
    fn entropy_differs_from_call_to_call() {
        assert_ne!(entropy::<16>().unwrap(), entropy::<16>().unwrap());
    }
}
