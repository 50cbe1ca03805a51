//! Amazon SNS: an asynchronous invocation, which Lambda retries as a whole.

use aws_lambda_events::sns::{MessageAttribute, SnsRecord};

use super::{Batch, Body, Incoming, Parsed, Raw, Source};
use crate::messages::key::{BINARY, MessageKey};
use crate::messages::response::Reporting;

const NAME: &str = "Amazon SNS";

pub(in crate::messages) const SOURCE: Source<SnsRecord> = Source {
    name: NAME,
    reporting: Reporting::Event,
    partial_response: false,
    key: MessageKey::default_attribute,
    split: |event, _| Batch::of_records(event, NAME, incoming),
};

fn incoming(raw: &Raw<'_>) -> Incoming<SnsRecord> {
    Incoming { item: raw.item("/Sns/MessageId"), group: None, parsed: parse(raw) }
}

fn parse(raw: &Raw<'_>) -> Parsed<SnsRecord> {
    let record: SnsRecord = raw.read("/EventSource", "aws:sns", NAME)?;
    check_type(&record.sns.sns_message_type)?;
    let attributes = record.sns.message_attributes.iter();
    let attributes = attributes.map(|(name, attribute)| (name.clone(), text(attribute))).collect();
    let payload = record.sns.message.clone().into_bytes();
    let body = Body::new(payload, attributes, Some(record.sns.message_id.clone()));
    Ok((record, body))
}

fn text(attribute: &MessageAttribute) -> Result<String, &'static str> {
    if attribute.data_type == "Binary" { Err(BINARY) } else { Ok(attribute.value.clone()) }
}

/// Checks the `Type` of a message. SNS also sends confirmations of subscriptions.
pub(in crate::messages) fn check_type(kind: &str) -> Result<(), String> {
    match kind {
        "Notification" => Ok(()),
        "SubscriptionConfirmation" | "UnsubscribeConfirmation" => {
            Err(format!("it is SNS's {kind} and not a message: confirm it by hand"))
        }
        _ => Err("its `Type` is not one of SNS's".to_owned()),
    }
}
