//! A function that was not set up rightly.

use serde_json::Value;

use crate::deployment::{Deployment, Function};
use crate::dynamodb::unique;
use crate::emulator::Emulator;
use crate::event::{Kind, Order};

const KIND: Kind = Kind::HttpApi;

/// What the function answers to a payment, and the lines of its log that say `text`.
async fn answer_and_log(
    deployment: &Deployment,
    function: &Function,
    text: &str,
) -> (Value, Vec<String>) {
    let emulator = Emulator::start(deployment, function).await;
    let key = unique("order");
    let order = Order { amount: 1200, source: "tok_visa", note: key.clone() };
    let answer = emulator.invoke(&KIND.payment(Some(&key), &order)).await;
    assert_eq!(deployment.payments_noted(&order.note).await, []);
    let log = emulator.log();
    (answer, log.lines().filter(|line| line.contains(text)).map(String::from).collect())
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn with_a_table_that_is_not_there_nothing_runs_and_the_log_says_why() {
    let deployment = Deployment::load();
    let mut function = deployment.payments();
    let table = unique("no-table");
    function.environment.insert("IDEMPOTENCY_TABLE".into(), table.clone());
    let reason = format!("there is no table `{table}`");
    let (answer, log) = answer_and_log(&deployment, &function, &reason).await;
    KIND.response(&answer).assert_problem(500);
    assert_eq!(log.len(), 1, "{log:?}");
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn without_the_name_of_its_table_the_function_does_not_start() {
    let deployment = Deployment::load();
    let mut function = deployment.payments();
    assert!(function.environment.remove("IDEMPOTENCY_TABLE").is_some());
    let (answer, log) = answer_and_log(&deployment, &function, "IDEMPOTENCY_TABLE").await;
    assert_eq!(answer, Value::Null, "it has answered");
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].starts_with("Error: set IDEMPOTENCY_TABLE"), "{log:?}");
}
