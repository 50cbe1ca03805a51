//! Any bytes as an event and as a message: what [`fuzzing`](crate::fuzzing) calls.

use super::envelope::Envelope;
use super::key::{MessageKey, NoKey, member};
use super::message::Message;
use super::settings::Order;
use super::source::{
    Body, Content, DynamoDbStreams, EventBridge, Kafka, Kinesis, S3, Sns, Source, Sqs,
};

/// Any text as an event of each source. A message that can be named has a name, and a key that is
/// found is one.
pub(crate) fn event(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    split::<Sqs>(text);
    split::<Kinesis>(text);
    split::<DynamoDbStreams>(text);
    split::<Kafka>(text);
    split::<Sns>(text);
    split::<EventBridge>(text);
    split::<S3>(text);
}

fn split<S: Source>(text: &str) {
    for order in [Order::Source, Order::Key] {
        let Ok(batch) = S::split(text, order) else { continue };
        for incoming in batch.messages {
            assert!(incoming.item.is_none_or(|item| !item.to_string().is_empty()));
            if let Ok(content) = incoming.content {
                look_for_keys::<S>(content);
            }
        }
    }
}

fn look_for_keys<S: Source>(content: Content<S::Record>) {
    let Content { record, body } = content;
    let message = Message { record, payload: body.payload.clone(), key: None };
    let rules = [
        MessageKey::default_attribute(),
        MessageKey::json("/id"),
        MessageKey::broker_id(),
        MessageKey::with(|message: &Message<S::Record>| message.json::<String>().ok()),
    ];
    for rule in rules {
        assert!(!rule.find(&message, &body).is_ok_and(|key| key.is_empty()));
    }
}

/// Any bytes as a message's payload. As the body of an SQS message a text comes back letter for
/// letter, and what is inside an envelope is found as it was put there.
pub(crate) fn payload(input: &[u8]) {
    for pointer in ["", "/id", "/a/0", "no pointer"] {
        let found = member(input, pointer);
        assert!(pointer != "no pointer" || matches!(found, Err(NoKey::Invalid(_))));
    }
    let body =
        |payload: &[u8]| Body::new(payload.to_vec(), super::key::Attributes::default(), None);
    for envelope in [Envelope::Sns, Envelope::EventBridge] {
        // Whatever it comes to, it comes to an end.
        drop(envelope.open(&body(input)));
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let notification = serde_json::json!({"MessageId": "n", "Message": text});
    let opened = Envelope::Sns.open(&body(notification.to_string().as_bytes()));
    assert!(opened.is_ok_and(|opened| opened.payload == input));
    let record = serde_json::json!({"messageId": "1", "body": text});
    let event = serde_json::json!({"Records": [record]}).to_string();
    let batch = <Sqs as super::source::Split>::split(&event, Order::Source);
    let payloads: Vec<_> = batch
        .into_iter()
        .flat_map(|batch| batch.messages)
        .filter_map(|incoming| incoming.content.ok())
        .map(|content| content.body.payload)
        .collect();
    assert_eq!(payloads, [input]);
}
