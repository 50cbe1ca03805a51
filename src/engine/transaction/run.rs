//! One runner for the operations of every adapter that are one transaction.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::once::{Instead, Once, look_up, once};
use super::{OnConditionFailed, Transaction};
use crate::answer::Draft;
use crate::engine::acquire::Acquisition;
use crate::engine::call::Call;
use crate::engine::core::Core;
use crate::engine::refusal::failed;
use crate::engine::runner::{Panic, Panicked, RunOutcome, Storage};
use crate::error::{ConditionFailed, Error, InvalidTransaction};

/// How an adapter's answers are stored by a transaction.
pub(crate) trait TransactionEncoding {
    /// What a transaction answers with.
    type Value;
    /// Whether a call whose transaction could not be prepared for a panic gets an answer all the same:
    /// that of an earlier one.
    const ANSWERS_PANICS: bool;

    /// The closure has panicked.
    fn panicked(&self, _: &Panic) {}

    /// Whether a value is one that repeats get.
    fn is_stored(&self, value: &Self::Value) -> bool;

    fn draft<'a>(&self, value: &'a Self::Value) -> Result<Draft<'a>, InvalidTransaction>;
}

/// What a transaction ends with.
pub(crate) enum TransactionOutcome<V, E> {
    Ended(RunOutcome<V, E>),
    /// Nothing was written, and there is no other answer.
    ConditionFailed(ConditionFailed),
    /// No transaction can be that: nothing was written.
    Invalid(InvalidTransaction),
}

impl<V, E> From<Error> for TransactionOutcome<V, E> {
    fn from(error: Error) -> Self {
        Self::Ended(RunOutcome::Refused(error))
    }
}

pub(crate) type RanTransaction<V, E> = Result<TransactionOutcome<V, E>, Panicked<V, E>>;

/// Writes what `build` gives and its answer, once for the key, or says why not. `build` runs before
/// DynamoDB is asked.
pub(crate) async fn run_transaction<A, E>(
    encoding: &A,
    core: &Arc<Core>,
    call: Call,
    build: impl Future<Output = Result<Transaction<A::Value>, E>>,
) -> RanTransaction<A::Value, E>
where
    A: TransactionEncoding,
{
    if let Err(error) = call.policy.validate(core.clock_tolerance) {
        return Ok(error.into());
    }
    let building = AssertUnwindSafe(build).catch_unwind();
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
            Ok(write(encoding, core, call, transaction).await.unwrap_or_else(Into::into))
        }
        Err(panic) if !A::ANSWERS_PANICS => Err(panic.into()),
        // Whoever repeats a completed operation gets its answer, whatever was prepared now.
        prepared => {
            if let Err(panic) = &prepared {
                encoding.panicked(panic);
            }
            let found = match look_up(core, call).await {
                Ok(found) => found.map(told),
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

/// What a call ends with that has met a record. A look never acquires.
fn told<V, E>(found: Acquisition) -> RunOutcome<V, E> {
    match RunOutcome::of(found) {
        Err(outcome) => outcome,
        Ok(_) => RunOutcome::Refused(failed()),
    }
}

async fn write<A: TransactionEncoding, E>(
    encoding: &A,
    core: &Arc<Core>,
    call: Call,
    transaction: Transaction<A::Value>,
) -> Result<TransactionOutcome<A::Value, E>, Error> {
    let Transaction { response, items, on_condition_failed, .. } = transaction;
    let draft = match encoding.draft(&response) {
        Ok(draft) => draft,
        Err(invalid) => return Ok(TransactionOutcome::Invalid(invalid)),
    };
    let storage = if core.table.is_disabled { Storage::Unprotected } else { Storage::Stored };
    let returned = |value, storage| TransactionOutcome::Ended(RunOutcome::Returned(value, storage));
    let instead = |failed: &_| instead(encoding, on_condition_failed, failed);
    let done = Box::pin(once(core, call, draft, items, instead)).await?;
    Ok(match done {
        Once::Executed => returned(response, storage),
        Once::Instead(answer) => returned(answer, storage),
        Once::InsteadUnstored(answer) => returned(answer, Storage::NotStored),
        Once::Found(found) => TransactionOutcome::Ended(told(found)),
        Once::ConditionFailed(failed) => TransactionOutcome::ConditionFailed(failed),
        Once::Invalid(invalid) => TransactionOutcome::Invalid(invalid),
    })
}

/// The answer for a condition that failed, if the caller has one.
fn instead<A: TransactionEncoding>(
    encoding: &A,
    on_condition_failed: Option<OnConditionFailed<A::Value>>,
    failed: &ConditionFailed,
) -> Option<Instead<A::Value>> {
    let answer = on_condition_failed.and_then(|answer| answer(failed))?;
    if !encoding.is_stored(&answer) {
        return Some(Instead::Unstored(answer));
    }
    let stored = encoding.draft(&answer).map(|draft| draft.to_answer());
    Some(match stored {
        Ok(stored) => Instead::Stored(answer, stored),
        Err(invalid) => Instead::Invalid(invalid),
    })
}
