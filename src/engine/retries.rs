//! The pauses between tries of a write that no machine sends: a part, a step.

use std::time::Duration;

use crate::clock::{Backoff, End, drawn};
use crate::engine::core::Core;
use crate::protocol::COMPLETION_MARGIN;

/// The pauses between tries of a write that must get through, up to a point in time.
pub(crate) struct Retries<'a> {
    core: &'a Core,
    until: End,
    backoff: Backoff,
}

impl<'a> Retries<'a> {
    /// Tries for at most `longest`, and in time for a `deadline`.
    pub(crate) fn new(core: &'a Core, longest: Duration, deadline: Option<End>) -> Self {
        let mut until = core.table.clock.lasting(longest);
        if let Some(deadline) = deadline {
            until = until.or(deadline.minus(COMPLETION_MARGIN));
        }
        Self::until(core, until)
    }

    pub(crate) const fn until(core: &'a Core, until: End) -> Self {
        let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        Self { core, until, backoff }
    }

    /// How long the next try may last.
    pub(crate) fn limit(&self) -> Duration {
        self.core.time_until(Some(self.until))
    }

    pub(crate) fn are_over(&self) -> bool {
        self.core.table.clock.is_over(self.until)
    }

    /// Waits for the next try; `false` when there is no time for one.
    pub(crate) async fn wait(&mut self) -> bool {
        let clock = &self.core.table.clock;
        let pause = drawn(self.backoff.next());
        if pause >= clock.left(self.until) {
            return false;
        }
        clock.sleep(pause).await;
        true
    }
}
