//! A derived key is the same in every attempt of one operation, and another one elsewhere.

use dynamodb_idempotency::policy::Failure;
use dynamodb_idempotency::{DerivedKey, Idempotency, Scope};

use crate::support::{Link, Runs, Store, caller, handlers};

/// The keys that each run of an operation derives; the runs before the last fail.
async fn derived(idempotency: &Idempotency, scope: Scope, key: &str, runs: u32) -> Vec<DerivedKey> {
    let (mut keys, count) = (Vec::new(), Runs::default());
    let retain = Failure::Retain { max_attempts: runs };
    for _ in 1..runs {
        let failed = idempotency
            .operation(scope.clone())
            .policy(|policy| policy.failure(retain))
            .unwrap()
            .key(key)
            .no_payload()
            .run(async |execution| {
                count.add();
                keys.push(execution.derive_key("refund"));
                Err::<(), _>("not yet")
            });
        handlers(failed.await);
    }
    let operation = idempotency
        .operation(scope)
        .policy(|policy| policy.failure(retain))
        .unwrap()
        .key(key)
        .no_payload();
    operation
        .run(async |execution| {
            assert_eq!(execution.attempt(), count.add());
            keys.push(execution.derive_key("refund"));
            assert_ne!(execution.derive_key("refund"), execution.derive_key("charge"));
            assert_ne!(execution.derive_key("refund"), execution.derive_key(""));
            Ok::<_, &str>(())
        })
        .await
        .unwrap();
    keys
}

#[tokio::test]
async fn every_attempt_of_an_operation_derives_the_same_key() {
    let store = Store::open().await;
    let keys = derived(&store.idempotency(), "charge".into(), "k", 3).await;
    assert_eq!(keys, [keys[0]; 3]);
}

/// The operation past its retention is a new one, and still it is the other service's memory that
/// counts: this is what the documentation warns of.
#[tokio::test]
async fn the_same_key_after_the_retention_derives_the_same_key() {
    let store = Store::open().await;
    let before = derived(&store.idempotency(), "charge".into(), "k", 1).await;
    let later = store.over(&Link::later(2 * 86_400));
    assert_eq!(derived(&later, "charge".into(), "k", 1).await, before);
}

#[tokio::test]
async fn another_key_scope_or_tenant_derives_another_key() {
    let (_store, _, idempotency) = caller().await;
    let mut all = Vec::new();
    for (scope, key) in [
        (Scope::new("charge"), "k"),
        (Scope::new("charge"), "k2"),
        (Scope::new("refund"), "k"),
        (Scope::new("charge").segment("tenant"), "k"),
        (Scope::new("charge/tenant"), "k"),
    ] {
        all.extend(derived(&idempotency, scope, key, 1).await);
    }
    let mut distinct: Vec<_> = all.iter().map(DerivedKey::hex).collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), all.len());
}
