//! Random schedules from a seed: three to five callers, each with its own clock, and any number of faults.
//! They cover what the exhaustive search cannot reach.

use std::collections::HashSet;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::guarantee::Violation;
use crate::scenarios;
use crate::schedule::{Ran, Schedule, run};
use crate::simulation::{Budget, Setup, Simulation};
use crate::step::{Fate, Step};
use crate::world::HandlerEnd;

/// After this many steps there are no more faults, so that the schedule ends.
const MOST_STEPS: u32 = 60;

/// `SplitMix64`: small, with the same values on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("it is below the bound")
    }

    fn between(&mut self, least: i64, most: i64) -> i64 {
        let span = u64::try_from(most - least).expect("least comes first") + 1;
        least + i64::try_from(self.next() % span).expect("it is below the span")
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick(&mut self, steps: &[Step]) -> Option<Step> {
        (!steps.is_empty()).then(|| steps[self.below(steps.len())])
    }
}

fn setup(rng: &mut Rng) -> Setup {
    let scenario = &scenarios::ALL[rng.below(scenarios::ALL.len())];
    let callers = 3 + rng.below(3);
    let skew = |rng: &mut Rng| match rng.below(4) {
        0 => rng.between(-2_000, 2_000),
        1 => rng.between(-600_000, 600_000),
        _ => 0,
    };
    Setup {
        scenario: scenario.name,
        skews: (0..callers).map(|_| skew(rng)).collect(),
        phase: rng.between(0, 999),
        jitter: Some(rng.next()),
    }
}

/// Runs the schedule of this seed.
pub(crate) fn run_seed(seed: u64) -> (Setup, Ran) {
    let mut rng = Rng::new(seed);
    let setup = setup(&mut rng);
    let faults = [0, 3, 10, 25][rng.below(4)];
    let mut left = MOST_STEPS;
    let ran = run(&setup, Budget::FREE, |simulation| {
        left = left.saturating_sub(1);
        choose(&mut rng, simulation, if left == 0 { 0 } else { faults })
    });
    (setup, ran)
}

fn choose(rng: &mut Rng, simulation: &Simulation, faults: usize) -> Option<Step> {
    let steps = simulation.enabled();
    let (mishaps, usual): (Vec<Step>, Vec<Step>) =
        steps.iter().copied().partition(|&step| is_fault(step));
    let fault = if rng.percent(faults) { rng.pick(&mishaps) } else { None };
    let step = fault.or_else(|| rng.pick(&usual)).or_else(|| rng.pick(&steps))?;
    Some(match step {
        Step::Pause(longest) => Step::Pause(pause(rng, longest)),
        step => step,
    })
}

/// The length of a pause: from a slow network's delay to a machine that is suspended past every lease.
fn pause(rng: &mut Rng, longest: i64) -> i64 {
    match rng.below(3) {
        0 => rng.between(1, 1_500),
        1 => rng.between(1, longest),
        _ => longest + rng.between(0, 5_000),
    }
}

fn is_fault(step: Step) -> bool {
    match step {
        Step::Request(_, _, fate) => fate != Fate::Deliver,
        Step::Handler(_, end) => end != HandlerEnd::Succeed,
        Step::Die(_) | Step::Pause(_) | Step::Jump(..) | Step::Freeze(..) => true,
        Step::Start(_)
        | Step::Wake(_)
        | Step::Tick
        | Step::Arrive(_)
        | Step::Expire
        | Step::Finish => false,
    }
}

#[derive(Debug, Default)]
pub(crate) struct Searched {
    pub(crate) schedules: u64,
    pub(crate) histories: HashSet<u64>,
    pub(crate) violation: Option<(u64, Schedule, Violation)>,
}

/// When a search ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// After a number of schedules, which are the same each time.
    Schedules(u64),
    Time(Duration),
}

/// How many schedules a thread runs before it checks the bound.
const BATCH: u64 = 64;

/// Searches from seed `first` on every core, until the bound or a violation is reached.
pub(crate) fn search(first: u64, bound: Bound) -> Searched {
    let start = Instant::now();
    let next = AtomicU64::new(0);
    let searched = Mutex::new(Searched::default());
    let (most, time) = match bound {
        Bound::Schedules(most) => (most, Duration::MAX),
        Bound::Time(time) => (u64::MAX, time),
    };
    let is_over = || start.elapsed() > time || searched.lock().unwrap().violation.is_some();
    let work = || {
        loop {
            let batch = next.fetch_add(BATCH, Ordering::Relaxed);
            if batch >= most || is_over() {
                return;
            }
            let batch = batch..most.min(batch + BATCH);
            let schedules = batch.end - batch.start;
            let runs: Vec<_> = batch.map(|i| search_one(first + i)).collect();
            let mut searched = searched.lock().unwrap();
            searched.schedules += schedules;
            for (history, violation) in runs {
                searched.histories.extend(history);
                searched.violation = searched.violation.take().or(violation);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        while matches!(bound, Bound::Time(_)) && workers.iter().any(|worker| !worker.is_finished())
        {
            std::thread::sleep(Duration::from_secs(1));
            report(&searched.lock().unwrap(), start, time);
        }
    });
    searched.into_inner().unwrap()
}

fn search_one(seed: u64) -> (Option<u64>, Option<(u64, Schedule, Violation)>) {
    let (setup, ran) = run_seed(seed);
    let violation = ran.violation.map(|found| (seed, Schedule { setup, steps: ran.steps }, found));
    (ran.history, violation)
}

fn report(searched: &Searched, start: Instant, time: Duration) {
    let elapsed = start.elapsed();
    let percent = (elapsed.as_millis() * 100 / time.as_millis().max(1)).min(100);
    let bar = "#".repeat(usize::try_from(percent / 4).unwrap_or_default());
    let Searched { schedules, histories, .. } = searched;
    let rate = per_second(*schedules, elapsed);
    let histories = histories.len();
    eprint!(
        "\r[{bar:.<25}] {percent:>3} %  {schedules} schedules, {histories} histories, {rate}/s "
    );
}

pub(crate) fn per_second(schedules: u64, elapsed: Duration) -> u128 {
    u128::from(schedules) * 1_000 / elapsed.as_millis().max(1)
}

/// Removes the steps that the violation does not need.
pub(crate) fn shrink(schedule: Schedule, violation: &Violation) -> Schedule {
    let mut best = schedule;
    let still = |candidate: &Schedule| {
        let ran = candidate.replay(|_, _| {});
        let same = ran.violation.is_some_and(|found| found.guarantee == violation.guarantee);
        same.then_some(ran.steps)
    };
    let mut size = best.steps.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < best.steps.len() {
            let mut candidate = best.clone();
            candidate.steps.drain(at..(at + size).min(candidate.steps.len()));
            match still(&candidate) {
                Some(steps) if steps.len() < best.steps.len() => best.steps = steps,
                _ => at += size,
            }
        }
        size /= 2;
    }
    for caller in 0..best.setup.skews.len() {
        let mut candidate = best.clone();
        candidate.setup.skews[caller] = 0;
        if let Some(steps) = still(&candidate) {
            best = Schedule { steps, ..candidate };
        }
    }
    best
}
