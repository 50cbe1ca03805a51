//! Amazon SNS: an asynchronous invocation, which Lambda retries as a whole.

use aws_lambda_events::sns::{MessageAttribute, SnsRecord};

use super::{Body, Incoming, Parsed, Raw, Source, split_records};
use crate::messages::error::Rejected;
use crate::messages::key::{BINARY, MessageKey};
use crate::messages::response::Reporting;

pub(in crate::messages) const SOURCE: Source<SnsRecord> = Source {
    name: "Amazon SNS",
    reporting: Reporting::Event,
    key: MessageKey::default_attribute,
    split: |service, event, _| split_records(service, event, incoming),
};

fn incoming(raw: &Raw<'_>) -> Incoming<SnsRecord> {
    Incoming { item: raw.item("/Sns/MessageId"), group: None, parsed: parse(raw) }
}

fn parse(raw: &Raw<'_>) -> Parsed<SnsRecord> {
    let record: SnsRecord = raw.read("/EventSource", "aws:sns")?;
    check_type(&record.sns.sns_message_type)?;
    let text = |attribute: &MessageAttribute| text(&attribute.data_type, attribute.value.clone());
    let attributes = record.sns.message_attributes.iter();
    let attributes = attributes.map(|(name, attribute)| (name.clone(), text(attribute))).collect();
    let payload = record.sns.message.clone().into_bytes();
    let body = Body::new(payload, attributes, Some(record.sns.message_id.clone()));
    Ok((record, body))
}

/// Returns the value of an attribute with this type.
pub(in crate::messages) fn text(kind: &str, value: String) -> Result<String, &'static str> {
    if kind == "Binary" { Err(BINARY) } else { Ok(value) }
}

/// Checks the `Type` of a message. SNS also sends confirmations of subscriptions.
pub(in crate::messages) fn check_type(kind: &str) -> Result<(), Rejected> {
    match kind {
        "Notification" => Ok(()),
        "SubscriptionConfirmation" | "UnsubscribeConfirmation" => {
            let reason = format!("it is SNS's {kind} and not a message: confirm it by hand");
            Err(Rejected::Malformed(reason))
        }
        _ => Err(Rejected::Malformed("its `Type` is not one of SNS's".to_owned())),
    }
}
