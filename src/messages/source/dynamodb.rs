//! Amazon DynamoDB Streams.

use aws_lambda_events::dynamodb::EventRecord;
use serde_json::Value;

use super::{Batch, Body, Content, Incoming, Raw, Source, Split, Unreadable};
use crate::messages::error::BatchError;
use crate::messages::key::{Attributes, MessageKey};
use crate::messages::response::{BatchResponse, Reporting};
use crate::messages::settings::Order;

/// Amazon DynamoDB Streams: in order of each shard, or of each item.
#[derive(Clone, Copy, Debug)]
pub struct DynamoDbStreams;

impl Source for DynamoDbStreams {
    type Record = EventRecord;
    type Response = BatchResponse;
}

impl Split for DynamoDbStreams {
    const NAME: &'static str = "DynamoDB Streams";
    const REPORTING: Reporting = Reporting::First;
    const PARTIAL_BY_DEFAULT: bool = true;

    fn split(event: &str, order: Order) -> Result<Batch<Self>, BatchError> {
        Batch::of_records(event, |raw| incoming(raw, order))
    }

    fn default_key() -> MessageKey<EventRecord> {
        MessageKey::broker_id()
    }

    fn respond(response: BatchResponse) -> BatchResponse {
        response
    }
}

fn incoming(raw: &Raw<'_>, order: Order) -> Incoming<EventRecord> {
    let group = match order {
        // A batch is of one shard.
        Order::Source => Some(String::new()),
        Order::Key => raw.tree.pointer("/dynamodb/Keys").and_then(Value::as_object).map(|keys| {
            // Sorted here: whether a tree sorts its members is a matter of serde_json's features.
            let mut keys: Vec<String> =
                keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            keys.sort_unstable();
            keys.join(",")
        }),
    };
    Incoming { item: raw.item("/dynamodb/SequenceNumber"), group, content: content(raw) }
}

fn content(raw: &Raw<'_>) -> Result<Content<EventRecord>, Unreadable> {
    let record: EventRecord = raw.read("/eventSource", "aws:dynamodb", DynamoDbStreams::NAME)?;
    let broker_id = match (&record.event_source_arn, &record.change.sequence_number) {
        (Some(stream), Some(number)) => Some(format!("{stream}/{number}")),
        _ => None,
    };
    let body = Body::new(raw.text.as_bytes().to_vec(), Attributes::default(), broker_id);
    Ok(Content { record, body })
}
