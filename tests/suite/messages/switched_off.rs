//! Messages and events while idempotency is switched off: nothing is refused for its key's sake.

use std::time::Duration;

use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{Message, MessageKey, MissingKey};
use lambda_runtime::LambdaEvent;
use serde_json::{Value, json};

use super::function::{Ran, context_until, failures, invoke, invoke_in, noting};
use super::queue::{fifo, message, sqs, without_key};
use crate::support::{Link, Store, made_up_time};

fn off(store: &Store, link: &Link) -> Idempotency {
    store.builder(link).disabled().build().unwrap()
}

#[tokio::test]
async fn every_message_runs_with_and_without_a_key() {
    let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
    let bug = |_: &Message<SqsMessage>| -> String { panic!("a bug") };
    for missing in [MissingKey::Fail, MissingKey::Acknowledge, MissingKey::RunUnprotected] {
        for key in [MessageKey::attribute("Idempotency-Key"), MessageKey::with(bug)] {
            let consumer = off(&store, &link).sqs("book").key(key).missing_key(missing);
            let service = consumer.handler(noting(&ran)).unwrap();
            let batch = sqs([
                without_key("1", "none"),
                message("2", "", "empty"),
                message("3", &"k".repeat(4096), "long"),
                message("4", "k", "fine"),
            ]);
            assert_eq!(failures(&invoke(&service, &batch).await), [""; 0]);
        }
    }
    assert_eq!((ran.count(), link.wire.requests().len()), (24, 0));
}

/// The order of a group is the source's, and no matter of idempotency.
#[tokio::test]
async fn each_twin_runs_and_the_order_of_a_group_stays() {
    let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
    let service = off(&store, &link).sqs("book").handler(noting(&ran)).unwrap();
    let twins = ["a", "a", "fail", "fail"].into_iter().zip(["1", "2", "3", "4"]);
    let twins = sqs(twins.map(|(body, id)| message(id, "k", body)));
    assert_eq!(failures(&invoke(&service, &twins).await), ["3", "4"]);
    assert_eq!(ran.count(), 4);
    let group = sqs([fifo("g", "1", "a"), fifo("g", "2", "fail"), fifo("g", "3", "c")]);
    assert_eq!(failures(&invoke(&service, &group).await), ["2", "3"]);
    assert_eq!(ran.all()[4..], ["a", "fail"]);
    assert_eq!(link.wire.requests(), [""; 0]);
}

#[tokio::test]
async fn an_event_without_a_key_runs() {
    let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
    let noted = ran.clone();
    let service = off(&store, &link).event(
        "import",
        |event: &Value| event["id"].as_str().map(str::to_owned),
        move |event: LambdaEvent<Value>, _| {
            noted.add(event.payload.to_string());
            async { Ok::<_, String>(()) }
        },
    );
    for event in [json!({}), json!({"id": ""}), json!({"id": "k"}), json!({"id": "k"})] {
        invoke(&service, &event).await;
    }
    let over = context_until(made_up_time::now() - Duration::from_secs(9));
    invoke_in(&service, &json!({"id": "k"}), over).await.unwrap();
    assert_eq!((ran.count(), link.wire.requests().len()), (5, 0));
}
