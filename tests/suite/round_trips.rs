//! What each way through costs in requests.

use dynamodb_idempotency::ErrorKind;

use crate::support::{Charging, Link, Runs, Store, caller_on, charge, kind, raw};

#[tokio::test]
async fn first_run_takes_two() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    charge(store.over(&link).charging(), &runs).await.unwrap();
    assert_eq!(link.wire.requests(), ["PutItem", "PutItem"]);
}

#[tokio::test]
async fn replay_takes_one() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    store.put(raw::completed("charge#k", "\"stored\"")).await;
    let answer = charge(store.over(&link).charging(), &runs).await.unwrap();
    assert_eq!((answer.into_inner().as_str(), runs.count()), ("stored", 0));
    assert_eq!(link.wire.requests(), ["PutItem"]);
}

#[tokio::test]
async fn mismatch_takes_one() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    store.put(raw::completed("charge#k", "\"stored\"")).await;
    let another = store.over(&link).operation("charge").key("k").payload("another");
    assert_eq!(kind(charge(another, &runs).await), ErrorKind::Mismatch);
    assert_eq!(link.wire.requests(), ["PutItem"]);
}

#[tokio::test]
async fn in_progress_takes_one() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    store.put(raw::pending("charge#k")).await;
    let refused = kind(charge(store.over(&link).charging(), &runs).await);
    assert!(matches!(refused, ErrorKind::InProgress { .. }));
    assert_eq!(link.wire.requests(), ["PutItem"]);
}

#[tokio::test]
async fn taking_over_takes_three() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    store.put(raw::abandoned("charge#k")).await;
    charge(store.over(&link).charging(), &runs).await.unwrap();
    assert_eq!(link.wire.requests(), ["PutItem", "UpdateItem", "PutItem"]);
}

#[tokio::test]
async fn a_run_after_a_release_takes_one_more() {
    let (_store, link, runs, idempotency) = caller_on(Link::default()).await;
    let failing = idempotency.charging();
    failing.run(async |_| Err::<(), _>("declined")).await.unwrap_err();
    assert_eq!(link.wire.requests(), ["PutItem", "UpdateItem"]);
    link.wire.forget();
    charge(idempotency.charging(), &runs).await.unwrap();
    assert_eq!(link.wire.requests(), ["PutItem", "PutItem", "PutItem"]);
}
