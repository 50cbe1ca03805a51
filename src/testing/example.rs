//! What the documentation's examples stand on.

use std::error::Error;

use super::Sandbox;
use crate::idempotency::Idempotency;

/// Runs an example on a sandbox of its own. Not part of the API.
///
/// # Panics
/// If the example fails.
#[track_caller]
pub fn example<E>(example: E)
where
    E: AsyncFnOnce(Sandbox, Idempotency) -> Result<(), Box<dyn Error + Send + Sync>>,
{
    let run = async {
        let sandbox = Sandbox::start().await?;
        let idempotency = sandbox.idempotency();
        example(sandbox, idempotency).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run));
    assert!(ended.is_ok(), "{ended:?}");
}
