//! Searches all schedules up to a bound, depth first, by replaying each from its start.
//!
//! Two schedules that lead to the same state have the same continuations, so the second one is pruned. A
//! state is the table, the delayed requests, the time, the budget, and for each caller all of its inputs
//! with their times.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crate::guarantee::{Guarantee, Violation};
use crate::random::{per_second, shrink};
use crate::scenarios::{self, Scenario};
use crate::schedule::{Schedule, run};
use crate::simulation::{Budget, Setup};
use crate::step::Step;

#[derive(Debug, Default)]
pub(crate) struct Explored {
    pub(crate) schedules: u64,
    pub(crate) states: usize,
    pub(crate) histories: HashSet<u64>,
    pub(crate) violation: Option<(Schedule, Violation)>,
}

/// Explores all schedules of at most `length` steps, up to the first violation that is `wanted`.
pub(crate) fn explore(
    setup: &Setup,
    budget: Budget,
    length: usize,
    wanted: impl Fn(&Violation) -> bool,
) -> Explored {
    let mut explored = Explored::default();
    // For each state, which callers could still do a local step, and at which depth it was reached.
    let mut seen: HashMap<u64, Vec<(u8, usize)>> = HashMap::new();
    let mut branches: Vec<Vec<Step>> = vec![Vec::new()];
    while let Some(prefix) = branches.pop() {
        let mut path = prefix.clone();
        let mut depth = 0;
        let ran = run(setup, budget, |simulation| {
            depth += 1;
            if let Some(step) = prefix.get(depth - 1) {
                return Some(*step);
            }
            if depth > length || simulation.is_idle {
                return None;
            }
            let can = simulation.freshness();
            let known = seen.entry(simulation.state()).or_default();
            if known.iter().any(|(could, at)| could & can == can && *at <= depth) {
                return None;
            }
            known.push((can, depth));
            let steps = simulation.canonical();
            let (first, others) = steps.split_first()?;
            branches.extend(others.iter().map(|other| [&path[..], &[*other]].concat()));
            path.push(*first);
            Some(*first)
        });
        explored.schedules += 1;
        explored.histories.extend(ran.history);
        if let Some(violation) = ran.violation.filter(&wanted) {
            let schedule = Schedule { setup: setup.clone(), steps: ran.steps };
            explored.violation = Some((schedule, violation));
            break;
        }
    }
    explored.states = seen.len();
    explored
}

/// A schedule that violates `guarantee`, with the fewest faults.
pub(crate) fn any(
    setup: &Setup,
    scenario: &Scenario,
    guarantee: Guarantee,
    faults: u32,
) -> Option<(Schedule, Violation)> {
    let wanted = |violation: &Violation| violation.guarantee == guarantee;
    let explore = |faults| explore(setup, Budget::of(scenario, faults), MOST_STEPS, wanted);
    (0..=faults).find_map(|faults| explore(faults).violation)
}

/// The longest schedule that is searched for a violation. The longest known one has 12 steps.
const MOST_STEPS: usize = 16;

/// The shortest schedule that violates a guarantee, with the fewest faults.
pub(crate) fn shortest(
    setup: &Setup,
    scenario: &Scenario,
    faults: u32,
) -> Option<(Schedule, Violation)> {
    for faults in 0..=faults {
        let budget = Budget::of(scenario, faults);
        let mut best = None;
        let mut length = MOST_STEPS;
        while let Some((found, violation)) = explore(setup, budget, length, |_| true).violation {
            let found = shrink(found, &violation);
            length = found.steps.len() - 1;
            best = Some((found, violation));
        }
        if best.is_some() {
            return best;
        }
    }
    None
}

/// Whether `FAULT_BOUND=full` is set. Each scenario is then searched with two callers and two faults, and
/// with three callers and one fault, which takes hours.
pub(crate) fn is_full() -> bool {
    std::env::var("FAULT_BOUND").is_ok_and(|bound| bound == "full")
}

/// The callers and faults to search with. The default bounds take a minute or two for all scenarios.
fn bounds(scenario: &Scenario) -> &'static [(usize, u32)] {
    if is_full() { scenarios::FULL } else { scenario.bounds }
}

/// Searches a scenario to its bounds.
pub(crate) fn search(name: &str) {
    let scenario = scenarios::named(name).expect("the scenario exists");
    for &(callers, faults) in bounds(scenario) {
        let start = Instant::now();
        let setup = Setup::of(scenario, callers);
        let explored = explore(&setup, Budget::of(scenario, faults), usize::MAX, |_| true);
        let elapsed = start.elapsed();
        println!(
            "{name}: {callers} callers, {faults} faults: {} schedules, {} histories, {} states, \
             {:.1} s, {}/s",
            explored.schedules,
            explored.histories.len(),
            explored.states,
            elapsed.as_secs_f64(),
            per_second(explored.schedules, elapsed),
        );
        if let Some((schedule, violation)) = explored.violation {
            panic!("{violation}\nSCHEDULE='{schedule}'");
        }
    }
}
