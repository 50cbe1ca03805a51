//! What other programs write: JSON that `serde_json`'s tree does not hold, and records that
//! `aws_lambda_events` does not accept. `cargo xtask verify` runs these tests also with the features of
//! `serde_json` that any crate of a user's program can switch on.

use dynamodb_idempotency::Execution;
use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::messages::events::kafka::KafkaRecord;
use dynamodb_idempotency::messages::events::kinesis::KinesisEventRecord;
use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{FailureAction, Message, MessageKey, Order};
use lambda_runtime::LambdaEvent;
use serde::Serialize;
use serde_json::{Value, json};
use tower::{Service, ServiceExt};

use super::function::{Ran, context_of, failures, invoke, noting};
use super::queue::{example, fifo, kafka_record, kinesis_record, sqs, without_key};
use crate::support::{Store, raw};

/// Invokes a function with an event that no `Value` holds.
pub(crate) async fn invoke_text<S>(service: &S, event: &str) -> Value
where
    S: Service<LambdaEvent<JsonEvent>, Response: Serialize, Error: std::fmt::Debug> + Clone,
{
    let event = LambdaEvent::new(event.parse().unwrap(), context_of(30));
    serde_json::to_value(service.clone().oneshot(event).await.unwrap()).unwrap()
}

fn nested(levels: usize) -> String {
    format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
}

