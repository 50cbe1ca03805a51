//! The services whose events have a list of `Records`.

use std::borrow::Cow;

use aws_lambda_events::dynamodb::EventRecord;
use aws_lambda_events::kinesis::KinesisEventRecord;
use aws_lambda_events::s3::S3EventRecord;
use aws_lambda_events::sns::SnsRecord;
use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Body, Incoming, Raw, Source, WHOLE_BATCH, decode, split_records, time};
use crate::fingerprint::Fingerprint;
use crate::fingerprint::canonical_json::canonical;
use crate::json::with_member;
use crate::messages::envelope::Notification;
use crate::messages::key::{Attributes, BINARY, MessageKey};
use crate::messages::response::Reporting;
use crate::messages::settings::Order;

/// Standard queues without order, FIFO queues in the order of each message group.
pub(in crate::messages) const SQS: Source<SqsMessage> = Source {
    name: "Amazon SQS",
    reporting: Reporting::Items,
    key: MessageKey::default_attribute,
    split: |service, event, _| {
        split_records(service, event, |records| {
            // Only the names of FIFO queues end with `.fifo`. Fair standard queues have groups too, but no
            // order. All messages of an event are from one queue.
            let mut queues = records.iter().filter_map(|raw| raw.text("/eventSourceARN"));
            let is_fifo = queues.any(|queue| queue.strip_suffix(".fifo").is_some());
            records.iter().map(|raw| sqs(raw, is_fifo)).collect()
        })
    },
};

fn sqs(raw: &Raw<'_>, is_fifo: bool) -> Incoming<SqsMessage> {
    // A message of a FIFO queue always has a group.
    let group =
        is_fifo.then(|| raw.text("/attributes/MessageGroupId").unwrap_or(WHOLE_BATCH.into()));
    raw.message("aws:sqs", "/messageId", group, |record: &mut SqsMessage| {
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
    split: |service, event, _| {
        split_records(service, event, |records| records.iter().map(sns).collect())
    },
};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Delivery {
    sns: Notification,
}

fn sns(raw: &Raw<'_>) -> Incoming<SnsRecord> {
    raw.message("aws:sns", "/Sns/MessageId", None, |_: &mut SnsRecord| {
        decode(raw.json.get(), raw.service).and_then(|Delivery { sns }| sns.body())
    })
}

/// In order of each shard, or of each partition key.
pub(in crate::messages) const KINESIS: Source<KinesisEventRecord> = Source {
    name: "Amazon Kinesis",
    reporting: Reporting::First,
    key: MessageKey::broker_id,
    split: |service, event, order| {
        split_records(service, event, |records| {
            records.iter().map(|raw| kinesis(raw, order)).collect()
        })
    },
};

fn kinesis(raw: &Raw<'_>, order: Order) -> Incoming<KinesisEventRecord> {
    let group = match order {
        // A batch contains records of one shard only.
        Order::Source => WHOLE_BATCH.to_owned(),
        Order::Key => raw.text("/kinesis/partitionKey").unwrap_or(WHOLE_BATCH.into()),
    };
    let time = raw.part("/kinesis/approximateArrivalTimestamp").and_then(|at| time(at.get(), 1.0));
    let text = match (time, raw.part("/kinesis")) {
        (Some(_), Some(kinesis)) => {
            let kinesis = with_member(kinesis.get(), "approximateArrivalTimestamp", "0");
            Cow::Owned(with_member(raw.json.get(), "kinesis", &kinesis))
        }
        _ => Cow::Borrowed(raw.json.get()),
    };
    let item = "/kinesis/sequenceNumber";
    raw.message_in(&text, "aws:kinesis", item, Some(group), |record: &mut KinesisEventRecord| {
        if let Some(time) = time {
            record.kinesis.approximate_arrival_timestamp.0 = time.into();
        }
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
    split: |service, event, order| {
        split_records(service, event, |records| {
            records.iter().map(|raw| dynamodb(raw, order)).collect()
        })
    },
};

fn dynamodb(raw: &Raw<'_>, order: Order) -> Incoming<EventRecord> {
    let group = match order {
        // A batch contains records of one shard only.
        Order::Source => WHOLE_BATCH.to_owned(),
        Order::Key => {
            let keys = raw.part("/dynamodb/Keys").map(RawValue::get).and_then(canonical);
            keys.and_then(|keys| String::from_utf8(keys.into_owned()).ok())
                .unwrap_or(WHOLE_BATCH.into())
        }
    };
    raw.message(
        "aws:dynamodb",
        "/dynamodb/SequenceNumber",
        Some(group),
        |record: &mut EventRecord| {
            let ids = record.event_source_arn.as_ref().zip(record.change.sequence_number.as_ref());
            let broker_id = ids.map(|(stream, number)| format!("{stream}/{number}"));
            Ok(Body::new(raw.json.get().as_bytes().to_vec(), Attributes::default(), broker_id))
        },
    )
}

/// Event notifications: an asynchronous invocation, which Lambda retries as a whole.
pub(in crate::messages) const S3: Source<S3EventRecord> = Source {
    name: "Amazon S3",
    reporting: Reporting::Event,
    key: MessageKey::broker_id,
    split: |service, event, _| {
        split_records(service, event, |records| records.iter().map(s3).collect())
    },
};

fn s3(raw: &Raw<'_>) -> Incoming<S3EventRecord> {
    // The identifier is used in the log only: S3's request id instead of the object's name.
    let item = "/responseElements/x-amz-request-id";
    raw.message("aws:s3", item, None, |record: &mut S3EventRecord| {
        let (bucket, object) = (&record.s3.bucket, &record.s3.object);
        // Neither the bucket's name nor the version nor the sequencer contains a `/`.
        let version = object.version_id.as_deref().unwrap_or_default();
        // Only events of writes and deletions have a sequencer. Others are identified by name and
        // time.
        let change = object.sequencer.clone().or_else(|| {
            let time = raw.text("/eventTime")?;
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
        let (payload, attributes) = (raw.json.get().as_bytes().to_vec(), Attributes::default());
        Ok(Body { payload, attributes, broker_id, fingerprint: fingerprint.finish() })
    })
}
