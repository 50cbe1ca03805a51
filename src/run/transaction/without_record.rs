//! Commits and transactions of calls that store no record: only the items are written.

use std::future::Future;

use aws_sdk_dynamodb::types::TransactWriteItem;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{Transaction, items};
use crate::error::Error;
use crate::protocol::{Over, Tries};
use crate::run::call::{CallContext, End};
use crate::run::completion::Storage;
use crate::run::core::Core;
use crate::run::errors::commit_unknown;
use crate::run::execution::Execution;
use crate::run::runner::RunOutcome;
use crate::run::user_code;
use crate::signals::Ending;
use crate::store::WriteResult;
use crate::store::record::random_owner;

impl Core {
    /// Writes items until DynamoDB answers or the time is over. One token makes all tries one transaction.
    /// But there is no record whose condition rejects a delayed try. So once a try has no answer, the
    /// result is success or `OutcomeUnknown`. Boxed, as [`acquire`](crate::run::caller::acquire) is.
    fn write_items<'a>(
        &'a self,
        call: &'a CallContext,
        mut all: Vec<TransactWriteItem>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let clock = &self.table.clock;
        let end = clock.lasting(call.policy.completion_timeout);
        let mut tries = Tries::until(call.answer_by().map_or(end, |by| by.min(end)));
        let writing = async move {
            items::check(&mut all)?;
            if all.is_empty() {
                return Ok(());
            }
            let token = random_owner()?.to_string();
            let mut in_doubt = false;
            loop {
                let limit = tries.limit(clock.moment());
                let sent = self.table.transact_items(None, (&all, &token), limit).await;
                in_doubt |= sent.is_in_doubt;
                let (error, may_try_again) = match sent.outcome {
                    WriteResult::Applied => return Ok(()),
                    WriteResult::ItemsRejected(error) if !in_doubt => return Err(error),
                    // Unknown: an earlier try may have been applied, and a new transaction could be the second.
                    WriteResult::ItemsRejected(_)
                    | WriteResult::Rejected(_)
                    | WriteResult::TokenUsed(_) => return Err(commit_unknown()),
                    WriteResult::NotApplied(error) | WriteResult::Invalid(error) => {
                        let may_try_again = error.is_retryable();
                        (error, may_try_again)
                    }
                    WriteResult::Conflict(error) | WriteResult::Unknown(error) => (error, true),
                };
                if may_try_again && clock.wait(&mut tries).await {
                    continue;
                }
                if !in_doubt {
                    return Err(error);
                }
                tracing::error!(
                    table = self.table.name, %error,
                    "a transaction was not confirmed in time: it has happened as a whole or not at all"
                );
                return Err(commit_unknown());
            }
        };
        writing.boxed()
    }
}

impl Execution {
    /// Commits the items of a call without a record.
    pub(super) async fn commit_items(&self, items: Vec<TransactWriteItem>) -> Result<(), Error> {
        let (core, call) = (&self.inner.core, &self.inner.call);
        let written = core.write_items(call, items).await;
        let over = match &written {
            Ok(()) => Some(Over::Committed),
            Err(error) if error.is_outcome_unknown() => Some(Over::Unknown),
            Err(_) => None,
        };
        self.tenure().items_ended(over);
        written
    }
}

/// Runs a transaction of a call without a record. Its answer is not stored.
pub(super) async fn run_without_record<V, E>(
    core: &Core,
    call: CallContext,
    build: impl Future<Output = Result<Transaction<V>, E>>,
) -> RunOutcome<V, E> {
    let outcome = match user_code::run(build).await {
        Ok(Ok(transaction)) => {
            let written = write_transaction(core, &call, transaction).await;
            written.unwrap_or_else(RunOutcome::from)
        }
        Ok(Err(error)) => RunOutcome::Failed(error),
        Err(panic) => RunOutcome::Panicked(panic, None),
    };
    let ending = match &outcome {
        RunOutcome::Ended(End::NoAnswer(error)) => Ending::of_error(error),
        RunOutcome::Returned(..) => Ending::UNPROTECTED,
        RunOutcome::Failed(_) | RunOutcome::Panicked(..) | RunOutcome::Ended(_) => {
            Ending::NOT_WRITTEN
        }
    };
    call.ended(ending, None);
    outcome
}

async fn write_transaction<V, E>(
    core: &Core,
    call: &CallContext,
    transaction: Transaction<V>,
) -> Result<RunOutcome<V, E>, Error> {
    let Transaction { response, items, on_condition_failed, .. } = transaction;
    let returned = |value| Ok(RunOutcome::Returned(value, Storage::Unprotected));
    let written = core.write_items(call, items).await;
    let Err(error) = written else { return returned(response) };
    let Some(failed) = error.condition_failed() else { return Err(error) };
    let answered = on_condition_failed.map(|answer| user_code::call(|| answer(failed)));
    match answered.transpose() {
        Ok(Some(Some(answer))) => returned(answer),
        Ok(Some(None) | None) => Err(error),
        Err(panic) => Ok(RunOutcome::Panicked(panic, None)),
    }
}
