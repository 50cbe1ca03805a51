//! Where keys are found, and what a message without one gets.

use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{Envelope, Message, MessageKey, MissingKey};
use dynamodb_idempotency::{Execution, Fingerprint};
use serde_json::{Value, json};

use super::function::{Ran, booking, context_of, failures, invoke, invoke_in, noting};
use super::queue::{attribute, example, message, sqs, without_key};
use crate::support::{Link, Store, raw};

#[tokio::test]
async fn each_rule_finds_its_key() {
    let rules: [(MessageKey<SqsMessage>, &str); 7] = [
        (MessageKey::attribute("Idempotency-Key"), "pay-1"),
        (MessageKey::json("/payment"), "pay-1"),
        (MessageKey::json("/amount"), "1200"),
        (MessageKey::json(["/payment", "/amount"]), r#"["pay-1",1200]"#),
        (MessageKey::broker_id(), "059f36b4-87a3-44ab-83d2-661975830a7d"),
        (
            MessageKey::with(|message: &Message<SqsMessage>| message.record().md5_of_body.clone()),
            "e4e68fb7bd0e697a0ae8f1bb342846b3",
        ),
        (
            MessageKey::with(|message: &Message<SqsMessage>| message.payload().len().to_string()),
            "36",
        ),
    ];
    for (rule, key) in rules {
        let (store, ran) = (Store::open().await, Ran::default());
        let noted = ran.clone();
        let service = store.idempotency().sqs("book").key(rule.clone());
        let service = service
            .handler(move |message: Message<SqsMessage>, _: Execution| {
                noted.add(message.key().unwrap());
                async { Ok::<_, String>(()) }
            })
            .unwrap();
        let mut event = example!("sqs");
        event["Records"].as_array_mut().unwrap().pop();
        for _ in 0..2 {
            assert_eq!(failures(&invoke(&service, &event).await), [""; 0], "{rule:?}");
        }
        assert_eq!(ran.all(), [key]);
        store.record(&format!("book#{key}")).await;
    }
}

#[tokio::test]
async fn a_closure_finds_the_key() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer = store.idempotency().sqs("book");
    let consumer = consumer.key_with(|message| message.record().md5_of_body.clone());
    let service = consumer.handler(noting(&ran)).unwrap();
    // Both have the same one, as AWS's documentation has them: the second is another request.
    let answer = invoke(&service, &example!("sqs")).await;
    assert_eq!(failures(&answer), ["2e1424d4-f796-459a-8184-9c92662be6da"]);
    store.record("book#e4e68fb7bd0e697a0ae8f1bb342846b3").await;
}

#[tokio::test]
async fn both_messages_of_the_documented_event_run() {
    let (_store, ran, service) = booking().await;
    for _ in 0..2 {
        assert_eq!(failures(&invoke(&service, &example!("sqs")).await), [""; 0]);
    }
    assert_eq!(ran.count(), 2);
}

#[tokio::test]
async fn a_message_without_a_key_fails_by_default() {
    for (policy, failed, runs) in [
        (MissingKey::Fail, vec!["1", "2"], 1),
        (MissingKey::Acknowledge, vec![], 1),
        (MissingKey::RunUnprotected, vec!["2"], 3),
    ] {
        let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
        let consumer = store.over(&link).sqs("book").missing_key(policy);
        let service = consumer.handler(noting(&ran)).unwrap();
        let batch = sqs([without_key("1", "a"), without_key("2", "fail"), message("3", "k", "c")]);
        assert_eq!(failures(&invoke(&service, &batch).await), failed, "{policy:?}");
        assert_eq!(ran.count(), runs, "{policy:?}");
        // Those without a key leave no trace.
        assert_eq!(link.wire.requests().len(), 2);
    }
}

