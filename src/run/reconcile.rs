//! Runs the user's hook about an abandoned operation.

use std::future::Future;
use std::sync::Arc;

use crate::answer::Answer;
use crate::error::{Error, ErrorKind, RunError};
use crate::run::acquire::{AcquireResult, Acquirer};
use crate::run::call::CallContext;
use crate::run::core::Core;
use crate::run::hook::{Abandoned, HookResult, Reconciled, Settlement, Verdict};
use crate::signals::Ending;

/// The result of an acquisition in which a hook may have decided.
pub(crate) enum Acquired<T, E> {
    /// No hook finished the record: the result as without a hook.
    Unsettled(AcquireResult),
    /// The hook's answer is written.
    Completed(T),
    /// The hook's failure is written.
    Failed(E),
}

/// Converts a hook's answer and its failure to their stored forms.
pub(crate) struct Codec<C, F> {
    pub(crate) completed: C,
    pub(crate) failed: F,
}

/// As [`acquire`](crate::run::acquire::acquire), and asks a hook about an abandoned operation. The hook's
/// own error ends the call with nothing written, as does the deadline.
pub(crate) async fn acquire<T, E, H, Fut, C, F>(
    core: &Arc<Core>,
    call: CallContext,
    ask: H,
    codec: Codec<C, F>,
) -> Result<Acquired<T, E>, RunError<E>>
where
    H: Fn(Abandoned) -> Fut,
    Fut: Future<Output = HookResult<T, E>>,
    C: Fn(&T) -> Answer,
    F: Fn(&E) -> Option<Answer>,
{
    let mut acquirer = Acquirer::new(core, &call, true)?;
    let found = acquirer.begin().await;
    let mut acquisition = acquirer.call().signal(found)?;
    let mut said = None;
    loop {
        acquisition = match (acquisition, said) {
            (AcquireResult::Reconcile(abandoned), _) => {
                let end = core.table.clock.now().plus(acquirer.time_left());
                let asked = core.table.clock.until(|| Some(end), ask(*abandoned));
                let word = match asked.await {
                    Some(Ok(word)) => word,
                    silent => {
                        acquirer.call().ended(Ending::ReconcileFailed);
                        return Err(match silent {
                            Some(Err(error)) => RunError::Handler(error),
                            Some(Ok(_)) | None => out_of_time().into(),
                        });
                    }
                };
                let verdict = match &word {
                    Reconciled::Completed(value) => {
                        Verdict::Settle(Settlement::Completed((codec.completed)(value)))
                    }
                    Reconciled::Failed(error) => {
                        Verdict::Settle(Settlement::Failed((codec.failed)(error)))
                    }
                    Reconciled::Execute => Verdict::Execute,
                    Reconciled::Refuse => Verdict::Refuse,
                };
                said = Some(word);
                let found = acquirer.resume(verdict).await;
                acquirer.call().signal(found)?
            }
            (AcquireResult::Reconciled, Some(Reconciled::Completed(value))) => {
                return Ok(Acquired::Completed(value));
            }
            (AcquireResult::Reconciled, Some(Reconciled::Failed(error))) => {
                return Ok(Acquired::Failed(error));
            }
            (other, _) => return Ok(Acquired::Unsettled(other)),
        };
    }
}

fn out_of_time() -> Error {
    let message = "the deadline came before the reconcile hook had an answer: nothing was written";
    Error::new(ErrorKind::DeadlineExceeded, message)
}
