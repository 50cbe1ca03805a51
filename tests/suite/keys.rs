//! Different operations never meet in one record.

use std::collections::HashSet;

use dynamodb_idempotency::policy::KeyForm;
use dynamodb_idempotency::{ErrorKind, Scope};

use crate::support::raw::{key, text};
use crate::support::{Charging, Runs, Store, caller, charge, executed, replayed};

#[tokio::test]
async fn keys_and_tenants_of_any_letters_never_meet() {
    let (_store, runs, idempotency) = caller().await;
    let texts =
        ["a", "a#b", "b", "#", "%", "/", "%23", "%2F", "a/b", "\"", "'", "é", "e\u{301}", "%t"];
    let mut scopes = Vec::new();
    for text in texts {
        scopes.push(Scope::new(text));
        scopes.push(Scope::new("a").segment(text));
        scopes.push(Scope::new("a").segment("").segment(text));
        scopes.push(Scope::new("a").tenant(text));
    }
    scopes.retain({
        let mut seen = HashSet::new();
        move |scope| seen.insert(scope.clone())
    });
    let mut expected = 0;
    for scope in scopes {
        for key in ["b", "#b", "b#b", "/b", "%23b", "\"", "é"] {
            expected += 1;
            let outcome =
                charge(idempotency.operation(scope.clone()).key(key).no_payload(), &runs).await;
            assert_eq!(outcome.unwrap(), executed(expected, 1), "{scope:?} {key}");
        }
    }
    assert_eq!(runs.count(), expected);
}

/// All calls without a name would share one tenant.
#[tokio::test]
async fn a_tenant_without_a_name_is_refused() {
    let (_store, runs, idempotency) = caller().await;
    for scope in [
        Scope::new("charge").tenant(""),
        Scope::new("charge").tenant("").segment("v2"),
        Scope::new("charge").segment("v2").tenant(""),
    ] {
        let error = charge(idempotency.operation(scope.clone()).key("k").no_payload(), &runs)
            .await
            .unwrap_err();
        assert_eq!(error.idempotency().unwrap().kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("tenant"), "{error}");
        Scope::from_encoded(scope.as_str()).unwrap_err();
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn the_record_is_found_under_scope_and_key() {
    let (store, runs) = (Store::open().await, Runs::default());
    let operation = store.idempotency().operation("charge").segment("tenant #1/é%").segment("v2");
    charge(operation.key("order/7#\"x\" é").no_payload(), &runs).await.unwrap();
    let pk = "charge/tenant %231%2Fé%25/v2#order/7#\"x\" é";
    assert_eq!(text(&store.record(pk).await, "pk"), pk);
}

#[tokio::test]
async fn a_key_can_be_kept_as_its_hash() {
    let (store, runs, idempotency) = caller().await;
    let operation = |key: &str| {
        idempotency
            .operation("charge")
            .policy(|policy| policy.key_form(KeyForm::Sha256))
            .unwrap()
            .key(key)
            .no_payload()
    };
    charge(operation("abc"), &runs).await.unwrap();
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert!(store.item_at(key(&format!("charge#{hash}"))).await.is_some());
    assert_eq!(charge(operation("abc"), &runs).await.unwrap(), replayed(1, 1));
    assert_eq!(charge(operation(&"k".repeat(100_000)), &runs).await.unwrap(), executed(2, 1));
}

#[tokio::test]
async fn an_operation_inside_another_has_a_record_of_its_own() {
    let (store, outer, inner) = (Store::open().await, Runs::default(), Runs::default());
    let idempotency = store.idempotency();
    for _ in 0..2 {
        let answer = idempotency.calling("order").run(async |execution| {
            let charged = charge(idempotency.charging(), &inner).await;
            outer.add();
            assert_eq!(execution.attempt(), outer.count());
            if outer.count() == 1 { Err("declined") } else { Ok(charged.unwrap().is_replayed()) }
        });
        // The second run of the outer one finds the inner one done.
        assert_eq!(answer.await.ok(), (outer.count() == 2).then_some(true));
    }
    assert_eq!((outer.count(), inner.count()), (2, 1));
    assert!(store.item("order#k").await.is_some() && store.item("charge#k").await.is_some());
}
