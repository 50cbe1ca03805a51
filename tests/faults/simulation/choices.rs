//! Which steps are possible next.

use super::Simulation;
use crate::step::{Fate, Step};
use crate::store::{Operation, is_expired};
use crate::world::{self, HandlerEnd, World};

/// By how much a wall clock is set back or forward, in ms.
const JUMPS: [i64; 2] = [-300_000, 300_000];

impl Simulation {
    /// Every step that is possible next. The first one continues without a fault.
    pub(crate) fn enabled(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(32);
        let running: Vec<usize> = (0..self.started).filter(|&caller| self.runs(caller)).collect();
        world::with(|world| {
            for &caller in &running {
                let state = &world.callers[caller];
                for (slot, _) in
                    state.parked.iter().enumerate().filter(|(_, parked)| parked.is_some())
                {
                    steps.push(Step::Request(caller, slot, Fate::Deliver));
                }
                if self.is_woken(caller) && (!state.waits() || self.budget.faults > 0) {
                    steps.push(Step::Wake(caller));
                }
                if state.gate.is_some() {
                    steps.push(Step::Handler(caller, HandlerEnd::Succeed));
                }
            }
            // Callers are interchangeable: A is the one that starts first.
            if self.started < self.calls.len() {
                steps.push(Step::Start(self.started));
            }
            if self.may_tick(world, &running) {
                steps.push(Step::Tick);
            }
            if running.is_empty() && self.started == self.calls.len() {
                steps.push(Step::Finish);
            }
            for (index, late) in world.late.iter().enumerate() {
                let is_new = world.late[..index].iter().all(|other| other.digest != late.digest);
                // A request that changes nothing is equivalent to one that never arrives.
                let executed = world.store.dry_run(late.operation, &late.body);
                if is_new && executed.before != executed.after {
                    steps.push(Step::Arrive(index));
                }
            }
            if world.store.record().is_some_and(|item| is_expired(item, world.now())) {
                steps.push(Step::Expire);
            }
            self.push_faults(world, &running, &mut steps);
        });
        steps
    }

    fn push_faults(&self, world: &World, running: &[usize], steps: &mut Vec<Step>) {
        for &caller in running {
            if world.callers[caller].gate.is_some() && self.budget.failures > 0 {
                steps.extend(self.scenario.ends.iter().map(|&end| Step::Handler(caller, end)));
            }
            if self.budget.faults > 0 {
                for (slot, parked) in world.callers[caller].parked.iter().enumerate() {
                    let Some(parked) = parked else { continue };
                    let is_read = parked.request.operation == Operation::Get;
                    let fates = self.budget.fates.iter().copied();
                    let fates = fates.filter(|fate| !is_read || fate.concerns_reads());
                    let can_be_stale = world.can_be_stale(&parked.request);
                    let fates = fates.filter(|fate| *fate != Fate::Stale || can_be_stale);
                    steps.extend(fates.map(|fate| Step::Request(caller, slot, fate)));
                }
                steps.push(Step::Die(caller));
            }
            let may_change_clock = self.budget.clocks > 0 && self.scenario.clocks > 0;
            if may_change_clock && self.budget.faults > 0 && world.callers[caller].gate.is_some() {
                steps.extend(JUMPS.map(|millis| Step::Jump(caller, millis)));
                steps.push(Step::Freeze(caller, self.scenario.pause));
            }
        }
        if self.budget.faults > 0 && self.budget.pauses > 0 && self.started > 0 {
            steps.push(Step::Pause(self.scenario.pause));
        }
    }

    /// The steps that the exhaustive search follows: one of each set of equivalent orders.
    ///
    /// A step that touches neither the table nor a clock has the same effect before and after the steps of
    /// other callers at the same instant. So it happens at once, or only after time has passed. In a shared
    /// process every step touches shared state, so no order is left out.
    pub(crate) fn canonical(&self) -> Vec<Step> {
        let mut steps = self.enabled();
        let has_no_request = |caller: usize| world::with(|world| !world.callers[caller].waits());
        let woken = steps.iter().find_map(|step| match *step {
            Step::Wake(caller) if has_no_request(caller) => Some(caller),
            _ => None,
        });
        steps.retain(|step| match step.caller() {
            None => woken.is_none(),
            Some(caller) => {
                let is_due = self.scenario.shared || !step.is_local() || self.fresh[caller];
                is_due && woken.is_none_or(|woken| woken == caller)
            }
        });
        steps
    }

    /// A bit mask of the callers that can still do a local step.
    pub(crate) fn freshness(&self) -> u8 {
        let bits = self.fresh.iter().enumerate();
        bits.fold(0, |mask, (caller, &fresh)| {
            mask | u8::from(fresh && self.outcomes[caller].is_none()) << caller
        })
    }

    pub(super) fn refresh(&mut self, step: Step) {
        match step.caller() {
            Some(_) if step.is_local() => {}
            Some(_) => self.fresh.fill(false),
            None => {
                let passes = matches!(step, Step::Tick | Step::Pause(_) | Step::Freeze(..));
                self.fresh.fill(passes);
            }
        }
        if let Some(caller) = step.caller() {
            self.fresh[caller] = true;
        }
    }

    /// Time can pass while a caller waits for a timer, and a limited number of times while handlers run.
    fn may_tick(&self, world: &World, running: &[usize]) -> bool {
        let wakes = |&caller: &usize| self.is_woken(caller) && !world.callers[caller].waits();
        let all_quiet = !running.iter().any(wakes);
        let may_fire = self.budget.handler_timers > 0
            && running.iter().any(|&caller| world.callers[caller].gate.is_some());
        all_quiet && (may_fire || running.iter().any(|&caller| world.callers[caller].sleeps()))
    }
}
