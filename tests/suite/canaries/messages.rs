//! Events and messages.

use std::error::Error as StdError;

use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{Envelope, FailureAction, Message, MessageKey};
use dynamodb_idempotency::policy::KeyForm;
use dynamodb_idempotency::{Execution, Policy};
use lambda_runtime::{LambdaEvent, Service};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Ear, KEY, PAYLOAD};
use crate::messages::function::{Handled, context_of, invoke_in};
use crate::messages::queue::{attribute, example, kafka_record, message, sqs, without_key};
use crate::support::raw::{s, with};
use crate::support::{Act, Link, Store, raw};

/// Invokes a service with one event and collects its answer and everything that is logged.
async fn invoked<S>(ear: &mut Ear, case: &str, service: S, event: Value) -> Option<Value>
where
    S: Service<LambdaEvent<JsonEvent>, Response: Serialize, Error: std::fmt::Debug> + Clone,
    S::Error: StdError + 'static,
{
    let answer = invoke_in(&service, &event, context_of(30)).await;
    if let Err(error) = &answer {
        ear.error(error);
    }
    ear.check(case);
    answer.ok()
}

#[tokio::test]
async fn an_event_that_is_refused_tells_neither_key_nor_payload() {
    #[derive(serde::Deserialize)]
    struct Import {
        id: Option<String>,
        amount: u32,
    }
    let (store, mut ear) = (Store::open().await, Ear::new());
    let handler = async |event: LambdaEvent<Import>, _: Execution| {
        if event.payload.amount == 13 { Err(std::io::Error::other("declined")) } else { Ok(1) }
    };
    let service = store.idempotency().event("import", |import: &Import| import.id.clone(), handler);
    for (case, event) in [
        ("another type", json!({"id": KEY, "amount": PAYLOAD})),
        ("a number", json!({"id": 4_815_162_342_u64, "amount": 1})),
        ("no object", json!(PAYLOAD)),
        ("no key", json!({"amount": 1, "more": PAYLOAD})),
        ("a long key", json!({"id": KEY.repeat(200), "amount": 1})),
        ("a failure", json!({"id": KEY, "amount": 13})),
    ] {
        let answer = invoked(&mut ear, case, service.clone(), event).await;
        assert_eq!(answer, None, "{case}");
    }
    for (n, is_done) in [(1, true), (2, false)] {
        let event = json!({"id": KEY, "amount": n});
        let answer = invoked(&mut ear, "a mismatch", service.clone(), event).await;
        assert_eq!(answer.is_some(), is_done);
    }
}

/// A handler that fails as most do where they cannot read what they get.
fn reading<R: Send + 'static>(message: Message<R>, _: Execution) -> Handled {
    Box::pin(async move {
        let read: Result<u32, _> = message.json();
        read.map(drop).map_err(|error| format!("{error:#} {error:?}"))
    })
}

#[tokio::test]
async fn a_message_that_is_refused_tells_neither_key_nor_payload() {
    let (store, mut ear) = (Store::open().await, Ear::new());
    let idempotency = store.idempotency();
    let changed = |pointer: &str, value: Value| {
        let mut message = message("1", KEY, PAYLOAD);
        *message.pointer_mut(pointer).unwrap() = value;
        message
    };
    let number = json!({"stringValue": 4_815_162_342_u64, "dataType": "String"});
    let listed = json!({"stringValue": [KEY], "dataType": "String"});
    let binary = json!({"binaryValue": KEY, "dataType": "Binary"});
    let in_attribute = "/messageAttributes/Idempotency-Key";
    let messages = [
        ("the handler's", message("1", KEY, PAYLOAD)),
        ("an attribute of a number", changed(in_attribute, number)),
        ("an attribute of a list", changed(in_attribute, listed)),
        ("a binary attribute", changed(in_attribute, binary)),
        ("an attribute that is none", changed(in_attribute, json!(KEY))),
        ("attributes that are none", changed("/messageAttributes", json!(KEY))),
        ("no key", changed("/messageAttributes", json!({PAYLOAD: attribute(KEY)}))),
        ("a long key", message("1", &KEY.repeat(200), PAYLOAD)),
        ("a body of a list", changed("/body", json!([PAYLOAD]))),
        ("a body of a number", changed("/body", json!(2_718_281_828_u64))),
        ("another source", changed("/eventSource", json!(PAYLOAD))),
        ("no record", json!(PAYLOAD)),
        ("a list", json!([KEY, PAYLOAD])),
    ];
    for disposal in [FailureAction::Report, FailureAction::Acknowledge] {
        let service =
            idempotency.sqs("book").on_malformed(disposal).handler(reading::<SqsMessage>).unwrap();
        for (case, message) in messages.clone() {
            invoked(&mut ear, case, service.clone(), sqs([message])).await;
        }
    }
}

