//! SQS FIFO queues: the order of a message group holds.

use super::function::{Ran, booking, failures, invoke};
use super::queue::{example, fifo, message, sqs};
use crate::support::{Store, raw};

#[tokio::test]
async fn a_group_runs_in_order_and_stops_at_its_first_failure() {
    let (store, ran, service) = booking().await;
    let batch = sqs([
        fifo("a", "a1", "a1"),
        fifo("b", "b1", "b1"),
        fifo("a", "a2", "fail"),
        fifo("a", "a3", "a3"),
        fifo("b", "b2", "b2"),
        fifo("a", "a4", "a4"),
    ]);
    assert_eq!(failures(&invoke(&service, &batch).await), ["a2", "a3", "a4"]);
    let of = |group: &str| -> Vec<String> {
        ran.all().into_iter().filter(|body| body.starts_with(group)).collect()
    };
    assert_eq!((of("a"), of("b")), (vec!["a1".into()], vec!["b1".into(), "b2".into()]));
    assert_eq!(store.item("book#a3").await, None);
}

#[tokio::test]
async fn behind_one_that_runs_elsewhere_its_group_waits() {
    let (store, ran, service) = booking().await;
    // Of another payload, but a mismatch would be no better.
    store.put(raw::pending("book#a1")).await;
    let batch = sqs([fifo("a", "a1", "a1"), fifo("a", "a2", "a2"), fifo("b", "b1", "b1")]);
    assert_eq!(failures(&invoke(&service, &batch).await), ["a1", "a2"]);
    assert_eq!(ran.all(), ["b1"]);
}

#[tokio::test]
async fn after_a_failure_the_order_is_kept_across_deliveries() {
    let (store, ran) = (Store::open().await, Ran::default());
    let failing = Ran::default();
    let (noted, fails) = (ran.clone(), failing.clone());
    let handler = move |message: dynamodb_idempotency::messages::Message<_>, _| {
        let _: &dynamodb_idempotency::messages::events::sqs::SqsMessage = message.record();
        let body = String::from_utf8(message.payload().to_vec()).unwrap();
        // The second fails when it comes first.
        let first_failure = body == "2" && fails.count() == 0;
        if first_failure {
            fails.add("2");
        } else {
            noted.add(body);
        }
        async move { if first_failure { Err("declined") } else { Ok(()) } }
    };
    let service = store.idempotency().sqs("book").handler(handler).unwrap();
    let batch = sqs(["1", "2", "3"].map(|n| fifo("a", n, n)));
    assert_eq!(failures(&invoke(&service, &batch).await), ["2", "3"]);
    let rest = sqs(["2", "3"].map(|n| fifo("a", n, n)));
    assert_eq!(failures(&invoke(&service, &rest).await), [""; 0]);
    assert_eq!(ran.all(), ["1", "2", "3"]);
}

/// A fair standard queue has message groups and no order.
#[tokio::test]
async fn the_group_of_a_standard_queue_orders_nothing() {
    let (_store, ran, service) = booking().await;
    let fair = |id: &str, body: &str| {
        let mut message = message(id, id, body);
        message["attributes"]["MessageGroupId"] = "tenant".into();
        message
    };
    let batch = sqs([fair("1", "fail"), fair("2", "b")]);
    assert_eq!(failures(&invoke(&service, &batch).await), ["1"]);
    assert_eq!(ran.count(), 2);
}

#[tokio::test]
async fn the_documented_event_runs_once() {
    let (store, ran, service) = booking().await;
    for _ in 0..2 {
        assert_eq!(failures(&invoke(&service, &example!("sqs_fifo")).await), [""; 0]);
    }
    assert_eq!(ran.all(), ["Test message."]);
    assert_eq!(raw::status(&store.record("book#fifo-1").await), "COMPLETED");
}
