//! A repeat may wait for the running one.

use std::time::Duration;

use dynamodb_idempotency::policy::{Failure, InProgress};
use dynamodb_idempotency::{Call, CallNeedsPayload, ErrorKind, Idempotency, Outcome, Policy};

use crate::support::gate::patiently;
use crate::support::{
    Act, Charging, Gate, Link, Runs, Store, caller, caller_on, charge, is_in_progress, kind, raw,
};

fn waiting(idempotency: &Idempotency, timeout: Duration) -> Call {
    keyed(idempotency, timeout).no_payload()
}

fn keyed(idempotency: &Idempotency, timeout: Duration) -> CallNeedsPayload {
    let wait = InProgress::Wait { timeout };
    idempotency.operation("charge").policy(|policy| policy.in_progress(wait)).unwrap().key("k")
}

const LONG: Duration = Duration::from_secs(60);
#[tokio::test]
async fn no_handler_starts_without_time_for_its_answer() {
    for (case, record) in [
        ("absent", None),
        ("abandoned", Some(raw::abandoned("charge#k"))),
        ("failed", Some(raw::failed("charge#k"))),
    ] {
        let (store, link, runs, idempotency) = caller_on(Link::default()).await;
        if let Some(record) = &record {
            store.put(record.clone()).await;
        }
        let retain = |policy: Policy| policy.failure(Failure::Retain { max_attempts: 2 });
        let operation = || idempotency.charging_by(retain);
        for _ in 0..2 {
            let soon = link.clock.in_secs(0) + Duration::from_millis(400);
            let result = charge(operation().deadline(soon), &runs).await;
            assert_eq!((kind(result), runs.count()), (ErrorKind::DeadlineExceeded, 0), "{case}");
        }
        // The acquisitions are undone: none of the two attempts is used up.
        let later = charge(operation(), &runs).await;
        assert!(matches!(later, Ok(Outcome::Executed(_))), "{case}: {later:?}");
    }
}

#[tokio::test]
async fn waiting_ends_before_the_deadline() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    store.put(raw::pending("charge#k")).await;
    let deadline = link.clock.in_secs(1);
    let operation = waiting(&idempotency, Duration::from_secs(600)).deadline(deadline);
    assert!(is_in_progress(patiently("the deadline", charge(operation, &runs)).await));
    assert!(link.clock.in_secs(0) < deadline, "the caller can still answer");
}

#[tokio::test]
async fn a_mismatch_does_not_wait() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    store.put(raw::pending("charge#k")).await;
    let other = keyed(&idempotency, LONG).payload("other");
    assert_eq!(kind(charge(other, &runs).await), ErrorKind::Mismatch);
    assert_eq!(link.wire.requests(), ["PutItem"]);
}

/// The owner has stopped, the response of the takeover is lost, and so is the response of every read that
/// could resolve the doubt.
#[tokio::test]
async fn who_gives_up_waiting_leaves_no_lease_of_its_own() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let found = raw::pending("charge#k");
    store.put(found.clone()).await;
    let look = Gate::default();
    link.wire.next("GetItem", Act::HoldRequest(look.clone()));
    link.wire.every("GetItem", Act::SERVER_ERROR);
    link.wire.every("UpdateItem", Act::LoseResponse);
    let wait = InProgress::Wait { timeout: Duration::from_secs(7200) };
    let call = charge(store.by(&link, |policy| policy.in_progress(wait)).charging(), &runs);
    let (result, ()) = tokio::join!(call, async {
        look.reached().await;
        link.wire.shift_date(3600);
        look.open();
        link.wire.sent("UpdateItem", 1).await;
        link.let_pass(7200);
    });
    // The other owner has ended.
    assert_eq!(kind(result), ErrorKind::Unavailable);
    // The acquisition is undone: the lease is expired as before, and the attempt is not counted.
    let record = store.record("charge#k").await;
    for name in ["attempt", "lease_expires_at"] {
        assert_eq!(raw::number(&record, name), raw::number(&found, name), "{name}");
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn of_those_that_wait_for_a_dead_owner_one_runs_and_all_get_its_answer() {
    const MINUTES: Duration = Duration::from_secs(600);
    let (store, runs, idempotency) = caller().await;
    store.put(raw::pending("charge#k")).await;
    let calls = (0..20).map(|_| charge(waiting(&idempotency, MINUTES), &runs));
    let outcomes = futures::future::join_all(calls).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    let ran = outcomes.iter().filter(|outcome| !outcome.is_replayed()).count();
    assert_eq!((ran, runs.count()), (1, 1));
    assert!(outcomes.into_iter().all(|outcome| outcome.into_inner() == "run 1, attempt 2"));
}