#[tokio::test]
async fn an_execution_without_a_record_says_so() {
    let (store, ran) = (Store::open().await, Ran::default());
    let noted = ran.clone();
    let consumer = store.idempotency().sqs("book").missing_key(MissingKey::RunUnprotected);
    let service = consumer
        .handler(move |message: Message<SqsMessage>, execution: Execution| {
            noted.add(format!("{:?} {}", message.key(), execution.is_protected()));
            async { Ok::<_, String>(()) }
        })
        .unwrap();
    invoke(&service, &sqs([without_key("1", "a"), message("2", "k", "b")])).await;
    let mut ran = ran.all();
    ran.sort();
    assert_eq!(ran, ["None false", "Some(\"k\") true"]);
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

#[tokio::test]
async fn keys_are_found_inside_of_an_sns_envelope() {
    let rules: [(MessageKey<SqsMessage>, &str); 3] = [
        (MessageKey::attribute("Idempotency-Key"), "k-7"),
        (MessageKey::json("/payment"), "pay-7"),
        (MessageKey::broker_id(), "n-7"),
    ];
    for (rule, key) in rules {
        let (store, ran) = (Store::open().await, Ran::default());
        let consumer = store.idempotency().sqs("book").key(rule).envelope(Envelope::Sns);
        let service = consumer.handler(noting(&ran)).unwrap();
        // One notification, delivered by SNS twice: two messages of the queue.
        for id in ["1", "2"] {
            let body = notification("n-7", Some("k-7"), r#"{"payment":"pay-7"}"#);
            let answer = invoke(&service, &sqs([without_key(id, &body)])).await;
            assert_eq!(failures(&answer), [""; 0]);
        }
        assert_eq!(ran.all(), [r#"{"payment":"pay-7"}"#]);
        store.record(&format!("book#{key}")).await;
    }
}

#[tokio::test]
async fn keys_are_found_inside_of_an_eventbridge_envelope() {
    let rules: [(MessageKey<SqsMessage>, &str); 2] = [
        (MessageKey::json("/object/sequencer"), "617f08299329d189"),
        (MessageKey::broker_id(), "aws.s3/17793124-05d4-b198-2fde-7ededc63b103"),
    ];
    for (rule, key) in rules {
        let (store, ran) = (Store::open().await, Ran::default());
        let consumer = store.idempotency().sqs("book").key(rule).envelope(Envelope::EventBridge);
        let service = consumer.handler(noting(&ran)).unwrap();
        for id in ["1", "2"] {
            let body = example!("eventbridge").to_string();
            let answer = invoke(&service, &sqs([without_key(id, &body)])).await;
            assert_eq!(failures(&answer), [""; 0]);
        }
        assert_eq!(ran.count(), 1);
        store.record(&format!("book#{key}")).await;
    }
}

#[tokio::test]
async fn a_message_that_is_no_envelope_fails_alone() {
    for envelope in [Envelope::Sns, Envelope::EventBridge] {
        let (store, ran) = (Store::open().await, Ran::default());
        let consumer = store.idempotency().sqs("book").key(MessageKey::broker_id());
        let service = consumer.envelope(envelope).handler(noting(&ran)).unwrap();
        let good = match envelope {
            Envelope::Sns => notification("n", None, "a"),
            _ => example!("eventbridge").to_string(),
        };
        let batch = sqs([
            without_key("1", "plain"),
            without_key("2", "{}"),
            without_key("3", &good),
            without_key("4", ""),
        ]);
        assert_eq!(failures(&invoke(&service, &batch).await), ["1", "2", "4"]);
        assert_eq!(ran.count(), 1);
    }
}

/// serde also reads a struct from a list, so a sender of a list could choose the key.
#[tokio::test]
async fn an_envelope_is_an_object_of_its_own_type() {
    let notification = |kind: &str| {
        let whole: Value = serde_json::from_str(&notification("n", Some("k"), "a")).unwrap();
        let mut whole = whole;
        whole["Type"] = kind.into();
        whole.to_string()
    };
    let listed = {
        let mut whole: Value = serde_json::from_str(&notification("Notification")).unwrap();
        whole["MessageAttributes"]["Idempotency-Key"] = json!(["String", "k"]);
        whole.to_string()
    };
    let event = example!("eventbridge");
    let sns = [
        json!(["n", "a", {}]).to_string(),
        json!(["Notification", "n", "a", {}]).to_string(),
        listed,
        notification("SubscriptionConfirmation"),
        notification("UnsubscribeConfirmation"),
        notification("notification"),
        json!({"MessageId": "n", "Message": "a"}).to_string(),
    ];
    let eventbridge =
        [json!([event["id"], event["source"], event["detail-type"], event["detail"]]).to_string()];
    for (envelope, bodies) in
        [(Envelope::Sns, sns.to_vec()), (Envelope::EventBridge, eventbridge.to_vec())]
    {
        let (store, ran) = (Store::open().await, Ran::default());
        let consumer = store.idempotency().sqs("book").key(MessageKey::broker_id());
        let service = consumer.envelope(envelope).handler(noting(&ran)).unwrap();
        for body in bodies {
            let answer = invoke(&service, &sqs([without_key("1", &body)])).await;
            assert_eq!(failures(&answer), ["1"], "{body}");
        }
        assert_eq!(ran.count(), 0);
    }
}

#[tokio::test]
async fn what_sns_asks_a_function_is_no_notification() {
    let (store, ran) = (Store::open().await, Ran::default());
    let service = store.idempotency().sns("book").key(MessageKey::broker_id());
    let service = service.handler(noting(&ran)).unwrap();
    for kind in ["SubscriptionConfirmation", "UnsubscribeConfirmation", ""] {
        let mut event = example!("sns");
        for record in event["Records"].as_array_mut().unwrap() {
            record["Sns"]["Type"] = kind.into();
        }
        let answer = invoke_in(&service, &event, context_of(30)).await;
        assert!(answer.is_err(), "{kind}: {answer:?}");
    }
    assert_eq!(ran.count(), 0);
}

/// A record, or a whole event, that is a list.
#[tokio::test]
async fn a_list_is_no_record_and_no_event() {
    let (store, ran) = (Store::open().await, Ran::default());
    let kafka = store.idempotency().kafka("book").key(MessageKey::broker_id());
    let kafka = kafka.handler(noting(&ran)).unwrap();
    let listed = json!(["aws:kafka", "arn:aws:kafka:x", "b:1", {"orders-0": []}]);
    assert!(invoke_in(&kafka, &listed, context_of(30)).await.is_err());
    let sns = store.idempotency().sns("book").key(MessageKey::broker_id());
    let sns = sns.handler(noting(&ran)).unwrap();
    let record = &example!("sns")["Records"][0];
    for listed in [
        json!([[record]]),
        json!({"Records": [[
            record["EventVersion"], record["EventSubscriptionArn"], record["EventSource"],
            record["Sns"],
        ]]}),
    ] {
        assert!(invoke_in(&sns, &listed, context_of(30)).await.is_err(), "{listed}");
    }
    assert_eq!(ran.count(), 0);
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
