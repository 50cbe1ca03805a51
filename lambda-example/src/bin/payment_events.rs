//! The consumer of payment events as a Lambda function, behind an SQS queue whose event source
//! mapping has `ReportBatchItemFailures`: `IDEMPOTENCY_TABLE` and `LEDGER_TABLE` name its tables.

use dynamodb_idempotency::{Idempotency, event};
use lambda_example::{Ledger, PAYMENT_EVENTS_SCOPE, book, payment_events, write_logs};
use lambda_http::Error;

// One invocation at a time needs one thread. On Managed Instances, where several come at once, leave
// the flavor out.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    write_logs();
    let table = std::env::var("LEDGER_TABLE").unwrap_or_default();
    if table.is_empty() {
        return Err("set LEDGER_TABLE to the name of the ledger's table".into());
    }
    // Each call is a line, and the dashboard's share of replays is of all calls.
    let builder = Idempotency::builder_from_env().await?;
    let idempotency = builder.log_first_runs().build()?;
    idempotency.preflight([PAYMENT_EVENTS_SCOPE]).await?;
    let ledger = Ledger::new(idempotency.client().clone(), table);
    let consumer = payment_events(&idempotency);
    let service =
        consumer.handler(move |message, execution| book(ledger.clone(), message, execution))?;
    event::run_concurrent(service).await
}
