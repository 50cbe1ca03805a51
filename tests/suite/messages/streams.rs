//! Kinesis and DynamoDB Streams: order, and the first failure.

use std::collections::BTreeSet;

use dynamodb_idempotency::messages::events::dynamodb::EventRecord;
use dynamodb_idempotency::messages::{Message, Order};
use serde_json::{Value, json};

use super::function::{Ran, failures, invoke, noting};
use super::queue::{example, kinesis_record};
use crate::support::Store;

fn stream(records: impl IntoIterator<Item = Value>) -> Value {
    json!({"Records": records.into_iter().collect::<Vec<_>>()})
}

#[tokio::test]
async fn a_shard_runs_in_order_and_the_first_failure_is_reported() {
    let (store, ran) = (Store::open().await, Ran::default());
    let service = store.idempotency().kinesis("book").handler(noting(&ran)).unwrap();
    let data = ["1", "2", "fail", "4"];
    let records = data.iter().enumerate().map(|(n, data)| kinesis_record(data, n + 10, data));
    assert_eq!(failures(&invoke(&service, &stream(records.clone())).await), ["12"]);
    assert_eq!(ran.all(), ["1", "2", "fail"]);
    // The stream is redelivered from there on.
    assert_eq!(failures(&invoke(&service, &stream(records.skip(2))).await), ["12"]);
    assert_eq!(ran.all(), ["1", "2", "fail", "fail"]);
}

#[tokio::test]
async fn by_partition_key_others_go_on_and_the_lowest_failure_is_reported() {
    let (store, ran) = (Store::open().await, Ran::default());
    let service =
        store.idempotency().kinesis("book").order(Order::Key).handler(noting(&ran)).unwrap();
    let batch = stream([
        kinesis_record("a", 9, "a1"),
        kinesis_record("b", 10, "fail"),
        kinesis_record("b", 11, "b2"),
        kinesis_record("a", 12, "a2"),
        kinesis_record("c", 13, "panic"),
    ]);
    assert_eq!(failures(&invoke(&service, &batch).await), ["10"]);
    let expected = ["a1", "fail", "a2", "panic"].map(str::to_owned);
    assert_eq!(BTreeSet::from_iter(ran.all()), BTreeSet::from(expected));
    // Redelivered from the lowest on: what was done is not run again.
    let rest = stream([
        kinesis_record("b", 10, "b1"),
        kinesis_record("b", 11, "b2"),
        kinesis_record("a", 12, "a2"),
    ]);
    assert_eq!(failures(&invoke(&service, &rest).await), [""; 0]);
    assert_eq!(ran.all()[4..], ["b1", "b2"]);
}

#[tokio::test]
async fn dynamodb_runs_in_order_and_reports_the_first_failure() {
    let (store, ran) = (Store::open().await, Ran::default());
    let noted = ran.clone();
    let handler = move |message: Message<EventRecord>, _| {
        let name = message.record().event_name.clone();
        noted.add(&name);
        async move { if name == "INSERT" { Err("declined") } else { Ok(()) } }
    };
    let service = store.idempotency().dynamodb_streams("book").handler(handler).unwrap();
    let answer = invoke(&service, &example!("dynamodb")).await;
    assert_eq!(failures(&answer), ["4421584500000000017450439091"]);
    assert_eq!(ran.all(), ["INSERT"]);
}

/// Both changes are of one item.
#[tokio::test]
async fn by_key_the_changes_of_an_item_stay_in_order() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer = store.idempotency().dynamodb_streams("book").order(Order::Key);
    let service = consumer.handler(noting(&ran)).unwrap();
    let mut batch = example!("dynamodb");
    // Unreadable, and so failed; its number and its item can still be seen.
    batch["Records"][0]["dynamodb"]["SizeBytes"] = "twenty".into();
    let mut other = batch["Records"][1].clone();
    other["dynamodb"]["Keys"]["Id"]["N"] = "102".into();
    other["dynamodb"]["SequenceNumber"] = "4421584500000000017450439093".into();
    batch["Records"].as_array_mut().unwrap().push(other);
    let answer = invoke(&service, &batch).await;
    assert_eq!(failures(&answer), ["4421584500000000017450439091"]);
    assert_eq!(ran.count(), 1);
    assert!(ran.all()[0].contains("4421584500000000017450439093"));
}

#[tokio::test]
async fn the_state_of_a_tumbling_window_is_handed_back() {
    let (store, ran) = (Store::open().await, Ran::default());
    let service = store.idempotency().kinesis("book").handler(noting(&ran)).unwrap();
    let state = json!({"1": 282, "2": 715});
    let mut event = example!("kinesis_window");
    let answer = invoke(&service, &event).await;
    assert_eq!(answer, json!({"batchItemFailures": [], "state": state}));
    // The last invocation of a window may bring nothing new.
    event["Records"] = json!([]);
    event["isFinalInvokeForWindow"] = true.into();
    let answer = invoke(&service, &event).await;
    assert_eq!(answer, json!({"batchItemFailures": [], "state": state}));
    // Without a window, a member of that name means nothing.
    event.as_object_mut().unwrap().remove("window");
    assert_eq!(invoke(&service, &event).await, json!({"batchItemFailures": []}));
    assert_eq!(ran.count(), 1);
}
