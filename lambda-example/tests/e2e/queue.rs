//! A batch of a queue's, for the consumer of payment events.

use lambda_example::Ledger;
use serde_json::{Value, json};

use crate::deployment::{Deployment, text};
use crate::dynamodb::unique;
use crate::emulator::Emulator;

/// Messages `0`, `1` … with these bodies: the fixture of the crate's own suite.
pub fn batch(bodies: &[String]) -> Value {
    let text = include_str!("../../../tests/suite/messages/events/sqs.json");
    let example: Value = serde_json::from_str(text).expect("a JSON fixture");
    let messages = bodies.iter().enumerate().map(|(id, body)| {
        let mut message = example["Records"][0].clone();
        message["messageId"] = id.to_string().into();
        message["body"] = body.as_str().into();
        message
    });
    json!({"Records": messages.collect::<Vec<_>>()})
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_batch_is_booked_once_and_what_cannot_be_is_reported() {
    let deployment = Deployment::load();
    let emulator = Emulator::start(&deployment, &deployment.payment_events()).await;
    let (account, first, second) = (unique("account"), unique("pay"), unique("pay"));
    let event = |payment: &str, amount: i64| {
        json!({"payment": payment, "account": account, "amount": amount}).to_string()
    };
    let event = batch(&[
        event(&first, 1200),
        "no JSON".to_owned(),
        event(&first, 1200),
        json!({"payment": unique("pay"), "account": account}).to_string(),
        event(&second, -200),
    ]);
    let failed = ["1", "3"].map(|id| json!({"itemIdentifier": id}));
    for _ in 0..2 {
        assert_eq!(emulator.invoke(&event).await, json!({"batchItemFailures": failed}));
    }

    let ledger = Ledger::new(deployment.client(), deployment.table("LedgerTable"));
    let entries = ledger.entries().await.expect("the ledger");
    let entries = entries.into_iter().filter(|entry| entry.account == account);
    let mut booked: Vec<_> = entries.map(|entry| (entry.payment, entry.amount)).collect();
    booked.sort_unstable_by_key(|(_, amount)| *amount);
    assert_eq!(booked, [(second, -200), (first.clone(), 1200)]);
    let record = deployment.record(&format!("payment-events#{first}")).await.expect("a record");
    assert_eq!(text(&record, "status"), "COMPLETED");
}
