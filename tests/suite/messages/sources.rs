//! The documented events of every source, and how Kafka, SNS, EventBridge and S3 report a failure.

use std::fmt::Debug;

use dynamodb_idempotency::Error;
use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::messages::{BatchResponse, MessageKey, Order};
use lambda_runtime::LambdaEvent;
use serde_json::{Value, json};
use tower::Service;

use super::function::{Ran, context_of, failures, invoke, invoke_in, message, noting};
use super::queue::{example, kafka_record};
use crate::support::{Store, raw};

/// Delivers an event twice. Returns what has run.
async fn twice<S>(service: Result<S, Error>, ran: &Ran, event: &Value) -> Vec<String>
where
    S: Service<LambdaEvent<JsonEvent>, Response = BatchResponse, Error: Debug> + Clone,
{
    let (service, before) = (service.unwrap(), ran.count());
    for _ in 0..2 {
        assert_eq!(failures(&invoke(&service, event).await), [""; 0], "{event}");
    }
    ran.all().split_off(before)
}

/// Each record has the key of its source, and `Idempotency-Key` where that is one of the source's.
#[tokio::test]
async fn every_documented_event_runs_once() {
    const HELLO: &str = "Hello, this is a test.";
    let (store, ran) = (Store::open().await, Ran::default());
    let idempotency = store.idempotency();

    let service = idempotency.sqs("sqs").handler(noting(&ran));
    assert_eq!(twice(service, &ran, &example!("sqs")).await.len(), 2);
    let service = idempotency.sqs("fifo").handler(noting(&ran));
    assert_eq!(twice(service, &ran, &example!("sqs_fifo")).await, ["Test message."]);
    let service = idempotency.kinesis("kinesis").handler(noting(&ran));
    let payloads = twice(service, &ran, &example!("kinesis")).await;
    assert_eq!(payloads, [HELLO, "This is only a test."]);
    let service = idempotency.dynamodb_streams("dynamodb").handler(noting(&ran));
    assert_eq!(twice(service, &ran, &example!("dynamodb")).await.len(), 2);
    for (scope, event) in
        [("msk", example!("kafka_msk")), ("self-managed", example!("kafka_self_managed"))]
    {
        let service = idempotency.kafka(scope).handler(noting(&ran));
        assert_eq!(twice(service, &ran, &event).await, [HELLO]);
        let service = idempotency
            .kafka(format!("{scope}-id"))
            .key(MessageKey::broker_id())
            .handler(noting(&ran));
        assert_eq!(twice(service, &ran, &event).await, [HELLO]);
    }
    let service = idempotency.sns("sns").handler(noting(&ran));
    assert_eq!(twice(service, &ran, &example!("sns")).await, ["Hello from SNS!"]);
    let service = idempotency.sns("sns-id").key(MessageKey::broker_id()).handler(noting(&ran));
    assert_eq!(twice(service, &ran, &example!("sns")).await, ["Hello from SNS!"]);
    let service = idempotency.eventbridge("eventbridge").handler(noting(&ran));
    let [detail] = &twice(service, &ran, &example!("eventbridge")).await[..] else { panic!("one") };
    let detail: Value = serde_json::from_str(detail).unwrap();
    assert_eq!(detail, example!("eventbridge")["detail"]);
    let service = idempotency.s3("s3").handler(noting(&ran));
    let [record] = &twice(service, &ran, &example!("s3")).await[..] else { panic!("one") };
    let record: Value = serde_json::from_str(record).unwrap();
    assert_eq!(record, example!("s3")["Records"][0]);

    for pk in [
        "fifo#fifo-1",
        "kinesis#arn:aws:kinesis:us-east-2:123456789012:stream/lambda-stream/\
         shardId-000000000006:49590338271490256608559692538361571095921575989136588898",
        "dynamodb#arn:aws:dynamodb:us-east-1:123456789012:table/ExampleTableWithStream/stream/\
         2015-06-27T00:48:05.899/4421584500000000017450439092",
        "msk#k-1",
        "msk-id#arn:aws:kafka:us-east-1:123456789012:cluster/vpc-2priv-2pub/\
         751d2973-a626-431c-9d4e-d7975eb44dd7-2/mytopic-0-15",
        "self-managed#k-1",
        "self-managed-id#b-1.demo-cluster-1.a1bcde.c1.kafka.us-east-1.amazonaws.com:9092,\
         b-2.demo-cluster-1.a1bcde.c1.kafka.us-east-1.amazonaws.com:9092/mytopic-0-15",
        "sns#k-1",
        "sns-id#95df01b4-ee98-5cb9-9903-4c221d41eb5e",
        "eventbridge#aws.s3/17793124-05d4-b198-2fde-7ededc63b103",
        "s3#DOC-EXAMPLE-BUCKET/b21b84d653bb07b05b1e6b33684dc11b//0C0F6F405D6ED209E1",
    ] {
        assert_eq!(raw::status(&store.record(pk).await), "COMPLETED");
    }
}

