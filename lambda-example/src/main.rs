//! The payments API as a Lambda function: `IDEMPOTENCY_TABLE` and `PAYMENTS_TABLE` name its tables.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use dynamodb_idempotency::{Idempotency, lambda};
use lambda_example::{Payments, service};
use lambda_http::{Error, tracing};

// One invocation at a time needs one thread.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tracing::init_default_subscriber();
    let table = std::env::var("PAYMENTS_TABLE").unwrap_or_default();
    if table.is_empty() {
        return Err("set PAYMENTS_TABLE to the name of the payments table".into());
    }
    let idempotency = Idempotency::from_env().await?;
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .operation_attempt_timeout(Duration::from_secs(2))
        .build();
    let config = aws_config::defaults(BehaviorVersion::latest()).timeout_config(timeouts);
    let payments = Payments::new(Client::new(&config.load().await), table);
    lambda::run(service(&idempotency, payments)).await
}
