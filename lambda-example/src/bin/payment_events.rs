//! The consumer of payment events as a Lambda function, behind an SQS queue whose event source
//! mapping has `ReportBatchItemFailures`: `IDEMPOTENCY_TABLE` and `LEDGER_TABLE` name its tables.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use dynamodb_idempotency::Idempotency;
use lambda_example::{Ledger, book, payment_events};
use lambda_http::{Error, lambda_runtime, tracing};

// One invocation at a time needs one thread.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tracing::init_default_subscriber();
    let table = std::env::var("LEDGER_TABLE").unwrap_or_default();
    if table.is_empty() {
        return Err("set LEDGER_TABLE to the name of the ledger's table".into());
    }
    let idempotency = Idempotency::from_env().await?;
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .operation_attempt_timeout(Duration::from_secs(2))
        .build();
    let config = aws_config::defaults(BehaviorVersion::latest()).timeout_config(timeouts);
    let ledger = Ledger::new(Client::new(&config.load().await), table);
    let consumer = payment_events(&idempotency);
    let service =
        consumer.handler(move |message, execution| book(ledger.clone(), message, execution));
    lambda_runtime::run(service).await
}
