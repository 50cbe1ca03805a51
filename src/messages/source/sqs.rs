//! Amazon SQS, standard and FIFO.

use aws_lambda_events::sqs::{SqsMessage, SqsMessageAttribute};

use super::{Batch, Body, Content, Incoming, Raw, Source, Split, Unreadable, records};
use crate::messages::error::BatchError;
use crate::messages::key::{Attributes, MessageKey};
use crate::messages::response::{BatchResponse, Reporting};
use crate::messages::settings::Order;

/// Amazon SQS: standard queues without order, FIFO queues in order of each message group.
#[derive(Clone, Copy, Debug)]
pub struct Sqs;

impl Source for Sqs {
    type Record = SqsMessage;
    type Response = BatchResponse;
}

impl Split for Sqs {
    const NAME: &'static str = "Amazon SQS";
    const REPORTING: Reporting = Reporting::Items;
    const PARTIAL_BY_DEFAULT: bool = true;

    fn split(event: &str, _: Order) -> Result<Batch<Self>, BatchError> {
        let (records, _) = records(event, Self::NAME)?;
        let raws: Vec<_> = records.iter().map(|record| Raw::new(record)).collect();
        // Of one queue, all of them. A group alone does not tell: a fair standard queue has them too.
        let is_fifo = raws.iter().any(|raw| raw.text("/eventSourceARN").is_some_and(is_fifo));
        let messages = raws.iter().map(|raw| incoming(raw, is_fifo)).collect();
        Ok(Batch { messages, state: None })
    }

    fn default_key() -> MessageKey<SqsMessage> {
        MessageKey::default_attribute()
    }

    fn respond(response: BatchResponse) -> BatchResponse {
        response
    }
}

/// The name of a FIFO queue ends so, and no other one's does.
fn is_fifo(queue: &str) -> bool {
    queue.strip_suffix(".fifo").is_some()
}

fn incoming(raw: &Raw<'_>, is_fifo: bool) -> Incoming<SqsMessage> {
    // A message of a FIFO queue always has a group.
    let group = raw.text("/attributes/MessageGroupId").unwrap_or_default();
    Incoming {
        item: raw.item("/messageId"),
        group: is_fifo.then(|| group.to_owned()),
        content: content(raw),
    }
}

fn content(raw: &Raw<'_>) -> Result<Content<SqsMessage>, Unreadable> {
    let record: SqsMessage = raw.read("/eventSource", "aws:sqs", Sqs::NAME)?;
    let mut attributes = Attributes::default();
    for (name, attribute) in &record.message_attributes {
        attributes.push(name, text(attribute));
    }
    let payload = record.body.clone().unwrap_or_default().into_bytes();
    let body = Body::new(payload, attributes, record.message_id.clone());
    Ok(Content { record, body })
}

fn text(attribute: &SqsMessageAttribute) -> Result<String, &'static str> {
    attribute.string_value.clone().ok_or("is binary, and a key is text")
}
