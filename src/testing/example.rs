//! The setup of the documentation's examples.

use std::error::Error;
use std::future::pending;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem};
use tokio::sync::Notify;

use super::Sandbox;
use crate::error::{ConditionFailed, RunError};
use crate::idempotency::Idempotency;
use crate::run::hook::{Abandoned, Reconciled};
use crate::run::transaction::Transaction;

type ExampleResult = Result<(), Box<dyn Error + Send + Sync>>;

/// Runs an example on its own sandbox. Not part of the API.
///
/// # Panics
/// If the example fails.
#[track_caller]
pub fn example(example: impl AsyncFnOnce(Sandbox, Idempotency) -> ExampleResult) {
    let run = async {
        let sandbox = Sandbox::start().await?;
        let idempotency = sandbox.idempotency();
        example(sandbox, idempotency).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run));
    assert!(ended.is_ok(), "{ended:?}");
}

/// Runs an example with an order that was abandoned after the step `charge`. Not part of the API.
///
/// # Panics
/// If the example fails.
#[track_caller]
pub fn abandoned_example(check: impl FnOnce(Abandoned) -> ExampleResult) {
    example(async |sandbox, idempotency| check(abandoned(&sandbox, &idempotency).await?));
}

async fn abandoned(
    sandbox: &Sandbox,
    idempotency: &Idempotency,
) -> Result<Abandoned, Box<dyn Error + Send + Sync>> {
    type Shipped = Result<String, RunError<io::Error>>;
    let order = || idempotency.operation("order").key("42");
    let charged = Notify::new();
    let owner = order().run(async |execution| -> Shipped {
        execution.step("charge", async { Ok::<_, io::Error>("ch_1".to_owned()) }).await?;
        charged.notify_one();
        pending().await
    });
    tokio::select! { ended = owner => drop(ended?), () = charged.notified() => {} }
    sandbox.clock().advance(Duration::from_secs(60));
    let seen = OnceLock::new();
    let hook = async |abandoned: Abandoned| {
        seen.get_or_init(|| abandoned);
        Ok::<_, RunError<io::Error>>(Reconciled::<String, _>::Refuse)
    };
    let refused = order().reconcile(hook).run(async |_| -> Shipped { pending().await }).await;
    assert!(matches!(refused, Err(RunError::Idempotency(_))), "{refused:?}");
    seen.into_inner().ok_or_else(|| "the hook was not called".into())
}

/// Runs an example with a debit of 20 from an account that has 5. Not part of the API.
///
/// # Panics
/// If the example fails.
#[track_caller]
pub fn condition_failed_example(refuse: impl FnOnce(&ConditionFailed) + Send + 'static) {
    example(async |sandbox, idempotency| {
        let account = AttributeValue::S("account-7".to_owned());
        let put = sandbox.client().put_item().table_name(sandbox.table());
        let put = put.item("pk", account.clone());
        put.item("balance", AttributeValue::N("5".to_owned())).send().await?;
        let check = ConditionCheck::builder()
            .table_name(sandbox.table())
            .key("pk", account)
            .condition_expression("balance >= :amount")
            .expression_attribute_values(":amount", AttributeValue::N("20".to_owned()))
            .build()?;
        let debit = TransactWriteItem::builder().condition_check(check).build();
        let refused = |failed: &ConditionFailed| {
            refuse(failed);
            Some("insufficient funds".to_owned())
        };
        let answer =
            idempotency.operation("transfers").key("order-42").run_transaction(async || {
                let answer = Transaction::new("transferred".to_owned());
                Ok::<_, io::Error>(answer.items([debit]).on_condition_failed(refused))
            });
        assert_eq!(answer.await?, "insufficient funds");
        Ok(())
    });
}
