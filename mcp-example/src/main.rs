//! The server over standard input and output. It stores its records in an embedded DynamoDB, or in the
//! table that `IDEMPOTENCY_TABLE` names.
//!
//! ```text
//! cargo run -p mcp-example
//! ```

use std::error::Error;

use dynamodb_idempotency::testing::Sandbox;
use dynamodb_idempotency::{Idempotency, TABLE_ENV};
use mcp_example::Shop;
use rmcp::{ServiceExt as _, transport};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (idempotency, _sandbox) = if std::env::var_os(TABLE_ENV).is_some() {
        (Idempotency::from_env().await?, None)
    } else {
        let sandbox = Sandbox::start().await?;
        (sandbox.idempotency(), Some(sandbox))
    };
    let server = Shop::new(idempotency).serve(transport::stdio()).await?;
    server.waiting().await?;
    Ok(())
}
