//! Runs a service of events, with several concurrent invocations if Lambda allows it.

use std::fmt::Debug;

use lambda_runtime::{Diagnostic, LambdaEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower_service::Service;

use crate::invocation::check_concurrency;

/// Runs a service of events on Lambda, with concurrent invocations if Lambda allows it.
///
/// The same as `lambda_runtime::run_concurrent`: `AWS_LAMBDA_MAX_CONCURRENCY`, which Lambda Managed
/// Instances set, is the number of concurrent invocations. If it is unset or 1, they run one after
/// the other, so the same binary serves both.
///
/// It runs the services of [`Idempotency::event`](crate::Idempotency::event) and of the consumers
/// of [`messages`](crate::messages). Each invocation has its own deadline. Use a multi-thread
/// runtime (`#[tokio::main]`): invocations on a single thread wait for each other, and the crate
/// logs a warning.
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
/// not a number. Also if the Lambda Runtime API cannot be reached.
///
/// # Panics
/// Outside Lambda, where the runtime's environment variables are missing, like
/// `lambda_runtime::run_concurrent`.
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
