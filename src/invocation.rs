//! What Lambda sends with an event.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::error::{Error, ErrorKind};

/// A variable with an environment's number of concurrent invocations. Lambda Managed Instances set it.
const MAX_CONCURRENCY: &str = "AWS_LAMBDA_MAX_CONCURRENCY";

/// The largest response that the Runtime API accepts, in bytes of JSON: "Exceeded maximum allowed payload
/// size (6291556 bytes)". Lambda's quotas call it 6 MB.
pub(crate) const MAX_RESPONSE_BYTES: usize = 6_291_556;

/// Rejects a concurrency that is not a number, which `lambda_runtime` would treat as 1. Warns if
/// concurrent invocations would have to wait for each other on this runtime.
pub(crate) fn check_concurrency() -> Result<(), Error> {
    let concurrency = concurrency(std::env::var(MAX_CONCURRENCY).ok().as_deref())?;
    if has_one_thread_for(concurrency) {
        tracing::warn!(
            concurrency,
            "invocations that come at once share one thread: give the function a multi-thread runtime"
        );
    }
    Ok(())
}

/// Whether there are concurrent invocations, and this runtime has only one thread.
fn has_one_thread_for(concurrency: u32) -> bool {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    concurrency > 1 && matches!(flavor, Ok(RuntimeFlavor::CurrentThread))
}

fn concurrency(variable: Option<&str>) -> Result<u32, Error> {
    let Some(text) = variable else { return Ok(1) };
    text.parse().map_err(|source| {
        let message = format!(
            "{MAX_CONCURRENCY} is {text:?}, which is not a number of invocations: leave it to Lambda, \
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

    #[tokio::test]
    async fn one_thread_is_too_few_for_invocations_that_come_at_once() {
        assert_eq!([1, 2, 8].map(has_one_thread_for), [false, true, true]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn several_threads_are_enough_for_them() {
        assert!(!has_one_thread_for(8));
    }
}
