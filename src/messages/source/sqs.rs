//! Amazon SQS: standard queues without order, FIFO queues in the order of each message group.

use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};

use super::{Batch, Body, Incoming, Raw, Source, split_records};
use crate::messages::error::BatchError;
use crate::messages::key::{BINARY, MessageKey};
use crate::messages::response::Reporting;

pub(in crate::messages) const SOURCE: Source<SqsMessage> = Source {
    name: "Amazon SQS",
    reporting: Reporting::Items,
    key: MessageKey::default_attribute,
    split: |service, event, _| split(service, event),
};

fn split(service: &'static str, event: &str) -> Result<Batch<SqsMessage>, BatchError> {
    let mut is_fifo = false;
    let mut batch = split_records(service, event, |raw| {
        // Only the names of FIFO queues end with `.fifo`.
        let queue = raw.text("/eventSourceARN").unwrap_or_default();
        is_fifo |= queue.strip_suffix(".fifo").is_some();
        incoming(raw)
    })?;
    // All messages come from one queue. Fair standard queues have groups too, but no order.
    if !is_fifo {
        batch.messages.iter_mut().for_each(|message| message.group = None);
    }
    Ok(batch)
}

fn incoming(raw: &Raw<'_>) -> Incoming<SqsMessage> {
    // A message of a FIFO queue always has a group.
    let group = raw.text("/attributes/MessageGroupId").unwrap_or_default();
    let parsed = raw.read("/eventSource", "aws:sqs").map(|record: SqsMessage| {
        let text = |attribute: &SqsMessageAttribute| attribute.string_value.clone().ok_or(BINARY);
        let attributes = record.message_attributes.iter();
        let attributes =
            attributes.map(|(name, attribute)| (name.clone(), text(attribute))).collect();
        let payload = record.body.clone().unwrap_or_default().into_bytes();
        let body = Body::new(payload, attributes, record.message_id.clone());
        (record, body)
    });
    Incoming { item: raw.item("/messageId"), group: Some(group.to_owned()), parsed }
}
