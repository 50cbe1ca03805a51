//! How long records count, and when DynamoDB may delete them.

use std::time::Duration;

use dynamodb_idempotency::policy::{Failure, Lease, Takeover};
use dynamodb_idempotency::{ErrorKind, Outcome, Policy};
use futures::future::join_all;

use crate::support::raw::{self, n, number, status, with};
use crate::support::{
    Act, Charging, Gate, Link, Runs, Store, caller, charge, charge_held, decline, executed,
    handlers, is_in_progress, kind,
};

/// Epoch seconds, a minute ago.
fn past() -> i64 {
    raw::now() / 1000 - 60
}

#[tokio::test]
async fn a_finished_record_past_its_retention_runs_again() {
    for record in [raw::completed("charge#k", "\"old\""), raw::failed("charge#k")] {
        let (store, runs) = (Store::open().await, Runs::default());
        let record = with(record, "attempt", n(7));
        store.put(with(record, "expires_at", n(past()))).await;
        // Its former request is forgotten too.
        let operation = store.idempotency().operation("charge").key("k").payload("another");
        assert_eq!(charge(operation, &runs).await.unwrap(), executed(1, 1));
        let record = store.record("charge#k").await;
        assert_eq!((status(&record), number(&record, "attempt")), ("COMPLETED", 1));
        assert!(number(&record, "created_at") > raw::now() - 60_000);
    }
}

#[tokio::test]
async fn an_abandoned_record_past_its_retention_starts_at_attempt_one() {
    let (store, runs) = (Store::open().await, Runs::default());
    store.put(with(raw::abandoned("charge#k"), "expires_at", n(past()))).await;
    assert_eq!(charge(store.idempotency().charging(), &runs).await.unwrap(), executed(1, 1));
}

