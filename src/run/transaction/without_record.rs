//! Commits and transactions of a call without a record: the caller's items alone.

use std::future::Future;

use aws_sdk_dynamodb::types::TransactWriteItem;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::commit::{Commit, no_commit};
use super::commits::commit_unknown;
use super::{Transaction, items};
use crate::clock::Deadline;
use crate::error::Error;
use crate::protocol::{FinishResult, OwnerId, Tries};
use crate::run::call::CallContext;
use crate::run::completion::Storage;
use crate::run::core::Core;
use crate::run::execution::Execution;
use crate::run::runner::{Ran, RunOutcome};
use crate::run::user_code;
use crate::signals::Ending;
use crate::store::WriteResult;
use crate::store::record::random_owner;

impl Core {
    /// Writes items until DynamoDB answers or the time is over. One token makes all tries one transaction. No record
    /// keeps a delayed try from being applied, so after a try without an answer only success is certain: any
    /// other end is `OutcomeUnknown`. Boxed, as [`acquire`](crate::run::caller::acquire) is.
    fn write_items<'a>(
        &'a self,
        call: &'a CallContext,
        owner: OwnerId,
        items: Vec<TransactWriteItem>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let end = self.table.clock.lasting(call.policy.completion_timeout);
        let until = call.answer_by().map_or(end, |by| by.min(end));
        self.try_items(items, items::token(owner, 1), until).boxed()
    }

    async fn try_items(
        &self,
        mut all: Vec<TransactWriteItem>,
        token: String,
        until: Deadline,
    ) -> Result<(), Error> {
        items::check(&mut all)?;
        if all.is_empty() {
            return Ok(());
        }
        let (clock, mut tries, mut in_doubt) = (&self.table.clock, Tries::until(until), false);
        loop {
            let limit = tries.limit(clock.moment());
            let sent = self.table.transact_items(None, (&all, &token), limit).await;
            in_doubt |= sent.is_in_doubt;
            let (error, is_final) = match sent.outcome {
                WriteResult::Applied => return Ok(()),
                WriteResult::ItemsRejected(error) if !in_doubt => return Err(error),
                // Not sent again: with another token, the items could be applied twice.
                WriteResult::ItemsRejected(_)
                | WriteResult::Rejected(_)
                | WriteResult::TokenUsed(_) => return Err(commit_unknown()),
                WriteResult::NotApplied(error) | WriteResult::Invalid(error) => {
                    let is_final = !error.is_retryable();
                    (error, is_final)
                }
                WriteResult::Conflict(error) | WriteResult::Unknown(error) => (error, false),
            };
            if !is_final && clock.wait(&mut tries).await {
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
    }
}

impl Execution {
    /// Commits the items of a call without a record.
    pub(super) async fn commit_items(&self, commit: Commit) -> Result<(), Error> {
        let (core, call) = (&self.inner.core, &self.inner.call);
        // If this future is dropped, the items may have been written.
        self.finish().begin_items().map_err(no_commit)?;
        self.inner.commits.begin(commit.answer);
        let written = core.write_items(call, self.inner.own_record.owner, commit.items).await;
        let ended = match &written {
            Ok(()) => Some(FinishResult::Stored),
            Err(error) if error.is_outcome_unknown() => Some(FinishResult::Unknown),
            Err(_) => None,
        };
        self.finish().items_ended(ended);
        written
    }
}

/// Runs a transaction of a call without a record. Its answer is not stored.
pub(super) async fn run_without_record<V, E>(
    core: &Core,
    call: CallContext,
    build: impl Future<Output = Result<Transaction<V>, E>>,
) -> Ran<V, E> {
    let ran = match user_code::run(build).await {
        Ok(Ok(transaction)) => write_transaction(core, &call, transaction).await,
        Ok(Err(error)) => Ok(RunOutcome::Failed(error)),
        Err(panic) => Err(panic.into()),
    };
    call.ended(match &ran {
        Ok(RunOutcome::NoAnswer(error)) => Ending::of_error(error),
        Ok(RunOutcome::Returned(..)) => Ending::Unprotected,
        Ok(_) | Err(_) => Ending::NotWritten,
    });
    ran
}

async fn write_transaction<V, E>(
    core: &Core,
    call: &CallContext,
    transaction: Transaction<V>,
) -> Ran<V, E> {
    let Transaction { response, items, on_condition_failed, .. } = transaction;
    let owner = match random_owner() {
        Ok(owner) => owner,
        Err(error) => return Ok(RunOutcome::NoAnswer(error)),
    };
    let returned = |value| Ok(RunOutcome::Returned(value, Storage::Unprotected));
    let Err(error) = core.write_items(call, owner, items).await else { return returned(response) };
    let answer = on_condition_failed.zip(error.condition_failed());
    let answer = answer.map(|(answer, failed)| user_code::call(|| answer(failed)));
    match answer.transpose()?.flatten() {
        Some(answer) => returned(answer),
        None => Ok(RunOutcome::NoAnswer(error)),
    }
}
