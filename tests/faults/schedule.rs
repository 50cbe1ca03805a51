//! A schedule as text, and how one is run.
//!
//! `release skews=0,0 phase=0: A.start A.lose-reply A.deliver …` is all that a run depends on.

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

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) steps: Vec<Step>,
    pub(crate) violation: Option<Violation>,
    /// Of a schedule that came to its end.
    pub(crate) history: Option<u64>,
}

impl Setup {
    /// Callers of a scenario as its line says.
    pub(crate) fn of(scenario: &Scenario, callers: usize) -> Self {
        let skews = scenario.skews[..callers].to_vec();
        Self { scenario: scenario.name, skews, phase: 250, jitter: None }
    }
}

impl Budget {
    /// Without bounds.
    pub(crate) const FREE: Self = Self {
        faults: u32::MAX,
        failures: u32::MAX,
        pauses: u32::MAX,
        clocks: u32::MAX,
        beats: u32::MAX,
        fates: Fate::FAULTS,
    };

    pub(crate) const fn of(scenario: &Scenario, faults: u32) -> Self {
        let Scenario { failures, pauses, clocks, beats, fates, .. } = *scenario;
        Self { faults, failures, pauses, clocks, beats, fates }
    }
}

thread_local! {
    // Its time is paused: it passes only when the simulation lets it.
    static RUNTIME: Runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime can be made");
}

/// Runs one schedule; `choose` picks each step, or ends the run with `None`.
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
            simulation.close_down().await;
            ran.violation = world::violation();
        }
        ran.history = Some(world::history());
        ran
    };
    RUNTIME.with(|runtime| runtime.block_on(simulate))
}

impl Schedule {
    /// Runs these steps, leaves out those that are not possible, and ends what is begun.
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
            last = Some(next.unwrap_or_else(|| *enabled.first().expect("something can happen")));
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
        let (setup, steps) = text.split_once(": ").ok_or("there is no `: ` after the setup")?;
        let mut words = setup.split_whitespace();
        let name = words.next().unwrap_or_default();
        let scenario = scenarios::named(name).ok_or_else(|| format!("no scenario `{name}`"))?;
        let mut setup = Setup::of(scenario, 2);
        for word in words {
            let number = |text: &str| text.parse().map_err(|_| format!("`{word}` is no number"));
            match word.split_once('=') {
                Some(("skews", skews)) => {
                    setup.skews = skews.split(',').map(number).collect::<Result<_, _>>()?;
                }
                Some(("phase", phase)) => setup.phase = number(phase)?,
                Some(("jitter", jitter)) => {
                    let jitter = jitter.parse().map_err(|_| format!("`{word}` is no seed"))?;
                    setup.jitter = Some(jitter);
                }
                _ => return Err(format!("`{word}` is no part of a setup")),
            }
        }
        let steps = steps.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { setup, steps })
    }
}
