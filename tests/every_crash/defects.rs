//! Handlers with a known defect are found, and the repaired twin of each passes.

use std::convert::Infallible;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::Config;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::testing::{World, every_crash};
use dynamodb_idempotency::{Execution, Idempotency, Reconciled, RunError, Transaction};

use super::{Bank, Counter, assert_names, create_table, finding, row, rows};

type Refunded<E = Infallible> = Result<String, RunError<E>>;

/// Whether a test is about the defect or about its repaired twin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    Defect,
    Repaired,
}

use Variant::{Defect, Repaired};

/// The key of a refund at the bank, which is the same in every attempt.
fn bank_key(execution: &Execution) -> String {
    execution.derive_key("refund").uuid()
}

async fn refunds_in_a_step(execution: &Execution, bank: &Bank) -> Refunded {
    let refund = bank.refund("order-42", Some(bank_key(execution)));
    execution.step("refund", async { Ok(refund.await) }).await
}

/// Runs `handler` for one order.
async fn refund(
    idempotency: &Idempotency,
    handler: impl AsyncFn(Execution) -> Refunded,
) -> Result<String, RunError<RunError<Infallible>>> {
    idempotency
        .operation("refunds")
        .key("order-42")
        .payload(&1200)
        .run(|execution| handler(execution))
        .await
}

/// A test of a handler that gets the process's client.
async fn refunded_once(world: World, handler: impl AsyncFn(Execution, &Bank, &Client) -> Refunded) {
    create_table(&world.client(), "rows").await;
    let bank = Bank::new(&world);
    let answer = world
        .call(async |process| {
            let client = process.client();
            let handler = async |execution| handler(execution, &bank, &client).await;
            refund(&process.idempotency(), handler).await
        })
        .await;
    assert_eq!(bank.refunds(), 1, "refunds");
    answer.expect("an answer");
}

async fn an_effect_before_its_step(world: World, variant: Variant) {
    refunded_once(world, async |execution, bank, _| match variant {
        Defect => {
            let refund = bank.refund("order-42", None).await;
            execution.step("refund", async { Ok(refund) }).await
        }
        Repaired => refunds_in_a_step(&execution, bank).await,
    })
    .await;
}

#[test]
fn an_effect_before_its_step_is_found() {
    let report = finding(|world| an_effect_before_its_step(world, Defect));
    assert_names(&report, "crash at point `refunded` of attempt 1");
    assert!(report.contains("left: 2"), "{report}");
    every_crash(|world| an_effect_before_its_step(world, Repaired));
}

async fn an_effect_after_the_commit(world: World, variant: Variant) {
    refunded_once(world, async |execution, bank, _| {
        let commit = async || {
            let committed = execution.commit("refunded", [row("rows", "order-42")]).await;
            committed.map_err(RunError::Idempotency)
        };
        if variant == Defect {
            commit().await?;
            bank.refund("order-42", Some(bank_key(&execution))).await;
        } else {
            refunds_in_a_step(&execution, bank).await?;
            commit().await?;
        }
        Ok("refunded".to_owned())
    })
    .await;
}

#[test]
fn an_effect_after_the_commit_is_found() {
    let report = finding(|world| an_effect_after_the_commit(world, Defect));
    assert_names(
        &report,
        "crash after DynamoDB had stored the answer and 1 item in one transaction",
    );
    assert!(report.contains("left: 0"), "{report}");
    every_crash(|world| an_effect_after_the_commit(world, Repaired));
}

async fn a_hook_without_the_rows(world: World, variant: Variant) {
    create_table(&world.client(), "rows").await;
    let ids = Counter::default();
    let answer = world
        .call(async |process| {
            let client = process.client();
            let operation = process.idempotency().operation("refunds");
            operation
                .key("order-42")
                .no_payload()
                .reconcile(async |_| {
                    let is_done = variant == Repaired && rows(&client, "rows").await > 0;
                    Ok::<_, Infallible>(if is_done {
                        Reconciled::Completed("refunded".to_owned())
                    } else {
                        Reconciled::Execute
                    })
                })
                .run(async |_| {
                    let id = AttributeValue::S(format!("refund {}", ids.next()));
                    let put = client.put_item().table_name("rows").item("id", id);
                    put.send().await.expect("the row is written");
                    Ok("refunded".to_owned())
                })
                .await
        })
        .await;
    assert_eq!(rows(&world.client(), "rows").await, 1, "rows");
    answer.expect("an answer");
}

#[test]
fn a_hook_that_ignores_the_rows_is_found() {
    let report = finding(|world| a_hook_without_the_rows(world, Defect));
    assert_names(&report, "crash after DynamoDB had executed PutItem on `rows`");
    every_crash(|world| a_hook_without_the_rows(world, Repaired));
}

async fn a_key_with_the_attempt(world: World, variant: Variant) {
    refunded_once(world, async |execution, bank, _| {
        let key = match variant {
            Defect => format!("{}-{}", bank_key(&execution), execution.attempt()),
            Repaired => bank_key(&execution),
        };
        let key = Some(key);
        execution.step("refund", async { Ok(bank.refund("order-42", key).await) }).await
    })
    .await;
}

#[test]
fn a_derived_key_with_the_attempt_in_it_is_found() {
    let report = finding(|world| a_key_with_the_attempt(world, Defect));
    assert_names(&report, "crash at point `refunded` of attempt 1");
    assert!(report.contains("left: 2"), "{report}");
    every_crash(|world| a_key_with_the_attempt(world, Repaired));
}

