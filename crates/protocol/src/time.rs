//! Time as values: what clocks have shown, and what follows from it. Nothing here asks a clock.
//!
//! Leases compare the clocks of two machines. DynamoDB stamps every response with a `Date`, which
//! makes the store the clock that both agree on: an owner stamps its lease in store time as it
//! last saw it, and a taker judges a lease by the `Date` of the very response that brought the
//! record.
//!
//! The machine's own time is a pair: a wall clock, which can be set, and a monotonic one, which stands
//! still while the machine is frozen. What ends by a clock ends by whichever of the two is first
//! there, and a length is measured by the monotonic one.

use std::time::{Duration, SystemTime};

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
        // No clock that this program can run under shows such a time.
        time.unwrap_or(epoch)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds, rounded up: a TTL attribute must never lie before the instant it stands for.
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

    /// The time from `earlier` to `self`; zero if it is the other way round.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).try_into().unwrap_or(0))
    }
}

pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// What the monotonic clock shows: milliseconds since some moment before this process's first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uptime(pub i64);

impl Uptime {
    /// The time from `earlier` to `self`; zero if it is the other way round.
    pub fn since(self, earlier: Self) -> Duration {
        Timestamp(self.0).since(Timestamp(earlier.0))
    }
}

/// What this machine's two clocks show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    pub wall: Timestamp,
    pub uptime: Uptime,
}

impl Local {
    /// How far the wall clock is ahead of the monotonic one: another value, and one of them has jumped
    /// or stood still.
    fn lead(self) -> i64 {
        self.wall.0.saturating_sub(self.uptime.0)
    }

    /// How long ago `earlier` may be: one of the clocks may tell too little.
    fn longest_since(self, earlier: Self) -> Duration {
        self.wall.since(earlier.wall).max(self.uptime.since(earlier.uptime))
    }

    /// So much later.
    pub fn plus(self, duration: Duration) -> End {
        let uptime = self.uptime.0.saturating_add(millis(duration));
        End { wall: self.wall.plus(duration), uptime: Uptime(uptime) }
    }
}

/// An instant by both of this machine's clocks: it is there as soon as one of them says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    pub wall: Timestamp,
    pub uptime: Uptime,
}

impl End {
    /// Whichever is first, by each clock.
    pub fn or(self, other: Self) -> Self {
        Self { wall: self.wall.min(other.wall), uptime: self.uptime.min(other.uptime) }
    }

    /// So much earlier.
    pub fn minus(self, duration: Duration) -> Self {
        let uptime = self.uptime.0.saturating_sub(millis(duration));
        Self { wall: self.wall.minus(duration), uptime: Uptime(uptime) }
    }

    pub fn lasting_from(start: Uptime, length: Duration) -> Self {
        let uptime = Uptime(start.0.saturating_add(millis(length)));
        Self { wall: Timestamp(i64::MAX), uptime }
    }

    /// Whether the two clocks have come apart since it was set.
    pub fn is_apart(self, now: Local) -> bool {
        let set = Local { wall: self.wall, uptime: self.uptime };
        are_apart(set, now)
    }

    /// How long it is from `now` to there; zero once one of the clocks is there.
    pub fn left(self, now: Local) -> Duration {
        let by_wall = self.wall.since(now.wall);
        let by_uptime = Timestamp(self.uptime.0).since(Timestamp(now.uptime.0));
        by_wall.min(by_uptime)
    }
}

/// What one response told about the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreTime {
    /// The response's `Date`: the store's clock read this, cut to the whole second, at some instant
    /// between `sent` and `received`.
    pub date: Timestamp,
    /// When the request left.
    pub sent: Local,
    /// When the response was there.
    pub received: Local,
}

impl StoreTime {
    /// The most that the store's clock can have shown when the response was there.
    pub fn latest(self) -> Timestamp {
        self.date.shifted(999).plus(self.elapsed())
    }

    /// The longest that the round trip can have lasted.
    pub fn elapsed(self) -> Duration {
        self.received.longest_since(self.sent)
    }

    /// The least and the most that the store's clock can be ahead of the wall clock, in ms.
    pub fn bounds(self) -> (i64, i64) {
        let ahead = |store: Timestamp| store.0.saturating_sub(self.received.wall.0);
        (ahead(self.date), ahead(self.latest()))
    }
}

/// By how much the lead of the wall clock may change before it counts, in ms: the two are not read at
/// the same instant.
const APART: u64 = 500;

