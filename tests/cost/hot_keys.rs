//! Many callers on one key: what they send together stays within the bounds of `docs/cost.md`.

use std::time::Duration;

use dynamodb_idempotency::Policy;
use dynamodb_idempotency::policy::InProgress;
use futures::future::join_all;

use crate::support::{
    Charging, Gate, Link, Runs, Store, charge, charge_held, executed, is_in_progress, replayed,
};

/// A unit each.
fn units(requests: usize) -> f64 {
    f64::from(u32::try_from(requests).unwrap())
}

fn waiting(policy: Policy) -> Policy {
    policy.in_progress(InProgress::Wait { timeout: Duration::from_secs(60) })
}

#[tokio::test]
async fn a_storm_on_a_running_key_is_one_request_and_one_unit_a_caller() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let (owner, gate) = (store.idempotency(), Gate::default());
    let processes = store.builder(&link).build().unwrap();
    link.wire.measure();
    let running = charge_held(owner.charging(), &runs, &gate);
    let (first, ()) = tokio::join!(running, async {
        gate.reached().await;
        let callers = (0..100).map(|_| charge(processes.charging(), &runs));
        assert!(join_all(callers).await.into_iter().all(is_in_progress));
        gate.open();
    });
    first.unwrap();
    assert_eq!((link.wire.requests().len(), link.wire.units()), (100, (0.0, 100.0)));
}

#[tokio::test]
async fn a_storm_that_waits_is_a_write_and_its_looks_a_caller() {
    const CALLERS: usize = 50;
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let (owner, gate) = (store.idempotency(), Gate::default());
    let processes = store.builder(&link).build().unwrap();
    link.wire.measure();
    let running = charge_held(owner.charging(), &runs, &gate);
    let (first, waited) = tokio::join!(running, async {
        gate.reached().await;
        // Some caller's second look is answered, and so has left, when the gate opens.
        let second = Gate::default();
        for _ in 0..CALLERS {
            link.wire.next("GetItem", crate::support::Act::Deliver);
        }
        link.wire.next("GetItem", crate::support::Act::HoldResponse(second.clone()));
        let callers = (0..CALLERS).map(|_| charge(processes.charging_by(waiting), &runs));
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
    assert_eq!((writes, runs.count()), (CALLERS, 1));
    // Once while it ran, for the first look of each is answered before it ends; within the wait of 60 s.
    assert!((CALLERS..=CALLERS * (6 + 2 * 60)).contains(&looks), "{looks}");
    assert_eq!(link.wire.units(), (units(looks), units(writes)));
}
