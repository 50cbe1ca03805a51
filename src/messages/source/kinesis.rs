//! Amazon Kinesis Data Streams: in order of each shard, or of each partition key.

use aws_lambda_events::kinesis::KinesisEventRecord;

use super::{Body, Incoming, Raw, Source, split_records};
use crate::messages::key::{Attributes, MessageKey};
use crate::messages::response::Reporting;
use crate::messages::settings::Order;

pub(in crate::messages) const SOURCE: Source<KinesisEventRecord> = Source {
    name: "Amazon Kinesis",
    reporting: Reporting::First,
    key: MessageKey::broker_id,
    split: |service, event, order| split_records(service, event, |raw| incoming(raw, order)),
};

fn incoming(raw: &Raw<'_>, order: Order) -> Incoming<KinesisEventRecord> {
    let group = match order {
        // A batch contains records of one shard only.
        Order::Source => Some(String::new()),
        Order::Key => raw.text("/kinesis/partitionKey").map(str::to_owned),
    };
    let parsed = raw.read("/eventSource", "aws:kinesis").map(|record: KinesisEventRecord| {
        // `eventID` is `shard:sequence number`: a sequence number is unique only in its shard.
        let ids = record.event_source_arn.as_ref().zip(record.event_id.as_ref());
        let broker_id = ids.map(|(stream, id)| format!("{stream}/{id}"));
        let body = Body::new(record.kinesis.data.0.clone(), Attributes::default(), broker_id);
        (record, body)
    });
    Incoming { item: raw.item("/kinesis/sequenceNumber"), group, parsed }
}