#[tokio::test]
async fn an_envelope_that_is_refused_tells_neither_key_nor_payload() {
    let (store, mut ear) = (Store::open().await, Ear::new());
    let idempotency = store.idempotency();
    let notification = |of: Value| {
        let mut whole = json!({"Type": "Notification", "MessageId": "n", "Message": PAYLOAD});
        whole.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
        whole.to_string()
    };
    let envelopes = [
        json!(PAYLOAD).to_string(),
        PAYLOAD.to_owned(),
        json!([KEY, PAYLOAD]).to_string(),
        notification(json!({"Message": [PAYLOAD]})),
        notification(json!({"Message": 2_718_281_828_u64})),
        notification(json!({"MessageAttributes": KEY})),
        notification(json!({"MessageAttributes": {"Idempotency-Key": KEY}})),
        notification(
            json!({"MessageAttributes": {"Idempotency-Key": {"Type": "String", "Value": [KEY]}}}),
        ),
        notification(json!({"Type": PAYLOAD})),
        json!({"id": [KEY], "source": "s", "detail-type": "t", "detail": PAYLOAD}).to_string(),
        json!({"id": KEY, "source": 2_718_281_828_u64, "detail": PAYLOAD}).to_string(),
    ];
    for envelope in [Envelope::Sns, Envelope::EventBridge] {
        let consumer = idempotency.sqs("enveloped").envelope(envelope);
        let service = consumer.handler(reading::<SqsMessage>).unwrap();
        for body in &envelopes {
            invoked(&mut ear, body, service.clone(), sqs([without_key("1", body)])).await;
        }
    }
}

#[tokio::test]
async fn a_key_rule_that_fails_tells_neither_key_nor_payload() {
    let (store, mut ear) = (Store::open().await, Ear::new());
    let idempotency = store.idempotency();
    let rules = [
        MessageKey::json("/id"),
        MessageKey::json("/id/a/b"),
        MessageKey::json(["/id", "/other"]),
        MessageKey::with(|message: &Message<SqsMessage>| -> String { message.json().unwrap() }),
        MessageKey::with(|_: &Message<SqsMessage>| -> String { panic!("{PAYLOAD}") }),
    ];
    let bodies = [
        json!({"id": [KEY, 1]}),
        json!({"id": {"a": KEY}}),
        json!({"id": 4_815_162_342.5}),
        json!({"id": null, "other": PAYLOAD}),
        json!(PAYLOAD),
    ];
    for (number, rule) in rules.into_iter().enumerate() {
        let service = idempotency.sqs("ruled").key(rule).handler(reading::<SqsMessage>).unwrap();
        for body in &bodies {
            let case = format!("rule {number}: {body}");
            let event = sqs([without_key("1", &body.to_string()), without_key("2", PAYLOAD)]);
            invoked(&mut ear, &case, service.clone(), event).await;
        }
    }
}

#[tokio::test]
async fn a_message_that_was_met_before_tells_neither_key_nor_payload() {
    let (store, link, mut ear) = (Store::open().await, Link::without_retries(), Ear::new());
    let idempotency = store.over(&link);
    let consumer = idempotency
        .sqs("met")
        .handler(|_: Message<SqsMessage>, _| async { Ok::<_, String>(()) })
        .unwrap();
    invoked(&mut ear, "first", consumer.clone(), sqs([message("1", KEY, "a")])).await;
    invoked(&mut ear, "mismatch", consumer.clone(), sqs([message("1", KEY, PAYLOAD)])).await;
    store.put(with(raw::pending(&format!("met#{KEY}")), "status", s(PAYLOAD))).await;
    invoked(&mut ear, "no record", consumer.clone(), sqs([message("1", KEY, PAYLOAD)])).await;
    link.wire.down(Act::LoseRequest);
    invoked(&mut ear, "an outage", consumer, sqs([message("1", KEY, PAYLOAD)])).await;
}

