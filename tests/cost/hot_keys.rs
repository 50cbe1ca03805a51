//! A thousand callers on one key: what they send together stays within the bounds of `docs/cost.md`.

use std::time::Duration;

use dynamodb_idempotency::{InProgress, Outcome, Policy};
use futures::future::join_all;

use crate::bodies::Kind;
use crate::sizes::{KIB, is_replay, send};
use crate::support::{
    Gate, Link, Runs, Store, charge, charge_held, executed, is_in_progress, replayed,
};

const CALLERS: usize = 1000;

/// A unit each.
fn units(requests: usize) -> f64 {
    f64::from(u32::try_from(requests).unwrap())
}

fn waiting(policy: Policy) -> Policy {
    policy.in_progress(InProgress::Wait { timeout: Duration::from_secs(60) })
}

#[tokio::test]
async fn a_storm_on_a_completed_key_is_one_request_a_process() {
    let (store, runs) = (Store::open().await, Runs::default());
    charge(store.idempotency().operation("charge").key("k"), &runs).await.unwrap();
    let link = Link::default();
    let process = store.sharing(&link);
    link.wire.measure();
    let callers = (0..CALLERS).map(|_| charge(process.operation("charge").key("k"), &runs));
    for outcome in join_all(callers).await {
        assert_eq!(outcome.unwrap(), replayed(1, 1));
    }
    assert_eq!((link.wire.requests().len(), link.wire.units()), (1, (0.0, 1.0)));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_storm_on_a_large_answer_reads_its_parts_once_a_process() {
    let (store, link) = (Store::open().await, Link::default());
    let body = Kind::Random.bytes(150 * KIB);
    send(&store.idempotency(), "k", Kind::Random, &body).await;
    let process = store.sharing(&link);
    link.wire.measure();
    let callers = (0..50).map(|_| send(&process, "k", Kind::Random, b"it ran again"));
    for response in join_all(callers).await {
        assert!(is_replay(&response) && response.body() == &body);
    }
    assert_eq!(link.wire.count("PutItem"), 1);
    // Five parts; an engine that is behind is asked for each of them twice.
    assert!(link.wire.count("GetItem") <= 10, "{:?}", link.wire.requests());
}

#[tokio::test]
async fn a_storm_on_a_running_key_is_refused_by_one_request_a_process() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let (owner, process, gate) = (store.idempotency(), store.sharing(&link), Gate::default());
    link.wire.measure();
    let running = charge_held(owner.operation("charge").key("k"), &runs, &gate);
    let (first, ()) = tokio::join!(running, async {
        gate.reached().await;
        let callers = (0..CALLERS).map(|_| charge(process.operation("charge").key("k"), &runs));
        assert!(join_all(callers).await.into_iter().all(is_in_progress));
        gate.open();
    });
    assert_eq!(first.unwrap(), executed(1, 1));
    assert_eq!((link.wire.requests().len(), link.wire.units()), (1, (0.0, 1.0)));
}

#[tokio::test]
async fn a_storm_without_single_flight_is_one_request_and_one_unit_a_caller() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let (owner, gate) = (store.idempotency(), Gate::default());
    let processes = store.builder(&link).build().unwrap();
    link.wire.measure();
    let running = charge_held(owner.operation("charge").key("k"), &runs, &gate);
    let (first, ()) = tokio::join!(running, async {
        gate.reached().await;
        let callers = (0..100).map(|_| charge(processes.operation("charge").key("k"), &runs));
        assert!(join_all(callers).await.into_iter().all(is_in_progress));
        gate.open();
    });
    first.unwrap();
    assert_eq!((link.wire.requests().len(), link.wire.units()), (100, (0.0, 100.0)));
}

/// Of all that wait, one looks at a time: as often as one caller alone would.
#[tokio::test]
async fn a_storm_that_waits_looks_as_one_caller_does() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let (owner, process, gate) = (store.idempotency(), store.sharing(&link), Gate::default());
    link.wire.measure();
    let running = charge_held(owner.operation("charge").key("k"), &runs, &gate);
    let (first, waited) = tokio::join!(running, async {
        gate.reached().await;
        // Answered, and so the third look has left, when the gate opens.
        let third = Gate::default();
        link.wire.next("GetItem", crate::support::Act::Deliver);
        link.wire.next("GetItem", crate::support::Act::Deliver);
        link.wire.next("GetItem", crate::support::Act::HoldResponse(third.clone()));
        let callers = (0..CALLERS)
            .map(|_| charge(process.operation("charge").key("k").policy(waiting), &runs));
        let (waited, ()) = tokio::join!(join_all(callers), async {
            third.reached().await;
            gate.open();
            third.open();
        });
        waited
    });
    assert_eq!(first.unwrap(), executed(1, 1));
    assert!(waited.into_iter().all(|outcome| outcome.unwrap() == replayed(1, 1)));
    // One write, three looks while it ran, and those until one of them has seen the answer.
    let (writes, looks) = (link.wire.count("PutItem"), link.wire.count("GetItem"));
    assert!(writes == 1 && (4..=5).contains(&looks), "{writes} and {looks}");
    assert_eq!(link.wire.units(), (units(looks), 1.0));
}

#[tokio::test]
async fn a_storm_that_waits_without_single_flight_is_a_write_and_its_looks_a_caller() {
    const ALONE: usize = 50;
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let (owner, gate) = (store.idempotency(), Gate::default());
    let processes = store.builder(&link).build().unwrap();
    link.wire.measure();
    let running = charge_held(owner.operation("charge").key("k"), &runs, &gate);
    let (first, waited) = tokio::join!(running, async {
        gate.reached().await;
        // Some caller's second look is answered, and so has left, when the gate opens.
        let second = Gate::default();
        for _ in 0..ALONE {
            link.wire.next("GetItem", crate::support::Act::Deliver);
        }
        link.wire.next("GetItem", crate::support::Act::HoldResponse(second.clone()));
        let callers = (0..ALONE)
            .map(|_| charge(processes.operation("charge").key("k").policy(waiting), &runs));
        let (waited, ()) = tokio::join!(join_all(callers), async {
            second.reached().await;
            gate.open();
            second.open();
        });
        waited
    });
    assert_eq!(first.unwrap(), executed(1, 1));
    assert!(waited.into_iter().all(|outcome| outcome.unwrap() == replayed(1, 1)));
    let (writes, looks) = (link.wire.count("PutItem"), link.wire.count("GetItem"));
    assert_eq!((writes, runs.count()), (ALONE, 1));
    // Once while it ran, for the first look of each is answered before it ends; within the wait of 60 s.
    assert!((ALONE..=ALONE * (6 + 2 * 60)).contains(&looks), "{looks}");
    assert_eq!(link.wire.units(), (units(looks), units(writes)));
}

#[tokio::test]
async fn a_storm_on_a_new_key_runs_once_and_its_waiters_get_the_answer() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let process = store.sharing(&link);
    let callers =
        (0..CALLERS).map(|_| charge(process.operation("charge").key("k").policy(waiting), &runs));
    let outcomes = join_all(callers).await;
    let executed =
        |outcome: &&Result<Outcome<String>, _>| matches!(outcome, Ok(Outcome::Executed(_)));
    assert_eq!((outcomes.iter().filter(executed).count(), runs.count()), (1, 1));
    assert!(
        outcomes.into_iter().all(|outcome| outcome.unwrap().into_inner() == "run 1, attempt 1")
    );
    assert!(link.wire.requests().len() <= 4, "{:?}", link.wire.requests());
}
