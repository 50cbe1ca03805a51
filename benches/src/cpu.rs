//! The CPU time that was used so far.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Of this thread.
#[must_use]
pub fn of_thread() -> Duration {
    by(ClockId::ThreadCPUTime)
}

/// Of all threads of this process.
#[must_use]
pub fn of_process() -> Duration {
    by(ClockId::ProcessCPUTime)
}

fn by(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}
