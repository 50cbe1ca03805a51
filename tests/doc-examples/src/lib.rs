//! The setup of the documentation's examples: what their hidden lines call.

use std::error::Error;
use std::future::{pending, ready};
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem};
use tokio::sync::Notify;

use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::messages::Message;
use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::testing::Sandbox;
use dynamodb_idempotency::{
    Abandoned, ConditionFailed, Execution, Idempotency, Reconciled, RunError, Transaction,
};
use lambda_runtime::{Context, LambdaEvent};
use tower_service::Service as _;

type ExampleResult = Result<(), Box<dyn Error + Send + Sync>>;

/// Runs an example on its own sandbox.
///
/// # Panics
/// If the example fails.
#[track_caller]
pub fn run(example: impl AsyncFnOnce(Sandbox, Idempotency) -> ExampleResult) {
    let run = async {
        let sandbox = Sandbox::start().await?;
        let idempotency = sandbox.idempotency();
        example(sandbox, idempotency).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run));
    assert!(ended.is_ok(), "{ended:?}");
}

/// Runs an example with an order that was abandoned after the step `charge`.
///
/// # Panics
/// If the example fails.
#[track_caller]
pub fn with_abandoned(check: impl FnOnce(Abandoned) -> ExampleResult) {
    run(async |sandbox, idempotency| check(abandoned(&sandbox, &idempotency).await?));
}

async fn abandoned(
    sandbox: &Sandbox,
    idempotency: &Idempotency,
) -> Result<Abandoned, Box<dyn Error + Send + Sync>> {
    type Shipped = Result<String, RunError<io::Error>>;
    let order = || idempotency.operation("order").key("42").no_payload();
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

/// Runs an example with a debit of 20 from an account that has 5.
///
/// # Panics
/// If the example fails.
#[track_caller]
pub fn with_condition_failed(refuse: impl FnOnce(&ConditionFailed) + Send + 'static) {
    run(async |sandbox, idempotency| {
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
            idempotency.operation("transfers").key("order-42").no_payload().run_transaction(
                async || {
                    let answer = Transaction::new("transferred".to_owned());
                    Ok::<_, io::Error>(answer.items([debit]).on_condition_failed(refused))
                },
            );
        assert_eq!(answer.await?, "insufficient funds");
        Ok(())
    });
}

const EVENT: &str = r#"{"Records": [{
    "messageId": "m-1", "body": "{\"amount\": 1200}", "attributes": {}, "eventSource": "aws:sqs",
    "messageAttributes": {"Idempotency-Key": {"dataType": "String", "stringValue": "order-42"}}
}]}"#;

/// Runs an example with an SQS message about a payment of 1200.
///
/// # Panics
/// If the example fails.
#[track_caller]
pub fn with_message(
    handler: impl Fn(Message<SqsMessage>) -> ExampleResult + Send + Sync + 'static,
) {
    run(async |_, idempotency| {
        let event = LambdaEvent::new(EVENT.parse::<JsonEvent>()?, Context::default());
        let handler = move |message, _: Execution| ready(handler(message));
        let response = idempotency.sqs("payments").handler(handler)?.call(event).await?;
        assert!(response.batch_item_failures.is_empty(), "{response:?}");
        Ok(())
    });
}
