//! Parses, prints and runs schedules.
//!
//! A run depends on nothing but its line: `release skews=0,0 phase=0: A.start A.lose-reply A.deliver …`.

use std::fmt;
use std::str::FromStr;

use tokio::runtime::{Builder, Runtime};

use crate::guarantee::Violation;
use crate::scenarios::{self, Scenario};
use crate::simulation::{Budget, Setup, Simulation};
use crate::step::{Fate, Step};
use crate::world;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) setup: Setup,
    pub(crate) steps: Vec<Step>,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) steps: Vec<Step>,
    pub(crate) violation: Option<Violation>,
    /// A digest of what callers observed, if the schedule ran to its end.
    pub(crate) history: Option<u64>,
}

impl Setup {
    /// The setup of a scenario with so many callers.
    pub(crate) fn of(scenario: &Scenario, callers: usize) -> Self {
        let skews = scenario.skews[..callers].to_vec();
        Self { scenario: scenario.name, skews, phase: 250, jitter: None }
    }
}

impl Budget {
    /// No bounds.
    pub(crate) const FREE: Self = Self {
        faults: u32::MAX,
        failures: u32::MAX,
        pauses: u32::MAX,
        clocks: u32::MAX,
        handler_timers: u32::MAX,
        fates: Fate::FAULTS,
    };

    pub(crate) const fn of(scenario: &Scenario, faults: u32) -> Self {
        let Scenario { failures, pauses, clocks, handler_timers, fates, .. } = *scenario;
        Self { faults, failures, pauses, clocks, handler_timers, fates }
    }
}

thread_local! {
    // With paused time, which advances only when the simulation sleeps.
    static RUNTIME: Runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("the runtime starts");
}

/// Runs one schedule. `choose` returns each step, or `None` to end the run.
pub(crate) fn run(
    setup: &Setup,
    budget: Budget,
    mut choose: impl FnMut(&Simulation) -> Option<Step>,
) -> Ran {
    let scenario = scenarios::named(setup.scenario).expect("the scenario exists");
    let simulate = async {
        let mut simulation = Simulation::begin(setup, scenario, budget);
        let mut ran = Ran { steps: Vec::with_capacity(32), violation: None, history: None };
        while !simulation.is_finished && ran.violation.is_none() {
            let Some(step) = choose(&simulation) else { return ran };
            simulation.apply(step).await;
            ran.steps.push(step);
            ran.violation = world::violation();
        }
        if ran.violation.is_none() {
            simulation.run_last_caller().await;
            ran.violation = world::violation();
        }
        ran.history = Some(world::history());
        ran
    };
    RUNTIME.with(|runtime| runtime.block_on(simulate))
}

impl Schedule {
    /// Runs these steps without those that are not possible, then the steps that end all calls.
    pub(crate) fn replay(&self, mut watch: impl FnMut(&Simulation, Option<Step>)) -> Ran {
        let mut steps = self.steps.iter().copied().peekable();
        let mut last = None;
        run(&self.setup, Budget::FREE, |simulation| {
            watch(simulation, last);
            let enabled = simulation.enabled();
            let possible = |step: &Step| match step {
                Step::Pause(_) => true,
                step => enabled.contains(step),
            };
            let next = steps.by_ref().find(possible);
            last = Some(next.unwrap_or_else(|| *enabled.first().expect("a step is possible")));
            last
        })
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { scenario, skews, phase, jitter } = &self.setup;
        let skews = skews.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        write!(f, "{scenario} skews={skews} phase={phase}")?;
        if let Some(jitter) = jitter {
            write!(f, " jitter={jitter}")?;
        }
        f.write_str(":")?;
        self.steps.iter().try_for_each(|step| write!(f, " {step}"))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (setup, steps) = text.split_once(": ").ok_or("`: ` is missing after the setup")?;
        let mut words = setup.split_whitespace();
        let name = words.next().unwrap_or_default();
        let scenario = scenarios::named(name).ok_or_else(|| format!("no scenario `{name}`"))?;
        let mut setup = Setup::of(scenario, 2);
        for word in words {
            let number = |text: &str| text.parse().map_err(|_| format!("`{word}` is not a number"));
            match word.split_once('=') {
                Some(("skews", skews)) => {
                    setup.skews = skews.split(',').map(number).collect::<Result<_, _>>()?;
                }
                Some(("phase", phase)) => setup.phase = number(phase)?,
                Some(("jitter", jitter)) => {
                    let jitter = jitter.parse().map_err(|_| format!("`{word}` is not a seed"))?;
                    setup.jitter = Some(jitter);
                }
                _ => return Err(format!("`{word}` is not part of a setup")),
            }
        }
        let steps = steps.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { setup, steps })
    }
}
