//! Amazon DynamoDB Streams: in order of each shard, or of each item.

use aws_lambda_events::dynamodb::EventRecord;
use serde_json::Value;

use super::{Body, Incoming, Raw, Source, split_records};
use crate::messages::key::{Attributes, MessageKey};
use crate::messages::response::Reporting;
use crate::messages::settings::Order;

pub(in crate::messages) const SOURCE: Source<EventRecord> = Source {
    name: "DynamoDB Streams",
    reporting: Reporting::First,
    key: MessageKey::broker_id,
    split: |service, event, order| split_records(service, event, |raw| incoming(raw, order)),
};

fn incoming(raw: &Raw<'_>, order: Order) -> Incoming<EventRecord> {
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
    let parsed = raw.read("/eventSource", "aws:dynamodb").map(|record: EventRecord| {
        let ids = record.event_source_arn.as_ref().zip(record.change.sequence_number.as_ref());
        let broker_id = ids.map(|(stream, number)| format!("{stream}/{number}"));
        let body = Body::new(raw.text.as_bytes().to_vec(), Attributes::default(), broker_id);
        (record, body)
    });
    Incoming { item: raw.item("/dynamodb/SequenceNumber"), group, parsed }
}
