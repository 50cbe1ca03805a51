//! Messages of one key in one batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dynamodb_idempotency::messages::events::kinesis::KinesisEventRecord;
use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{FailureAction, Message, MessageKey, Order};
use dynamodb_idempotency::policy::{Completed, Unconfirmed};
use serde_json::{Value, json};

use super::function::{Ran, context_of, failures, invoke, invoke_in, noting};
use super::queue::{fifo, kinesis_record, message, sqs};
use crate::support::gate::patiently;
use crate::support::{Act, Link, Store};

/// A message of a group with a key and an id.
fn of(group: &str, id: &str, key: &str, body: &str) -> Value {
    let mut one = fifo(group, key, body);
    one["messageId"] = id.into();
    one
}

/// One of them stands behind a failure of its group, another has the only place.
#[tokio::test]
async fn in_several_groups_they_neither_hang_nor_are_done_unheard() {
    for (first, concurrency) in [("x", 1), ("fail", 1), ("x", 8), ("fail", 8)] {
        let (store, ran) = (Store::open().await, Ran::default());
        let consumer = store.idempotency().sqs("book").concurrency(concurrency);
        let service = consumer.handler(noting(&ran)).unwrap();
        let batch = sqs([
            fifo("a", "a1", first),
            of("a", "a2", "k", "twin"),
            of("b", "b1", "k", "twin"),
            fifo("b", "b2", "b2"),
            of("c", "c1", "k", "twin"),
        ]);
        let answer = patiently("an answer", invoke(&service, &batch)).await;
        let expected: &[&str] = if first == "fail" { &["a1", "a2"] } else { &[] };
        assert_eq!(failures(&answer), expected, "{first} {concurrency}");
        assert_eq!(ran.all().iter().filter(|body| *body == "twin").count(), 1);
        assert_eq!(store.status("book#k").await.as_deref(), Some("COMPLETED"));
    }
}

#[tokio::test]
async fn thrice_in_a_group_and_once_with_another_payload_the_order_holds() {
    for (disposal, expected) in
        [(FailureAction::Report, &["2", "3", "4"][..]), (FailureAction::Acknowledge, &[])]
    {
        let (store, ran) = (Store::open().await, Ran::default());
        let consumer = store.idempotency().sqs("book").on_mismatch(disposal);
        let service = consumer.handler(noting(&ran)).unwrap();
        let batch = sqs([
            of("a", "1", "k", "pay"),
            of("a", "2", "k", "pay more"),
            of("a", "3", "k", "pay"),
            of("a", "4", "other", "other"),
        ]);
        assert_eq!(failures(&invoke(&service, &batch).await), expected, "{disposal:?}");
        let all: &[&str] = if expected.is_empty() { &["pay", "other"] } else { &["pay"] };
        assert_eq!(ran.all(), all, "{disposal:?}");
    }
}

/// Duplicates of a message that is cut off are not reported as done.
#[tokio::test]
async fn those_of_one_that_is_cut_off_are_reported() {
    for concurrency in [1, 8] {
        let (store, ran) = (Store::open().await, Ran::default());
        let noted = ran.clone();
        let consumer = store.idempotency().sqs("book").concurrency(concurrency);
        let service = consumer
            .handler(move |message: Message<SqsMessage>, _| {
                noted.add(String::from_utf8_lossy(message.payload()));
                std::future::pending::<Result<(), String>>()
            })
            .unwrap();
        let batch = sqs(["1", "2", "3"].map(|id| message(id, "k", "a")));
        let answer = invoke_in(&service, &batch, context_of(10)).await.unwrap();
        assert_eq!(failures(&answer), ["1", "2", "3"], "{concurrency}");
        assert_eq!(ran.count(), 1);
    }
}

#[tokio::test]
async fn where_a_success_releases_the_key_two_never_run_at_once() {
    let (store, ran, runs) =
        (Store::open().await, Ran::default(), Arc::new(AtomicBool::new(false)));
    let noted = ran.clone();
    let consumer = store.idempotency().sqs("book").policy(|p| p.completed(Completed::Release));
    let service = consumer
        .handler(move |_: Message<SqsMessage>, _| {
            let (noted, runs) = (noted.clone(), Arc::clone(&runs));
            async move {
                assert!(!runs.swap(true, Ordering::SeqCst), "at once");
                tokio::time::sleep(Duration::from_secs(1)).await;
                runs.store(false, Ordering::SeqCst);
                noted.add("ran");
                Ok::<_, String>(())
            }
        })
        .unwrap();
    let batch = sqs([message("1", "k", "a"), message("2", "k", "a")]);
    for run in 1..=2 {
        assert_eq!(failures(&invoke(&service, &batch).await), [""; 0]);
        assert!(ran.count() >= run);
    }
}

/// The lowest of those that are not done is reported, and what was done beyond it is not run again.
#[tokio::test]
async fn across_partition_keys_one_runs_once_in_all_deliveries() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer = store.idempotency().kinesis("book").order(Order::Key);
    let noted = ran.clone();
    let handler = move |message: Message<KinesisEventRecord>, _| {
        let body: Value = serde_json::from_slice(message.payload()).unwrap();
        noted.add(body["id"].as_str().unwrap());
        let fails = body["id"] == "bad";
        async move { if fails { Err("declined") } else { Ok(()) } }
    };
    let service = consumer.key(MessageKey::json("/id")).handler(handler).unwrap();
    let record = |partition: &str, number: usize, id: &str| {
        kinesis_record(partition, number, &json!({"id": id}).to_string())
    };
    let from_2 = [
        record("p", 2, "bad"),
        record("p", 3, "twin"),
        record("q", 4, "twin"),
        record("q", 5, "five"),
    ];
    let all = [vec![record("p", 1, "one")], from_2.to_vec()].concat();
    for batch in [sqs(all), sqs(from_2.to_vec()), sqs(from_2)] {
        assert_eq!(failures(&invoke(&service, &batch).await), ["2"]);
    }
    for id in ["one", "twin", "five"] {
        assert_eq!(ran.all().iter().filter(|ran| *ran == id).count(), 1, "{id}");
    }
}

/// Whichever of its requests the store does not serve, from whichever one on.
#[tokio::test]
async fn no_message_is_reported_as_done_without_its_record() {
    let acts = [Act::LoseRequest, Act::LoseResponse, Act::SERVER_ERROR, Act::THROTTLE];
    for (operation, act) in ["PutItem", "UpdateItem", "GetItem"]
        .iter()
        .flat_map(|operation| acts.iter().map(move |act| (*operation, act)))
    {
        for served in 0..5 {
            let (store, link, ran) = (Store::open().await, Link::without_retries(), Ran::default());
            for _ in 0..served {
                link.wire.next(operation, Act::Deliver);
            }
            link.wire.every(operation, act.clone());
            let consumer =
                store.over(&link).sqs("book").policy(|p| p.unconfirmed(Unconfirmed::Error));
            let service = consumer.handler(noting(&ran)).unwrap();
            let batch = [("1", "k", "a"), ("2", "l", "fail"), ("3", "k", "a"), ("4", "m", "d")];
            let event = sqs(batch.map(|(id, key, body)| message(id, key, body)));
            let reported = failures(&invoke(&service, &event).await);
            for (id, key, _) in batch {
                let done =
                    store.status(&format!("book#{key}")).await.as_deref() == Some("COMPLETED");
                let is_confirmed = !reported.contains(&id.to_owned());
                assert!(!is_confirmed || done, "{operation} {act:?} {served}: {id}, {reported:?}");
            }
        }
    }
}
