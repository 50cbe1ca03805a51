//! Amazon SNS.

use aws_lambda_events::sns::{MessageAttribute, SnsRecord};

use super::{Batch, Body, Content, Incoming, Raw, Source, Split, Unreadable};
use crate::messages::error::BatchError;
use crate::messages::key::{Attributes, MessageKey};
use crate::messages::response::{BatchResponse, Reporting};
use crate::messages::settings::Order;

/// Amazon SNS: an asynchronous invocation, which Lambda retries as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Sns;

impl Source for Sns {
    type Record = SnsRecord;
    type Response = ();
}

impl Split for Sns {
    const NAME: &'static str = "Amazon SNS";
    const REPORTING: Reporting = Reporting::Event;
    const PARTIAL_BY_DEFAULT: bool = false;

    fn split(event: &str, _: Order) -> Result<Batch<Self>, BatchError> {
        Batch::of_records(event, incoming)
    }

    fn default_key() -> MessageKey<SnsRecord> {
        MessageKey::default_attribute()
    }

    fn respond(_: BatchResponse) {}
}

fn incoming(raw: &Raw<'_>) -> Incoming<SnsRecord> {
    Incoming { item: raw.item("/Sns/MessageId"), group: None, content: content(raw) }
}

fn content(raw: &Raw<'_>) -> Result<Content<SnsRecord>, Unreadable> {
    let record: SnsRecord = raw.read("/EventSource", "aws:sns", Sns::NAME)?;
    check_type(&record.sns.sns_message_type)?;
    let mut attributes = Attributes::default();
    for (name, attribute) in &record.sns.message_attributes {
        attributes.push(name, text(attribute));
    }
    let payload = record.sns.message.clone().into_bytes();
    let body = Body::new(payload, attributes, Some(record.sns.message_id.clone()));
    Ok(Content { record, body })
}

fn text(attribute: &MessageAttribute) -> Result<String, &'static str> {
    match attribute.data_type.as_str() {
        "Binary" => Err("is binary, and a key is text"),
        _ => Ok(attribute.value.clone()),
    }
}

/// The `Type` of what SNS sends of a message. It also sends questions of its own, whether to subscribe.
pub(in crate::messages) fn check_type(kind: &str) -> Result<(), String> {
    match kind {
        "Notification" => Ok(()),
        "SubscriptionConfirmation" | "UnsubscribeConfirmation" => {
            Err(format!("it is SNS's {kind} and not a message: confirm it by hand"))
        }
        _ => Err("its `Type` is not one of SNS's".to_owned()),
    }
}
