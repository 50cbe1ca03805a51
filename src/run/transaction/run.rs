//! Runs operations in one transaction, for every adapter.

use std::future::Future;
use std::sync::Arc;

use super::Transaction;
use super::without_record::run_without_record;
use crate::answer::Answer;
use crate::error::Error;
use crate::run::call::CallContext;
use crate::run::caller::{Caller, Progress, look_up};
use crate::run::completion::Storage;
use crate::run::core::Core;
use crate::run::errors::failed;
use crate::run::runner::{Panicked, Ran, RunOutcome};
use crate::run::user_code::{self, Panic};

/// How an adapter's answers are stored by a transaction.
pub(crate) trait TransactionEncoding {
    /// What a transaction answers with.
    type Value;
    /// Whether a call whose closure has panicked still gets the answer of an earlier call.
    const ANSWERS_PANICS: bool;

    /// The closure has panicked.
    fn panicked(&self, _: &Panic) {}

    /// Whether the value is stored for repeats.
    fn is_stored(&self, value: &Self::Value) -> bool;

    fn answer(&self, value: &Self::Value) -> Result<Answer, Error>;
}

/// Writes the items of `build` and its answer, once for the key. `build` runs before the first request.
pub(crate) async fn run_transaction<A, E>(
    encoding: &A,
    core: &Arc<Core>,
    call: CallContext,
    build: impl Future<Output = Result<Transaction<A::Value>, E>>,
) -> Ran<A::Value, E>
where
    A: TransactionEncoding,
{
    if !call.has_record {
        let ran = run_without_record(core, call, build).await;
        if let Err(Panicked { panic, .. }) = &ran {
            encoding.panicked(panic);
        }
        return ran;
    }
    let building = user_code::run(build);
    let prepared = match call.prepare(&core.table.clock, building).await {
        Ok(prepared) => prepared,
        Err(error) => return Ok(RunOutcome::NoAnswer(error)),
    };
    let writes = |transaction: &Transaction<A::Value>| {
        transaction.writes()
            && (!transaction.items.is_empty() || encoding.is_stored(&transaction.response))
    };
    match prepared {
        Ok(Ok(transaction)) if writes(&transaction) => {
            let mut panicked = None;
            let written = write(encoding, core, call, transaction, &mut panicked).await;
            let outcome = written.unwrap_or_else(RunOutcome::NoAnswer);
            let Some(panic) = panicked else { return Ok(outcome) };
            encoding.panicked(&panic);
            let instead = match outcome {
                RunOutcome::NoAnswer(error) if error.condition_failed().is_some() => None,
                outcome => Some(outcome),
            };
            Err(Panicked { panic, instead })
        }
        Err(panic) if !A::ANSWERS_PANICS => Err(panic.into()),
        // A repeat of a completed operation gets the stored answer, whatever was prepared now.
        prepared => {
            if let Err(panic) = &prepared {
                encoding.panicked(panic);
            }
            let found = match look_up(core, call).await {
                Ok(Progress::NothingWritten) => None,
                progress => Some(found(progress)),
            };
            let outcome = match prepared {
                Ok(Ok(prepared)) => RunOutcome::Returned(prepared.response, Storage::NotStored),
                Ok(Err(error)) => RunOutcome::Failed(error),
                Err(panic) => return Err(Panicked { panic, instead: found }),
            };
            Ok(found.unwrap_or(outcome))
        }
    }
}

/// The outcome of a call that an earlier call has answered, or that is rejected.
fn found<V, E>(progress: Result<Progress, Error>) -> RunOutcome<V, E> {
    RunOutcome::of(progress).map_or_else(|outcome| outcome, |_| RunOutcome::NoAnswer(failed()))
}

/// `panicked` is a panic of `on_condition_failed`, which counts as no answer.
async fn write<A: TransactionEncoding, E>(
    encoding: &A,
    core: &Arc<Core>,
    call: CallContext,
    transaction: Transaction<A::Value>,
    panicked: &mut Option<Panic>,
) -> Result<RunOutcome<A::Value, E>, Error> {
    let Transaction { response, items, mut on_condition_failed, .. } = transaction;
    let answer = encoding.answer(&response)?;
    let mut caller = Caller::of_transaction(core, &call)?;
    let mut progress = caller.transact(answer, items).await;
    // The answer without items that was sent last, and the outcome if nothing is written.
    let (mut other, mut unwritten) = (None, None);
    while let Ok(Progress::ItemsRejected(error)) = progress {
        let answer = match (error.condition_failed(), on_condition_failed.take()) {
            (Some(failed), Some(answer)) => {
                user_code::call(|| answer(failed)).unwrap_or_else(|panic| {
                    *panicked = Some(panic);
                    None
                })
            }
            _ => None,
        };
        unwritten = Some(match answer {
            Some(answer) if encoding.is_stored(&answer) => match encoding.answer(&answer) {
                Ok(stored) => {
                    other = Some(answer);
                    progress = caller.answer_without_items(stored).await;
                    continue;
                }
                Err(invalid) => RunOutcome::NoAnswer(invalid),
            },
            Some(answer) => RunOutcome::Returned(answer, Storage::NotStored),
            None => RunOutcome::NoAnswer(error),
        });
        other = None;
        progress = caller.no_answer().await;
    }
    Ok(match (progress, unwritten) {
        (Ok(Progress::Written), _) => {
            RunOutcome::Returned(other.unwrap_or(response), Storage::Stored)
        }
        (Ok(Progress::NothingWritten), Some(outcome)) => outcome,
        (progress, _) => found(progress),
    })
}