/// Every one of them can be read, so none is lost.
#[tokio::test]
async fn a_key_is_found_in_any_json_and_keeps_its_text() {
    let (store, ran) = (Store::open().await, Ran::default());
    let noted = ran.clone();
    let consumer = store.idempotency().sqs("book").key(MessageKey::json("/id"));
    let service = consumer.on_malformed(FailureAction::Acknowledge).handler(
        move |message: Message<SqsMessage>, _: Execution| {
            noted.add(message.key().unwrap());
            async { Ok::<_, String>(()) }
        },
    );
    let service = service.unwrap();
    let deep = format!(r#"{{"a":{},"id":"deep"}}"#, nested(200));
    let bodies = [
        (deep.as_str(), "deep"),
        (r#"{"id":"range","a":1e999}"#, "range"),
        (r#"{"id":"surrogate","a":"\ud800","\udc00":1}"#, "surrogate"),
        ("\u{feff}{\"id\":\"mark\"}", "mark"),
        (r#"{"\u0069d":"escaped"}"#, "escaped"),
        (r#"{"id":18446744073709551616}"#, "18446744073709551616"),
        (r#"{"id":18446744073709551617}"#, "18446744073709551617"),
        (r#"{"id":1.50}"#, "1.50"),
        (r#"{"id":-7}"#, "-7"),
        (r#"{"id":7}"#, "7"),
        (r#"{"id":1E400}"#, "1E400"),
    ];
    let messages = bodies.iter().enumerate();
    let batch = sqs(messages.map(|(n, (body, _))| without_key(&n.to_string(), body)));
    assert_eq!(failures(&invoke(&service, &batch).await), [""; 0]);
    let (mut found, mut keys) = (ran.all(), bodies.map(|(_, key)| key));
    found.sort();
    keys.sort_unstable();
    assert_eq!(found, keys);
}

#[tokio::test]
async fn a_mark_before_json_hides_neither_the_envelope_nor_the_payload() {
    use dynamodb_idempotency::messages::Envelope;

    let (store, ran) = (Store::open().await, Ran::default());
    let noted = ran.clone();
    let consumer = store.idempotency().sqs("book").envelope(Envelope::Sns);
    let service = consumer.key(MessageKey::json("/id")).handler(
        move |message: Message<SqsMessage>, _: Execution| {
            let payload = message.json::<Value>().unwrap();
            noted.add(payload["id"].as_str().unwrap());
            async { Ok::<_, String>(()) }
        },
    );
    let notification = json!({
        "Type": "Notification", "MessageId": "n-1", "Message": "\u{feff}{\"id\":\"k\"}",
    });
    let batch = sqs([without_key("1", &format!("\u{feff}{notification}"))]);
    assert_eq!(failures(&invoke(&service.unwrap(), &batch).await), [""; 0]);
    assert_eq!(ran.all(), ["k"]);
}

#[tokio::test]
async fn an_event_with_any_detail_is_read() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer = store.idempotency().eventbridge("book");
    let service = consumer.on_malformed(FailureAction::Acknowledge).handler(noting(&ran)).unwrap();
    let details = [nested(200), "1e999".to_owned(), r#""\ud800""#.to_owned()];
    for (number, detail) in details.iter().enumerate() {
        let mut event = example!("eventbridge");
        event["id"] = format!("e-{number}").into();
        event["detail"] = "DETAIL".into();
        let event = event.to_string().replace("\"DETAIL\"", detail);
        assert_eq!(failures(&invoke_text(&service, &event).await), [""; 0], "{detail}");
    }
    assert_eq!(ran.all(), details);
}

/// `aws_lambda_events` reads `.98` as 98 ms, and no fraction at all under
/// `serde_json/arbitrary_precision`.
#[tokio::test]
async fn the_time_of_a_kinesis_record_is_read_to_the_millisecond() {
    let (store, ran) = (Store::open().await, Ran::default());
    let noted = ran.clone();
    let service = store.idempotency().kinesis("clicks").handler(
        move |message: Message<KinesisEventRecord>, _: Execution| {
            let time = &message.record().kinesis.approximate_arrival_timestamp;
            noted.add(time.timestamp_millis().to_string());
            async { Ok::<_, String>(()) }
        },
    );
    let service = service.unwrap();
    let times = [
        ("1545084650.987", "1545084650987"),
        ("1545084650.98", "1545084650980"),
        ("1.545084650987E9", "1545084650987"),
        ("1545084650.123456", "1545084650123"),
        ("1545084650", "1545084650000"),
        ("\"1545084650.5\"", "1545084650500"),
    ];
    let records = times.iter().enumerate().map(|(number, (time, _))| {
        let mut record = kinesis_record("a", number + 1, "{}");
        record["kinesis"]["approximateArrivalTimestamp"] = "TIME".into();
        record.to_string().replace("\"TIME\"", time)
    });
    let event = format!("{{\"Records\":[{}]}}", records.collect::<Vec<_>>().join(","));
    assert_eq!(failures(&invoke_text(&service, &event).await), [""; 0]);
    assert_eq!(ran.all(), times.map(|(_, millis)| millis));
}

/// Kafka has records without a time (-1), without headers, and with headers without a value; its
/// producers count bytes from 0 to 255 or from -128 to 127.
#[tokio::test]
async fn every_kafka_record_is_read() {
    let (store, ran) = (Store::open().await, Ran::default());
    let noted = ran.clone();
    let consumer = store.idempotency().kafka("book").key(MessageKey::broker_id()).report_each();
    let service = consumer.handler(move |message: Message<KafkaRecord>, _: Execution| {
        let record = message.record();
        let headers = record.headers.iter().map(|headers| format!("{headers:?}"));
        let headers = headers.collect::<Vec<_>>().join(" ");
        noted.add(format!("{} {headers}", record.timestamp.timestamp_millis()));
        async { Ok::<_, String>(()) }
    });
    let service = service.unwrap();
    let record = |number: i64, name: &str, value: Value| {
        let mut record = kafka_record(number, "a", "{}");
        record["headers"] = json!([]);
        record[name] = value;
        record
    };
    let without = |number: i64, name: &str| {
        let mut record = record(number, "offset", number.into());
        record.as_object_mut().unwrap().remove(name);
        record
    };
    let records = [
        record(1, "timestamp", (-1).into()),
        without(2, "timestamp"),
        record(3, "timestamp", Value::Null),
        record(4, "timestamp", json!("1545084650987")),
        // Nanoseconds, where milliseconds belong.
        record(5, "timestamp", json!(1_545_084_650_987_000_000_i64)),
        without(6, "headers"),
        record(7, "headers", Value::Null),
        record(8, "headers", json!([{"h": null}])),
        record(9, "headers", json!([{"h": [195, 169]}, {"h": [-61, -87]}])),
    ];
    let mut event = example!("kafka_msk");
    event["records"] = json!({"orders-0": records});
    assert_eq!(invoke(&service, &event).await, json!({"batchItemFailures": []}));
    let ran = ran.all();
    assert_eq!(ran[..4], ["-1 ", "-1 ", "-1 ", "1545084650987 "]);
    assert_eq!(ran[5..8], ["1545084650987 ", "1545084650987 ", "1545084650987 {\"h\": []}"]);
    assert_eq!(ran[8], "1545084650987 {\"h\": [-61, -87]} {\"h\": [-61, -87]}");
    assert_eq!(ran.len(), 9);
}

/// The key is the text of the bytes, however they are counted; a header without a value is no key.
#[tokio::test]
async fn a_kafka_header_is_a_key_however_its_bytes_are_counted() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer = store.idempotency().kafka("book").report_each();
    let service = consumer.handler(noting(&ran)).unwrap();
    let record = |offset: i64, key: Value| {
        let mut record = kafka_record(offset, "a", "same");
        record["headers"] = json!([{"Idempotency-Key": key}, {"other": null}]);
        record
    };
    let records =
        [record(1, json!([195, 169])), record(2, json!([-61, -87])), record(3, Value::Null)];
    let mut event = example!("kafka_msk");
    event["records"] = json!({"orders-0": records});
    let item = json!({"itemIdentifier": {"partition": "orders-0", "offset": 3}});
    assert_eq!(invoke(&service, &event).await, json!({"batchItemFailures": [item]}));
    assert_eq!(ran.all(), ["same"]);
    assert_eq!(raw::status(&store.record("book#é").await), "COMPLETED");
}

/// Whatever comes after it may be of its group.
#[tokio::test]
async fn nothing_overtakes_a_record_whose_group_cannot_be_read() {
    let (store, ran) = (Store::open().await, Ran::default());
    let idempotency = store.idempotency();
    let queue = idempotency.sqs("book").handler(noting(&ran)).unwrap();
    let mut broken = fifo("a", "2", "a2");
    broken["attributes"]["MessageGroupId"] = json!(["a"]);
    broken["body"] = json!(7);
    let mut stranger = fifo("a", "5", "stranger");
    stranger.as_object_mut().unwrap().remove("eventSourceARN");
    stranger["body"] = json!(7);
    // The group of the second is known: the queue is that of the others.
    for (broken, failed) in [(broken, &["2", "3", "4"][..]), (stranger, &["5", "3"])] {
        let batch = sqs([fifo("a", "1", "a1"), broken, fifo("a", "3", "a3"), fifo("b", "4", "b1")]);
        assert_eq!(failures(&invoke(&queue, &batch).await), failed);
    }
    let stream = idempotency.kinesis("clicks").order(Order::Key).handler(noting(&ran)).unwrap();
    let mut broken = kinesis_record("a", 2, "s2");
    broken["kinesis"]["partitionKey"] = json!(7);
    let batch = json!({"Records": [
        kinesis_record("a", 1, "s1"), broken, kinesis_record("a", 3, "s3"),
        kinesis_record("b", 4, "s4"),
    ]});
    assert_eq!(failures(&invoke(&stream, &batch).await), ["2"]);
    let topic = idempotency.kafka("topic").order(Order::Key).report_each();
    let topic = topic.handler(noting(&ran)).unwrap();
    let mut broken = kafka_record(2, "a", "t2");
    broken["key"] = json!(7);
    let mut event = example!("kafka_msk");
    event["records"] = json!({
        "orders-0": [kafka_record(1, "a", "t1"), broken, kafka_record(3, "b", "t3")],
        "orders-1": [kafka_record(4, "a", "t4")],
    });
    let items =
        [2, 3].map(|offset| json!({"itemIdentifier": {"partition": "orders-0", "offset": offset}}));
    assert_eq!(invoke(&topic, &event).await, json!({"batchItemFailures": items}));
    let mut ran = ran.all();
    ran.sort();
    assert_eq!(ran, ["a1", "b1", "s1", "t1", "t4"]);
}
