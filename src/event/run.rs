//! Running a service of events, several invocations at once where the environment asks for it.

use std::fmt::Debug;

use lambda_runtime::{Diagnostic, LambdaEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower_service::Service;

use crate::invocation::check_concurrency;

/// Runs a service of events on Lambda, as `lambda_runtime::run_concurrent` does: as many
/// invocations at once as `AWS_LAMBDA_MAX_CONCURRENCY` says, which Lambda Managed Instances set,
/// and one after the other if it is unset or 1. So one binary serves both.
///
/// It runs the services of [`Idempotency::event`](crate::Idempotency::event) and of the consumers
/// of [`messages`](crate::messages). Each invocation has its own deadline. Use a multi-thread
/// runtime (`#[tokio::main]`): invocations that share one thread wait for each other, and a warning
/// says so.
///
/// ```no_run
/// use dynamodb_idempotency::{Execution, Idempotency, event};
/// use lambda_runtime::{Error, LambdaEvent};
///
/// async fn import(event: LambdaEvent<String>, _: Execution) -> Result<usize, Error> {
///     Ok(event.payload.len()) // your business here
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), Error> {
///     let idempotency = Idempotency::from_env().await?;
///     let key_of = |file: &String| file.clone();
///     event::run_concurrent(idempotency.event("import", key_of, import)).await
/// }
/// ```
///
/// # Errors
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if `AWS_LAMBDA_MAX_CONCURRENCY` is
/// not a number; and if the Lambda Runtime API cannot be reached.
///
/// # Panics
/// As `lambda_runtime::run_concurrent`: outside Lambda, where the runtime's environment variables are
/// missing.
pub async fn run_concurrent<S, P>(service: S) -> Result<(), lambda_runtime::Error>
where
    S: Service<LambdaEvent<P>> + Clone + Send + 'static,
    S::Response: Serialize + Send + 'static,
    S::Error: Into<Diagnostic> + Debug,
    S::Future: Send + 'static,
    P: DeserializeOwned + Send + 'static,
{
    check_concurrency()?;
    lambda_runtime::run_concurrent(service).await
}
