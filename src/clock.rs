//! The clocks, waiting and randomness. No other file of the crate accesses them. The rules for
//! times are in the protocol's `time.rs`.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use aws_smithy_async::time::SharedTimeSource;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::fault_injection::{self, ClockShift};
pub(crate) use crate::protocol::Backoff;
use crate::protocol::Tries;
#[cfg(feature = "admin")]
pub(crate) use crate::protocol::time::Stamp;
pub(crate) use crate::protocol::time::{Deadline, Local, Now, StoreTime, Timestamp, Uptime};
use crate::protocol::time::{Known, Learned, millis};

/// The furthest deadline that is used.
pub(crate) const MAX_AHEAD: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// A deadline further in the past is impossible, because Lambda ends an invocation at its deadline.
/// Emulators send zero, or a duration instead of a time. Both are read as times in 1970.
const MAX_PAST: Duration = Duration::from_secs(60 * 60);

/// The clocks of this machine. Clones share their source.
#[derive(Clone, Debug)]
pub(crate) struct LocalClocks {
    pub(crate) wall: SharedTimeSource,
    origin: Instant,
    pub(crate) shift: ClockShift,
}

impl LocalClocks {
    #[expect(clippy::disallowed_methods, reason = "only this file reads clocks and randomness")]
    pub(crate) fn now(&self) -> Local {
        let uptime = millis(Instant::now().saturating_duration_since(self.origin));
        Local {
            wall: Timestamp::from_system(self.wall.now()),
            uptime: Uptime(uptime.saturating_add(self.shift.millis())),
        }
    }
}

/// The local clocks, and what is known of DynamoDB's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) local: LocalClocks,
    known: Mutex<Known>,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "only this file reads clocks and randomness")]
    pub(crate) fn new(wall: SharedTimeSource, shift: ClockShift) -> Self {
        let local = LocalClocks { wall, origin: Instant::now(), shift };
        Self { local, known: Mutex::new(Known::Nothing) }
    }

    pub(crate) fn now(&self) -> Local {
        self.local.now()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far DynamoDB's clock is ahead of the wall clock, in ms; zero while it is unknown.
    #[cfg(any(feature = "admin", test))]
    pub(crate) fn offset(&self) -> i64 {
        match *self.known() {
            Known::Shown(learned) => learned.offset,
            Known::Nothing | Known::Declared => 0,
        }
    }

    /// Reads both clocks.
    pub(crate) fn moment(&self) -> Now {
        Now { local: self.now(), known: *self.known() }
    }

    /// The best estimate of DynamoDB's time. Not for use in records.
    pub(crate) fn guess(&self) -> Timestamp {
        self.moment().guess().0
    }

    /// Learns DynamoDB's time from a response. Returns the time, unless the user has declared that no
    /// response shows it.
    pub(crate) fn observe(&self, time: StoreTime) -> Option<StoreTime> {
        let mut known = self.known();
        let before = match *known {
            Known::Declared => return None,
            Known::Nothing => None,
            Known::Shown(learned) => Some(learned),
        };
        *known = Known::Shown(Learned::observe(before, time));
        Some(time)
    }

    /// Uses the wall clock as DynamoDB's time from now on.
    pub(crate) fn declare_local(&self) {
        *self.known() = Known::Declared;
    }

    /// Whether DynamoDB's time is known.
    pub(crate) fn knows_store_time(&self) -> bool {
        *self.known() != Known::Nothing
    }

    /// Discards the learned time, which belongs to the clocks of the machine before the snapshot.
    pub(crate) fn reset(&self) {
        let mut known = self.known();
        if let Known::Shown(_) = *known {
            *known = Known::Nothing;
        }
    }

    /// The time at which a response's record is evaluated. `None` if it is unknown.
    pub(crate) fn judging_time(
        &self,
        time: Option<StoreTime>,
        tolerance: Duration,
    ) -> Option<Timestamp> {
        self.moment().judging(time, tolerance)
    }

    /// Converts the deadline of a caller to both clocks. Every deadline enters the crate here.
    ///
    /// `None` if the deadline is impossible, which counts as no deadline. A deadline more than a year
    /// ahead becomes one year.
    pub(crate) fn deadline(&self, received: SystemTime) -> Option<Deadline> {
        let now = self.now();
        let wall = Timestamp::from_system(received).min(now.wall.plus(MAX_AHEAD));
        if now.wall.since(wall) > MAX_PAST {
            static WARNING: Once = Once::new();
            WARNING.call_once(|| {
                tracing::warn!(
                    received_ms = wall.millis(),
                    now_ms = now.wall.millis(),
                    "a deadline is more than an hour in the past: it is ignored, and such calls run as \
                     without a deadline. Local emulators send such values; on Lambda, check the deadline \
                     that you pass"
                );
            });
            return None;
        }
        Some(Deadline { wall, ..now.plus(wall.since(now.wall)) })
    }

    /// The deadline of something that ends at `at` of DynamoDB's clock.
    pub(crate) fn end(&self, at: Timestamp) -> Deadline {
        self.now().plus(at.since(self.guess()))
    }

    /// The deadline of a duration that begins now.
    pub(crate) fn lasting(&self, length: Duration) -> Deadline {
        self.moment().lasting(length)
    }

    /// The time until the deadline; zero as soon as one of the clocks has reached it.
    pub(crate) fn left(&self, end: Deadline) -> Duration {
        end.left(self.now())
    }

    pub(crate) fn is_over(&self, end: Deadline) -> bool {
        self.left(end).is_zero()
    }

    /// Waits for a random time of at least half of `bound` and at most `bound`, and at most `max`.
    pub(crate) async fn pause(&self, bound: Duration, max: Duration) {
        self.sleep(random_wait(bound).min(max)).await;
    }

    /// Waits before the next try. Returns `false` if no time is left for another try.
    pub(crate) async fn wait(&self, tries: &mut Tries) -> bool {
        let pause = tries.pause(self.moment());
        if let Some(bound) = pause {
            self.pause(bound, bound).await;
        }
        pause.is_some()
    }

    #[expect(clippy::disallowed_methods, reason = "only this file reads clocks and randomness")]
    #[expect(clippy::unused_self, reason = "a method, like the other ways to wait")]
    pub(crate) fn sleep(&self, duration: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(duration)
    }

    /// Runs `future` for at most `limit`; `None` if it did not complete in time.
    #[expect(clippy::disallowed_methods, reason = "only this file reads clocks and randomness")]
    pub(crate) async fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::time::timeout(limit, future).await.ok()
    }

    /// Runs `future` until a deadline that may move meanwhile. The deadline is checked before each
    /// poll and by a timer. If it passes first, the future is dropped and the result is `None`.
    #[expect(clippy::disallowed_methods, reason = "only this file reads clocks and randomness")]
    pub(crate) async fn until<F: Future>(
        &self,
        end: impl Fn() -> Option<Deadline>,
        future: F,
    ) -> Option<F::Output> {
        let left = || end().map_or(Duration::ZERO, |end| self.left(end));
        let mut future = pin!(future);
        let mut checked = poll_fn(|context| match left() {
            Duration::ZERO => Poll::Ready(None),
            _ => future.as_mut().poll(context).map(Some),
        });
        loop {
            // The timer starts before the poll, which may take long. It takes at least one millisecond,
            // so that a clock just before the deadline is read again.
            let timer = tokio::time::sleep(left().max(Duration::from_millis(1)));
            tokio::select! {
                biased;
                output = &mut checked => return output,
                () = timer => {}
            }
        }
    }
}

