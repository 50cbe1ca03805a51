//! The services whose events have a list of `Records`.

use aws_lambda_events::dynamodb::EventRecord;
use aws_lambda_events::kinesis::KinesisEventRecord;
use aws_lambda_events::s3::S3EventRecord;
use aws_lambda_events::sns::SnsRecord;
use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};
use serde::Deserialize;
use serde_json::Value;

use super::{Body, Incoming, Raw, Source, decode, split_records};
use crate::fingerprint::Fingerprint;
use crate::messages::envelope::Notification;
use crate::messages::key::{Attributes, BINARY, MessageKey};
use crate::messages::response::Reporting;
use crate::messages::settings::Order;

/// Standard queues without order, FIFO queues in the order of each message group.
pub(in crate::messages) const SQS: Source<SqsMessage> = Source {
    name: "Amazon SQS",
    reporting: Reporting::Items,
    key: MessageKey::default_attribute,
    split: |service, event, _| split_records(service, event, sqs),
};

fn sqs(raw: &Raw<'_>) -> Incoming<SqsMessage> {
    // Only the names of FIFO queues end with `.fifo`. Fair standard queues have groups too, but no order.
    let is_fifo =
        raw.text("/eventSourceARN").and_then(|queue| queue.strip_suffix(".fifo")).is_some();
    // A message of a FIFO queue always has a group.
    let group = || raw.text("/attributes/MessageGroupId").unwrap_or_default().to_owned();
    raw.message("aws:sqs", "/messageId", is_fifo.then(group), |record: &SqsMessage| {
        let text = |attribute: &SqsMessageAttribute| attribute.string_value.clone().ok_or(BINARY);
        let attributes = record.message_attributes.iter();
        let attributes = attributes.map(|(name, attribute)| (name.clone(), text(attribute)));
        let payload = record.body.clone().unwrap_or_default().into_bytes();
        Ok(Body::new(payload, attributes.collect(), record.message_id.clone()))
    })
}

/// An asynchronous invocation, which Lambda retries as a whole.
pub(in crate::messages) const SNS: Source<SnsRecord> = Source {
    name: "Amazon SNS",
    reporting: Reporting::Event,
    key: MessageKey::default_attribute,
    split: |service, event, _| split_records(service, event, sns),
};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Delivery {
    sns: Notification,
}

fn sns(raw: &Raw<'_>) -> Incoming<SnsRecord> {
    raw.message("aws:sns", "/Sns/MessageId", None, |_: &SnsRecord| {
        decode(raw.text, raw.service).and_then(|Delivery { sns }| sns.body())
    })
}

/// In order of each shard, or of each partition key.
pub(in crate::messages) const KINESIS: Source<KinesisEventRecord> = Source {
    name: "Amazon Kinesis",
    reporting: Reporting::First,
    key: MessageKey::broker_id,
    split: |service, event, order| split_records(service, event, |raw| kinesis(raw, order)),
};

fn kinesis(raw: &Raw<'_>, order: Order) -> Incoming<KinesisEventRecord> {
    let group = match order {
        // A batch contains records of one shard only.
        Order::Source => Some(String::new()),
        Order::Key => raw.text("/kinesis/partitionKey").map(str::to_owned),
    };
    raw.message("aws:kinesis", "/kinesis/sequenceNumber", group, |record: &KinesisEventRecord| {
        // `eventID` is `shard:sequence number`: a sequence number is unique only in its shard.
        let ids = record.event_source_arn.as_ref().zip(record.event_id.as_ref());
        let broker_id = ids.map(|(stream, id)| format!("{stream}/{id}"));
        Ok(Body::new(record.kinesis.data.0.clone(), Attributes::default(), broker_id))
    })
}

/// In order of each shard, or of each item.
pub(in crate::messages) const DYNAMODB_STREAMS: Source<EventRecord> = Source {
    name: "DynamoDB Streams",
    reporting: Reporting::First,
    key: MessageKey::broker_id,
    split: |service, event, order| split_records(service, event, |raw| dynamodb(raw, order)),
};

fn dynamodb(raw: &Raw<'_>, order: Order) -> Incoming<EventRecord> {
    let group = match order {
        // A batch contains records of one shard only.
        Order::Source => Some(String::new()),
        Order::Key => raw.tree.pointer("/dynamodb/Keys").and_then(Value::as_object).map(|keys| {
            // Sort here, because serde_json sorts members only without `preserve_order`.
            let mut keys: Vec<String> =
                keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            keys.sort_unstable();
            keys.join(",")
        }),
    };
    raw.message("aws:dynamodb", "/dynamodb/SequenceNumber", group, |record: &EventRecord| {
        let ids = record.event_source_arn.as_ref().zip(record.change.sequence_number.as_ref());
        let broker_id = ids.map(|(stream, number)| format!("{stream}/{number}"));
        Ok(Body::new(raw.text.as_bytes().to_vec(), Attributes::default(), broker_id))
    })
}

/// Event notifications: an asynchronous invocation, which Lambda retries as a whole.
pub(in crate::messages) const S3: Source<S3EventRecord> = Source {
    name: "Amazon S3",
    reporting: Reporting::Event,
    key: MessageKey::broker_id,
    split: |service, event, _| split_records(service, event, s3),
};

fn s3(raw: &Raw<'_>) -> Incoming<S3EventRecord> {
    // The identifier is used in the log only: S3's request id instead of the object's name.
    raw.message("aws:s3", "/responseElements/x-amz-request-id", None, |record: &S3EventRecord| {
        let (bucket, object) = (&record.s3.bucket, &record.s3.object);
        // Neither the bucket's name nor the version nor the sequencer contains a `/`.
        let version = object.version_id.as_deref().unwrap_or_default();
        // Only events of writes and deletions have a sequencer. Others are identified by name and
        // time.
        let change = object.sequencer.clone().or_else(|| {
            let time = raw.tree.pointer("/eventTime").and_then(Value::as_str)?;
            Some(format!("{}@{time}", record.event_name.as_deref()?))
        });
        let ids = bucket.name.as_ref().zip(object.key.as_ref()).zip(change);
        let broker_id =
            ids.map(|((bucket, key), change)| format!("{bucket}/{key}/{version}/{change}"));
        // S3 may notify twice of one change, with different request ids.
        let same =
            [&record.event_name, &bucket.name, &object.key, &object.version_id, &object.sequencer];
        let fingerprint = same.into_iter().fold(Fingerprint::builder(), |builder, text| {
            builder.bytes(text.as_deref().unwrap_or_default().as_bytes())
        });
        let (payload, attributes) = (raw.text.as_bytes().to_vec(), Attributes::default());
        Ok(Body { payload, attributes, broker_id, fingerprint: fingerprint.finish() })
    })
}
