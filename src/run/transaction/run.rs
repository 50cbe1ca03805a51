//! Runs operations in one transaction, for every adapter.

use std::future::Future;
use std::sync::Arc;

use super::Transaction;
use super::without_record::run_without_record;
use crate::answer::Answer;
use crate::error::Error;
use crate::protocol::Goal;
use crate::run::call::{CallContext, End};
use crate::run::caller::{Caller, Progress, Step};
use crate::run::completion::Storage;
use crate::run::core::Core;
use crate::run::errors::abandoned;
use crate::run::runner::RunOutcome;
use crate::run::user_code::{self, Panic};

/// How an adapter's answers are stored by a transaction.
pub(crate) trait TransactionEncoding<V> {
    /// The closure has panicked. Returns whether the call still gets the answer of an earlier call.
    fn panicked(&self, _: &Panic) -> bool {
        false
    }

    /// Whether the value is stored for repeats.
    fn is_stored(&self, value: &V) -> bool;

    fn answer(&self, value: &V) -> Result<Answer, Error>;
}

/// Writes the items of `build` and its answer, once for the key. `build` runs before the first request.
pub(crate) async fn run_transaction<V, E>(
    encoding: &impl TransactionEncoding<V>,
    core: &Arc<Core>,
    call: CallContext,
    build: impl Future<Output = Result<Transaction<V>, E>>,
) -> RunOutcome<V, E> {
    let checked = call.stores_answers("a transaction");
    if let Err(error) = checked.and_then(|()| call.policy.validate_transaction()) {
        return error.into();
    }
    if !call.has_record {
        let outcome = run_without_record(core, call, build).await;
        if let RunOutcome::Panicked(panic, _) = &outcome {
            encoding.panicked(panic);
        }
        return outcome;
    }
    let writes = |transaction: &Transaction<V>| {
        transaction.writes()
            && (!transaction.items.is_empty() || encoding.is_stored(&transaction.response))
    };
    let outcome = match call.prepare(&core.table.clock, user_code::run(build)).await {
        Err(error) => return error.into(),
        Ok(Ok(Ok(transaction))) if writes(&transaction) => {
            let written = write(encoding, core, call, transaction).await;
            return written.unwrap_or_else(RunOutcome::Ended);
        }
        Ok(Ok(Ok(transaction))) => RunOutcome::Returned(transaction.response, Storage::NotStored),
        Ok(Ok(Err(error))) => RunOutcome::Failed(error),
        Ok(Err(panic)) if encoding.panicked(&panic) => RunOutcome::Panicked(panic, None),
        Ok(Err(panic)) => return RunOutcome::Panicked(panic, None),
    };
    // A repeat of a completed operation gets the stored answer, whatever the closure returned now.
    let found = match Caller::new(core, &call, Goal::LookUp, false) {
        Ok(mut caller) => caller.advance(Step::Start).await,
        Err(error) => Err(error.into()),
    };
    match found {
        Ok(_) => outcome,
        Err(end) => outcome.replaced(end),
    }
}

async fn write<V, E>(
    encoding: &impl TransactionEncoding<V>,
    core: &Arc<Core>,
    call: CallContext,
    transaction: Transaction<V>,
) -> Result<RunOutcome<V, E>, End> {
    let Transaction { response, items, mut on_condition_failed, .. } = transaction;
    let answer = encoding.answer(&response)?;
    let mut caller = Caller::new(core, &call, Goal::Transact, false)?;
    let mut progress = caller.advance(Step::Transact(answer, items)).await;
    // The answer without items that was sent last, the outcome if nothing is written, and a panic of
    // `on_condition_failed`, which counts as no answer.
    let (mut other, mut unwritten, mut panicked) = (None, None, None);
    while let Ok(Progress::ItemsRejected(error)) = progress {
        let answer = match (error.condition_failed(), on_condition_failed.take()) {
            (Some(failed), Some(answer)) => {
                user_code::call(|| answer(failed)).unwrap_or_else(|panic| {
                    panicked = Some(panic);
                    None
                })
            }
            _ => None,
        };
        unwritten = Some(match answer {
            Some(answer) if encoding.is_stored(&answer) => match encoding.answer(&answer) {
                Ok(stored) => {
                    other = Some(answer);
                    progress = caller.advance(Step::Instead(Some(stored))).await;
                    continue;
                }
                Err(invalid) => invalid.into(),
            },
            Some(answer) => RunOutcome::Returned(answer, Storage::NotStored),
            None => error.into(),
        });
        other = None;
        progress = caller.advance(Step::Instead(None)).await;
    }
    let outcome = match (progress, unwritten) {
        (Err(end), _) => end.into(),
        (Ok(Progress::Written), _) => {
            let stored = Storage::Stored(caller.stored_until());
            RunOutcome::Returned(other.unwrap_or(response), stored)
        }
        (Ok(Progress::NothingWritten), Some(outcome)) => outcome,
        (
            Ok(
                Progress::NothingWritten
                | Progress::Acquired(_)
                | Progress::Abandoned(_)
                | Progress::ItemsRejected(_),
            ),
            _,
        ) => abandoned().into(),
    };
    let Some(panic) = panicked else { return Ok(outcome) };
    encoding.panicked(&panic);
    Ok(after_panic(panic, outcome))
}

/// The outcome of a call whose `on_condition_failed` panicked. A failed condition is then the panic alone.
fn after_panic<V, E>(panic: Panic, outcome: RunOutcome<V, E>) -> RunOutcome<V, E> {
    let is_unwritten = matches!(
        &outcome,
        RunOutcome::Ended(End::NoAnswer(error)) if error.condition_failed().is_some()
    );
    RunOutcome::Panicked(panic, (!is_unwritten).then(|| Box::new(outcome)))
}