/// A hook finds the refund after a crash. But a failure releases the key, so the next call runs the
/// handler again, without the hook. The client calls again after a failure.
async fn a_failure_after_the_effect(world: World, variant: Variant) {
    create_table(&world.client(), "rows").await;
    let bank = Bank::new(&world);
    let answer = world
        .call(async |process| {
            let client = process.client();
            let put = async || {
                let put = client.put_item().table_name("rows");
                let put = put.item("id", AttributeValue::S("order-42".to_owned()));
                let once = Config::builder().retry_config(RetryConfig::disabled());
                put.customize().config_override(once).send().await.map_err(|_| "no row")
            };
            let call = async || {
                let operation =
                    process.idempotency().operation("refunds").key("order-42").no_payload();
                operation
                    .reconcile(async |_| {
                        Ok::<_, &str>(match bank.refunds() {
                            0 => Reconciled::Execute,
                            _ => Reconciled::Completed("re_1".to_owned()),
                        })
                    })
                    .run(async |execution| {
                        let key = (variant == Repaired).then(|| bank_key(&execution));
                        let refund = bank.refund("order-42", key).await;
                        put().await?;
                        Ok(refund)
                    })
                    .await
            };
            match call().await {
                Ok(answer) => Ok(answer),
                Err(_) => call().await,
            }
        })
        .await;
    assert_eq!(bank.refunds(), 1, "refunds");
    answer.expect("an answer");
}

#[test]
fn a_failure_that_is_returned_after_the_effect_is_found() {
    let report = finding(|world| a_failure_after_the_effect(world, Defect));
    assert_names(&report, "the response was lost after DynamoDB had executed PutItem on `rows`");
    assert!(report.contains("DynamoDB stored the release of the key"), "{report}");
    every_crash(|world| a_failure_after_the_effect(world, Repaired));
}

async fn a_spawned_effect(world: World, variant: Variant) {
    refunded_once(world, async |execution, bank, _| {
        if variant == Repaired {
            return refunds_in_a_step(&execution, bank).await;
        }
        let (bank, key) = (bank.clone(), Some(bank_key(&execution)));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            bank.refund("order-42", key).await;
        });
        Ok("refunded".to_owned())
    })
    .await;
}

#[test]
fn a_spawned_effect_that_is_not_awaited_is_found() {
    let report = finding(|world| a_spawned_effect(world, Defect));
    assert_names(&report, "crash after DynamoDB had stored the answer, request 3 of attempt 1");
    assert!(report.contains("left: 0"), "{report}");
    every_crash(|world| a_spawned_effect(world, Repaired));
}

async fn a_key_of_each_retry(world: World, variant: Variant) {
    let (bank, keys) = (Bank::new(&world), Counter::default());
    let answer = world
        .call(async |process| {
            let key = if variant == Defect { keys.next() } else { 1 };
            let operation =
                process.idempotency().operation("refunds").key(format!("k{key}")).no_payload();
            operation.run(async |execution| refunds_in_a_step(&execution, &bank).await).await
        })
        .await;
    assert_eq!(bank.refunds(), 1, "refunds");
    answer.expect("an answer");
}

#[test]
fn a_key_that_is_made_for_each_retry_is_found() {
    let report = finding(|world| a_key_of_each_retry(world, Defect));
    assert_names(&report, "crash at point `refunded` of attempt 1");
    assert!(report.contains("(key `refunds#k2`)"), "{report}");
    every_crash(|world| a_key_of_each_retry(world, Repaired));
}

async fn an_effect_in_the_closure(world: World, variant: Variant) {
    create_table(&world.client(), "rows").await;
    let bank = Bank::new(&world);
    let answer = world
        .call(async |process| {
            let operation = process.idempotency().operation("refunds").key("order-42").no_payload();
            operation
                .run_transaction(async || {
                    if variant == Defect {
                        bank.refund("order-42", None).await;
                    }
                    let answer = Transaction::new("refunded".to_owned());
                    Ok::<_, Infallible>(answer.items([row("rows", "order-42")]))
                })
                .await
        })
        .await;
    assert_eq!(rows(&world.client(), "rows").await, 1, "rows");
    if variant == Defect {
        assert_eq!(bank.refunds(), 1, "refunds");
    }
    answer.expect("an answer");
}

#[test]
fn an_effect_in_the_closure_of_a_transaction_is_found() {
    let report = finding(|world| an_effect_in_the_closure(world, Defect));
    assert_names(&report, "crash at point `refunded` of attempt 1");
    assert!(report.contains("left: 2"), "{report}");
    every_crash(|world| an_effect_in_the_closure(world, Repaired));
}

/// Looks whether the order was refunded, and refunds it.
async fn two_callers(world: World, variant: Variant) {
    create_table(&world.client(), "rows").await;
    let bank = Bank::new(&world);
    let call = async |process: dynamodb_idempotency::testing::Process| {
        if variant == Repaired {
            let handler = async |execution| refunds_in_a_step(&execution, &bank).await;
            return refund(&process.idempotency(), handler).await.is_ok();
        }
        let client = process.client();
        if rows(&client, "rows").await == 0 {
            bank.refund("order-42", None).await;
            let put = client.put_item().table_name("rows");
            put.item("id", AttributeValue::S("order-42".to_owned())).send().await.expect("a row");
        }
        true
    };
    let (first, _) = world.race(call, call).await;
    assert_eq!(bank.refunds(), 1, "refunds");
    assert!(first);
}

#[test]
fn two_callers_that_both_look_first_are_found() {
    let report = finding(|world| two_callers(world, Defect));
    assert_names(&report, "the second caller began after DynamoDB had executed Scan on `rows`");
    every_crash(|world| two_callers(world, Repaired));
}
