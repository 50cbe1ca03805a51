//! The clocks: store time, which advances in ticks, and the two clocks of each process, which can be
//! wrong.

use dynamodb_idempotency_protocol::time::{
    Known, Learned, Local, Now, StoreTime, Timestamp, Uptime,
};

/// The length of a tick, in ms. It is not a whole number of seconds, so a `Date` is alternately 0.1 and 0.6 seconds
/// behind store time.
pub(crate) const TICK: i64 = 4_500;

/// Store time at the start, in ms.
const EPOCH: i64 = 1_000_000_100;

/// The start of a monotonic clock, which is arbitrary.
const UPTIME: i64 = 50_000;

pub(crate) fn store_time(tick: u8) -> Timestamp {
    Timestamp::from_millis(EPOCH + i64::from(tick) * TICK)
}

/// Store time as a response shows it, cut to the second.
pub(crate) fn date(tick: u8) -> Timestamp {
    Timestamp::from_seconds(store_time(tick).millis().div_euclid(1000))
}

/// The clocks of one process, and what the responses have shown it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clock {
    /// How far the wall clock is ahead of store time, in ms.
    pub(crate) skew: i64,
    /// How long the monotonic clock has stopped, in ms.
    frozen: i64,
    known: Known,
    /// How often its clocks have failed since the last response.
    faults: u8,
    /// The clocks have failed twice between two responses, so one fault can hide the other.
    pub(crate) is_blind: bool,
}

impl Clock {
    pub(crate) const fn new(skew: i64) -> Self {
        Self { skew, frozen: 0, known: Known::Nothing, faults: 0, is_blind: false }
    }

    /// The clock of a process whose user has declared that no response shows store time.
    pub(crate) const fn declared(skew: i64) -> Self {
        Self { known: Known::Declared, ..Self::new(skew) }
    }

    /// The clock of a process that has had a response before.
    pub(crate) fn warm(skew: i64) -> Self {
        let mut clock = Self::new(skew);
        let sent = clock.local(0);
        clock.observe(date(0), sent, 0);
        clock
    }

    /// Whether a clock has failed since the last response. If so, a stamp that is made now may be wrong.
    pub(crate) const fn has_failed(&self) -> bool {
        self.faults > 0
    }

    pub(crate) fn local(&self, tick: u8) -> Local {
        let uptime = UPTIME + i64::from(tick) * TICK - self.frozen;
        Local { wall: store_time(tick).shifted(self.skew), uptime: Uptime(uptime) }
    }

    pub(crate) fn now(&self, tick: u8) -> Now {
        Now { local: self.local(tick), known: self.known }
    }

    /// A response has this `Date`.
    pub(crate) fn observe(&mut self, date: Timestamp, sent: Local, tick: u8) -> StoreTime {
        let time = StoreTime { date, sent, received: self.local(tick) };
        let before = match self.known {
            Known::Shown(learned) => Some(learned),
            Known::Nothing | Known::Declared => None,
        };
        self.known = Known::Shown(at_zero(Learned::observe(before, time)));
        self.faults = 0;
        time
    }

    pub(crate) fn jump(&mut self, by: i64) {
        self.skew += by;
        self.fail();
    }

    /// The monotonic clock stops for a tick.
    pub(crate) fn freeze(&mut self) {
        self.frozen += TICK;
        self.fail();
    }

    fn fail(&mut self) {
        self.faults += 1;
        self.is_blind |= self.faults > 1;
    }
}

/// Restates what was learned as if the response had arrived when the monotonic clock showed zero. Processes
/// that learned the same at different times then have equal states.
fn at_zero(learned: Learned) -> Learned {
    let by = learned.received.uptime.0;
    let wall = learned.received.wall.shifted(-by);
    let received = Local { wall, uptime: Uptime(0) };
    let (floor, ceiling) = (learned.floor.shifted(-by), learned.ceiling.shifted(-by));
    Learned { floor, ceiling, received, ..learned }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_says_the_same_whenever_it_is_counted_from() {
        for skew in [0, -40_000, 40_000] {
            let mut clock = Clock::new(skew);
            let sent = clock.local(1);
            let time = clock.observe(date(2), sent, 2);
            let known = Known::Shown(Learned::observe(None, time));
            let plain = Now { local: clock.local(4), known };
            assert_eq!(clock.now(4).guess(), plain.guess());
        }
    }
}
