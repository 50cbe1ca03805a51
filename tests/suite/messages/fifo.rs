//! SQS FIFO queues: the order of a message group holds.

use super::function::{booking, failures, invoke};
use super::queue::{fifo, message, sqs};
use crate::support::raw;

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
