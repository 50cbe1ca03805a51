//! What cannot be read harms nothing else.

use dynamodb_idempotency::ErrorKind;
use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{
    BatchError, BatchResponse, FailureAction, Message, MessageKey,
};
use lambda_runtime::{Diagnostic, LambdaEvent};
use serde_json::{Value, json};
use tower::Service;

use super::foreign_json::invoke_text;
use super::function::{Ran, booking, context_of, failures, invoke, invoke_in, noting};
use super::queue::{attribute, example, fifo, kinesis_record, message, sqs, without_key};
use crate::support::{Link, Store};

/// Stands for half a surrogate pair, which no `Value` holds.
const SURROGATE: &str = "SURROGATE";

async fn invoke_surrogate<S>(service: &S, event: &Value) -> Value
where
    S: Service<LambdaEvent<JsonEvent>, Response = BatchResponse, Error = BatchError> + Clone,
{
    invoke_text(service, &event.to_string().replace("SURROGATE", r"\ud800")).await
}

#[tokio::test]
async fn a_message_without_the_key_that_was_asked_for_fails_alone() {
    let with_attribute = |attribute: Value| {
        let mut message = without_key("", "a");
        message["messageAttributes"]["Idempotency-Key"] = attribute;
        message
    };
    let by_closure = MessageKey::with(|message: &Message<SqsMessage>| {
        let body: Value = message.json().expect("the closure panics");
        body["id"].as_str().map(str::to_owned)
    });
    let of = |body: &str| without_key("", body);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (name, key, bad, good) in [
        (
            "a member",
            MessageKey::json("/id"),
            vec![
                of("plain"),
                of(r#"{"id": {"a": 1}}"#),
                of(r#"{"other": 1}"#),
                of(r#"{"id": true}"#),
                of(""),
                of(r#"{"id": ""}"#),
                of(&deep),
            ],
            of(r#"{"id": "k"}"#),
        ),
        (
            "an attribute",
            MessageKey::attribute("Idempotency-Key"),
            vec![
                with_attribute(attribute("")),
                with_attribute(json!({"binaryValue": "aw==", "dataType": "Binary"})),
                with_attribute(attribute(&"k".repeat(2048))),
            ],
            with_attribute(attribute("k")),
        ),
        ("a closure that panics", by_closure, vec![of("not json")], of(r#"{"id":"k"}"#)),
    ] {
        let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
        let service = store.over(&link).sqs("book").key(key).handler(noting(&ran)).unwrap();
        let good_id = "good".to_owned();
        let ids: Vec<_> = (0..bad.len()).map(|number| number.to_string()).collect();
        let numbered =
            bad.into_iter().zip(&ids).chain([(good, &good_id)]).map(|(mut message, id)| {
                message["messageId"] = id.as_str().into();
                message
            });
        let batch = sqs(numbered);
        assert_eq!(failures(&invoke(&service, &batch).await), ids, "{name}");
        assert_eq!((ran.count(), link.wire.requests().len()), (1, 2), "{name}");
    }
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

/// What a typed event as a whole would fail by, or a record that says that it is another service's.
#[tokio::test]
async fn a_record_that_cannot_be_read_fails_alone_and_holds_its_group() {
    type Break = fn(&mut Value);
    let breaks: [(&str, Break); 4] = [
        ("a body that is no text", |message| message["body"] = json!(["not", "a", "text"])),
        // It is valid JSON, but no text of Rust's.
        ("half a surrogate pair", |message| message["body"] = SURROGATE.into()),
        ("an attribute that is no base64", |message| {
            message["messageAttributes"]["other"] = json!({"binaryValue": "not base64"});
        }),
        ("another source", |message| message["eventSource"] = "aws:mq".into()),
    ];
    for (name, change) in breaks {
        let (_store, ran, service) = booking().await;
        let broken = |mut message: Value| {
            change(&mut message);
            message
        };
        // A standard queue has no order.
        let standard = sqs([broken(message("1", "k1", "a")), message("2", "k2", "b")]);
        assert_eq!(failures(&invoke_surrogate(&service, &standard).await), ["1"], "{name}");
        let group = sqs([broken(fifo("a", "3", "a1")), fifo("a", "4", "a2"), fifo("b", "5", "b1")]);
        assert_eq!(failures(&invoke_surrogate(&service, &group).await), ["3", "4"], "{name}");
        assert_eq!(ran.all(), ["b", "b1"], "{name}");
    }
    let (store, ran) = (Store::open().await, Ran::default());
    let stream = store.idempotency().kinesis("stream").handler(noting(&ran)).unwrap();
    let mut broken = kinesis_record("a", 8, "x");
    broken["kinesis"]["data"] = "not base64".into();
    let batch =
        json!({"Records": [kinesis_record("a", 7, "s1"), broken, kinesis_record("a", 9, "s3")]});
    assert_eq!(failures(&invoke(&stream, &batch).await), ["8"]);
    assert_eq!(ran.all(), ["s1"]);
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
    let sns_of_type = |kind: &str| {
        let mut event = example!("sns");
        event["Records"][0]["Sns"]["Type"] = kind.into();
        event
    };
    let record = &example!("sns")["Records"][0];
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
        // What SNS asks a function is no notification.
        ("a subscription", sns_of_type("SubscriptionConfirmation")),
        ("the end of one", sns_of_type("UnsubscribeConfirmation")),
        ("no type", sns_of_type("")),
        // serde also reads a struct from a list.
        ("a list", json!(["aws:kafka", "arn:aws:kafka:x", "b:1", {"orders-0": []}])),
        ("a list of records", json!([[record]])),
        (
            "a record that is a list",
            json!({"Records": [[
                record["EventVersion"], record["EventSubscriptionArn"], record["EventSource"],
                record["Sns"],
            ]]}),
        ),
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
