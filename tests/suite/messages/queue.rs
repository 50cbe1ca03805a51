//! Events made of messages, as AWS documents their shape.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// An event file next to this module.
macro_rules! example {
    ($name:literal) => {
        serde_json::from_str::<serde_json::Value>(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/suite/messages/events/",
            $name,
            ".json"
        )))
        .expect("it is JSON")
    };
}
pub(crate) use example;

/// An event of a standard queue.
pub(crate) fn sqs(messages: impl IntoIterator<Item = Value>) -> Value {
    json!({"Records": messages.into_iter().collect::<Vec<_>>()})
}

/// A message whose id is `id`, whose `Idempotency-Key` is `key`, and whose body is `body`.
pub(crate) fn message(id: &str, key: &str, body: &str) -> Value {
    let mut message = without_key(id, body);
    message["messageAttributes"]["Idempotency-Key"] = attribute(key);
    message
}

pub(crate) fn attribute(value: &str) -> Value {
    json!({
        "stringValue": value, "stringListValues": [], "binaryListValues": [], "dataType": "String",
    })
}

pub(crate) fn without_key(id: &str, body: &str) -> Value {
    json!({
        "messageId": id,
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1545082649183",
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": "1545082649185",
        },
        "messageAttributes": {},
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-2:123456789012:my-queue",
        "awsRegion": "us-east-2",
    })
}

/// A message of a FIFO queue; its id is its key.
pub(crate) fn fifo(group: &str, id: &str, body: &str) -> Value {
    let mut message = message(id, id, body);
    message["eventSourceARN"] = "arn:aws:sqs:us-east-2:123456789012:my-queue.fifo".into();
    message["attributes"]["MessageGroupId"] = group.into();
    message
}

/// A Kinesis record of a partition key; its sequence number is a small one.
pub(crate) fn kinesis_record(partition_key: &str, number: usize, data: &str) -> Value {
    json!({
        "kinesis": {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": partition_key,
            "sequenceNumber": number.to_string(),
            "data": STANDARD.encode(data),
            "approximateArrivalTimestamp": 1_545_084_650.987,
        },
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": format!("shardId-000000000006:{number}"),
        "eventName": "aws:kinesis:record",
        "invokeIdentityArn": "arn:aws:iam::123456789012:role/lambda-role",
        "awsRegion": "us-east-2",
        "eventSourceARN": "arn:aws:kinesis:us-east-2:123456789012:stream/lambda-stream",
    })
}

/// A Kafka record with a key as its header and one as its order.
pub(crate) fn kafka_record(offset: i64, order: &str, value: &str) -> Value {
    json!({
        "topic": "orders", "partition": 0, "offset": offset, "timestamp": 1_545_084_650_987_i64,
        "timestampType": "CREATE_TIME", "key": STANDARD.encode(order),
        "value": STANDARD.encode(value),
        "headers": [{"Idempotency-Key": format!("k-{offset}").as_bytes()}],
    })
}
