//! A caller's own clock, right or wrong.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use aws_smithy_async::time::TimeSource;

/// The system's clock plus an offset; a clone is the same clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalClock(Arc<AtomicI64>, Arc<OnceLock<SystemTime>>);

impl LocalClock {
    /// A clock that is `seconds` ahead, or behind if negative.
    pub(crate) fn off_by(seconds: i64) -> Self {
        let clock = Self::default();
        clock.advance(seconds);
        clock
    }

    /// Lets `seconds` pass, as far as this clock's owner can see.
    pub(crate) fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    /// Stops the clock: no time passes any more.
    pub(crate) fn stop(&self) {
        let now = self.now();
        self.1.get_or_init(|| now);
    }

    /// This clock's time, `seconds` from now.
    pub(crate) fn in_secs(&self, seconds: i64) -> SystemTime {
        shift(self.now(), seconds * 1000)
    }
}

impl TimeSource for LocalClock {
    fn now(&self) -> SystemTime {
        let stopped = self.1.get().copied();
        stopped.unwrap_or_else(|| shift(SystemTime::now(), self.0.load(Ordering::SeqCst)))
    }
}

fn shift(time: SystemTime, millis: i64) -> SystemTime {
    let by = Duration::from_millis(millis.unsigned_abs());
    if millis < 0 { time - by } else { time + by }
}
