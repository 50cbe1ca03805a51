//! Time limits of tries, and the back-off between them.

use std::time::Duration;

use crate::rules::MIN_LIMIT;
use crate::time::{Deadline, Now};

/// The tries of one write until a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tries {
    pub until: Deadline,
    pauses: Backoff,
}

impl Tries {
    /// Tries of a write that must be applied, with pauses up to 2 s.
    pub const fn until(until: Deadline) -> Self {
        Self::with_pauses_up_to(Duration::from_secs(2), until)
    }

    pub(crate) const fn with_pauses_up_to(longest: Duration, until: Deadline) -> Self {
        Self { until, pauses: Backoff::new(Duration::from_millis(50), longest) }
    }

    /// The time limit of a try that begins now.
    pub fn limit(&self, now: Now) -> Duration {
        now.left(self.until).max(MIN_LIMIT)
    }

    /// The bound of the pause before the next try. `None` if there is no time for another try.
    pub fn pause(&mut self, now: Now) -> Option<Duration> {
        self.pause_before(now, self.until)
    }

    /// Like [`pause`](Self::pause), with another deadline.
    pub(crate) fn pause_before(&mut self, now: Now, end: Deadline) -> Option<Duration> {
        let bound = self.next_pause();
        (bound < now.left(end)).then_some(bound)
    }

    /// The bound of the next pause, whatever the deadline.
    pub(crate) fn next_pause(&mut self) -> Duration {
        self.pauses.next_bound()
    }
}

/// The bounds of pauses. Each bound is twice the one before, up to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    bound: Duration,
    max: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { bound: first, max }
    }

    /// The bound of the next pause.
    pub fn next_bound(&mut self) -> Duration {
        let bound = self.bound;
        self.bound = (self.bound * 2).min(self.max);
        bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::now;

    #[test]
    fn pauses_double_up_to_their_limit() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(150));
        assert_eq!([(); 4].map(|()| backoff.next_bound().as_millis()), [50, 100, 150, 150]);
    }

    #[test]
    fn a_try_begins_only_if_its_pause_ends_before_the_deadline() {
        let tries = |left| Tries::until(now().lasting(Duration::from_millis(left)));
        assert_eq!(tries(51).pause(now()), Some(Duration::from_millis(50)));
        assert_eq!(tries(50).pause(now()), None);
        assert_eq!(tries(49).pause(now()), None);
        assert_eq!(tries(50).next_pause(), Duration::from_millis(50));
        assert_eq!(tries(5_000).limit(now()), Duration::from_secs(5));
        assert_eq!(tries(5).limit(now()), MIN_LIMIT);
    }
}
