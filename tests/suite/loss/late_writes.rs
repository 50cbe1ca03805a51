//! A write that arrives after its sender gave it up changes nothing that came after it.

use std::time::Duration;

use dynamodb_idempotency::policy::{Failure, Lease};

use crate::support::gate::patiently;
use crate::support::raw::{self, number, status};
use crate::support::{
    Act, Charging, Gate, Link, LocalClock, Runs, Store, charge, charge_held, decline, executed,
    handlers,
};

#[tokio::test]
async fn a_late_acquisition_of_ones_own_is_acquired_once() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let (late, second) = (Gate::default(), Gate::default());
    link.wire.next("PutItem", Act::ArriveLate(late.clone()));
    link.wire.next("PutItem", Act::HoldRequest(second.clone()));
    let idempotency = store.over(&link);
    let run = charge(idempotency.charging(), &runs);
    let (outcome, ()) = tokio::join!(run, async {
        second.reached().await;
        late.open();
        link.wire.late_arrivals(1).await;
        assert_eq!(status(&store.record("charge#k").await), "PENDING");
        second.open();
    });
    assert_eq!(outcome.unwrap(), executed(1, 1));
    // Whichever of the two puts the record came from, the end of its lease is seen to be right.
    assert_eq!(link.wire.requests(), ["PutItem", "GetItem", "PutItem", "PutItem"]);
    assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
}

#[tokio::test]
async fn a_late_release_does_not_free_the_next_owners_key() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let (late, handler) = (Gate::default(), Gate::default());
    link.wire.next("UpdateItem", Act::ArriveLate(late.clone()));
    let idempotency = store.over(&link);
    handlers(decline(idempotency.charging(), &runs).await);
    let next = charge_held(idempotency.charging(), &runs, &handler);
    let (next, ()) = tokio::join!(next, async {
        handler.reached().await;
        let before = store.record("charge#k").await;
        late.open();
        link.wire.late_arrivals(1).await;
        assert_eq!(store.record("charge#k").await, before);
        handler.open();
    });
    assert_eq!(next.unwrap(), executed(2, 2));
}

#[tokio::test]
async fn a_late_kept_failure_does_not_fail_the_next_attempt() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let (late, handler) = (Gate::default(), Gate::default());
    link.wire.next("UpdateItem", Act::ArriveLate(late.clone()));
    let idempotency = store.over(&link);
    let retain = Failure::Retain { max_attempts: 5 };
    let operation = || idempotency.charging_by(|policy| policy.failure(retain));
    handlers(decline(operation(), &runs).await);
    let next = charge_held(operation(), &runs, &handler);
    let (next, ()) = tokio::join!(next, async {
        handler.reached().await;
        let before = store.record("charge#k").await;
        late.open();
        link.wire.late_arrivals(1).await;
        assert_eq!(store.record("charge#k").await, before);
        handler.open();
    });
    assert_eq!(next.unwrap(), executed(2, 2));
}

#[tokio::test]
async fn a_late_completion_of_ones_own_rewrites_the_same_bytes() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let late = Gate::default();
    link.wire.next("PutItem", Act::Deliver);
    link.wire.next("PutItem", Act::ArriveLate(late.clone()));
    let idempotency = store.over(&link);
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 1));
    let before = store.record("charge#k").await;
    late.open();
    link.wire.late_arrivals(1).await;
    assert_eq!(store.record("charge#k").await, before);
}

#[tokio::test]
async fn a_late_stamp_does_not_touch_the_completed_record() {
    let (store, runs, late) = (Store::open().await, Runs::default(), Gate::default());
    let link = Link::without_retries().clock(LocalClock::off_by(-200));
    link.wire.next("UpdateItem", Act::ArriveLate(late.clone()));
    let idempotency = store.over(&link);
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 1));
    assert_eq!(link.wire.count("UpdateItem"), 2);
    let before = store.record("charge#k").await;
    late.open();
    link.wire.late_arrivals(1).await;
    assert_eq!(store.record("charge#k").await, before);
}

/// Takes about two seconds: two renewals of the shortest renewed lease.
#[tokio::test]
async fn a_late_renewal_does_not_shorten_the_lease() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let (late, handler) = (Gate::default(), Gate::default());
    link.wire.next("UpdateItem", Act::ArriveLate(late.clone()));
    let renewed = Lease::Renewed(Duration::from_secs(3));
    let idempotency = store.by(&link, |policy| policy.lease(renewed));
    let run = charge_held(idempotency.charging(), &runs, &handler);
    let (outcome, ()) = tokio::join!(run, async {
        handler.reached().await;
        let first = number(&store.record("charge#k").await, "lease_expires_at");
        let extended = patiently("the second renewal", lease_after(&store, first)).await;
        assert_eq!(link.wire.count("UpdateItem"), 2);
        late.open();
        link.wire.late_arrivals(1).await;
        let after = number(&store.record("charge#k").await, "lease_expires_at");
        assert!(after >= extended, "shortened by {} ms", extended - after);
        handler.open();
    });
    assert_eq!(outcome.unwrap(), executed(1, 1));
}

/// The end of the lease once it is later than `first`.
async fn lease_after(store: &Store, first: i64) -> i64 {
    loop {
        let lease = raw::number(&store.record("charge#k").await, "lease_expires_at");
        if lease > first {
            return lease;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
