//! What cannot be read harms nothing else.

use dynamodb_idempotency::ErrorKind;
use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{BatchError, FailureAction, Message, MessageKey};
use lambda_runtime::Diagnostic;
use serde_json::{Value, json};

use super::function::{Ran, booking, context_of, failures, invoke, invoke_in, noting};
use super::queue::{attribute, example, fifo, kinesis_record, message, sqs, without_key};
use crate::support::{Link, Store};

#[tokio::test]
async fn a_body_that_is_not_json_fails_where_a_member_was_asked_for() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer = store.idempotency().sqs("book").key(MessageKey::json("/id"));
    let service = consumer.handler(noting(&ran)).unwrap();
    let batch = sqs([
        without_key("1", "plain"),
        without_key("2", r#"{"id": "k"}"#),
        without_key("3", r#"{"id": {"a": 1}}"#),
        without_key("4", r#"{"other": 1}"#),
        without_key("5", r#"{"id": true}"#),
        without_key("6", ""),
        without_key("7", r#"{"id": ""}"#),
        without_key("8", &format!("{}{}", "[".repeat(200), "]".repeat(200))),
    ]);
    let expected = ["1", "3", "4", "5", "6", "7", "8"];
    assert_eq!(failures(&invoke(&service, &batch).await), expected);
    assert_eq!(ran.all(), [r#"{"id": "k"}"#]);
}

#[tokio::test]
async fn a_pointer_without_a_slash_is_refused_where_it_is_set() {
    let (store, ran) = (Store::open().await, Ran::default());
    for key in [MessageKey::json("id"), MessageKey::json(["/order", "id"])] {
        let error = store.idempotency().sqs("book").key(key).handler(noting(&ran)).map(drop);
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("write `/id`"), "{error}");
    }
}

#[tokio::test]
async fn a_key_that_is_none_fails_its_message_alone() {
    let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
    let service = store.over(&link).sqs("book").handler(noting(&ran)).unwrap();
    let with = |id: &str, attribute: Value| {
        let mut message = without_key(id, "a");
        message["messageAttributes"]["Idempotency-Key"] = attribute;
        message
    };
    let binary = json!({"binaryValue": "aw==", "dataType": "Binary"});
    let batch = sqs([
        with("1", attribute("")),
        with("2", binary),
        with("3", attribute(&"k".repeat(2048))),
        with("4", attribute("k")),
    ]);
    assert_eq!(failures(&invoke(&service, &batch).await), ["1", "2", "3"]);
    assert_eq!((ran.count(), link.wire.requests().len()), (1, 2));
}

/// What a typed event as a whole would fail by.
#[tokio::test]
async fn a_record_that_cannot_be_read_fails_alone() {
    let (_store, ran, service) = booking().await;
    let mut wrong_type = message("1", "k1", "a");
    wrong_type["body"] = json!(["not", "a", "text"]);
    let mut wrong_attribute = message("2", "k2", "b");
    wrong_attribute["messageAttributes"]["other"] = json!({"binaryValue": "not base64"});
    let batch = sqs([wrong_type, wrong_attribute, message("3", "k3", "c")]);
    assert_eq!(failures(&invoke(&service, &batch).await), ["1", "2"]);
    assert_eq!(ran.all(), ["c"]);
}

#[tokio::test]
async fn an_unreadable_record_keeps_its_place_in_the_order() {
    let (store, ran, service) = booking().await;
    let mut broken = fifo("a", "1", "a1");
    broken["body"] = json!(7);
    let batch = sqs([broken, fifo("a", "2", "a2"), fifo("b", "3", "b1")]);
    assert_eq!(failures(&invoke(&service, &batch).await), ["1", "2"]);
    let stream = store.idempotency().kinesis("stream").handler(noting(&ran)).unwrap();
    let mut broken = kinesis_record("a", 8, "x");
    broken["kinesis"]["data"] = "not base64".into();
    let batch =
        json!({"Records": [kinesis_record("a", 7, "s1"), broken, kinesis_record("a", 9, "s3")]});
    assert_eq!(failures(&invoke(&stream, &batch).await), ["8"]);
    assert_eq!(ran.all(), ["b1", "s1"]);
}

#[tokio::test]
async fn what_no_delivery_mends_can_be_acknowledged() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer = store.idempotency().sqs("book").on_malformed(FailureAction::Acknowledge);
    let service = consumer.on_mismatch(FailureAction::Acknowledge).handler(noting(&ran)).unwrap();
    invoke(&service, &sqs([message("1", "k", "a")])).await;
    let mut broken = fifo("g", "2", "b");
    broken["body"] = json!(7);
    let mismatch = {
        let mut message = fifo("g", "3", "other");
        message["messageAttributes"]["Idempotency-Key"] = attribute("k");
        message
    };
    let batch = sqs([broken, mismatch, fifo("g", "4", "d")]);
    assert_eq!(failures(&invoke(&service, &batch).await), [""; 0]);
    assert_eq!(ran.all(), ["a", "d"]);
    // A message without a key is another thing.
    let keyless = without_key("5", "e");
    assert_eq!(failures(&invoke(&service, &sqs([keyless])).await), ["5"]);
}

#[tokio::test]
async fn a_closure_that_panics_fails_its_message_alone() {
    let (store, ran) = (Store::open().await, Ran::default());
    let key = MessageKey::with(|message: &Message<SqsMessage>| {
        let body: Value = message.json().unwrap();
        body["id"].as_str().map(str::to_owned)
    });
    let service = store.idempotency().sqs("book").key(key).handler(noting(&ran)).unwrap();
    let batch = sqs([without_key("1", "not json"), without_key("2", r#"{"id":"k"}"#)]);
    assert_eq!(failures(&invoke(&service, &batch).await), ["1"]);
    assert_eq!(ran.count(), 1);
}

/// A panic is a bug in the code and does not mean that the message is malformed.
#[tokio::test]
async fn a_message_at_which_code_panics_is_reported_whatever_malformed_ones_get() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer = || store.idempotency().sqs("book").on_malformed(FailureAction::Acknowledge);
    let bug = |_: &Message<SqsMessage>| -> String { panic!("a bug") };
    let by_key = consumer().key(MessageKey::with(bug)).handler(noting(&ran)).unwrap();
    let by_fingerprint = consumer().fingerprint(|_| panic!("a bug")).handler(noting(&ran)).unwrap();
    let batch = sqs([message("1", "k", "a"), message("2", "l", "b")]);
    assert_eq!(failures(&invoke(&by_key, &batch).await), ["1", "2"]);
    assert_eq!(failures(&invoke(&by_fingerprint, &batch).await), ["1", "2"]);
    assert_eq!(ran.count(), 0);
}

/// Were it left out of the answer, it would be lost; with an empty or unknown name, Lambda would
/// take the whole batch for failed without a word.
#[tokio::test]
async fn a_failure_without_a_name_fails_the_invocation() {
    let (_store, _ran, service) = booking().await;
    for id in [Value::Null, "".into(), 7.into()] {
        let mut nameless = message("1", "k", "fail");
        nameless["messageId"] = id;
        let batch = sqs([message("2", "l", "b"), nameless.clone()]);
        let failed = invoke_in(&service, &batch, context_of(30)).await.unwrap_err();
        assert!(matches!(failed, BatchError::Nameless { failed: 1, total: 2 }), "{failed:?}");
        assert_eq!(Diagnostic::from(failed).error_type, "Messages.Nameless");
    }
    // One that is done needs no name.
    let mut nameless = message("1", "m", "c");
    nameless.as_object_mut().unwrap().remove("messageId");
    assert_eq!(failures(&invoke(&service, &sqs([nameless])).await), [""; 0]);
}

#[tokio::test]
async fn an_event_of_another_source_runs_nothing() {
    let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
    let idempotency = store.over(&link);
    let sqs = idempotency.sqs("s").handler(noting(&ran)).unwrap();
    let kinesis = idempotency.kinesis("s").handler(noting(&ran)).unwrap();
    let dynamodb = idempotency.dynamodb_streams("s").handler(noting(&ran)).unwrap();
    let kafka = idempotency.kafka("s").handler(noting(&ran)).unwrap();
    let sns = idempotency.sns("sns").handler(noting(&ran)).unwrap();
    let eventbridge = idempotency.eventbridge("s").handler(noting(&ran)).unwrap();
    let s3 = idempotency.s3("s").handler(noting(&ran)).unwrap();
    let all = [
        ("sqs", example!("sqs")),
        ("kinesis", example!("kinesis")),
        ("dynamodb", example!("dynamodb")),
        ("kafka", example!("kafka_msk")),
        ("sns", example!("sns")),
        ("eventbridge", example!("eventbridge")),
        ("s3", example!("s3")),
        ("no object", json!(["Records"])),
        ("no records", json!({"Records": null})),
        ("other records", json!({"Records": {"a": 1}, "records": [1]})),
        ("nothing", Value::Null),
    ];
    for (name, event) in all {
        let context = || context_of(30);
        let answers = [
            ("sqs", invoke_in(&sqs, &event, context()).await),
            ("kinesis", invoke_in(&kinesis, &event, context()).await),
            ("dynamodb", invoke_in(&dynamodb, &event, context()).await),
            ("kafka", invoke_in(&kafka, &event, context()).await),
            ("sns", invoke_in(&sns, &event, context()).await),
            ("eventbridge", invoke_in(&eventbridge, &event, context()).await),
            ("s3", invoke_in(&s3, &event, context()).await),
        ];
        for (service, answer) in answers {
            let is_own = service == name;
            assert_eq!(answer.is_ok(), is_own, "{service} with the event of {name}: {answer:?}");
        }
    }
    // Each has run its own two, or one, and nothing else was sent.
    assert_eq!((ran.count(), link.wire.requests().len()), (10, 20));
}

/// Its own names are there, but it says that it is another service's.
#[tokio::test]
async fn a_record_that_names_another_source_is_not_run() {
    let (_store, ran, service) = booking().await;
    let mut other = message("1", "k", "a");
    other["eventSource"] = "aws:mq".into();
    let answer = invoke(&service, &sqs([other, message("2", "l", "b")])).await;
    assert_eq!(failures(&answer), ["1"]);
    assert_eq!(ran.all(), ["b"]);
}
