//! A key belongs to the request that it was first used with.

use std::time::UNIX_EPOCH;

use dynamodb_idempotency::{ErrorKind, Fingerprint};
use serde_json::json;

use crate::support::{Charging, caller, charge, decline, executed, handlers, kind, raw, replayed};

#[tokio::test]
async fn another_payload_under_a_used_key_is_refused_and_does_not_run() {
    let (_store, runs, idempotency) = caller().await;
    let operation = || idempotency.operation("charge").key("k");
    charge(operation().payload(&json!({"amount": 1})), &runs).await.unwrap();
    for other in [
        operation().payload(&json!({"amount": 2})),
        operation().payload(&json!({"amount": 1.0})),
        operation().payload_bytes(br#"{"amount":1}"#),
        operation().no_payload(),
    ] {
        assert_eq!(kind(charge(other, &runs).await), ErrorKind::Mismatch);
    }
    assert_eq!(runs.count(), 1);
}

/// The key identifies the request, whatever else the handler is given.
#[tokio::test]
async fn without_a_payload_each_call_gets_the_first_answer() {
    let (_store, runs, idempotency) = caller().await;
    let call = || idempotency.charging();
    assert_eq!(charge(call(), &runs).await.unwrap(), executed(1, 1));
    assert_eq!(charge(call(), &runs).await.unwrap(), replayed(1, 1));
    let other = idempotency.operation("charge").key("k").payload(&());
    assert_eq!(kind(charge(other, &runs).await), ErrorKind::Mismatch);
}

#[tokio::test]
async fn another_spelling_of_the_same_payload_is_the_same_request() {
    let (_store, runs, idempotency) = caller().await;
    let operation = || idempotency.operation("charge").key("k");
    let text = |text: &[u8]| Fingerprint::builder().json(text).finish();
    let first = operation().fingerprint(text(br#"{"a": 1, "b": [2, 3]}"#));
    assert_eq!(charge(first, &runs).await.unwrap(), executed(1, 1));
    let again = operation().fingerprint(text(b"{\"b\":[2,3],\n\"a\":1}"));
    assert_eq!(charge(again, &runs).await.unwrap(), replayed(1, 1));
    let value = operation().payload(&json!({"b": [2, 3], "a": 1}));
    assert_eq!(charge(value, &runs).await.unwrap(), replayed(1, 1));
}

#[tokio::test]
async fn whatever_the_records_state_another_payload_is_a_mismatch() {
    let (store, runs, idempotency) = caller().await;
    for (state, record) in [
        ("running", raw::pending("charge#k")),
        ("abandoned", raw::abandoned("charge#k")),
        ("completed", raw::completed("charge#k", "\"stored\"")),
        ("failed", raw::failed("charge#k")),
    ] {
        store.put(record.clone()).await;
        let other = idempotency.operation("charge").key("k").payload("other");
        let error = charge(other, &runs).await.unwrap_err().into_handler().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{state}");
        let seen = error.mismatched_record().expect("the error has the record");
        let at = seen.created_at().duration_since(UNIX_EPOCH).unwrap().as_millis();
        assert_eq!(record["created_at"], raw::n(i64::try_from(at).unwrap()), "{state}");
        assert_eq!(record["attempt"], raw::n(seen.attempt()), "{state}");
        assert_eq!(store.record("charge#k").await, record, "{state}");
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_released_key_may_come_with_another_payload() {
    let (_store, runs, idempotency) = caller().await;
    let operation = |amount: u32| idempotency.operation("charge").key("k").payload(&amount);
    handlers(decline(operation(1), &runs).await);
    assert_eq!(charge(operation(2), &runs).await.unwrap(), executed(2, 2));
}