fn are_apart(before: Local, now: Local) -> bool {
    now.lead().saturating_sub(before.lead()).unsigned_abs() > APART
}

/// What the responses so far have told about the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Learned {
    /// How far the store's clock is ahead of the wall clock, in ms.
    pub offset: i64,
    /// How far it is at least.
    pub least: i64,
    /// Of the last response.
    pub date: Option<Timestamp>,
    pub received: Local,
}

impl Learned {
    /// Moves the offset as little as the response asks for: the bounds of many responses close in
    /// on the truth, and a clock that was right stays untouched by a `Date`'s coarseness.
    pub fn observe(before: Option<Self>, time: StoreTime) -> Self {
        let StoreTime { date, received, .. } = time;
        let (least, most) = time.bounds();
        let offset = before.map_or(0, |learned| learned.offset).clamp(least, most);
        // Two bounds are of one offset as long as no clock has jumped between the responses.
        let bounded = before.filter(|learned| !are_apart(learned.received, received));
        let least = bounded.map_or(least, |learned| learned.least.clamp(least, most));
        Self { offset, least, date: Some(date), received }
    }

    /// After a response without a `Date`. The local clock is the only one there is.
    pub fn undated(received: Local) -> Self {
        Self { offset: 0, least: 0, date: None, received }
    }

    fn store(self, now: Local) -> Timestamp {
        let by_wall = now.wall.shifted(self.offset);
        self.by_uptime(now).map_or(by_wall, |by_uptime| by_wall.max(by_uptime))
    }

    fn by_uptime(self, now: Local) -> Option<Timestamp> {
        Some(self.date?.plus(now.uptime.since(self.received.uptime)))
    }
}

/// A time that may be written into a record. It exists only where a response has told the store's time.
///
/// It is the wall clock plus the offset learned last, and never before the last `Date` and the time since.
/// A clock that has jumped or stood still since that response makes it wrong, so the machines verify each
/// stamp against the `Date` of the response that shows it, and write it again if it is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    pub at: Timestamp,
    /// The store's clock shows at least this, if no clock has jumped since the last response.
    pub earliest: Timestamp,
    /// The last `Date` plus the monotonic time since: it is too early after a freeze, and a jump of the
    /// wall clock does not change it. Without a `Date`, the same as `at`.
    pub by_uptime: Timestamp,
    /// When it was made.
    pub made: Uptime,
}

/// Store time as well as this machine knows it, even before the first response. It judges what has no
/// better time, and is never written into a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guess(pub Timestamp);

/// What the clocks show at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Now {
    pub local: Local,
    /// `None` before the first response.
    pub learned: Option<Learned>,
}

impl Now {
    /// `None` before the first response: the caller has to read first.
    pub fn stamp(self) -> Option<Stamp> {
        let learned = self.learned?;
        let at = learned.store(self.local);
        let earliest = self.local.wall.shifted(learned.least);
        let by_uptime = learned.by_uptime(self.local).unwrap_or(at);
        Some(Stamp { at, earliest, by_uptime, made: self.local.uptime })
    }

    pub fn guess(self) -> Guess {
        Guess(self.learned.map_or(self.local.wall, |learned| learned.store(self.local)))
    }

    /// The time by which to judge a record that a response brought: never later than the store's
    /// own at that instant. Without a `Date`, the local clock less the tolerance.
    pub fn judging(self, time: Option<StoreTime>, tolerance: Duration) -> Timestamp {
        match time {
            Some(time) => time.date,
            None => self.guess().0.minus(tolerance),
        }
    }

    /// How long it is until then; zero once one of the clocks is there.
    pub fn left(self, end: End) -> Duration {
        end.left(self.local)
    }

    pub fn is_over(self, end: End) -> bool {
        self.left(end).is_zero()
    }

    /// The end of a length of time that begins now: by the monotonic clock, however the wall clock is
    /// set meanwhile.
    pub fn lasting(self, length: Duration) -> End {
        End::lasting_from(self.local.uptime, length)
    }
}

/// Waiting times between tries: each is drawn from the upper half of a bound that doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    bound: Duration,
    max: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { bound: first, max }
    }

    /// The bound of the next wait.
    pub fn next_bound(&mut self) -> Duration {
        let bound = self.bound;
        self.bound = (self.bound * 2).min(self.max);
        bound
    }
}
