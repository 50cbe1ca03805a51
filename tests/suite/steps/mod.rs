//! A completed step is not executed again, whichever owner continues its operation.

mod at_most_once;
mod bad_input;
mod checkpoints;
mod items;
mod owners;

use std::cell::Cell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use dynamodb_idempotency::policy::{Failure, Lease, Outage};
use dynamodb_idempotency::{ErrorKind, Execution, Idempotency, Outcome, RunError};
use futures::future::join;

use crate::support::raw::{Item, number, s, status, with};
use crate::support::{Act, Gate, Link, Runs, Store, handlers, kind, not_run, not_stored, raw};

type Stepped = Result<String, RunError<&'static str>>;

/// By when every lease of a present owner is over.
const AN_HOUR: i64 = 3600;

const NAMES: [&str; 3] = ["reserve", "charge", "mail"];

/// How often the work of each of the three steps was done.
#[derive(Clone, Debug, Default)]
struct Effects([Runs; 3]);

impl Effects {
    fn counts(&self) -> [u32; 3] {
        [0, 1, 2].map(|index| self.0[index].count())
    }
}

/// Executes three steps. The answer has the result of each: its name and the number of the run.
async fn three(execution: &Execution, effects: &Effects) -> Stepped {
    let mut all = Vec::new();
    for (name, runs) in NAMES.into_iter().zip(&effects.0) {
        let work = async { Ok::<_, &str>(format!("{name} {}", runs.add())) };
        all.push(execution.step(name, work).await?);
    }
    Ok(all.join(", "))
}

const DONE: &str = "reserve 1, charge 1, mail 1";

/// Runs the three steps, and fails then if it is to.
async fn order(
    idempotency: &Idempotency,
    failure: Failure,
    effects: &Effects,
    fails: bool,
) -> Result<Outcome<String>, RunError<RunError<&'static str>>> {
    let operation = idempotency
        .operation("order")
        .policy(|p| p.failure(failure))
        .unwrap()
        .key("k")
        .no_payload();
    operation
        .run_with_outcome(async |execution| {
            let done = three(&execution, effects).await?;
            if fails { Err(RunError::Handler("no stock")) } else { Ok(done) }
        })
        .await
}

/// Work that must not be done.
fn never<T>() -> impl Future<Output = Result<T, &'static str>> {
    std::future::poll_fn(|_| panic!("it ran"))
}

fn steps(record: &Item) -> &Item {
    record["steps"].as_m().expect("a map of steps")
}

/// A record of an earlier attempt's that did one step.
fn stepped(record: Item) -> Item {
    with(record, "steps", raw::map("reserve", s("\"reserve 0\"")))
}