#[tokio::test]
async fn a_running_operation_past_its_retention_stays_locked() {
    let (store, runs, idempotency) = caller().await;
    let record = with(raw::pending("charge#k"), "expires_at", n(past()));
    store.put(record.clone()).await;
    assert!(is_in_progress(charge(idempotency.charging(), &runs).await));
    let another = idempotency.operation("charge").key("k").payload("another");
    assert_eq!(kind(charge(another, &runs).await), dynamodb_idempotency::ErrorKind::Mismatch);
    assert_eq!((store.record("charge#k").await, runs.count()), (record, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_50_that_find_an_expired_answer_one_runs() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let record = raw::completed("charge#k", "\"old\"");
    store.put(with(record, "expires_at", n(past()))).await;
    let (create, replace) = (Gate::default(), Gate::default());
    link.wire.every("PutItem", Act::HoldRequest(create.clone()));
    let idempotency = store.builder(&link).build().unwrap();
    let racers: Vec<_> = (0..50)
        .map(|_| {
            let (idempotency, runs) = (idempotency.clone(), runs.clone());
            tokio::spawn(async move { charge(idempotency.charging(), &runs).await })
        })
        .collect();
    create.reached_by(50).await;
    link.wire.every("PutItem", Act::HoldRequest(replace.clone()));
    create.open();
    replace.reached_by(50).await;
    replace.open();
    let mut ran = 0;
    for racer in join_all(racers).await {
        match racer.unwrap() {
            Ok(Outcome::Executed(_)) => ran += 1,
            Ok(Outcome::Replayed(answer)) => assert_eq!(answer, "run 1, attempt 1"),
            other => assert!(is_in_progress(other)),
        }
    }
    assert_eq!((ran, runs.count()), (1, 1));
}

#[tokio::test]
async fn an_answer_that_another_call_renewed_meanwhile_is_replayed() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let old = raw::completed("charge#k", "\"old\"");
    store.put(with(old, "expires_at", n(past()))).await;
    let replace = Gate::default();
    link.wire.next("PutItem", Act::Deliver);
    link.wire.next("PutItem", Act::HoldRequest(replace.clone()));
    let run = charge(store.over(&link).charging(), &runs);
    let (outcome, ()) = tokio::join!(run, async {
        replace.reached().await;
        let new = raw::completed("charge#k", "\"new\"");
        store.put(with(new, "owner", raw::s(raw::ANOTHER))).await;
        replace.open();
    });
    assert_eq!((outcome.unwrap(), runs.count()), (Outcome::Replayed("new".to_owned()), 0));
}

#[tokio::test]
async fn a_record_expires_when_its_retention_is_over_in_seconds() {
    let (store, runs) = (Store::open().await, Runs::default());
    let retention = Duration::from_secs(3 * 86_400);
    let builder = store.builder(&Link::default()).policy(|policy| policy.retention(retention));
    charge(builder.build().unwrap().charging(), &runs).await.unwrap();
    let record = store.record("charge#k").await;
    let end = number(&record, "completed_at") + 3 * 86_400_000;
    let expires_at = number(&record, "expires_at") * 1000;
    assert!((end..end + 1000).contains(&expires_at), "{}", expires_at - end);
}

#[tokio::test]
async fn a_running_record_stays_for_its_lease_and_then_its_retention() {
    let (store, runs) = (Store::open().await, Runs::default());
    for (retention, lease) in [(10, 3), (10, 3600), (60, 60), (86_400, 30)] {
        let gate = Gate::default();
        let retention = Duration::from_secs(retention);
        let lease = Lease::Fixed(Duration::from_secs(lease));
        let builder = store.builder(&Link::default());
        let builder = builder.policy(|policy| policy.retention(retention).lease(lease));
        let idempotency = builder.build().unwrap();
        let key = format!("{retention:?} {lease:?}");
        let run = charge_held(idempotency.operation("charge").key(&key).no_payload(), &runs, &gate);
        let (_, ()) = tokio::join!(run, async {
            gate.reached().await;
            let record = store.record(&format!("charge#{key}")).await;
            let lease_end = number(&record, "lease_expires_at");
            let retained = number(&record, "expires_at") * 1000 - lease_end;
            let retention = i64::try_from(retention.as_millis()).unwrap();
            assert!((retention..retention + 1000).contains(&retained), "{key}: {retained}");
            gate.open();
        });
    }
}

/// A retention within the lease does not hide that the operation was begun.
#[tokio::test]
async fn an_abandoned_operation_is_known_as_that_for_its_retention() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let lease = Lease::Fixed(Duration::from_secs(3600));
    let policy = |policy: Policy| policy.retention(Duration::from_secs(600)).lease(lease);
    let taker = store.builder(&link).policy(|it| policy(it).takeover(Takeover::Reject));
    let taker = taker.build().unwrap();
    let gate = Gate::default();
    let run = charge_held(store.by(&Link::default(), policy).charging(), &runs, &gate);
    let (_, ()) = tokio::join!(run, async {
        gate.reached().await;
        for (seconds, refusal) in [(3900, Some(ErrorKind::Abandoned)), (600, None)] {
            link.wire.shift_date(seconds);
            let second = charge(taker.charging(), &runs).await;
            assert_eq!(second.as_ref().err().is_some(), refusal.is_some(), "{second:?}");
            if let Some(refusal) = refusal {
                assert_eq!(kind(second), refusal);
            }
        }
        gate.open();
    });
}

/// A retention that is shorter than the lease would let TTL delete a record, and a second execution
/// start, in the time of the first.
#[tokio::test]
async fn no_record_expires_before_its_lease_was_to_end() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.by(&link, |policy| {
        let policy = policy.retention(Duration::from_secs(10)).failure(Failure::Replay);
        policy.lease(Lease::Fixed(Duration::from_secs(600)))
    });
    let lease_end = raw::now() / 1000 + 590;
    charge(idempotency.operation("charge").key("completed").no_payload(), &runs).await.unwrap();
    handlers(decline(idempotency.operation("charge").key("failed").no_payload(), &runs).await);
    for pk in ["charge#completed", "charge#failed"] {
        assert!(number(&store.record(pk).await, "expires_at") >= lease_end, "{pk}");
    }
}
