//! Runs operations in one transaction, for every adapter.

use std::future::Future;
use std::sync::Arc;

use super::Transaction;
use super::once::{Caller, Fallback, TransactionResult, look_up};
use super::without_record::run_without_record;
use crate::answer::Answer;
use crate::error::{ConditionFailed, Error, InvalidTransaction};
use crate::run::acquire::AcquireResult;
use crate::run::call::CallContext;
use crate::run::core::Core;
use crate::run::refusal::failed;
use crate::run::runner::{Panicked, RunOutcome, Storage};
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

    fn answer(&self, value: &Self::Value) -> Result<Answer, InvalidTransaction>;
}

/// The outcome of an operation in one transaction.
pub(crate) enum TransactionOutcome<V, E> {
    Ended(RunOutcome<V, E>),
    /// Nothing was written, and there is no other answer.
    ConditionFailed(ConditionFailed),
    /// No transaction can have these items. Nothing was written.
    Invalid(InvalidTransaction),
}

impl<V, E> From<Error> for TransactionOutcome<V, E> {
    fn from(error: Error) -> Self {
        Self::Ended(RunOutcome::Refused(error))
    }
}

pub(crate) type RanTransaction<V, E> = Result<TransactionOutcome<V, E>, Panicked<V, E>>;

/// Writes the items of `build` and its answer, once for the key. `build` runs before the first request.
pub(crate) async fn run_transaction<A, E>(
    encoding: &A,
    core: &Arc<Core>,
    call: CallContext,
    build: impl Future<Output = Result<Transaction<A::Value>, E>>,
) -> RanTransaction<A::Value, E>
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
        Err(error) => return Ok(error.into()),
    };
    let writes = |transaction: &Transaction<A::Value>| {
        transaction.writes()
            && (!transaction.items.is_empty() || encoding.is_stored(&transaction.response))
    };
    match prepared {
        Ok(Ok(transaction)) if writes(&transaction) => {
            let mut panicked = None;
            let written = write(encoding, core, call, transaction, &mut panicked).await;
            let outcome = written.unwrap_or_else(Into::into);
            let Some(panic) = panicked else { return Ok(outcome) };
            encoding.panicked(&panic);
            let instead = match outcome {
                TransactionOutcome::Ended(outcome) => Some(outcome),
                TransactionOutcome::ConditionFailed(_) | TransactionOutcome::Invalid(_) => None,
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
                Ok(found) => found.map(run_outcome),
                Err(error) => Some(RunOutcome::Refused(error)),
            };
            let outcome = match prepared {
                Ok(Ok(prepared)) => RunOutcome::Returned(prepared.response, Storage::NotStored),
                Ok(Err(error)) => RunOutcome::Failed(error),
                Err(panic) => return Err(Panicked { panic, instead: found }),
            };
            Ok(TransactionOutcome::Ended(found.unwrap_or(outcome)))
        }
    }
}

/// The outcome of a call that has met a record. A look-up never acquires.
fn run_outcome<V, E>(found: AcquireResult) -> RunOutcome<V, E> {
    match RunOutcome::of(found) {
        Err(outcome) => outcome,
        Ok(_) => RunOutcome::Refused(failed()),
    }
}

/// `panicked` is a panic of `on_condition_failed`, which counts as no answer.
async fn write<A: TransactionEncoding, E>(
    encoding: &A,
    core: &Arc<Core>,
    call: CallContext,
    transaction: Transaction<A::Value>,
    panicked: &mut Option<Panic>,
) -> Result<TransactionOutcome<A::Value, E>, Error> {
    let Transaction { response, items, on_condition_failed, .. } = transaction;
    let answer = match encoding.answer(&response) {
        Ok(answer) => answer,
        Err(invalid) => return Ok(TransactionOutcome::Invalid(invalid)),
    };
    let mut caller = Caller::of_items(core, &call)?;
    let mut other = None;
    let done = match caller.transact(answer, items).await {
        Ok(TransactionResult::ConditionFailed(failed)) => {
            let answer = on_condition_failed.map(|answer| user_code::call(|| answer(&failed)));
            match answer.transpose() {
                Ok(answer) => other = answer.flatten(),
                Err(panic) => *panicked = Some(panic),
            }
            let instead = other.as_ref().map(|answer| instead(encoding, answer));
            caller.end(failed, instead).await
        }
        done => done,
    };
    caller.report(&done);
    let returned = |value, storage| TransactionOutcome::Ended(RunOutcome::Returned(value, storage));
    Ok(match (done?, other) {
        (TransactionResult::Executed, _) => returned(response, Storage::Stored),
        (TransactionResult::Fallback, Some(answer)) => returned(answer, Storage::Stored),
        (TransactionResult::FallbackUnstored, Some(answer)) => returned(answer, Storage::NotStored),
        (TransactionResult::Found(found), _) => TransactionOutcome::Ended(run_outcome(found)),
        (TransactionResult::ConditionFailed(failed), _) => {
            TransactionOutcome::ConditionFailed(failed)
        }
        (TransactionResult::Invalid(invalid), _) => TransactionOutcome::Invalid(invalid),
        // Unreachable: only a call with a fallback answer has these results.
        (TransactionResult::Fallback | TransactionResult::FallbackUnstored, None) => {
            failed().into()
        }
    })
}

/// The caller's answer for a condition that failed.
fn instead<A: TransactionEncoding>(encoding: &A, answer: &A::Value) -> Fallback {
    if !encoding.is_stored(answer) {
        return Fallback::Unstored;
    }
    match encoding.answer(answer) {
        Ok(answer) => Fallback::Stored(answer),
        Err(invalid) => Fallback::Invalid(invalid),
    }
}