/// Measures how long something waits.
#[cfg(feature = "from-env")]
#[derive(Debug)]
pub(crate) struct Waiting(Instant);

#[cfg(feature = "from-env")]
impl Waiting {
    #[expect(clippy::disallowed_methods, reason = "only this file reads clocks and randomness")]
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "only this file reads clocks and randomness")]
    pub(crate) fn so_far(&self) -> Duration {
        Instant::now().saturating_duration_since(self.0)
    }
}

/// Reads random bytes from the operating system. Two microVMs that were restored from one snapshot
/// read different bytes; a seeded generator in memory would repeat them.
#[expect(clippy::disallowed_methods, reason = "only this file reads clocks and randomness")]
pub(crate) fn entropy<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    if fault_injection::entropy(&mut bytes) {
        return Ok(bytes);
    }
    getrandom::fill(&mut bytes).map_err(|source| {
        Error::new(ErrorKind::Unavailable, "the operating system returned no random bytes")
            .with_source(source)
    })?;
    Ok(bytes)
}

/// Returns a random time in the upper half of a bound.
pub(crate) fn random_wait(bound: Duration) -> Duration {
    // Without entropy there is no jitter. The bound itself is a correct waiting time.
    let share = entropy::<1>().map_or(1.0, |[byte]| f64::from(byte) / 255.0);
    bound.mul_f64(0.5 + share / 2.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use aws_smithy_async::time::TimeSource;

    use super::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    const fn local(wall: i64, uptime: i64) -> Local {
        Local { wall: at(wall), uptime: Uptime(uptime) }
    }

    fn read(date: i64, sent: i64, received: i64) -> StoreTime {
        let (sent, received) = (local(sent, sent), local(received, received));
        StoreTime { date: at(date), sent, received }
    }

    /// A wall clock and a monotonic clock that a test sets.
    #[derive(Clone, Debug, Default)]
    struct Clocks {
        wall: Arc<AtomicI64>,
        uptime: Arc<AtomicI64>,
    }

    impl Clocks {
        fn clock(&self) -> Clock {
            let uptime = Arc::clone(&self.uptime);
            let shift = Some(Arc::new(move || uptime.load(Ordering::Relaxed)) as _);
            let shift = ClockShift { shift, ..ClockShift::default() };
            Clock::new(SharedTimeSource::new(self.clone()), shift)
        }

        fn pass(&self, wall: i64, uptime: i64) {
            self.wall.fetch_add(wall, Ordering::Relaxed);
            self.uptime.fetch_add(uptime, Ordering::Relaxed);
        }
    }

    impl TimeSource for Clocks {
        fn now(&self) -> SystemTime {
            at(self.wall.load(Ordering::Relaxed)).to_system()
        }
    }

    /// A response without latency.
    fn respond(clock: &Clock, date: i64) {
        let now = clock.now();
        clock.observe(StoreTime { date: at(date), sent: now, received: now });
    }

    #[test]
    fn seconds_are_rounded_up() {
        for (millis, seconds) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (-1, 0)] {
            assert_eq!(at(millis).seconds_up(), seconds, "{millis}");
        }
    }

    #[test]
    fn a_deadline_further_than_a_year_is_shortened_to_a_year() {
        let clock = Clocks::default().clock();
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        let left = clock.left(clock.deadline(far).unwrap());
        assert!(left <= MAX_AHEAD && left + A_WHILE > MAX_AHEAD, "{left:?}");
    }

    #[test]
    fn a_deadline_more_than_an_hour_in_the_past_is_ignored() {
        let clocks = Clocks::default();
        let now = 1_800_000_000_000;
        clocks.pass(now, 0);
        let clock = clocks.clock();
        for (received, is_over) in
            [(now + 1, false), (now, true), (now - 1, true), (now - 3_600_000, true)]
        {
            let deadline = clock.deadline(at(received).to_system()).unwrap();
            assert_eq!(clock.is_over(deadline), is_over, "{received}");
        }
        // Values of `cargo lambda watch` and of an emulator without a timeout, zero, and before 1970.
        for impossible in [now - 3_600_001, 600_000, 0, -1] {
            assert_eq!(clock.deadline(at(impossible).to_system()), None, "{impossible}");
        }
    }

    #[test]
    fn responses_converge_to_the_true_offset() {
        for skew in [-7_300, 0, 421, 86_400_000] {
            let clock = Clocks::default().clock();
            // A response every 370 ms of DynamoDB's time, 20 ms after its request.
            for store in (1_000_000..1_010_000).step_by(370) {
                let date = store / 1000 * 1000;
                clock.observe(read(date, store - skew - 10, store - skew + 10));
            }
            let error = clock.offset() - skew;
            assert!(error.abs() <= 150, "{skew}: {error}");
        }
    }

    #[test]
    fn a_record_is_evaluated_at_the_date_of_its_response() {
        let clock = Clocks::default().clock();
        let time = read(50_000, 0, 0);
        assert_eq!(clock.judging_time(Some(time), Duration::from_secs(1)), Some(at(50_000)));
        assert_eq!(clock.judging_time(None, Duration::from_secs(1)), None);
        clock.observe(time);
        let now = clock.judging_time(None, Duration::from_secs(1)).unwrap();
        assert!(now >= at(50_000) && now.since(at(50_000)) < A_WHILE, "{now:?}");
        clock.declare_local();
        assert_eq!(clock.observe(time), None);
        assert_eq!(clock.judging_time(None, Duration::from_secs(1)), Some(at(-1_000)));
        clock.reset();
        assert!(clock.knows_store_time());
    }

    /// A bound for the real time that a test takes.
    const A_WHILE: Duration = Duration::from_secs(100);

    #[test]
    fn the_last_offset_survives_a_jump_and_a_freeze() {
        for (wall, uptime) in [(3_600_000, 0), (-3_600_000, 0), (600_000, 1_000), (0, 600_000)] {
            let clocks = Clocks::default();
            let clock = clocks.clock();
            respond(&clock, 90_000_000);
            clocks.pass(200_000 + wall, 200_000 + uptime);
            assert_eq!(clock.offset(), 90_000_000, "{wall} {uptime}");
            respond(&clock, 95_000_000);
            assert_ne!(clock.offset(), 90_000_000, "a response corrects it");
        }
    }

    #[test]
    fn no_stamp_is_available_before_a_response() {
        let clock = Clocks::default().clock();
        assert_eq!(clock.moment().stamp(), None);
        respond(&clock, 90_000_000);
        assert!(clock.moment().stamp().is_some());
        clock.reset();
        assert_eq!(clock.moment().stamp(), None);
        clock.declare_local();
        assert_eq!(clock.moment().stamp().map(|stamp| stamp.at), Some(clock.now().wall));
    }

    #[test]
    fn a_forgotten_offset_bounds_no_time() {
        let clock = Clocks::default().clock();
        respond(&clock, 90_000_000);
        clock.reset();
        assert_eq!(clock.offset(), 0);
        assert!(clock.guess() < at(90_000_000), "{:?}", clock.guess());
    }

    #[test]
    fn store_time_never_goes_back_with_the_wall_clock() {
        let clocks = Clocks::default();
        let clock = clocks.clock();
        clocks.pass(10_000_000, 0);
        respond(&clock, 10_000_000);
        clocks.pass(-3_600_000, 20_000);
        let now = clock.guess();
        assert!(now >= at(10_020_000) && now.since(at(10_020_000)) < A_WHILE, "{now:?}");
    }

    #[test]
    fn a_deadline_is_reached_when_the_first_clock_reaches_it() {
        let later = local(1_000, 5_000).plus(Duration::from_secs(10));
        for (wall, uptime, left) in [
            (1_000, 5_000, 10_000),
            (3_000, 8_000, 7_000),
            (11_000, 5_000, 0),
            (1_000, 15_000, 0),
            (-90_000, 6_000, 9_000),
        ] {
            assert_eq!(later.left(local(wall, uptime)), Duration::from_millis(left));
        }
        let sooner = local(0, 0).plus(Duration::from_secs(6));
        let both = later.min(sooner);
        assert_eq!(both.left(local(5_000, 2_000)), Duration::from_secs(1));
        assert_eq!(both.minus(Duration::from_secs(1)).left(local(5_000, 2_000)), Duration::ZERO);
    }

    #[test]
    fn a_duration_is_measured_by_the_monotonic_clock_only() {
        let clocks = Clocks::default();
        let clock = clocks.clock();
        let end = clock.lasting(Duration::from_secs(1_000));
        for wall in [3_600_000, -7_200_000] {
            clocks.pass(wall, 0);
            let left = clock.left(end);
            assert!(left > Duration::from_secs(900) && left <= Duration::from_secs(1_000));
        }
        clocks.pass(0, 1_000_000);
        assert!(clock.is_over(end));
    }

    #[test]
    fn the_slower_clock_determines_how_long_a_response_took() {
        let date = at(100_000);
        for (sent, received) in [(local(0, 0), local(0, 5_000)), (local(0, 0), local(5_000, 0))] {
            let time = StoreTime { date, sent, received };
            assert_eq!(time.latest(), at(105_999));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_is_not_polled_after_its_deadline() {
        let clocks = Clocks::default();
        let clock = clocks.clock();
        let end = clock.now().plus(Duration::from_secs(30));
        let polls = AtomicI64::new(0);
        let polled = poll_fn(|context| {
            polls.fetch_add(1, Ordering::Relaxed);
            // The wall clock jumps past the deadline between two polls.
            clocks.pass(31_000, 0);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!(clock.until(|| Some(end), polled).await, None);
        assert_eq!(polls.load(Ordering::Relaxed), 1);
        let end = clock.now().plus(Duration::from_secs(30));
        let never = clock.until(|| Some(end), std::future::pending::<()>());
        assert_eq!(
            clock.within(Duration::from_secs(60), never).await,
            Some(None),
            "a timer reaches the deadline"
        );
        assert_eq!(clock.until(|| None, async {}).await, None, "the deadline has passed already");
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_poll_that_takes_long_does_not_move_the_end() {
        let clock = Clocks::default().clock();
        let end = clock.now().plus(Duration::from_secs(30));
        let slow = async {
            tokio::time::advance(Duration::from_secs(20)).await;
            std::future::pending::<()>().await;
        };
        assert_eq!(clock.until(|| Some(end), slow).await, None);
        assert!(clock.now().uptime.since(end.uptime) < Duration::from_secs(1));
    }

    #[test]
    fn backoff_doubles_to_its_bound_and_waits_at_least_half_of_it() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(150));
        for bound in [50, 100, 150, 150] {
            let bound = Duration::from_millis(bound);
            let next = backoff.next_bound();
            assert_eq!(next, bound);
            let wait = random_wait(next);
            assert!(wait >= bound / 2 && wait <= bound, "{wait:?} of {bound:?}");
        }
    }

    #[test]
    fn entropy_differs_from_call_to_call() {
        assert_ne!(entropy::<16>().unwrap(), entropy::<16>().unwrap());
    }
}
