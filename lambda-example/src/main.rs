//! The payments API as a Lambda function: `IDEMPOTENCY_TABLE` and `PAYMENTS_TABLE` name its tables.

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use dynamodb_idempotency::{Idempotency, lambda};
use lambda_example::{Payments, service};
use lambda_http::{Error, tracing};

// One invocation at a time needs one thread.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tracing::init_default_subscriber();
    let table = std::env::var("PAYMENTS_TABLE")
        .map_err(|_| "set PAYMENTS_TABLE to the name of the payments table")?;
    let config = aws_config::load_defaults(BehaviorVersion::latest()).await;
    let payments = Payments::new(Client::new(&config), table);
    let idempotency = Idempotency::from_env().await?;
    lambda::run(service(&idempotency, payments)).await
}
