//! What `docs/guide/operate.md` promises of a table that was restored, as far as an emulator goes: it
//! restores nothing, so the test uses a copy of the records.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::policy::Takeover;
use dynamodb_idempotency::{ErrorKind, Outcome};
use serde_json::Value;

use crate::support::raw::{self, Item};
use crate::support::{Runs, Store, charge, executed, kind};

const PAGE: &str = include_str!("../../docs/guide/operate.md");

async fn records(store: &Store) -> Vec<Item> {
    let scan = store.raw.scan().table_name(store.table()).consistent_read(true);
    scan.send().await.unwrap().items.unwrap_or_default()
}

/// Puts records into a table, as the page does: those that are not there, or each of them.
async fn copy(items: Vec<Item>, to: &Store, only_absent: bool) {
    for item in items {
        let mut put = to.raw.put_item().table_name(to.table()).set_item(Some(item));
        if only_absent {
            put = put.condition_expression("attribute_not_exists(pk)");
        }
        let refused = put.send().await.err().map(SdkError::into_service_error);
        assert!(refused.is_none_or(|error| error.is_conditional_check_failed_exception()));
    }
}

#[tokio::test]
async fn a_restored_table_replays_what_it_has_and_runs_what_it_lost() {
    let (old, restored, runs) = (Store::open().await, Store::open().await, Runs::default());
    charge(old.idempotency().operation("charge").key("before"), &runs).await.unwrap();
    copy(records(&old).await, &restored, false).await;
    for key in ["window", "carried over"] {
        charge(old.idempotency().operation("charge").key(key), &runs).await.unwrap();
    }
    let window = records(&old).await.into_iter();
    let carried = window.filter(|item| raw::text(item, "pk") == "charge#carried over");
    copy(carried.collect(), &restored, false).await;

    let idempotency = restored.idempotency();
    for key in ["before", "carried over"] {
        let outcome = charge(idempotency.operation("charge").key(key), &runs).await.unwrap();
        assert!(matches!(outcome, Outcome::Replayed(_)), "{key}: {outcome:?}");
    }
    let forgotten = charge(idempotency.operation("charge").key("window"), &runs).await.unwrap();
    assert_eq!((forgotten, runs.count()), (executed(4, 1), 4));
}

#[tokio::test]
async fn filling_a_table_up_brings_back_what_is_gone_and_leaves_what_is_there() {
    let (store, backup, runs) = (Store::open().await, Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    for key in ["kept", "deleted"] {
        charge(idempotency.operation("charge").key(key), &runs).await.unwrap();
    }
    copy(records(&store).await, &backup, false).await;
    store.delete("charge#deleted").await;
    store.put(raw::completed("charge#kept", "7")).await;
    let kept = store.record("charge#kept").await;

    copy(records(&backup).await, &store, true).await;
    assert_eq!(store.record("charge#kept").await, kept);
    let outcome = charge(idempotency.operation("charge").key("deleted"), &runs).await.unwrap();
    assert!(matches!(outcome, Outcome::Replayed(_)), "{outcome:?}");
    assert_eq!(runs.count(), 2);
}

/// The record that the page asks operators to write for each known effect.
#[tokio::test]
async fn an_abandoned_record_written_by_hand_is_refused_when_policy_rejects() {
    let (_, rest) = PAGE.split_once("```json\n").unwrap();
    let (json, _) = rest.split_once("```").unwrap();
    let page: Value = serde_json::from_str(json).unwrap();
    let mut item = raw::abandoned("payments#order-42");
    let names: BTreeSet<&str> = page.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, item.keys().map(String::as_str).collect());
    for name in ["pk", "status", "owner"] {
        item.insert(
            name.to_owned(),
            AttributeValue::S(page[name]["S"].as_str().unwrap().to_owned()),
        );
    }
    for name in ["attempt", "format"] {
        item.insert(
            name.to_owned(),
            AttributeValue::N(page[name]["N"].as_str().unwrap().to_owned()),
        );
    }

    let (store, runs) = (Store::open().await, Runs::default());
    store.put(item).await;
    let idempotency = store.idempotency();
    let operation = || {
        idempotency
            .operation("payments")
            .policy(|policy| policy.takeover(Takeover::Reject))
            .unwrap()
            .key("order-42")
    };
    assert_eq!(kind(charge(operation(), &runs).await), ErrorKind::Abandoned);
    assert_eq!(kind(charge(operation().payload(&7), &runs).await), ErrorKind::Mismatch);
    assert_eq!(runs.count(), 0);
}
