//! A digest of the state of a simulation, by which the exhaustive search recognizes equivalent schedules.

use super::Simulation;
use crate::guarantee::CallOutcome;
use crate::store::Item;
use crate::world::{self, World, digest, digest_of};

impl Simulation {
    /// A digest of everything that the rest of the schedule depends on.
    pub(crate) fn state(&self) -> u64 {
        let woken: Vec<bool> = (0..self.calls.len()).map(|caller| self.is_woken(caller)).collect();
        world::with(|world| {
            let items: Vec<u64> = world.store.items().values().map(item_digest).collect();
            let mut late: Vec<u64> = world.late.iter().map(|request| request.digest).collect();
            late.sort_unstable();
            digest_of((
                woken,
                (items, self.earlier_items(world)),
                self.histories(world),
                late,
                world.elapsed(),
                self.budget,
                world.ledger.digest(),
            ))
        })
    }

    /// The history of a call that has returned matters only to callers that share its process.
    fn histories(&self, world: &World) -> Vec<u64> {
        let is_over = |outcome: &Option<CallOutcome>| outcome.is_some() && !self.scenario.shared;
        (world.callers.iter().zip(&self.outcomes))
            .map(|(caller, outcome)| if is_over(outcome) { 0 } else { caller.history })
            .collect()
    }

    /// What stale reads can show. Empty in a scenario without them.
    fn earlier_items(&self, world: &World) -> Vec<u64> {
        (world.store.earlier())
            .filter(|_| self.scenario.has_stale_reads)
            .map(|(key, item)| digest_of((key, item.as_ref().map(item_digest))))
            .collect()
    }
}

/// Independent of the order of the attributes.
fn item_digest(item: &Item) -> u64 {
    item.iter().map(|(name, value)| digest_of((name, digest(value)))).fold(0, u64::wrapping_add)
}
