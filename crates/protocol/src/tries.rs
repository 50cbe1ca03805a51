//! The tries of one write: how long each may last, and the pauses between them.

use std::time::Duration;

use super::rules::MIN_LIMIT;
use super::time::{Backoff, End, Now};

/// Tries of one write, up to a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tries {
    pub until: End,
    pauses: Backoff,
}

impl Tries {
    /// Of a write that must get through.
    pub const fn until(until: End) -> Self {
        Self::with_pauses_up_to(Duration::from_secs(2), until)
    }

    pub(crate) const fn with_pauses_up_to(longest: Duration, until: End) -> Self {
        Self { until, pauses: Backoff::new(Duration::from_millis(50), longest) }
    }

    /// How long a try that begins now may last.
    pub fn limit(&self, now: Now) -> Duration {
        now.left(self.until).max(MIN_LIMIT)
    }

    /// The bound of the pause before the next try; none when there is no time for one.
    pub fn pause(&mut self, now: Now) -> Option<Duration> {
        self.pause_before(now, self.until)
    }

    /// As [`pause`](Self::pause), for a try that has until `end`.
    pub(crate) fn pause_before(&mut self, now: Now, end: End) -> Option<Duration> {
        let bound = self.next_pause();
        (bound < now.left(end)).then_some(bound)
    }

    /// The bound of the next pause, whatever time is left.
    pub(crate) fn next_pause(&mut self) -> Duration {
        self.pauses.next_bound()
    }
}
