//! SQS standard queues: each message alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dynamodb_idempotency::Execution;
use dynamodb_idempotency::messages::Message;
use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::policy::Lease;
use serde_json::json;

use super::function::{Handled, Ran, booking, failures, holding, invoke, noting};
use super::queue::{message, sqs};
use crate::support::{Gate, Link, Store, raw};

#[tokio::test]
async fn exactly_those_that_failed_are_reported() {
    let (store, ran, service) = booking().await;
    let batch = sqs([
        message("1", "k1", "a"),
        message("2", "k2", "fail"),
        message("3", "k3", "panic"),
        message("4", "k4", "d"),
    ]);
    assert_eq!(failures(&invoke(&service, &batch).await), ["2", "3"]);
    let expected = ["a", "fail", "panic", "d"].map(str::to_owned);
    assert_eq!(BTreeSet::from_iter(ran.all()), BTreeSet::from(expected));
    for (key, status) in
        [("k1", Some("COMPLETED")), ("k2", Some("RELEASED")), ("k3", Some("RELEASED"))]
    {
        let record = store.item(&format!("book#{key}")).await;
        assert_eq!(record.as_ref().map(raw::status), status, "{key}");
    }
}

#[tokio::test]
async fn a_message_runs_until_it_is_done_and_then_never_again() {
    let (_store, ran, service) = booking().await;
    for (name, batch, failed, runs) in [
        ("no message", vec![], &[][..], 0),
        ("a message", vec![message("1", "k", "a")], &[], 1),
        ("delivered again", vec![message("1", "k", "a")], &[], 1),
        ("sent twice", vec![message("another id", "k", "a")], &[], 1),
        ("one that fails", vec![message("2", "l", "fail")], &["2"], 2),
        ("delivered again", vec![message("2", "l", "fail")], &["2"], 3),
        (
            "two payloads with one key",
            vec![message("3", "m", "a"), message("4", "m", "b")],
            &["4"],
            4,
        ),
    ] {
        let answer = invoke(&service, &sqs(batch)).await;
        let items = failed.iter().map(|id| json!({"itemIdentifier": id}));
        let expected = json!({"batchItemFailures": items.collect::<Vec<_>>()});
        assert_eq!((answer, ran.count()), (expected, runs), "{name}");
    }
}

#[tokio::test]
async fn what_runs_elsewhere_is_reported_and_does_not_run() {
    let (store, ran) = (Store::open().await, Ran::default());
    let gate = Gate::default();
    let elsewhere = store.idempotency().sqs("book").handler(holding(&gate)).unwrap();
    let here = store.idempotency().sqs("book").handler(noting(&ran)).unwrap();
    let first = sqs([message("1", "k", "a")]);
    let (answer, ()) = tokio::join!(invoke(&elsewhere, &first), async {
        gate.reached().await;
        let both = sqs([message("1", "k", "a"), message("2", "l", "b")]);
        assert_eq!(failures(&invoke(&here, &both).await), ["1"]);
        gate.open();
    });
    assert_eq!((failures(&answer), ran.all()), (vec![], vec!["b".to_owned()]));
}

#[tokio::test]
async fn duplicates_in_one_batch_run_once_and_count_the_same() {
    for (body, expected) in [("a", vec![]), ("fail", vec!["1", "2", "4"])] {
        let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
        let service = store.over(&link).sqs("book").handler(noting(&ran)).unwrap();
        let batch = sqs([
            message("1", "k", body),
            message("2", "k", body),
            message("3", "l", "b"),
            message("4", "k", body),
        ]);
        assert_eq!(failures(&invoke(&service, &batch).await), expected);
        assert_eq!((ran.count(), link.wire.requests().len()), (2, 4));
    }
}

#[tokio::test]
async fn no_more_than_the_limit_are_in_flight() {
    let store = Arc::new(Store::open().await);
    let (gate, ran) = (Gate::default(), Ran::default());
    let (held, noted) = (gate.clone(), ran.clone());
    let handler = move |_: Message<SqsMessage>, _: Execution| -> Handled {
        let (held, noted) = (held.clone(), noted.clone());
        Box::pin(async move {
            noted.add("started");
            held.pass().await;
            Ok(())
        })
    };
    let service = store.idempotency().sqs("book").concurrency(3).handler(handler).unwrap();
    let batch = sqs(["1", "2", "3", "4", "5", "6", "7"].map(|id| message(id, id, "a")));
    let (answer, ()) = tokio::join!(invoke(&service, &batch), async {
        gate.reached_by(3).await;
        // Any other handler would have started within three round trips.
        for _ in 0..3 {
            store.item("book#1").await;
        }
        assert_eq!(ran.count(), 3);
        gate.open();
    });
    assert_eq!((failures(&answer), ran.count()), (vec![], 7));
}

/// A mapping without `ReportBatchItemFailures` takes every answer for success.
#[tokio::test]
async fn without_partial_responses_the_invocation_fails() {
    use super::function::{context_of, invoke_in, message as error};
    let (store, ran) = (Store::open().await, Ran::default());
    let service = store.idempotency().sqs("book").report_batch().handler(noting(&ran)).unwrap();
    let batch = sqs([message("1", "k", "a"), message("2", "l", "fail")]);
    let failed = error(invoke_in(&service, &batch, context_of(30)).await);
    assert!(failed.starts_with("1 of 2 messages"), "{failed}");
    let done = sqs([message("1", "k", "a")]);
    assert_eq!(invoke(&service, &done).await, json!({"batchItemFailures": []}));
    assert_eq!(ran.count(), 2);
}

/// The record of a message is read by other programs too.
#[tokio::test]
async fn a_function_s_answer_under_the_same_key_counts_as_done() {
    for answer in ["\"an answer\"", "null", "{\"id\":1}"] {
        let (store, ran) = (Store::open().await, Ran::default());
        let body = "a";
        let service = store.idempotency().sqs("book").handler(noting(&ran)).unwrap();
        let operation = store.idempotency();
        let operation = operation.operation("book").key("k").fingerprint(
            dynamodb_idempotency::Fingerprint::builder().json(body.as_bytes()).finish(),
        );
        let value: serde_json::Value = serde_json::from_str(answer).unwrap();
        operation.run(async |_| Ok::<_, String>(value)).await.unwrap();
        assert_eq!(failures(&invoke(&service, &sqs([message("1", "k", body)])).await), [""; 0]);
        assert_eq!(ran.count(), 0);
    }
}

#[tokio::test]
async fn a_message_whose_handler_is_stopped_as_its_lease_ends_is_reported() {
    let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
    let lease = Lease::Fixed(Duration::from_secs(20));
    let idempotency = store.by(&link, |policy| policy.lease(lease));
    let (frozen, noted) = (link.clone(), ran.clone());
    let service = idempotency
        .sqs("book")
        .handler(move |_, _| {
            let (frozen, noted) = (frozen.clone(), noted.clone());
            async move {
                // Not yet to the end of the invocation.
                frozen.let_pass(23);
                tokio::task::yield_now().await;
                noted.add("more");
                Ok::<_, String>(())
            }
        })
        .unwrap();
    assert_eq!(failures(&invoke(&service, &sqs([message("1", "k", "a")])).await), ["1"]);
    assert_eq!(ran.count(), 0);
    assert_eq!(raw::status(&store.record("book#k").await), "PENDING");
}
