//! Kafka, SNS, EventBridge and S3: the documented events, and how a failure is reported.

use dynamodb_idempotency::messages::{MessageKey, Order};
use serde_json::{Value, json};

use super::function::{Ran, context_of, failures, invoke, invoke_in, message, noting};
use super::queue::{example, kafka_record};
use crate::support::{Store, raw};

#[tokio::test]
async fn both_kinds_of_kafka_run_once_by_header_and_by_broker_id() {
    let servers = "b-1.demo-cluster-1.a1bcde.c1.kafka.us-east-1.amazonaws.com:9092,\
                   b-2.demo-cluster-1.a1bcde.c1.kafka.us-east-1.amazonaws.com:9092";
    let cluster = "arn:aws:kafka:us-east-1:123456789012:cluster/vpc-2priv-2pub/\
                   751d2973-a626-431c-9d4e-d7975eb44dd7-2";
    for (event, id) in [(example!("kafka_msk"), cluster), (example!("kafka_self_managed"), servers)]
    {
        let (store, ran) = (Store::open().await, Ran::default());
        let by_header = store.idempotency().kafka("h").handler(noting(&ran)).unwrap();
        let by_id = store.idempotency().kafka("i").key(MessageKey::broker_id());
        let by_id = by_id.handler(noting(&ran)).unwrap();
        for _ in 0..2 {
            assert_eq!(failures(&invoke(&by_header, &event).await), [""; 0]);
            assert_eq!(failures(&invoke(&by_id, &event).await), [""; 0]);
        }
        assert_eq!(ran.all(), ["Hello, this is a test."; 2]);
        for pk in ["h#k-1".to_owned(), format!("i#{id}/mytopic-0-15")] {
            assert_eq!(raw::status(&store.record(&pk).await), "COMPLETED");
        }
    }
}

fn topic(partition_0: &[Value], partition_1: &[Value]) -> Value {
    let mut event = example!("kafka_msk");
    event["records"] = json!({"orders-0": partition_0, "orders-1": partition_1});
    event
}

#[tokio::test]
async fn a_kafka_partition_stops_at_its_first_failure_and_the_invocation_fails() {
    let (store, ran) = (Store::open().await, Ran::default());
    let service = store.idempotency().kafka("book").handler(noting(&ran)).unwrap();
    let event = topic(
        &[kafka_record(1, "a", "0-1"), kafka_record(2, "b", "fail"), kafka_record(3, "c", "0-3")],
        &[kafka_record(11, "a", "1-1"), kafka_record(12, "b", "1-2")],
    );
    let failed = message(invoke_in(&service, &event, context_of(30)).await);
    assert!(failed.starts_with("2 of 5 messages are not done"), "{failed}");
    let mut ran = ran.all();
    ran.sort();
    assert_eq!(ran, ["0-1", "1-1", "1-2", "fail"]);
}

#[tokio::test]
async fn every_failed_record_can_be_reported_to_kafka() {
    let (store, ran) = (Store::open().await, Ran::default());
    let service = store.idempotency().kafka("book").report_each().handler(noting(&ran)).unwrap();
    let event = topic(
        &[kafka_record(1, "a", "0-1"), kafka_record(2, "b", "fail"), kafka_record(3, "c", "0-3")],
        &[kafka_record(11, "a", "1-1")],
    );
    let item = |offset: i64| json!({"itemIdentifier": {"partition": "orders-0", "offset": offset}});
    let answer = invoke(&service, &event).await;
    assert_eq!(answer, json!({"batchItemFailures": [item(2), item(3)]}));
}

#[tokio::test]
async fn kafka_records_of_different_keys_need_not_wait() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer = store.idempotency().kafka("book").report_each().order(Order::Key);
    let service = consumer.handler(noting(&ran)).unwrap();
    let event = topic(
        &[kafka_record(1, "a", "fail"), kafka_record(2, "b", "b"), kafka_record(3, "a", "a")],
        &[],
    );
    let answer = invoke(&service, &event).await;
    assert_eq!(answer["batchItemFailures"].as_array().map(Vec::len), Some(2), "{answer}");
    let mut ran = ran.all();
    ran.sort();
    assert_eq!(ran, ["b", "fail"]);
}

/// A record without a key is in no order; an empty key is a key.
#[tokio::test]
async fn kafka_records_with_an_empty_key_keep_their_order() {
    for (key, expected, reported) in
        [(json!(""), ["b", "fail"].as_slice(), 2), (Value::Null, ["a", "b", "fail"].as_slice(), 1)]
    {
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

#[tokio::test]
async fn sns_eventbridge_and_s3_run_once_and_report_nothing() {
    let (store, ran) = (Store::open().await, Ran::default());
    let idempotency = store.idempotency();
    let sns = idempotency.sns("sns").handler(noting(&ran)).unwrap();
    let sns_id =
        idempotency.sns("sns-id").key(MessageKey::broker_id()).handler(noting(&ran)).unwrap();
    let eventbridge = idempotency.eventbridge("eventbridge").handler(noting(&ran)).unwrap();
    let s3 = idempotency.s3("s3").handler(noting(&ran)).unwrap();
    for _ in 0..2 {
        assert_eq!(failures(&invoke(&sns, &example!("sns")).await), [""; 0]);
        assert_eq!(failures(&invoke(&sns_id, &example!("sns")).await), [""; 0]);
        assert_eq!(failures(&invoke(&eventbridge, &example!("eventbridge")).await), [""; 0]);
        assert_eq!(failures(&invoke(&s3, &example!("s3")).await), [""; 0]);
    }
    let ran = ran.all();
    assert_eq!(
        (ran.len(), &ran[..2]),
        (4, ["Hello from SNS!".to_owned(), ran[1].clone()].as_slice())
    );
    let detail: Value = serde_json::from_str(&ran[2]).unwrap();
    assert_eq!(detail, example!("eventbridge")["detail"]);
    assert_eq!(serde_json::from_str::<Value>(&ran[3]).unwrap(), example!("s3")["Records"][0]);
    for pk in [
        "sns#k-1",
        "sns-id#95df01b4-ee98-5cb9-9903-4c221d41eb5e",
        "eventbridge#aws.s3/17793124-05d4-b198-2fde-7ededc63b103",
        "s3#DOC-EXAMPLE-BUCKET/b21b84d653bb07b05b1e6b33684dc11b//0C0F6F405D6ED209E1",
    ] {
        assert_eq!(raw::status(&store.record(pk).await), "COMPLETED");
    }
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
