//! Messages that another service forwarded to a queue.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::Rejected;
use super::key::BINARY;
use super::source::{Body, eventbridge, object};
use crate::error::json_fault;
use crate::json::without_bom;

/// An envelope that another AWS service puts around the body of a queue's message.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
/// use dynamodb_idempotency::messages::{Envelope, MessageKey};
///
/// // If SNS delivers a notification to the queue twice, both messages have the same id.
/// let consumer = idempotency.sqs("payments").envelope(Envelope::Sns).key(MessageKey::broker_id());
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Envelope {
    /// A notification of an SNS topic that the queue subscribes to without raw message delivery.
    /// The payload is its `Message`, the attributes are its `MessageAttributes`, and the broker's
    /// id is its `MessageId`. A message whose `Type` is not `Notification`, such as the confirmation
    /// of a subscription, is malformed.
    Sns,
    /// An event of an EventBridge rule whose target is the queue. The payload is its `detail`, and
    /// the broker's id consists of its `source` and `id`.
    EventBridge,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Notification {
    #[serde(rename = "Type")]
    kind: String,
    message_id: String,
    message: String,
    /// Each is an [`Attribute`].
    message_attributes: Option<BTreeMap<String, Box<RawValue>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attribute {
    #[serde(rename = "Type")]
    kind: String,
    value: String,
}

impl Envelope {
    /// Opens the envelope in a body.
    pub(crate) fn open(self, body: &Body) -> Result<Body, Rejected> {
        let text = std::str::from_utf8(without_bom(&body.payload)).unwrap_or_default();
        let malformed = |what: &str, error| {
            let fault = json_fault(&error);
            Rejected::Malformed(format!("the body is not {what}: {fault}"))
        };
        match self {
            Self::Sns => object(text)
                .map_err(|error| malformed("a notification of SNS's", error))
                .and_then(Notification::body),
            Self::EventBridge => eventbridge::read(text)
                .map_err(|error| malformed("an event of EventBridge's", error))
                .map(|(body, _)| body),
        }
    }
}

impl Notification {
    /// Returns the published message. SNS also sends confirmations of subscriptions.
    pub(super) fn body(self) -> Result<Body, Rejected> {
        match self.kind.as_str() {
            "Notification" => {}
            kind @ ("SubscriptionConfirmation" | "UnsubscribeConfirmation") => {
                let reason = format!("it is SNS's {kind} and not a message: confirm it by hand");
                return Err(Rejected::Malformed(reason));
            }
            _ => return Err(Rejected::Malformed("its `Type` is not one of SNS's".to_owned())),
        }
        let text =
            |Attribute { kind, value }| if kind == "Binary" { Err(BINARY) } else { Ok(value) };
        let attributes = self.message_attributes.unwrap_or_default().into_iter();
        let attributes = attributes.map(|(name, attribute)| {
            let attribute = object(attribute.get()).map_err(|error| {
                let fault = json_fault(&error);
                Rejected::Malformed(format!("an attribute is not one of SNS's: {fault}"))
            });
            Ok((name, text(attribute?)))
        });
        let attributes = attributes.collect::<Result<_, Rejected>>()?;
        Ok(Body::new(self.message.into_bytes(), attributes, Some(self.message_id)))
    }
}
