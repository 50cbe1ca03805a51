//! Any bytes as an event and as a message, with consumers that keep no records.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use aws_sdk_dynamodb::config::BehaviorVersion;
use aws_sdk_dynamodb::{Client, Config};
use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::messages::{
    Consumer, Envelope, FailureAction, Message, MessageKey, MissingKey, Order,
};
use lambda_runtime::{Context, LambdaEvent, Service};
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

/// Switched off, because only the decoding of events is tested. A message without a key then runs.
static IDEMPOTENCY: LazyLock<Idempotency> = LazyLock::new(|| {
    let config = Config::builder().behavior_version(BehaviorVersion::latest()).build();
    let builder = Idempotency::builder(Client::from_conf(config), "none").disabled();
    builder.build().expect("a configuration")
});

/// Any text as an event of each source. A reported message has an id, and a found key is valid.
pub fn event(input: &[u8]) {
    let Ok(event) = str::from_utf8(input).unwrap_or_default().parse::<JsonEvent>() else { return };
    each_rule(&event, |scope| IDEMPOTENCY.sqs(scope));
    each_rule(&event, |scope| IDEMPOTENCY.kinesis(scope));
    each_rule(&event, |scope| IDEMPOTENCY.dynamodb_streams(scope));
    each_rule(&event, |scope| IDEMPOTENCY.kafka(scope));
    each_rule(&event, |scope| IDEMPOTENCY.sns(scope));
    each_rule(&event, |scope| IDEMPOTENCY.eventbridge(scope));
    each_rule(&event, |scope| IDEMPOTENCY.s3(scope));
}

fn each_rule<R: Send + 'static>(event: &JsonEvent, consumer: impl Fn(&'static str) -> Consumer<R>) {
    let consumer = || consumer("fuzz").report_each();
    let by_source = [
        consumer(),
        consumer().key(MessageKey::json("/id")),
        consumer().key(MessageKey::broker_id()).order(Order::Key),
        consumer().key_with(|message| message.json::<String>().ok()),
    ];
    for consumer in by_source {
        let (messages, answer) = delivered(event, consumer);
        assert!(messages.iter().all(|(key, _)| key.as_ref().is_none_or(|key| !key.is_empty())));
        let answer = serde_json::to_string(&answer).expect("an answer is JSON");
        assert!(!answer.contains(r#""itemIdentifier":"""#), "{answer}");
    }
}

/// Any bytes as a message's payload. The text of an SQS message's body is returned unchanged, and so is the
/// content of an envelope.
pub fn message(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let keyless = || IDEMPOTENCY.sqs("fuzz").missing_key(MissingKey::RunUnprotected);
    let messages = |consumer, body: &str| {
        let record = serde_json::json!({"messageId": "1", "body": body});
        let event = JsonEvent::of(&serde_json::json!({"Records": [record]})).expect("JSON");
        delivered(&event, consumer).0
    };
    let payloads = |consumer, body: &str| {
        let messages = messages(consumer, body).into_iter();
        messages.map(|(_, payload)| payload).collect::<Vec<_>>()
    };
    assert_eq!(payloads(keyless(), text), [input]);
    let notification = serde_json::json!({
        "Type": "Notification", "MessageId": "n", "Message": text,
    });
    let notification = notification.to_string();
    assert_eq!(payloads(keyless().envelope(Envelope::Sns), &notification), [input]);
    // Any result is fine; these must only return.
    for envelope in [Envelope::Sns, Envelope::EventBridge] {
        payloads(keyless().envelope(envelope), text);
    }
    for pointer in ["", "/id", "/a/0"] {
        payloads(keyless().key(MessageKey::json(pointer)), text);
    }
    payloads(keyless().key(MessageKey::json(["/id", "/a/0"])), text);
}

type Seen = (Option<String>, Vec<u8>);

/// Key and payload of each message that the handler received, and the response to Lambda.
fn delivered<R: Send + 'static>(
    event: &JsonEvent,
    consumer: Consumer<R>,
) -> (Vec<Seen>, Option<impl Serialize>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = Arc::clone(&seen);
    let mut service = consumer
        .on_malformed(FailureAction::Report)
        .handler(move |message: Message<_>, _| {
            let message = (message.key().map(str::to_owned), message.payload().to_vec());
            see.lock().unwrap_or_else(PoisonError::into_inner).push(message);
            async { Ok::<(), std::convert::Infallible>(()) }
        })
        .unwrap();
    let event = LambdaEvent::new(event.clone(), Context::default());
    let answer = RUNTIME.block_on(service.call(event)).ok();
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    (seen, answer)
}
