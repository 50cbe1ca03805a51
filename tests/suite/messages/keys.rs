//! Where keys are found, and what a message without one gets.

use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{Envelope, Message, MessageKey, MissingKey};
use dynamodb_idempotency::{Execution, Fingerprint};
use serde_json::{Value, json};

use super::function::{Ran, booking, failures, invoke, noting};
use super::queue::{attribute, example, message, sqs, without_key};
use crate::support::{Link, Store, raw};

/// A notification as SNS puts it into a queue.
fn notification(id: &str, key: Option<&str>, text: &str) -> String {
    let mut notification = json!({
        "Type": "Notification",
        "MessageId": id,
        "TopicArn": "arn:aws:sns:us-east-1:123456789012:orders",
        "Message": text,
        "Timestamp": "2026-11-21T10:00:00.000Z",
        "SignatureVersion": "1",
        "Signature": "tcc6faL2yUC6dgZdmrwh1Y4cGa/ebXEkAi6RibDsvpi+tE/1+82j",
    });
    if let Some(key) = key {
        notification["MessageAttributes"] =
            json!({"Idempotency-Key": {"Type": "String", "Value": key}});
    }
    notification.to_string()
}

/// Each message is delivered as two messages of the queue: also SNS and EventBridge may deliver twice.
#[tokio::test]
async fn each_rule_finds_its_key_also_inside_of_an_envelope() {
    type Rule = MessageKey<SqsMessage>;
    let with = |find: fn(&Message<SqsMessage>) -> Option<String>| MessageKey::with(find);
    let sent = example!("sqs")["Records"][0].clone();
    let sns = || without_key("1", &notification("n-7", Some("k-7"), r#"{"payment":"pay-7"}"#));
    let eventbridge = || without_key("1", &example!("eventbridge").to_string());
    let cases: [(Rule, Option<Envelope>, Value, &str); 12] = [
        (MessageKey::attribute("Idempotency-Key"), None, sent.clone(), "pay-1"),
        (MessageKey::json("/payment"), None, sent.clone(), "pay-1"),
        (MessageKey::json("/amount"), None, sent.clone(), "1200"),
        (MessageKey::json(["/payment", "/amount"]), None, sent.clone(), r#"["pay-1",1200]"#),
        (MessageKey::broker_id(), None, sent.clone(), "059f36b4-87a3-44ab-83d2-661975830a7d"),
        (
            with(|message| message.record().md5_of_body.clone()),
            None,
            sent.clone(),
            "e4e68fb7bd0e697a0ae8f1bb342846b3",
        ),
        (with(|message| Some(message.payload().len().to_string())), None, sent, "36"),
        (MessageKey::attribute("Idempotency-Key"), Some(Envelope::Sns), sns(), "k-7"),
        (MessageKey::json("/payment"), Some(Envelope::Sns), sns(), "pay-7"),
        (MessageKey::broker_id(), Some(Envelope::Sns), sns(), "n-7"),
        (
            MessageKey::json("/object/sequencer"),
            Some(Envelope::EventBridge),
            eventbridge(),
            "617f08299329d189",
        ),
        (
            MessageKey::broker_id(),
            Some(Envelope::EventBridge),
            eventbridge(),
            "aws.s3/17793124-05d4-b198-2fde-7ededc63b103",
        ),
    ];
    for (rule, envelope, message, key) in cases {
        let (store, ran) = (Store::open().await, Ran::default());
        let noted = ran.clone();
        let mut consumer = store.idempotency().sqs("book").key(rule.clone());
        if let Some(envelope) = envelope {
            consumer = consumer.envelope(envelope);
        }
        let handler = move |message: Message<SqsMessage>, _: Execution| {
            let payload = String::from_utf8_lossy(message.payload()).into_owned();
            noted.add(format!("{} {}", message.key().unwrap(), payload.starts_with('{')));
            async { Ok::<_, String>(()) }
        };
        let service = consumer.handler(handler).unwrap();
        for id in ["1", "2"] {
            let mut message = message.clone();
            if envelope.is_some() {
                message["messageId"] = id.into();
            }
            assert_eq!(failures(&invoke(&service, &sqs([message])).await), [""; 0], "{rule:?}");
        }
        assert_eq!(ran.all(), [format!("{key} true")], "{rule:?}");
        store.record(&format!("book#{key}")).await;
    }
}

/// Both messages of AWS's example have the same digest: the second is another request.
#[tokio::test]
async fn a_closure_finds_the_key() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer = store.idempotency().sqs("book");
    let consumer = consumer.key_with(|message| message.record().md5_of_body.clone());
    let service = consumer.handler(noting(&ran)).unwrap();
    let answer = invoke(&service, &example!("sqs")).await;
    assert_eq!(failures(&answer), ["2e1424d4-f796-459a-8184-9c92662be6da"]);
}

#[tokio::test]
async fn a_message_without_a_key_fails_unless_the_user_says_otherwise() {
    for (policy, failed, runs) in [
        (MissingKey::Fail, vec!["1", "2"], &["Some(\"k\") true"][..]),
        (MissingKey::Acknowledge, vec![], &["Some(\"k\") true"]),
        (MissingKey::RunUnprotected, vec!["2"], &["None false", "None false", "Some(\"k\") true"]),
    ] {
        let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
        let (note, noted) = (noting(&Ran::default()), ran.clone());
        let handler = move |message: Message<SqsMessage>, execution: Execution| {
            noted.add(format!("{:?} {}", message.key(), execution.is_protected()));
            note(message, execution)
        };
        let consumer = store.over(&link).sqs("book").missing_key(policy);
        let service = consumer.handler(handler).unwrap();
        let batch = sqs([without_key("1", "a"), without_key("2", "fail"), message("3", "k", "c")]);
        assert_eq!(failures(&invoke(&service, &batch).await), failed, "{policy:?}");
        let mut ran = ran.all();
        ran.sort();
        assert_eq!(ran, runs, "{policy:?}");
        // Those without a key leave no trace.
        assert_eq!(link.wire.requests().len(), 2);
    }
}

#[cfg(feature = "metrics")]
#[tokio::test]
async fn signals_tell_that_a_message_ran_without_a_record() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer = store.idempotency().sqs("book").missing_key(MissingKey::RunUnprotected);
    let service = consumer.handler(noting(&ran)).unwrap();
    let listener = crate::support::listener::Listener::start();
    invoke(&service, &sqs([without_key("1", "a")])).await;
    let ended = listener.logged("an idempotent call has ended");
    let outcomes: Vec<_> = ended.iter().map(|event| event.get("outcome")).collect();
    assert_eq!(outcomes, ["unprotected"]);
}

/// serde also reads a struct from a list, so a sender of a list could choose the key.
#[tokio::test]
async fn what_is_no_envelope_fails_alone() {
    let changed = |name: &str, value: Value| {
        let mut whole: Value = serde_json::from_str(&notification("n", Some("k"), "a")).unwrap();
        whole[name] = value;
        whole.to_string()
    };
    let event = example!("eventbridge");
    let sns = [
        json!(["n", "a", {}]).to_string(),
        json!(["Notification", "n", "a", {}]).to_string(),
        changed("MessageAttributes", json!({"Idempotency-Key": ["String", "k"]})),
        changed("Type", json!("SubscriptionConfirmation")),
        changed("Type", json!("UnsubscribeConfirmation")),
        changed("Type", json!("notification")),
        json!({"MessageId": "n", "Message": "a"}).to_string(),
    ];
    let eventbridge =
        [json!([event["id"], event["source"], event["detail-type"], event["detail"]]).to_string()];
    let any = ["plain", "{}", ""].map(str::to_owned);
    for (envelope, good, bad) in [
        (Envelope::Sns, notification("n", None, "a"), sns.to_vec()),
        (Envelope::EventBridge, event.to_string(), eventbridge.to_vec()),
    ] {
        let (store, ran) = (Store::open().await, Ran::default());
        let consumer = store.idempotency().sqs("book").key(MessageKey::broker_id());
        let service = consumer.envelope(envelope).handler(noting(&ran)).unwrap();
        for body in bad.iter().chain(&any) {
            let batch = sqs([without_key("bad", body), without_key("good", &good)]);
            assert_eq!(failures(&invoke(&service, &batch).await), ["bad"], "{body}");
        }
        assert_eq!(ran.count(), 1);
    }
}

#[tokio::test]
async fn the_payload_counts_by_its_json_value_or_as_the_user_says() {
    let (store, ran, service) = booking().await;
    for (body, failed) in [
        (r#"{"a": 1, "b": 2}"#, vec![]),
        (r#"{"b":2,"a":1}"#, vec![]),
        (r#"{"b":2,"a":1.0}"#, vec!["1"]),
    ] {
        let answer = invoke(&service, &sqs([message("1", "k", body)])).await;
        assert_eq!(failures(&answer), failed, "{body}");
    }
    let amount = |message: &Message<SqsMessage>| {
        let body: Value = message.json().unwrap();
        Fingerprint::of(&body["amount"]).unwrap()
    };
    let service =
        store.idempotency().sqs("by-amount").fingerprint(amount).handler(noting(&ran)).unwrap();
    for (body, failed) in [
        (r#"{"amount": 1, "sent_at": 5}"#, vec![]),
        (r#"{"amount": 1, "sent_at": 6}"#, vec![]),
        (r#"{"amount": 2, "sent_at": 6}"#, vec!["1"]),
    ] {
        let answer = invoke(&service, &sqs([message("1", "k", body)])).await;
        assert_eq!(failures(&answer), failed, "{body}");
    }
    assert_eq!(ran.count(), 2);
}

/// The text of an attribute is the key, unchanged; quotes have no meaning as in HTTP.
#[tokio::test]
async fn an_attribute_is_taken_letter_for_letter() {
    let (store, _ran, service) = booking().await;
    let mut quoted = without_key("1", "a");
    quoted["messageAttributes"]["Idempotency-Key"] = attribute("\"k\" é");
    invoke(&service, &sqs([quoted])).await;
    assert_eq!(raw::status(&store.record("book#\"k\" é").await), "COMPLETED");
}
