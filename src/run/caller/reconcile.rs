//! A hook resolves an abandoned operation.

use std::future::Future;
use std::sync::Arc;

use super::{Caller, Progress, Step};
use crate::error::{Error, ErrorKind};
use crate::policy::Completed;
use crate::protocol::{Goal, Resolution};
use crate::run::call::{CallContext, End};
use crate::run::completion::Storage;
use crate::run::core::Core;
use crate::run::errors::abandoned;
use crate::run::execution::Execution;
use crate::run::hook::{Abandoned, HookResult, Reconciled, Resolved};
use crate::run::runner::RunOutcome;
use crate::signals::Ending;

impl Caller<'_> {
    pub(super) async fn resolve(&mut self, resolved: Resolved) -> Result<Progress, End> {
        let resolution = match resolved {
            Reconciled::Completed(_) => Resolution::Completed,
            Reconciled::Commit { .. } => Resolution::Committed,
            Reconciled::Failed(_) => Resolution::Failed,
            Reconciled::Execute => Resolution::Execute,
            Reconciled::Refuse => Resolution::Refuse,
        };
        self.session.resolve(resolved);
        let command = self.machine.resolved(self.core.table.clock.moment(), resolution);
        self.proceed(command).await
    }
}

/// Acquires the key, as [`acquire`](super::acquire) does, and runs a hook if the operation is abandoned.
/// `resolved` converts the hook's resolution to its stored form. After an error of the hook, or the
/// deadline, the call ends and nothing is written.
pub(crate) async fn acquire_with_hook<T, E, Fut>(
    core: &Arc<Core>,
    call: CallContext,
    hook: impl Fn(Abandoned) -> Fut,
    resolved: impl Fn(&Reconciled<T, E>) -> Resolved,
) -> Result<Execution, RunOutcome<T, E>>
where
    Fut: Future<Output = HookResult<T, E>>,
{
    if call.policy.completed == Completed::Release {
        return Err(hook_without_answers().into());
    }
    let mut caller = Caller::new(core, &call, Goal::Own, true)?;
    let (mut step, mut reconciled) = (Step::Start, None);
    loop {
        let abandoned = match (caller.advance(step).await?, reconciled) {
            (Progress::Acquired(execution), _) => return Ok(execution),
            (Progress::Abandoned(abandoned), _) => abandoned,
            (
                Progress::Written,
                Some(Reconciled::Completed(value) | Reconciled::Commit { answer: value, .. }),
            ) => {
                let stored = Storage::Reconciled(caller.stored_until());
                return Err(RunOutcome::Returned(value, stored));
            }
            (Progress::Written, Some(Reconciled::Failed(error))) => {
                return Err(RunOutcome::Failed(error));
            }
            (Progress::Written | Progress::ItemsRejected(_) | Progress::NothingWritten, _) => {
                return Err(abandoned().into());
            }
        };
        // The hook ends before the deadline, so that its answer still reaches the caller in time.
        let end = core.table.clock.now().plus(core.time_until(call.answer_by()));
        let returned = core.table.clock.until(|| Some(end), hook(*abandoned)).await;
        let Some(Ok(resolution)) = returned else {
            call.ended(Ending::RECONCILE_FAILED, None);
            return Err(match returned {
                Some(Err(error)) => RunOutcome::Failed(error),
                Some(Ok(_)) | None => out_of_time().into(),
            });
        };
        step = Step::Resolve(resolved(&resolution));
        reconciled = Some(resolution);
    }
}

/// A hook finds the answer of an abandoned operation, and there is none.
pub(crate) fn hook_without_answers() -> Error {
    let message = "a reconcile hook and Completed::Release contradict each other: a hook's answer would be \
                   stored, and Completed::Release stores none. Remove one of them";
    Error::new(ErrorKind::Configuration, message)
}

fn out_of_time() -> Error {
    let message = "the deadline came before the reconcile hook had an answer: nothing was written";
    Error::new(ErrorKind::DeadlineExceeded, message)
}
