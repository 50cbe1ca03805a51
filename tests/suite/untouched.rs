//! Nothing that a refused duplicate does changes a byte of the record.

use dynamodb_idempotency::policy::{Failure, Takeover};
use dynamodb_idempotency::{ErrorKind, Policy};

use crate::support::raw::{self, Item, with};
use crate::support::{Charging, Runs, Store, charge, is_in_progress, kind};

/// Calls once with this record in the table; asserts that nothing ran and nothing changed.
async fn refused(record: Item, policy: impl Fn(Policy) -> Policy) -> ErrorKind {
    let (store, runs) = (Store::open().await, Runs::default());
    store.put(record.clone()).await;
    let result = charge(store.idempotency().charging_by(policy), &runs).await;
    assert_eq!(store.record("charge#k").await, record);
    assert_eq!(runs.count(), 0);
    kind(result)
}

#[tokio::test]
async fn by_a_duplicate_of_a_running_operation() {
    let refusal = refused(raw::pending("charge#k"), |policy| policy).await;
    assert!(matches!(refusal, ErrorKind::InProgress { .. }));
}

#[tokio::test]
async fn by_a_duplicate_of_an_abandoned_operation_that_may_not_run_again() {
    let reject = |policy: Policy| policy.takeover(Takeover::Reject);
    assert_eq!(refused(raw::abandoned("charge#k"), reject).await, ErrorKind::Abandoned);
}

#[tokio::test]
async fn by_a_duplicate_of_a_failure_for_good() {
    let replay = |policy: Policy| policy.failure(Failure::Replay);
    assert_eq!(refused(raw::failed("charge#k"), replay).await, ErrorKind::Failed);
    let retain = |policy: Policy| policy.failure(Failure::Retain { max_attempts: 1 });
    assert_eq!(refused(raw::failed("charge#k"), retain).await, ErrorKind::Failed);
}

#[tokio::test]
async fn by_a_replay() {
    let (store, runs) = (Store::open().await, Runs::default());
    let record = raw::completed("charge#k", "\"stored\"");
    store.put(record.clone()).await;
    let replay = charge(store.idempotency().charging(), &runs).await.unwrap();
    assert_eq!((replay.into_inner().as_str(), runs.count()), ("stored", 0));
    assert_eq!(store.record("charge#k").await, record);
}

#[tokio::test]
async fn attributes_that_this_version_does_not_know_survive_a_takeover() {
    let (store, runs) = (Store::open().await, Runs::default());
    let later_versions = with(raw::abandoned("charge#k"), "steps", raw::answer("a", "b"));
    store.put(later_versions).await;
    let operation = store.idempotency().charging();
    operation
        .run(async |_| {
            let record = store.record("charge#k").await;
            assert_eq!(record["steps"], raw::answer("a", "b"));
            runs.add();
            Ok::<_, String>(())
        })
        .await
        .unwrap();
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn retry_after_is_between_one_and_five_seconds() {
    for (left, seconds) in [(100, 1..=1), (3_000, 2..=4), (900_000, 5..=5)] {
        let record = with(raw::pending("charge#k"), "lease_expires_at", raw::n(raw::now() + left));
        let store = Store::open().await;
        store.put(record).await;
        let result = charge(store.idempotency().charging(), &Runs::default()).await;
        let error = result.unwrap_err();
        let retry_after = error.idempotency().unwrap().retry_after().unwrap();
        assert!(seconds.contains(&retry_after.as_secs()), "{left} ms: {retry_after:?}");
        assert!(is_in_progress::<(), _>(Err(error)));
    }
}
