//! Time as values. Nothing here reads a clock.
//!
//! One computer writes a lease, and another judges it. Both use store time, DynamoDB's clock, which
//! each response shows in its `Date` header. An owner stamps its lease with the store time that it has
//! learned. Another call judges the lease by the `Date` of the response that returned the record.
//!
//! Local time is a pair: the wall clock, which can be set, and the monotonic clock, which stops while the
//! computer is frozen. A deadline is over as soon as one of the two clocks reaches it. A length is measured
//! by the monotonic clock.

use std::time::{Duration, SystemTime};

use crate::fault_point::{FaultPoint, is_broken};

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub fn from_system(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Self(millis(after)),
            Err(before) => Self(-millis(before.duration())),
        }
    }

    pub fn to_system(self) -> SystemTime {
        let distance = Duration::from_millis(self.0.unsigned_abs());
        let epoch = SystemTime::UNIX_EPOCH;
        let time =
            if self.0 < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
        // A time outside the range of `SystemTime` becomes the epoch.
        time.unwrap_or(epoch)
    }

    /// The time of an `expires_at`, in epoch seconds.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds, rounded up, so that TTL never deletes too early.
    pub const fn seconds_up(self) -> i64 {
        self.0.div_euclid(1000) + (self.0.rem_euclid(1000) != 0) as i64
    }

    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }

    pub fn shifted(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// The time from `earlier` to `self`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).try_into().unwrap_or(0))
    }
}

pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A time of the monotonic clock: milliseconds since a moment before the first call of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uptime(pub i64);

impl Uptime {
    /// Like [`Timestamp::since`].
    pub fn since(self, earlier: Self) -> Duration {
        Timestamp(self.0).since(Timestamp(earlier.0))
    }
}

/// The two clocks of this computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    pub wall: Timestamp,
    pub uptime: Uptime,
}

impl Local {
    /// How far the wall clock is ahead of the monotonic clock.
    fn lead(self) -> i64 {
        self.wall.0.saturating_sub(self.uptime.0)
    }

    /// The time since `earlier`, by the clock that measures more.
    fn longest_since(self, earlier: Self) -> Duration {
        self.wall.since(earlier.wall).max(self.uptime.since(earlier.uptime))
    }

    pub fn plus(self, duration: Duration) -> Deadline {
        let uptime = self.uptime.0.saturating_add(millis(duration));
        Deadline { wall: self.wall.plus(duration), uptime: Uptime(uptime) }
    }
}

/// An instant by both clocks of this computer. It is over as soon as one clock reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deadline {
    pub wall: Timestamp,
    pub uptime: Uptime,
}

impl Deadline {
    /// The earlier deadline, by each clock separately.
    pub fn min(self, other: Self) -> Self {
        Self { wall: self.wall.min(other.wall), uptime: self.uptime.min(other.uptime) }
    }

    pub fn minus(self, duration: Duration) -> Self {
        let uptime = self.uptime.0.saturating_sub(millis(duration));
        Self { wall: self.wall.minus(duration), uptime: Uptime(uptime) }
    }

    pub fn lasting_from(start: Uptime, length: Duration) -> Self {
        let uptime = Uptime(start.0.saturating_add(millis(length)));
        Self { wall: Timestamp(i64::MAX), uptime }
    }

    /// Whether the two clocks have moved by different amounts since the deadline was set.
    pub fn is_apart(self, now: Local) -> bool {
        let set = Local { wall: self.wall, uptime: self.uptime };
        are_apart(set, now)
    }

    /// The time left, or zero once one of the clocks has reached the deadline.
    pub fn left(self, now: Local) -> Duration {
        let by_wall = self.wall.since(now.wall);
        let by_uptime = Timestamp(self.uptime.0).since(Timestamp(now.uptime.0));
        if is_broken(FaultPoint::TrustTheWallClock) && self.wall.0 != i64::MAX {
            return by_wall;
        }
        if is_broken(FaultPoint::TrustTheMonotonicClock) {
            return by_uptime;
        }
        by_wall.min(by_uptime)
    }
}

/// What one response shows of store time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreTime {
    /// The `Date` of the response: store time at some instant between `sent` and `received`, cut to the
    /// second.
    pub date: Timestamp,
    pub sent: Local,
    pub received: Local,
}

impl StoreTime {
    /// The latest possible store time when the response arrived.
    pub fn latest(self) -> Timestamp {
        self.date.shifted(999).plus(self.elapsed())
    }

    /// The longest possible duration of the round trip.
    pub fn elapsed(self) -> Duration {
        self.received.longest_since(self.sent)
    }

    /// How far store time is ahead of the wall clock, at least and at most, in ms.
    pub fn bounds(self) -> (i64, i64) {
        let ahead = |store: Timestamp| store.0.saturating_sub(self.received.wall.0);
        (ahead(self.date), ahead(self.latest()))
    }
}

