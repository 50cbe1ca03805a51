//! The random times of faults, from the seed.

use std::ops::Range;
use std::time::{Duration, Instant};

use fastrand::Rng;

/// Milliseconds from one kill of a worker to the next.
const KILLS: Range<u64> = 150..900;
const STOPS: Range<u64> = 800..3_500;
/// Around and beyond the leases of 3 and 4 s.
const STOPPED_FOR: Range<u64> = 1_500..6_500;
const DEAD_FOR: Range<u64> = 0..1_000;
/// A restart of the server takes some seconds, during which no other fault is possible.
const SERVER_KILLS: Range<u64> = 20_000..45_000;
/// So short that a short run has a restart too.
const FIRST_SERVER_KILL: Range<u64> = 3_000..5_000;
const SERVER_DOWN_FOR: Range<u64> = 0..1_500;

#[derive(Debug)]
pub(crate) struct Faults {
    rng: Rng,
    kill: Instant,
    stop: Instant,
    server: Instant,
}

impl Faults {
    pub(crate) fn new(mut rng: Rng, now: Instant) -> Self {
        let kill = after(now, &mut rng, KILLS);
        let stop = after(now, &mut rng, STOPS);
        let server = after(now, &mut rng, FIRST_SERVER_KILL);
        Self { rng, kill, stop, server }
    }

    /// Returns how long a worker stays dead, if one must be killed now.
    pub(crate) fn kill(&mut self, now: Instant) -> Option<Duration> {
        strike(&mut self.kill, &mut self.rng, now, KILLS, DEAD_FOR)
    }

    /// Returns how long a worker stays stopped, if one must be stopped now.
    pub(crate) fn stop(&mut self, now: Instant) -> Option<Duration> {
        strike(&mut self.stop, &mut self.rng, now, STOPS, STOPPED_FOR)
    }

    /// Returns how long the server stays down, if it must be killed now.
    pub(crate) fn server(&mut self, now: Instant) -> Option<Duration> {
        strike(&mut self.server, &mut self.rng, now, SERVER_KILLS, SERVER_DOWN_FOR)
    }

    /// One of `count`.
    pub(crate) fn choose(&mut self, count: usize) -> usize {
        self.rng.usize(..count)
    }
}

fn strike(
    next: &mut Instant,
    rng: &mut Rng,
    now: Instant,
    every: Range<u64>,
    lasts: Range<u64>,
) -> Option<Duration> {
    if now < *next {
        return None;
    }
    *next = after(now, rng, every);
    Some(Duration::from_millis(rng.u64(lasts)))
}

fn after(now: Instant, rng: &mut Rng, range: Range<u64>) -> Instant {
    now + Duration::from_millis(rng.u64(range))
}
