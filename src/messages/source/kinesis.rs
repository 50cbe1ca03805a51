//! Amazon Kinesis Data Streams: in order of each shard, or of each partition key.

use aws_lambda_events::kinesis::KinesisEventRecord;

use super::{Body, Incoming, Parsed, Raw, Source, split_records};
use crate::messages::key::{Attributes, MessageKey};
use crate::messages::response::Reporting;
use crate::messages::settings::Order;

const NAME: &str = "Amazon Kinesis";

pub(in crate::messages) const SOURCE: Source<KinesisEventRecord> = Source {
    name: NAME,
    reporting: Reporting::First,
    key: MessageKey::broker_id,
    split: |event, order| split_records(event, NAME, |raw| incoming(raw, order)),
};

fn incoming(raw: &Raw<'_>, order: Order) -> Incoming<KinesisEventRecord> {
    let group = match order {
        // A batch contains records of one shard only.
        Order::Source => Some(String::new()),
        Order::Key => raw.text("/kinesis/partitionKey").map(str::to_owned),
    };
    Incoming { item: raw.item("/kinesis/sequenceNumber"), group, parsed: parse(raw) }
}

fn parse(raw: &Raw<'_>) -> Parsed<KinesisEventRecord> {
    let record: KinesisEventRecord = raw.read("/eventSource", "aws:kinesis", NAME)?;
    // `eventID` is `shard:sequence number`: a sequence number is unique only in its shard.
    let broker_id = match (&record.event_source_arn, &record.event_id) {
        (Some(stream), Some(id)) => Some(format!("{stream}/{id}")),
        _ => None,
    };
    let body = Body::new(record.kinesis.data.0.clone(), Attributes::default(), broker_id);
    Ok((record, body))
}
