//! Running a service of events, several invocations at once where the environment asks for it.

use std::fmt::Debug;

use lambda_runtime::{Diagnostic, LambdaEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Handle, RuntimeFlavor};
use tower_service::Service;

use crate::error::{Error, ErrorKind};

/// Set by Lambda Managed Instances: how many invocations one environment gets at once.
const MAX_CONCURRENCY: &str = "AWS_LAMBDA_MAX_CONCURRENCY";

/// Runs a service of events on Lambda, as `lambda_runtime::run_concurrent` does: as many invocations
/// at once as `AWS_LAMBDA_MAX_CONCURRENCY` says, which Lambda Managed Instances set, and one after the
/// other where it is unset or 1. So one binary serves both.
///
/// Takes what [`Idempotency::event`](crate::Idempotency::event) and the consumers of
/// [`messages`](crate::messages) make. Each invocation has its own deadline. Give it a multi-thread
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
/// [`ErrorKind::Configuration`] where `AWS_LAMBDA_MAX_CONCURRENCY` is no number; and when the Lambda
/// Runtime API cannot be reached.
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

/// Refuses a concurrency that is no number, which `lambda_runtime` would take for 1; and warns of a
/// runtime on which the invocations that come at once have to wait for each other.
pub(crate) fn check_concurrency() -> Result<(), Error> {
    let concurrency = concurrency(std::env::var(MAX_CONCURRENCY).ok().as_deref())?;
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    if concurrency > 1 && matches!(flavor, Ok(RuntimeFlavor::CurrentThread)) {
        tracing::warn!(
            concurrency,
            "invocations that come at once share one thread: give the function a multi-thread runtime"
        );
    }
    Ok(())
}

fn concurrency(variable: Option<&str>) -> Result<u32, Error> {
    let Some(text) = variable else { return Ok(1) };
    text.parse().map_err(|source| {
        let message = format!(
            "{MAX_CONCURRENCY} is {text:?}, which is no number of invocations: leave it to Lambda, \
             or set it to 1 or more"
        );
        Error::new(ErrorKind::Configuration, message).with_source(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_concurrency_is_a_number_or_not_there() {
        assert_eq!(concurrency(None).unwrap(), 1);
        assert_eq!(concurrency(Some("8")).unwrap(), 8);
        for wrong in ["", "many", "-1", "1.5"] {
            let error = concurrency(Some(wrong)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            let message = error.to_string();
            assert!(
                message.contains(MAX_CONCURRENCY) && message.contains("set it to 1"),
                "{message}"
            );
        }
    }
}
