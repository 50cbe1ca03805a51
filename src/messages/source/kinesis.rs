//! Amazon Kinesis Data Streams.

use aws_lambda_events::kinesis::KinesisEventRecord;

use super::{Batch, Body, Content, Incoming, Raw, Source, Split, Unreadable};
use crate::messages::error::BatchError;
use crate::messages::key::{Attributes, MessageKey};
use crate::messages::response::{BatchResponse, Reporting};
use crate::messages::settings::Order;

/// Amazon Kinesis Data Streams: in order of each shard, or of each partition key.
#[derive(Clone, Copy, Debug)]
pub struct Kinesis;

impl Source for Kinesis {
    type Record = KinesisEventRecord;
    type Response = BatchResponse;
}

impl Split for Kinesis {
    const NAME: &'static str = "Amazon Kinesis";
    const REPORTING: Reporting = Reporting::First;
    const PARTIAL_BY_DEFAULT: bool = true;

    fn split(event: &str, order: Order) -> Result<Batch<Self>, BatchError> {
        Batch::of_records(event, |raw| incoming(raw, order))
    }

    fn default_key() -> MessageKey<KinesisEventRecord> {
        MessageKey::broker_id()
    }

    fn respond(response: BatchResponse) -> BatchResponse {
        response
    }
}

fn incoming(raw: &Raw<'_>, order: Order) -> Incoming<KinesisEventRecord> {
    let group = match order {
        // A batch is of one shard.
        Order::Source => Some(String::new()),
        Order::Key => raw.text("/kinesis/partitionKey").map(str::to_owned),
    };
    Incoming { item: raw.item("/kinesis/sequenceNumber"), group, content: content(raw) }
}

fn content(raw: &Raw<'_>) -> Result<Content<KinesisEventRecord>, Unreadable> {
    let record: KinesisEventRecord = raw.read("/eventSource", "aws:kinesis", Kinesis::NAME)?;
    // `eventID` is `shard:sequence number`: a sequence number is unique in its shard.
    let broker_id = match (&record.event_source_arn, &record.event_id) {
        (Some(stream), Some(id)) => Some(format!("{stream}/{id}")),
        _ => None,
    };
    let body = Body::new(record.kinesis.data.0.clone(), Attributes::default(), broker_id);
    Ok(Content { record, body })
}
