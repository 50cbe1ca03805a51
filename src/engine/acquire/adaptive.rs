//! What an adaptive call sends first, by what the last ones have come to.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::fault_injection::adaptive_weight;
use crate::policy::Acquire;

/// One call, in the unit in which the share of repeats is kept.
const ONE: u32 = 1 << 16;

/// How much the newest call counts: those before it fade with each one.
const WEIGHT: u32 = 16;

/// From this share of repeats on, a read comes first. At a tenth the two cost the same, for a record
/// of 1 KB (docs/cost.md); a first run's further round trip asks for more than that.
const READ_FROM: u32 = ONE / 5;

/// Down to this share it stays so.
const READ_DOWN_TO: u32 = ONE / 10;

/// The share of repeats among the last calls.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    share: AtomicU32,
    reads_first: AtomicBool,
}

impl Replays {
    /// What to do now, never [`Acquire::Adaptive`].
    pub(crate) fn strategy(&self, policy: Acquire) -> Acquire {
        match policy {
            Acquire::Adaptive if self.reads_first.load(Ordering::Relaxed) => {
                Acquire::ReadFirst { consistent: false }
            }
            Acquire::Adaptive => Acquire::WriteFirst,
            chosen @ (Acquire::WriteFirst | Acquire::ReadFirst { .. }) => chosen,
        }
    }

    /// A call has ended. Two at once may count as one: it is an average.
    pub(crate) fn note(&self, policy: Acquire, is_replay: bool) {
        if policy != Acquire::Adaptive {
            return;
        }
        let share = self.share.load(Ordering::Relaxed);
        let newest = if is_replay { ONE } else { 0 };
        let weight = adaptive_weight().unwrap_or(WEIGHT);
        let share = share - share / weight + newest / weight;
        self.share.store(share, Ordering::Relaxed);
        if share >= READ_FROM {
            self.reads_first.store(true, Ordering::Relaxed);
        } else if share <= READ_DOWN_TO {
            self.reads_first.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads_first(replays: &Replays) -> bool {
        replays.strategy(Acquire::Adaptive) == Acquire::ReadFirst { consistent: false }
    }

    /// So many calls, of which each `nth` is a repeat.
    fn calls(replays: &Replays, count: u32, nth: u32) {
        (1..=count).for_each(|call| replays.note(Acquire::Adaptive, call % nth == 0));
    }

    #[test]
    fn it_reads_first_where_repeats_are_many_and_writes_first_where_they_are_few() {
        let replays = Replays::default();
        assert!(!reads_first(&replays), "at the start");
        calls(&replays, 200, 20);
        assert!(!reads_first(&replays), "one in twenty");
        calls(&replays, 50, 2);
        assert!(reads_first(&replays), "one in two");
        calls(&replays, 200, 100);
        assert!(!reads_first(&replays), "one in a hundred");
    }

    #[test]
    fn the_share_stays_within_its_bounds() {
        let replays = Replays::default();
        calls(&replays, 10_000, 1);
        assert!(replays.share.load(Ordering::Relaxed) <= ONE);
        (0..10_000).for_each(|_| replays.note(Acquire::Adaptive, false));
        assert!(!reads_first(&replays));
    }

    #[test]
    fn a_choice_stays_a_choice_and_other_calls_do_not_count() {
        let replays = Replays::default();
        for chosen in [Acquire::WriteFirst, Acquire::ReadFirst { consistent: true }] {
            (0..100).for_each(|_| replays.note(chosen, true));
            assert_eq!(replays.strategy(chosen), chosen);
        }
        assert!(!reads_first(&replays));
    }
}