/// How much [`Local::lead`] may change, in ms, before the change counts as a jump or a freeze of a clock. It
/// always changes a little, because the two clocks are not read at the same instant.
const APART: u64 = 500;

fn are_apart(before: Local, now: Local) -> bool {
    now.lead().saturating_sub(before.lead()).unsigned_abs() > APART
}

/// What the responses so far have shown of store time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Learned {
    /// The offset from the wall clock to store time, in ms.
    pub offset: i64,
    /// The lower bound of `offset`, in ms.
    pub least: i64,
    /// The earliest possible store time when the last response arrived.
    pub floor: Timestamp,
    /// The latest possible store time when the last response arrived.
    pub ceiling: Timestamp,
    pub received: Local,
}

/// By how much a clock may run fast or slow: a thousandth, twice what NTP allows when it slews a clock.
const DRIFT: u32 = 1000;

impl Learned {
    /// Moves the offset as little as the bounds of the response require. So the resolution of a `Date`
    /// never changes the offset of a correct clock.
    pub fn observe(before: Option<Self>, time: StoreTime) -> Self {
        let StoreTime { date, received, .. } = time;
        let (least, most) = time.bounds();
        let offset = before.map_or(0, |learned| learned.offset).clamp(least, most);
        // An earlier bound is valid if no clock has jumped since.
        let bounded = before.filter(|learned| !are_apart(learned.received, received));
        let least = bounded.map_or(least, |learned| learned.least.clamp(least, most));
        // The earlier `floor` plus the monotonic time since then is also a lower bound of store time. The later
        // of this bound and the `Date` is used.
        let ceiling = time.latest();
        let floor = before.map_or(date, |learned| learned.floor_at(received));
        Self { offset, least, floor: floor.clamp(date, ceiling), ceiling, received }
    }

    fn store(self, now: Local) -> Timestamp {
        now.wall.shifted(self.offset).max(self.by_uptime(now))
    }

    fn by_uptime(self, now: Local) -> Timestamp {
        self.floor.plus(now.uptime.since(self.received.uptime))
    }

    /// The earliest possible store time at `now`. The monotonic clock stops while the computer is frozen, but it
    /// does not jump.
    fn floor_at(self, now: Local) -> Timestamp {
        let passed = now.uptime.since(self.received.uptime);
        self.floor.plus(passed.saturating_sub(passed / DRIFT))
    }

    /// The latest possible store time at `now`, unless both local clocks have lost time.
    fn ceiling_at(self, now: Local) -> Timestamp {
        let passed = now.longest_since(self.received);
        self.ceiling.plus(passed.saturating_add(passed / DRIFT))
    }
}

/// What a process knows of store time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// No response has shown it yet.
    Nothing,
    /// Responses have shown it.
    Shown(Learned),
    /// The user has declared that no response shows it. The wall clock is used instead.
    Declared,
}

/// Bounds of store time at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub earliest: Timestamp,
    pub latest: Timestamp,
}

/// A time that may be written into a record. It exists once a response has shown store time, or if the user has
/// declared that none does.
///
/// It is wrong if a clock has jumped or stopped since the last response. So the machines verify each stamp
/// by the `Date` of the response that shows it, and correct a wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    pub at: Timestamp,
    /// The earliest possible store time, if no clock has jumped since the last response.
    pub earliest: Timestamp,
    /// The earliest store time by the monotonic clock. It is too early after a freeze, but a jump of the
    /// wall clock does not change it. If store time is declared, it equals `at`.
    pub by_uptime: Timestamp,
    /// When the stamp was made.
    pub made: Uptime,
}

/// An estimate of store time, which exists even before the first response. It is never written into a record, and
/// no record is judged by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guess(pub Timestamp);

/// The clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Now {
    pub local: Local,
    pub known: Known,
}

impl Now {
    /// `None` while store time is unknown ([`Known::Nothing`]): the caller has to read first.
    pub fn stamp(self) -> Option<Stamp> {
        let made = self.local.uptime;
        match self.known {
            Known::Nothing if !is_broken(FaultPoint::StampUnlearned) => None,
            Known::Nothing | Known::Declared => {
                let at = self.local.wall;
                Some(Stamp { at, earliest: at, by_uptime: at, made })
            }
            Known::Shown(learned) => Some(Stamp {
                at: learned.store(self.local),
                earliest: self.local.wall.shifted(learned.least),
                by_uptime: learned.by_uptime(self.local),
                made,
            }),
        }
    }

    pub fn guess(self) -> Guess {
        Guess(match self.known {
            Known::Nothing | Known::Declared => self.local.wall,
            Known::Shown(learned) => learned.store(self.local),
        })
    }

