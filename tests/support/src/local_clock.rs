//! A caller's own clock, right or wrong.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use aws_smithy_async::time::TimeSource;

use super::made_up_time;

/// The system's clock plus an offset; a clone is the same clock.
#[derive(Clone, Debug, Default)]
pub struct LocalClock {
    /// How far the wall clock is ahead, in ms.
    ahead: Arc<AtomicI64>,
    stopped: Arc<OnceLock<SystemTime>>,
    /// How far the monotonic clock is ahead of the system's, in ms.
    lived: Arc<AtomicI64>,
}

impl LocalClock {
    /// A clock that is `seconds` ahead, or behind if negative.
    pub fn off_by(seconds: i64) -> Self {
        let clock = Self::default();
        clock.advance(seconds);
        clock
    }

    /// Sets the wall clock: `seconds` forward, or back if negative.
    pub fn advance(&self, seconds: i64) {
        self.ahead.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    /// Advances only the monotonic clock, by `seconds`.
    pub fn live(&self, seconds: i64) {
        self.lived.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    /// How far the monotonic clock is ahead of the system's, in ms.
    pub(crate) fn lived(&self) -> i64 {
        self.lived.load(Ordering::SeqCst)
    }

    /// Stops the wall clock at its current time.
    pub fn stop(&self) {
        let now = self.now();
        self.stopped.get_or_init(|| now);
    }

    /// This clock's time, `seconds` from now.
    pub fn in_secs(&self, seconds: i64) -> SystemTime {
        shift(self.now(), seconds * 1000)
    }
}

impl TimeSource for LocalClock {
    fn now(&self) -> SystemTime {
        let stopped = self.stopped.get().copied();
        stopped.unwrap_or_else(|| shift(made_up_time::now(), self.ahead.load(Ordering::SeqCst)))
    }
}

fn shift(time: SystemTime, millis: i64) -> SystemTime {
    let by = Duration::from_millis(millis.unsigned_abs());
    if millis < 0 { time - by } else { time + by }
}