/// The default keys of these sources are built from names or are part of the record.
#[tokio::test]
async fn other_sources_tell_neither_key_nor_payload() {
    let (store, mut ear) = (Store::open().await, Ear::new());
    let hashed = |policy: Policy| policy.key_form(KeyForm::Sha256);
    let idempotency = store.idempotency();

    let s3 = || idempotency.s3("s").policy(hashed).handler(reading).unwrap();
    let mut event = example!("s3");
    event["Records"][0]["s3"]["object"]["key"] = KEY.into();
    event["Records"][0]["s3"]["bucket"]["name"] = "canary-bucket".into();
    assert_eq!(invoked(&mut ear, "S3", s3(), event.clone()).await, None);
    event["Records"][0]["s3"]["object"]["size"] = PAYLOAD.into();
    assert_eq!(invoked(&mut ear, "S3, no record", s3(), event).await, None);

    let eventbridge = || idempotency.eventbridge("e").policy(hashed).handler(reading).unwrap();
    let mut event = example!("eventbridge");
    event["source"] = "canary-source".into();
    event["detail"] = PAYLOAD.into();
    assert_eq!(invoked(&mut ear, "EventBridge", eventbridge(), event.clone()).await, None);
    event["detail-type"] = json!([PAYLOAD]);
    assert_eq!(invoked(&mut ear, "EventBridge, no event", eventbridge(), event).await, None);

    let sns = || idempotency.sns("n").handler(reading).unwrap();
    let mut event = example!("sns");
    let record = &mut event["Records"][0];
    record["Sns"]["Message"] = PAYLOAD.into();
    record["Sns"]["MessageAttributes"]["Idempotency-Key"]["Value"] = KEY.into();
    assert_eq!(invoked(&mut ear, "SNS", sns(), event.clone()).await, None);
    event["Records"][0]["Sns"]["MessageAttributes"]["Idempotency-Key"]["Value"] = json!([KEY]);
    assert_eq!(invoked(&mut ear, "SNS, an attribute", sns(), event.clone()).await, None);
    event["Records"][0]["Sns"]["Type"] = PAYLOAD.into();
    assert_eq!(invoked(&mut ear, "SNS, a type", sns(), event).await, None);

    let kinesis = || idempotency.kinesis("k").handler(reading).unwrap();
    let mut event = example!("kinesis");
    event["Records"][0]["kinesis"]["partitionKey"] = KEY.into();
    event["Records"][0]["kinesis"]["data"] = json!(format!("{PAYLOAD}!"));
    assert!(invoked(&mut ear, "Kinesis", kinesis(), event).await.is_some());
    let dynamodb = || idempotency.dynamodb_streams("d").handler(reading).unwrap();
    let mut event = example!("dynamodb");
    event["Records"][0]["dynamodb"]["NewImage"] = json!(PAYLOAD);
    assert!(invoked(&mut ear, "DynamoDB Streams", dynamodb(), event).await.is_some());
}

#[tokio::test]
async fn kafka_tells_neither_key_nor_payload() {
    let (store, mut ear) = (Store::open().await, Ear::new());
    let idempotency = store.idempotency();
    let kafka = || idempotency.kafka("k").handler(reading).unwrap();
    let event = |record: Value| {
        let mut event = example!("kafka_msk");
        event["records"] = json!({"orders-0": [record]});
        event
    };
    let headed = |value: Value| {
        let mut record = kafka_record(1, KEY, PAYLOAD);
        record["headers"] = json!([{"Idempotency-Key": value}]);
        record
    };
    for (case, record) in [
        ("Kafka", kafka_record(1, KEY, PAYLOAD)),
        ("Kafka, a header", headed(json!(KEY))),
        ("Kafka, a long key", headed(json!(KEY.repeat(200).as_bytes()))),
        ("Kafka, no base64", {
            let mut record = kafka_record(1, KEY, "");
            record["value"] = json!(format!("{PAYLOAD}!"));
            record
        }),
        ("Kafka, no text", {
            let mut record = kafka_record(1, KEY, "");
            record["value"] = json!([PAYLOAD]);
            record
        }),
    ] {
        assert_eq!(invoked(&mut ear, case, kafka(), event(record)).await, None);
    }
    let mut event = example!("kafka_msk");
    event["eventSource"] = PAYLOAD.into();
    assert_eq!(invoked(&mut ear, "Kafka, a source", kafka(), event).await, None);
}
