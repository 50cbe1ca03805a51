//! Amazon SQS: standard queues without order, FIFO queues in the order of each message group.

use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};

use super::{Batch, Body, Incoming, Raw, Source, records};
use crate::messages::error::BatchError;
use crate::messages::key::{BINARY, MessageKey};
use crate::messages::response::Reporting;

const NAME: &str = "Amazon SQS";

pub(in crate::messages) const SOURCE: Source<SqsMessage> = Source {
    name: NAME,
    reporting: Reporting::Items,
    key: MessageKey::default_attribute,
    split: |event, _| split(event),
};

fn split(event: &str) -> Result<Batch<SqsMessage>, BatchError> {
    let (records, _) = records(event, NAME)?;
    let raws: Vec<_> = records.iter().map(|record| Raw::new(record)).collect();
    // All messages come from one queue. A group is no sign of a FIFO queue, because fair standard
    // queues have groups too. Only the names of FIFO queues end with `.fifo`.
    let mut queues = raws.iter().filter_map(|raw| raw.text("/eventSourceARN"));
    let is_fifo = queues.any(|queue| queue.strip_suffix(".fifo").is_some());
    let messages = raws.iter().map(|raw| incoming(raw, is_fifo)).collect();
    Ok(Batch { messages, state: None })
}

fn incoming(raw: &Raw<'_>, is_fifo: bool) -> Incoming<SqsMessage> {
    // A message of a FIFO queue always has a group.
    let group = raw.text("/attributes/MessageGroupId").unwrap_or_default();
    let parsed = raw.read("/eventSource", "aws:sqs", NAME).map(|record: SqsMessage| {
        let text = |attribute: &SqsMessageAttribute| attribute.string_value.clone().ok_or(BINARY);
        let attributes = record.message_attributes.iter();
        let attributes =
            attributes.map(|(name, attribute)| (name.clone(), text(attribute))).collect();
        let payload = record.body.clone().unwrap_or_default().into_bytes();
        let body = Body::new(payload, attributes, record.message_id.clone());
        (record, body)
    });
    Incoming { item: raw.item("/messageId"), group: is_fifo.then(|| group.to_owned()), parsed }
}
