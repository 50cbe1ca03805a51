//! Steps that another version has stored: who cannot read them neither runs nor acknowledges.

use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{Message, MessageKey};
use dynamodb_idempotency::policy::Outage;
use dynamodb_idempotency::{Execution, Idempotency, Policy, RunError};
use lambda_runtime::{LambdaEvent, Service};
use serde::Serialize;
use serde_json::{Value, json};

use super::function::{Handled, Ran, context_of, failures, invoke, invoke_in, noting};
use super::queue::{kafka_record, kinesis_record, message, sqs};
use crate::answer_codec::{Does, Mask};
use crate::support::raw::{self, Item};
use crate::support::{Link, Store};

/// Does one step and then fails, once; from then on it succeeds.
fn stepping(ran: &Ran) -> impl Fn(Message<SqsMessage>, Execution) -> Handled + Send + Sync + use<> {
    let ran = ran.clone();
    move |_, execution: Execution| {
        let ran = ran.clone();
        Box::pin(async move {
            let step = async {
                ran.add("step");
                Ok::<_, String>(7)
            };
            let step: Result<i32, RunError<String>> = execution.step("reserve", step).await;
            step.map_err(|error| error.to_string())?;
            ran.add("rest");
            if execution.attempt() == 1 { Err("declined".to_owned()) } else { Ok(()) }
        })
    }
}

/// A record whose first step is stored, under the key `k-1` and the payload `a`.
async fn half_done(store: &Store, writer: &Idempotency, ran: &Ran) -> Item {
    let service = writer.sqs("book").handler(stepping(ran)).unwrap();
    assert_eq!(failures(&invoke(&service, &sqs([message("1", "k-1", "a")])).await), ["1"]);
    assert_eq!(ran.all(), ["step", "rest"]);
    store.record("book#k-1").await
}

/// Writers of the steps and readers that cannot read them, each for another reason.
fn writers_and_readers(store: &Store) -> [(&'static str, Idempotency, Idempotency); 3] {
    // No outage opens what is only unreadable.
    let open = |policy: Policy| policy.outage(Outage::Open);
    let bare = || store.builder(&Link::default()).policy(open);
    let (mask, broken) = (Mask::default(), Mask::default());
    broken.decoding(Does::Fail);
    let masked = || bare().answer_codec(mask.clone()).build().unwrap();
    [
        ("no codec", masked(), bare().build().unwrap()),
        ("a codec that fails", masked(), bare().answer_codec(broken).build().unwrap()),
        (
            "a plain step that is refused",
            bare().build().unwrap(),
            bare().answer_codec(mask.clone()).reject_plain_answers().build().unwrap(),
        ),
    ]
}

/// The failure reported to the source for one message whose steps cannot be read.
async fn reported<S>(service: S, event: Value) -> Value
where
    S: Service<LambdaEvent<JsonEvent>, Response: Serialize, Error: std::fmt::Display> + Clone,
    S::Error: std::fmt::Debug,
{
    let answer = invoke_in(&service, &event, context_of(30)).await;
    answer.unwrap_or_else(|error| json!(error.to_string()))
}

#[tokio::test]
async fn a_message_whose_steps_cannot_be_read_is_reported_by_every_source() {
    for number in 0..3 {
        let (store, ran, others) = (Store::open().await, Ran::default(), Ran::default());
        let (why, writer, reader) = writers_and_readers(&store).into_iter().nth(number).unwrap();
        let record = half_done(&store, &writer, &ran).await;
        let key = || MessageKey::with(|_| "k-1".to_owned());
        let answers = [
            ("sqs", {
                let service = reader.sqs("book").handler(noting(&others)).unwrap();
                (reported(service, sqs([message("1", "k-1", "a")])).await, json!("1"))
            }),
            ("kinesis", {
                let service = reader.kinesis("book").key(key()).handler(noting(&others)).unwrap();
                let event = json!({"Records": [kinesis_record("p", 5, "a")]});
                (reported(service, event).await, json!("5"))
            }),
            ("kafka", {
                let consumer = reader.kafka("book").report_each();
                let service = consumer.handler(noting(&others)).unwrap();
                let event = json!({"eventSource": "aws:kafka", "eventSourceArn": "arn:aws:kafka:x",
                    "bootstrapServers": "b:1", "records": {"orders-0": [kafka_record(1, "a", "a")]}});
                (reported(service, event).await, json!({"partition": "orders-0", "offset": 1}))
            }),
        ];
        for (source, (answer, item)) in answers {
            let reported = json!({"batchItemFailures": [{"itemIdentifier": item}]});
            assert_eq!(answer, reported, "{source}: {why}");
        }
        // One that takes no partial response.
        let service = reader.sqs("book").report_batch().handler(noting(&others)).unwrap();
        let answer = reported(service, sqs([message("1", "k-1", "a")])).await;
        assert!(
            answer.as_str().is_some_and(|error| error.starts_with("1 of 1")),
            "{answer}: {why}"
        );
        assert_eq!((others.count(), store.record("book#k-1").await), (0, record), "{why}");
        // Who can read them goes on.
        let service = writer.sqs("book").handler(stepping(&ran)).unwrap();
        assert_eq!(failures(&invoke(&service, &sqs([message("1", "k-1", "a")])).await), [""; 0]);
        assert_eq!(ran.all(), ["step", "rest", "rest"], "{why}");
        assert_eq!(raw::status(&store.record("book#k-1").await), "COMPLETED");
    }
}
