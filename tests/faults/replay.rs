//! Runs the random search as tests, and shows one schedule step by step.

use std::time::Duration;

use crate::guarantee::Violation;
use crate::random::{Bound, run_seed, search, shrink};
use crate::schedule::{Ran, Schedule};
use crate::simulation::Simulation;
use crate::step::Step;
use crate::world;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number")))
}

/// Without `FAULT_SECONDS`, runs the same schedules each time: `FAULT_SCHEDULES` (default 1,000), beginning
/// with `FAULT_SEED` (default 1). A new seed may find a new violation, which must not fail an unrelated check.
#[test]
fn random_schedules_violate_nothing() {
    let first = number("FAULT_SEED").unwrap_or(1);
    let schedules = Bound::Schedules(number("FAULT_SCHEDULES").unwrap_or(1_000));
    let bound = number("FAULT_SECONDS").map(Duration::from_secs).map_or(schedules, Bound::Time);
    let searched = search(first, bound);
    println!(
        "random, from seed {first}: {} schedules, {} histories",
        searched.schedules,
        searched.histories.len()
    );
    if let Some((seed, schedule, violation)) = searched.violation {
        println!("seed {seed}: {violation}\n{schedule}");
        panic!("{violation}\nSCHEDULE={seed}\nSCHEDULE='{}'", shrink(schedule, &violation));
    }
}

#[test]
fn equal_seeds_give_equal_schedules() {
    let runs = || {
        let run = |seed| {
            let (setup, ran) = run_seed(seed);
            (Schedule { setup, steps: ran.steps }.to_string(), ran.history)
        };
        (0..200).map(run).collect::<Vec<_>>()
    };
    let elsewhere = std::thread::spawn(runs).join().unwrap();
    assert_eq!(runs(), elsewhere);
}

#[test]
fn a_parsed_schedule_equals_the_written_one() {
    for seed in 0..200 {
        let (setup, ran) = run_seed(seed);
        let schedule = Schedule { setup, steps: ran.steps };
        assert_eq!(schedule.to_string().parse(), Ok(schedule.clone()));
        let again = schedule.replay(|_, _| {});
        assert_eq!((again.steps, again.history), (schedule.steps, ran.history), "seed {seed}");
    }
}

/// `SCHEDULE=<seed or schedule> cargo test … replay -- --nocapture` shows a schedule step by step.
#[test]
fn replay() {
    let Ok(text) = std::env::var("SCHEDULE") else {
        println!("SCHEDULE is not set: nothing to replay");
        return;
    };
    let schedule = match text.parse() {
        Ok(seed) => {
            let (setup, Ran { steps, .. }) = run_seed(seed);
            Schedule { setup, steps }
        }
        Err(_) => text.parse().unwrap_or_else(|wrong| panic!("SCHEDULE: {wrong}")),
    };
    println!("{schedule}\n");
    let ran = schedule.replay(show);
    println!("\nthe last caller, after all leases:\n{}", record());
    println!(
        "{}",
        ran.violation.as_ref().map_or_else(|| "no violation".into(), Violation::to_string)
    );
    assert!(ran.violation.is_none());
}

/// Prints a step and the record after it.
fn show(simulation: &Simulation, step: Option<Step>) {
    let Some(step) = step else { return };
    let elapsed = world::with(|world| world.elapsed());
    println!("{elapsed:>8} ms  {:<14} {}", step.to_string(), record());
    let outcome = step.caller().and_then(|caller| simulation.outcomes[caller].as_ref());
    if let Some(outcome) = outcome {
        println!("{:>12} {outcome:?}", "");
    }
}

/// The record in short: status, owner, attempt, and in how many ms its lease expires.
fn record() -> String {
    world::with(|world| {
        let Some(item) = world.store.record() else { return "no record".to_owned() };
        let text = |name: &str| item.get(name).map(|value| value["S"].as_str().unwrap_or("?"));
        let number = |name: &str| item.get(name).map(crate::expression::number);
        let lease =
            number("lease_expires_at").map(|end| format!(", lease {} ms", end - world.now()));
        format!(
            "{} {} attempt {}{}, {} late",
            text("status").unwrap_or("?"),
            text("owner").and_then(|owner| owner.get(..2)).unwrap_or("?"),
            number("attempt").unwrap_or(0),
            lease.unwrap_or_default(),
            world.late.len()
        )
    })
}
