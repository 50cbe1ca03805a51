//! What a batch costs: waves of requests, not one after the other.

use std::sync::Arc;

use dynamodb_idempotency::messages::Order;
use serde_json::json;

use super::function::{Ran, failures, invoke, noting};
use super::queue::{kinesis_record, message, sqs};
use crate::support::{Act, Gate, Link, Store};

const TEN: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// All ten acquisitions are in flight before one is answered, and then all ten completions: two
/// round trips of latency, and one for ten repeats.
#[tokio::test]
async fn ten_messages_take_two_round_trips_and_ten_repeats_one() {
    let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
    let gates = [(); 3].map(|()| Gate::default());
    for gate in &gates {
        for _ in TEN {
            link.wire.next("PutItem", Act::HoldResponse(gate.clone()));
        }
    }
    let [acquired, completed, replayed] = gates;
    let service = store.over(&link).sqs("book").handler(noting(&ran)).unwrap();
    let batch = sqs(TEN.map(|id| message(id, id, id)));
    let (answer, ()) = tokio::join!(invoke(&service, &batch), async {
        acquired.reached_by(10).await;
        assert_eq!(ran.count(), 0);
        acquired.open();
        completed.reached_by(10).await;
        completed.open();
    });
    assert_eq!((failures(&answer), ran.count(), link.wire.requests().len()), (vec![], 10, 20));
    let (answer, ()) = tokio::join!(invoke(&service, &batch), async {
        replayed.reached_by(10).await;
        replayed.open();
    });
    assert_eq!((failures(&answer), ran.count(), link.wire.requests().len()), (vec![], 10, 30));
}

#[tokio::test]
async fn a_hundred_stream_records_of_distinct_keys_run_side_by_side() {
    let (store, link, ran) = (Arc::new(Store::open().await), Link::default(), Ran::default());
    let acquired = Gate::default();
    for _ in 0..100 {
        link.wire.next("PutItem", Act::HoldResponse(acquired.clone()));
    }
    let idempotency = store.builder(&link).build().unwrap();
    let consumer = idempotency.kinesis("book").order(Order::Key).concurrency(100);
    let service = consumer.handler(noting(&ran)).unwrap();
    let records: Vec<_> = (0..100).map(|n| kinesis_record(&n.to_string(), n, "a")).collect();
    let batch = json!({"Records": records});
    let (answer, ()) = tokio::join!(invoke(&service, &batch), async {
        acquired.reached_by(100).await;
        acquired.open();
    });
    assert_eq!((failures(&answer), ran.count()), (vec![], 100));
}

#[tokio::test]
async fn no_more_requests_than_the_limit_are_in_flight() {
    let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
    let first = Gate::default();
    for _ in 0..10 {
        link.wire.next("PutItem", Act::HoldRequest(first.clone()));
    }
    let idempotency = store.builder(&link).build().unwrap();
    let service = idempotency.sqs("book").concurrency(4).handler(noting(&ran)).unwrap();
    let batch = sqs(TEN.map(|id| message(id, id, id)));
    let (answer, ()) = tokio::join!(invoke(&service, &batch), async {
        first.reached_by(4).await;
        for _ in 0..3 {
            store.item("book#0").await;
        }
        assert_eq!(link.wire.requests().len(), 4);
        first.open();
    });
    assert_eq!((failures(&answer), ran.count()), (vec![], 10));
}
