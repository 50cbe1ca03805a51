//! The payments API as a Lambda function: `IDEMPOTENCY_TABLE` and `PAYMENTS_TABLE` name its tables.

use std::sync::Arc;

use dynamodb_idempotency::{Idempotency, lambda};
use lambda_example::{PAYMENTS_SCOPE, Payments, TRANSFERS_SCOPE, service, write_logs};
use lambda_http::Error;

// One invocation at a time needs one thread. On Managed Instances, where several come at once, leave
// the flavor out.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    write_logs();
    let table = std::env::var("PAYMENTS_TABLE").unwrap_or_default();
    if table.is_empty() {
        return Err("set PAYMENTS_TABLE to the name of the payments table".into());
    }
    // Each call is a line, and the dashboard's share of replays is of all calls.
    let builder = Idempotency::builder_from_env().await?;
    let idempotency = builder.log_first_runs().build()?;
    // Called where the function starts from snapshots (SnapStart), and nowhere else.
    let snapshots = Arc::new(idempotency.snapshot_hooks());
    idempotency.preflight([PAYMENTS_SCOPE, TRANSFERS_SCOPE]).await?;
    let payments = Payments::new(idempotency.client().clone(), table);
    let runtime = lambda::runtime(service(&idempotency, payments)?)?;
    runtime.register_snapstart_resource(snapshots).run_concurrent().await
}