fn topic(partition_0: &[Value], partition_1: &[Value]) -> Value {
    let mut event = example!("kafka_msk");
    event["records"] = json!({"orders-0": partition_0, "orders-1": partition_1});
    event
}

#[tokio::test]
async fn a_kafka_partition_stops_at_its_first_failure_and_the_invocation_fails_or_each_is_reported()
{
    let event = topic(
        &[kafka_record(1, "a", "0-1"), kafka_record(2, "b", "fail"), kafka_record(3, "c", "0-3")],
        &[kafka_record(11, "a", "1-1"), kafka_record(12, "b", "1-2")],
    );
    let (store, ran) = (Store::open().await, Ran::default());
    let service = store.idempotency().kafka("book").handler(noting(&ran)).unwrap();
    let failed = message(invoke_in(&service, &event, context_of(30)).await);
    assert!(failed.starts_with("2 of 5 messages are not done"), "{failed}");
    let mut all = ran.all();
    all.sort();
    assert_eq!(all, ["0-1", "1-1", "1-2", "fail"]);

    let each = store.idempotency().kafka("each").report_each().handler(noting(&ran)).unwrap();
    let item = |offset: i64| json!({"itemIdentifier": {"partition": "orders-0", "offset": offset}});
    assert_eq!(invoke(&each, &event).await, json!({"batchItemFailures": [item(2), item(3)]}));
}

/// A record without a key is in no order; an empty key is a key.
#[tokio::test]
async fn kafka_records_of_different_keys_need_not_wait() {
    for (key, expected, reported) in [
        (json!("YQ=="), ["b", "fail"].as_slice(), 2),
        (json!(""), &["b", "fail"], 2),
        (Value::Null, &["a", "b", "fail"], 1),
    ] {
        let (store, ran) = (Store::open().await, Ran::default());
        let consumer = store.idempotency().kafka("book").report_each().order(Order::Key);
        let service = consumer.handler(noting(&ran)).unwrap();
        let mut records =
            [kafka_record(1, "", "fail"), kafka_record(2, "b", "b"), kafka_record(3, "", "a")];
        for index in [0, 2] {
            records[index]["key"] = key.clone();
        }
        let answer = invoke(&service, &topic(&records, &[])).await;
        let failed = answer["batchItemFailures"].as_array().map(Vec::len);
        assert_eq!(failed, Some(reported), "{key}: {answer}");
        let mut ran = ran.all();
        ran.sort();
        assert_eq!(ran, expected, "{key}");
    }
}

/// A deleted record of a compacted topic has no value.
#[tokio::test]
async fn a_tombstone_is_an_empty_payload() {
    let (store, ran) = (Store::open().await, Ran::default());
    let service = store.idempotency().kafka("book").handler(noting(&ran)).unwrap();
    let mut tombstone = kafka_record(1, "a", "");
    tombstone["value"] = Value::Null;
    invoke(&service, &topic(&[tombstone], &[])).await;
    assert_eq!(ran.all(), [""]);
}

/// All records have their turn; then Lambda sends the whole event again, and what is done is done.
#[tokio::test]
async fn an_event_without_partial_responses_fails_after_all_of_it_ran() {
    let (store, ran) = (Store::open().await, Ran::default());
    let service = store.idempotency().sns("book").handler(noting(&ran)).unwrap();
    let mut event = example!("sns");
    for (key, text) in [("k-2", "fail"), ("k-3", "c")] {
        let mut record = event["Records"][0].clone();
        record["Sns"]["Message"] = text.into();
        record["Sns"]["MessageAttributes"]["Idempotency-Key"]["Value"] = key.into();
        event["Records"].as_array_mut().unwrap().push(record);
    }
    for times in [3, 4] {
        let failed = message(invoke_in(&service, &event, context_of(30)).await);
        assert!(failed.starts_with("1 of 3 messages are not done"), "{failed}");
        assert_eq!(ran.count(), times);
    }
}

/// S3 may notify twice of one change; EventBridge's own id and time change when a producer sends an
/// event again.
#[tokio::test]
async fn what_changes_with_each_sending_is_not_part_of_the_request() {
    let (store, ran) = (Store::open().await, Ran::default());
    let s3 = store.idempotency().s3("s3").handler(noting(&ran)).unwrap();
    let eventbridge = store.idempotency().eventbridge("e");
    let eventbridge =
        eventbridge.key(MessageKey::json("/object/key")).handler(noting(&ran)).unwrap();
    for number in ["1", "2"] {
        let mut event = example!("s3");
        event["Records"][0]["responseElements"]["x-amz-request-id"] = number.into();
        invoke(&s3, &event).await;
        let mut event = example!("eventbridge");
        event["id"] = number.into();
        event["time"] = format!("2021-11-12T00:00:0{number}Z").into();
        invoke(&eventbridge, &event).await;
    }
    assert_eq!(ran.count(), 2);
}
