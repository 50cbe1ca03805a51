//! What the steps of an operation cost: a step pays for its result once, and no later write pays for it again.

use std::time::Duration;

use dynamodb_idempotency::policy::Lease;
use dynamodb_idempotency::{Policy, RunError};

use crate::support::{Charging, Link, Runs, Store, caller_on, charge, is_in_progress};

/// The write units of an operation with some steps of 1 KB, whose names have 8 bytes.
pub(crate) struct Cost {
    /// Of the whole operation.
    pub(crate) all: f64,
    /// Of a renewal after the last step.
    pub(crate) renewal: f64,
    /// Of a repeat that is rejected then.
    pub(crate) repeat: f64,
    /// The requests of the whole operation, without the renewal.
    pub(crate) requests: usize,
}

/// Takes about ten seconds, until the first renewal.
pub(crate) async fn cost(steps: u32) -> Cost {
    let (store, link, beside) = (Store::open().await, Link::default(), Link::default());
    let renewed = |policy: Policy| policy.lease(Lease::Renewed(Duration::from_secs(30)));
    let rival = store.over(&beside);
    link.wire.measure();
    beside.wire.measure();
    let (mut renewal, mut repeat) = (0.0, 0.0);
    let running = store.by(&link, renewed).charging().run(async |execution| {
        for number in 0..steps {
            let work = async { Ok::<_, &str>(format!("{number:x<1022}")) };
            execution.step(&format!("step-{number:03}"), work).await?;
        }
        let before = link.wire.units().1;
        while link.wire.units().1 <= before {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        renewal = link.wire.units().1 - before;
        let call = rival.charging();
        assert!(is_in_progress(charge(call, &Runs::default()).await));
        repeat = beside.wire.units().1;
        Ok::<_, RunError<&str>>(())
    });
    running.await.unwrap();
    let requests = link.wire.requests().len() - 1;
    Cost { all: link.wire.units().1 - renewal, renewal, repeat, requests }
}

#[tokio::test]
async fn steps_of_1_kb_cost_two_units_and_those_of_their_notes() {
    let Cost { all, renewal, repeat, .. } = cost(100).await;
    println!("100 steps: {all} write units, a renewal {renewal}, a rejected repeat {repeat}");
    assert!(all <= 400.0, "{all}");
    assert!(renewal <= 3.0 && repeat <= 3.0, "{renewal}, {repeat}");
    let Cost { all, renewal, repeat, .. } = cost(200).await;
    println!("200 steps: {all} write units, a renewal {renewal}, a rejected repeat {repeat}");
    assert!(all <= 1_000.0, "{all}");
    assert!(renewal <= 5.0 && repeat <= 5.0, "{renewal}, {repeat}");
}

#[tokio::test]
async fn a_takeover_reads_each_item_once_and_eventually_consistent() {
    let (_store, link, _, idempotency) = caller_on(Link::default()).await;
    let run = async |fails: bool| {
        let running = idempotency.charging().run(async |execution| {
            for number in 0..100 {
                let work = async { Ok::<_, &str>(format!("{number:x<1022}")) };
                execution.step(&format!("step-{number:03}"), work).await?;
            }
            if fails { Err(RunError::Handler("later")) } else { Ok(()) }
        });
        running.await
    };
    run(true).await.unwrap_err();
    link.wire.measure();
    run(false).await.unwrap();
    let (reads, writes) = link.wire.units();
    assert!(reads <= 50.0, "{reads}");
    // Rejected, taken over, completed: each by the size of the record with its notes.
    assert!(writes <= 9.0, "{writes}");
}

/// Steps whose results fit into the record cost what their record costs.
#[tokio::test]
async fn small_steps_have_no_items() {
    let (store, link) = (Store::open().await, Link::default());
    link.wire.measure();
    let running = store.over(&link).charging().run(async |execution| {
        for number in 0..10 {
            let work = async { Ok::<_, &str>(format!("{number:x<50}")) };
            execution.step(&format!("step-{number:03}"), work).await?;
        }
        Ok::<_, RunError<&str>>(())
    });
    running.await.unwrap();
    assert_eq!(link.wire.units(), (0.0, 12.0));
    assert_eq!(link.wire.count("PutItem"), 2, "acquire, complete");
}
