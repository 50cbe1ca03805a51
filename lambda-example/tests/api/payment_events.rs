//! The consumer of payment events: the Lambda binary behind a Runtime API, and the example that
//! feeds it from a queue.

use std::path::PathBuf;

use aws_sdk_dynamodb::types::AttributeValue;
use lambda_example::Ledger;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::dynamodb::{client, endpoint, unique};
use crate::function::Function;

fn message(id: &str, body: &str) -> Value {
    json!({
        "messageId": id,
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1545082649183"},
        "messageAttributes": {},
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-2:123456789012:payment-events",
        "awsRegion": "us-east-2"
    })
}

#[tokio::test]
async fn the_function_books_once_and_reports_what_it_cannot_book() {
    let (endpoint, table) = (endpoint().await, unique("ledger"));
    let ledger = Ledger::new(client(&endpoint), &table);
    ledger.create_table().await.expect("a table");
    let program = env!("CARGO_BIN_EXE_payment-events");
    let mut function = Function::of(program, ("LEDGER_TABLE", &table), endpoint).await;

    let payment = r#"{"payment": "pay-1", "account": "a", "amount": 1200}"#;
    let batch = json!({"Records": [
        message("1", payment),
        message("2", "no JSON"),
        message("3", r#"{"payment": "pay-2", "account": "a"}"#),
        message("4", payment),
        message("5", &payment.replace("pay-1", "pay-3").replace("1200", "-200")),
    ]});
    let failed = |id: &str| json!({"itemIdentifier": id});
    for _ in 0..2 {
        let answer = function.invoke(batch.clone()).await;
        assert_eq!(answer, json!({"batchItemFailures": [failed("2"), failed("3")]}));
    }
    let entries = ledger.entries().await.expect("the ledger");
    let mut booked: Vec<_> =
        entries.iter().map(|entry| (entry.payment.as_str(), entry.amount)).collect();
    booked.sort_unstable();
    assert_eq!(booked, [("pay-1", 1200), ("pay-3", -200)]);
    let record = function.record("payment-events#pay-1").await;
    assert_eq!(record["status"], AttributeValue::S("COMPLETED".into()));

    let other = function.invoke(json!({"detail-type": "x", "source": "y", "detail": {}})).await;
    assert_eq!(other["errorType"], "Messages.OtherSource", "{other}");
}

/// The example's binary is in a folder next to the test's.
pub fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("the test's own path");
    path.pop();
    path.pop();
    path.push("examples");
    path.push(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.exists(),
        "{} is not there: `cargo build -p lambda-example --example {name}`",
        path.display()
    );
    path
}

#[tokio::test]
async fn the_local_queue_books_each_payment_once() {
    let arguments = ["--seed", "1", "--payments", "8"];
    let output =
        Command::new(example("local-queue")).args(arguments).output().await.expect("an ending");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("8 of 8 payments exactly once"), "{printed}");
}