    /// The bounds of store time now. `None` while store time is unknown.
    pub fn interval(self, tolerance: Duration) -> Option<Interval> {
        let (earliest, latest) = match self.known {
            Known::Nothing => return None,
            Known::Shown(learned) => (learned.floor_at(self.local), learned.ceiling_at(self.local)),
            Known::Declared => (self.local.wall.minus(tolerance), self.local.wall.plus(tolerance)),
        };
        Some(Interval { earliest, latest })
    }

    /// The time by which a call judges the record that a response returned. It is never later than store time,
    /// so that no live lease and no answer counts as expired: the `Date` of the response, or without a `Date`
    /// the lower bound from earlier responses. `None` if no response has shown store time yet.
    pub fn judging(self, time: Option<StoreTime>, tolerance: Duration) -> Option<Timestamp> {
        match time {
            Some(_) if is_broken(FaultPoint::TakersClock) => Some(self.local.wall),
            Some(time) => Some(time.date),
            None if is_broken(FaultPoint::JudgeByEstimate) => Some(self.guess().0),
            None => self.interval(tolerance).map(|interval| interval.earliest),
        }
    }

    pub fn left(self, end: Deadline) -> Duration {
        end.left(self.local)
    }

    pub fn is_over(self, end: Deadline) -> bool {
        self.left(end).is_zero()
    }

    /// The end of a length of time that begins now, by the monotonic clock alone.
    pub fn lasting(self, length: Duration) -> Deadline {
        Deadline::lasting_from(self.local.uptime, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: i64, uptime: i64) -> Local {
        Local { wall: Timestamp::from_millis(wall), uptime: Uptime(uptime) }
    }

    #[test]
    fn times_before_the_epoch_are_negative() {
        let second = Duration::from_secs(1);
        let before = SystemTime::UNIX_EPOCH.checked_sub(second).unwrap();
        let after = SystemTime::UNIX_EPOCH + second;
        for (time, millis) in [(before, -1_000), (SystemTime::UNIX_EPOCH, 0), (after, 1_000)] {
            assert_eq!(Timestamp::from_system(time), Timestamp::from_millis(millis));
            assert_eq!(Timestamp::from_millis(millis).to_system(), time);
        }
        let up = |millis| Timestamp::from_millis(millis).seconds_up();
        assert_eq!([-1_500, -1_000, 0, 1, 1_000, 1_001].map(up), [-1, -1, 0, 1, 1, 2]);
    }

    #[test]
    fn a_round_trip_took_the_longer_of_the_two_measures() {
        let date = Timestamp::from_millis(0);
        for received in [at(3_000, 1_000), at(1_000, 3_000)] {
            let time = StoreTime { date, sent: at(0, 0), received };
            assert_eq!(time.elapsed(), Duration::from_secs(3));
        }
        assert_eq!(Uptime(5).since(Uptime(3)), Duration::from_millis(2));
    }

    #[test]
    fn clocks_are_apart_if_one_has_moved_by_more_than_half_a_second() {
        let deadline = at(0, 0).plus(Duration::from_secs(10));
        for (now, expected) in
            [(at(1_000, 1_000), false), (at(1_500, 1_000), false), (at(1_501, 1_000), true)]
        {
            assert_eq!(deadline.is_apart(now), expected, "{now:?}");
        }
    }

    #[test]
    fn store_time_never_falls_behind_the_monotonic_clock() {
        let (date, received) = (Timestamp::from_millis(50_000), at(50_000, 0));
        let learned = Learned::observe(None, StoreTime { date, sent: received, received });
        // The wall clock has been set back.
        let now = Now { local: at(20_000, 10_000), known: Known::Shown(learned) };
        assert_eq!(now.guess(), Guess(Timestamp::from_millis(60_000)));
        assert!(!now.is_over(now.lasting(Duration::from_millis(1))));
        assert!(now.is_over(now.lasting(Duration::ZERO)));
    }

    #[test]
    fn without_a_date_store_time_is_between_what_the_clocks_allow() {
        let (date, received) = (Timestamp::from_millis(50_000), at(90_000, 0));
        let learned = Learned::observe(None, StoreTime { date, sent: received, received });
        let tolerance = Duration::from_secs(1);
        let interval = |known, wall, uptime| {
            Now { local: at(wall, uptime), known }
                .interval(tolerance)
                .map(|it| (it.earliest.millis(), it.latest.millis()))
        };
        let shown = Known::Shown(learned);
        // Ten seconds later. Either clock can be off by a thousandth.
        assert_eq!(interval(shown, 100_000, 10_000), Some((59_990, 61_009)));
        // The wall clock jumps by an hour, which widens the interval, and does not move its lower end.
        assert_eq!(interval(shown, 3_700_000, 10_000), Some((59_990, 3_664_609)));
        // The machine was frozen for nine seconds.
        assert_eq!(interval(shown, 100_000, 1_000), Some((50_999, 61_009)));
        assert_eq!(interval(Known::Declared, 100_000, 10_000), Some((99_000, 101_000)));
        assert_eq!(interval(Known::Nothing, 100_000, 10_000), None);
    }
}
