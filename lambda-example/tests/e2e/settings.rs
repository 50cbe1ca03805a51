//! A function that was not set up rightly.

use dynamodb_idempotency::Idempotency;
use serde_json::Value;

use crate::deployment::{Deployment, Function};
use crate::dynamodb::unique;
use crate::emulator::Emulator;
use crate::event::{Kind, Order};

const KIND: Kind = Kind::HttpApi;

/// A payment whose key is its note.
fn order() -> (String, Order) {
    let key = unique("order");
    (key.clone(), Order { amount: 1200, source: "tok_visa", note: key })
}

/// What the function answers to a payment that it must not make, and the lines of its log that say `text`.
async fn answer_and_log(
    deployment: &Deployment,
    function: &Function,
    text: &str,
) -> (Value, Vec<String>) {
    let emulator = Emulator::start(deployment, function).await;
    let (key, order) = order();
    let answer = emulator.invoke(&KIND.payment(Some(&key), &order)).await;
    assert_eq!(deployment.payments_noted(&order.note).await, []);
    let log = emulator.log();
    (answer, log.lines().filter(|line| line.contains(text)).map(String::from).collect())
}

/// Asserts that with this idempotency table the function does not start, and says why in one line.
async fn refuses(deployment: &Deployment, table: &str, reason: &str) {
    let mut function = deployment.payments();
    function.environment.insert("IDEMPOTENCY_TABLE".into(), table.to_owned());
    let (answer, log) = answer_and_log(deployment, &function, table).await;
    assert_eq!(answer, Value::Null, "it has answered");
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].starts_with("Error: ") && log[0].contains(reason), "{log:?}");
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn with_a_table_that_is_not_there_the_function_does_not_start() {
    let table = unique("no-table");
    refuses(&Deployment::load(), &table, &format!("table `{table}` does not exist")).await;
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn with_a_table_of_other_keys_the_function_does_not_start() {
    let deployment = Deployment::load();
    refuses(&deployment, deployment.table("PaymentsTable"), "compare its key attributes").await;
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

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn when_its_table_goes_the_function_answers_with_an_error_and_nothing_runs() {
    let deployment = Deployment::load();
    let table = unique("deleted");
    let idempotency = Idempotency::new(deployment.client(), &table);
    idempotency.create_table().await.expect("a table");
    let mut function = deployment.payments();
    function.environment.insert("IDEMPOTENCY_TABLE".into(), table.clone());
    let emulator = Emulator::start(&deployment, &function).await;
    let (key, first) = order();
    let answer = emulator.invoke(&KIND.payment(Some(&key), &first)).await;
    assert_eq!(KIND.response(&answer).status, 201, "{answer}");

    deployment.client().delete_table().table_name(&table).send().await.expect("a table");
    let (key, second) = order();
    let answer = emulator.invoke(&KIND.payment(Some(&key), &second)).await;
    KIND.response(&answer).assert_problem(500);
    assert_eq!(deployment.payments_noted(&second.note).await, []);
    let log = emulator.log();
    let reason = format!("table `{table}` does not exist");
    assert_eq!(log.lines().filter(|line| line.contains(&reason)).count(), 1, "{log}");
}
