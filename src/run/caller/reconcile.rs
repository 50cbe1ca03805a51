//! A hook resolves an abandoned operation.

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{Caller, Progress};
use crate::error::{Error, ErrorKind};
use crate::protocol::{Goal, Resolution};
use crate::run::call::CallContext;
use crate::run::core::Core;
use crate::run::execution::Execution;
use crate::run::hook::{Abandoned, HookResult, Reconciled, Resolved};
use crate::run::runner::RunOutcome;
use crate::signals::Ending;
use crate::store::record::steps_bytes;

impl Caller<'_> {
    /// Acquires the key. Boxed, as [`acquire`](super::acquire) is.
    fn begin(&mut self) -> BoxFuture<'_, Result<Progress, Error>> {
        let beginning = async {
            let progress = self.start().await;
            self.signaled(progress)
        };
        beginning.boxed()
    }

    /// Continues after [`Progress::Abandoned`] with the hook's resolution.
    fn resolve(&mut self, resolved: Resolved) -> BoxFuture<'_, Result<Progress, Error>> {
        let steps = self.session.last.as_ref().and_then(|record| record.steps.as_ref());
        let steps_bytes = steps.map_or(0, steps_bytes);
        let resolution = match resolved {
            Reconciled::Completed(_) => Resolution::Completed,
            Reconciled::Failed(_) => Resolution::Failed,
            Reconciled::Execute => Resolution::Execute,
            Reconciled::Refuse => Resolution::Refuse,
        };
        self.body.resolve(resolved, steps_bytes);
        let resolving = async move {
            let command = self.machine.resolved(self.core.table.clock.moment(), resolution);
            let progress = self.proceed(command).await;
            self.signaled(progress)
        };
        resolving.boxed()
    }
}

/// Acquires the key, as [`acquire`](super::acquire) does, and runs a hook about an abandoned operation.
/// `resolved` is the stored form of the hook's resolution. The hook's own error ends the call with nothing
/// written, as does the deadline.
pub(crate) async fn acquire_with_hook<T, E, Fut>(
    core: &Arc<Core>,
    call: CallContext,
    hook: impl Fn(Abandoned) -> Fut,
    resolved: impl Fn(&Reconciled<T, E>) -> Resolved,
) -> Result<Execution, RunOutcome<T, E>>
where
    Fut: Future<Output = HookResult<T, E>>,
{
    let mut caller = Caller::new(core, &call, Goal::Own, true)?;
    let mut progress = caller.begin().await;
    let mut reconciled = None;
    while let Ok(Progress::Abandoned(abandoned)) = progress {
        // The answer is returned before the deadline.
        let end = core.table.clock.now().plus(core.time_until(call.answer_by()));
        let returned = core.table.clock.until(|| Some(end), hook(*abandoned)).await;
        let Some(Ok(resolution)) = returned else {
            call.ended(Ending::ReconcileFailed);
            return Err(match returned {
                Some(Err(error)) => RunOutcome::Failed(error),
                Some(Ok(_)) | None => out_of_time().into(),
            });
        };
        progress = caller.resolve(resolved(&resolution)).await;
        reconciled = Some(resolution);
    }
    match (progress, reconciled) {
        (Ok(Progress::Written), Some(Reconciled::Completed(value))) => {
            Err(RunOutcome::Reconciled(value))
        }
        (Ok(Progress::Written), Some(Reconciled::Failed(error))) => Err(RunOutcome::Failed(error)),
        (progress, _) => RunOutcome::of(progress),
    }
}

fn out_of_time() -> Error {
    let message = "the deadline came before the reconcile hook had an answer: nothing was written";
    Error::new(ErrorKind::DeadlineExceeded, message)
}
