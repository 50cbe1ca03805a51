//! The commit of a running operation: its answer and its effect in one transaction.
//!
//! Every write of an owner's asks for its own PENDING record, so of all that are under way (this
//! commit, an earlier one, a release, the completion) exactly one lands, whichever DynamoDB gets
//! first. What is told is what landed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;

use super::commits::{CommitOutcome, commit_unknown, given_up, other_commit};
use super::{items, json, token};
use crate::answer::{Answer, AnswerKind, Stored};
use crate::dynamodb::ItemsRefusal;
use crate::engine::driver::{Bare, Contents, Wire};
use crate::engine::execution::Execution;
use crate::engine::refusal::lease_lost;
use crate::error::{CommitError, Error, ErrorKind, InvalidTransaction};
use crate::protocol::{Command, Ended, NoCommit, Outcome, Tries, Write};
use crate::record;
use crate::signals::Ending;

/// A commit about to be sent.
pub(crate) struct Commit {
    pub(crate) kind: AnswerKind,
    /// What this execution's caller gets: the stored answer and, in HTTP, what goes out only once.
    pub(crate) answer: Answer,
    /// What repeats get.
    pub(crate) stored: Answer,
    pub(crate) items: Vec<TransactWriteItem>,
}

/// What a commit's write brings with it.
struct Committing<'a> {
    execution: &'a Execution,
    response: Stored,
    items: &'a [TransactWriteItem],
}

impl Contents for Committing<'_> {
    async fn response(
        &mut self,
        write: &Write,
        _: Duration,
    ) -> Result<Option<AttributeValue>, Error> {
        // Where the commit is given up instead, there is no answer.
        Ok(write.record.is_completed().then(|| self.response.attribute()))
    }

    fn items(&self) -> &[TransactWriteItem] {
        self.items
    }

    fn token_used(&mut self) {
        self.execution.inner.commits.tokens.fetch_add(1, Ordering::Relaxed);
    }

    fn token(&mut self, _: &Write) -> String {
        let number = self.execution.inner.commits.tokens.load(Ordering::Relaxed);
        token(self.execution.inner.claim.owner, number)
    }
}

impl Execution {
    /// Whether a commit of this execution may land yet.
    pub(crate) fn has_commit_in_doubt(&self) -> bool {
        self.end().has_commit_in_doubt()
    }

    /// Writes `items` and the completed record with `response` as its answer, in one transaction:
    /// all of it, once, or nothing. Then the operation is complete, and this is its answer whatever
    /// the handler returns. [`run`](crate::Call::run) returns it as its own type.
    ///
    /// The items are your own writes and condition checks, at most
    /// [`MAX_TRANSACTION_ITEMS`](crate::MAX_TRANSACTION_ITEMS), on any tables of the account and
    /// region. The commit succeeds only while this execution owns its record: not after another one
    /// has taken over, but even after the lease has run out if nobody has taken over.
    ///
    /// Conflicts with other transactions, throttling and lost responses are tried again, for
    /// [`Policy::completion_timeout`](crate::Policy::completion_timeout) and within the deadline.
    /// If DynamoDB does not confirm by then, the record is released or kept as FAILED instead, so
    /// that the commit cannot be applied any more. A commit whose future is dropped half-way is
    /// resolved in the same way when the handler returns.
    ///
    /// The answer is stored in the record, compressed, and the record has at most 400 KB. Store a
    /// reference instead of a larger answer.
    ///
    /// HTTP handlers use [`commit_response`](Self::commit_response).
    ///
    /// ```
    /// use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
    /// use dynamodb_idempotency::{CommitError, Execution};
    ///
    /// async fn book(execution: Execution, payment: Put) -> Result<String, CommitError> {
    ///     let row = TransactWriteItem::builder().put(payment).build();
    ///     let receipt = "re_1".to_owned();
    ///     execution.commit(&receipt, [row]).await?;
    ///     Ok(receipt)
    /// }
    /// ```
    ///
    /// # Errors
    /// See [`CommitError`]: a failed condition has the item that failed it.
    pub async fn commit<T: Serialize + ?Sized>(
        &self,
        response: &T,
        items: impl IntoIterator<Item = TransactWriteItem>,
    ) -> Result<(), CommitError> {
        let answer = Answer::Json(json(response)?.into());
        let commit = Commit {
            kind: AnswerKind::Function,
            stored: answer.clone(),
            answer,
            items: items.into_iter().collect(),
        };
        self.commit_answer(commit).await
    }

    /// Boxed, as [`acquire`](crate::engine::acquire::acquire) is.
    pub(crate) fn commit_answer(&self, commit: Commit) -> BoxFuture<'_, Result<(), CommitError>> {
        let committing = async move {
            let committed = self.commit_in_turn(commit).await;
            if self.is_lease_lost() {
                self.inner.handler.wake();
                self.halt().await;
            }
            committed
        };
        committing.boxed()
    }

    async fn commit_in_turn(&self, commit: Commit) -> Result<(), CommitError> {
        let inner = &self.inner;
        if commit.kind != inner.call.answers.kind {
            return Err(InvalidTransaction::WrongKindOfAnswer.into());
        }
        let clock = &inner.core.table.clock;
        let Some(_turn) = clock.within(self.longest_commit(), inner.turn.lock()).await else {
            self.end().may_commit().map_err(no_commit)?;
            return Err(CommitError::NotApplied(other_commit()));
        };
        if !self.has_record() {
            return self.commit_items(commit).await;
        }
        let (table, now) = (&inner.core.table, inner.core.table.clock.moment());
        self.end().may_commit().map_err(no_commit)?;
        let Commit { answer, stored, mut items, .. } = commit;
        let stored = inner.call.answers.stored(stored);
        let response = inner.core.place_answer(stored, self.place_in_record()).await?;
        let until = self.end().tries_until(now);
        let (completed_at, expires_at) = self.end().about(now);
        let record = record::completed_item(
            &table.schema,
            &inner.claim,
            completed_at,
            expires_at,
            response.attribute(),
        );
        items::prepare(table, &inner.claim.key, &record, &mut items)?;
        inner.commits.tokens.fetch_add(1, Ordering::Relaxed);
        let mut committing = Committing { execution: self, response, items: &items };
        let now = table.clock.moment();
        inner.commits.begin(answer);
        let command = self.end().commit(now, self.given_up(), until);
        let mut wire = self.wire();
        let ended = wire.drive(&mut &inner.end, command, &mut committing).await;
        self.committed(ended, &mut wire)
    }

    /// The result of a commit. It waits for nothing, because a handler whose lease is lost is dropped
    /// at the next await.
    fn committed(&self, ended: Ended, wire: &mut Wire<'_>) -> Result<(), CommitError> {
        if let Ended::NothingWritten(_) | Ended::Unknown = ended {
            let error = wire.take_error();
            let found = match ended {
                Ended::Unknown => "unknown",
                _ => "given up: nothing was written",
            };
            tracing::error!(
                operation = self.operation(), attempt = self.attempt(), %error, fate = found,
                "a commit was not confirmed in time"
            );
        }
        match ended {
            Ended::Stored => Ok(()),
            Ended::Reopened(_) | Ended::Left | Ended::Unconfirmed => {
                Err(match wire.refusal.take() {
                    Some(refusal) => refused(refusal),
                    None => CommitError::NotApplied(wire.take_error()),
                })
            }
            Ended::Landed | Ended::LeaseLost | Ended::NothingWritten(_) | Ended::Unknown => {
                Err(refusal(ended))
            }
        }
    }

    /// The handler has returned: what its commits have come to, if the operation is over by them.
    /// One that its caller has not waited for is put beyond doubt first.
    pub(crate) async fn close(&self) -> Option<CommitOutcome> {
        let outcome = self.close_in_turn().await;
        if let Some(outcome) = &outcome {
            self.note_outcome(outcome);
        }
        outcome
    }

    async fn close_in_turn(&self) -> Option<CommitOutcome> {
        let clock = &self.inner.core.table.clock;
        let Some(_turn) = clock.within(self.longest_commit(), self.inner.turn.lock()).await else {
            return Some(CommitOutcome::Unknown);
        };
        let command = self.end().close(clock.moment(), self.given_up());
        // Boxed: most executions have no commit to see to its end.
        Box::pin(self.conclude(command?)).await
    }

    /// Sees a commit to its end that nobody waits for.
    async fn conclude(&self, command: Command<Ended>) -> Option<CommitOutcome> {
        let mut wire = self.wire();
        let ended = wire.drive(&mut &self.inner.end, command, &mut Bare).await;
        self.outcome(ended, &mut wire).await
    }

    /// The handler was stopped, since its lease has ended: what its commits have come to, if the operation
    /// is over by them.
    pub(crate) fn expire(&self) -> BoxFuture<'_, Option<CommitOutcome>> {
        self.expire_in_turn().boxed()
    }

    async fn expire_in_turn(&self) -> Option<CommitOutcome> {
        self.ended_as(Ending::LeaseExpired);
        let clock = &self.inner.core.table.clock;
        let _turn = clock.within(self.longest_commit(), self.inner.turn.lock()).await?;
        let command = self.end().expire(clock.moment());
        let outcome = self.conclude(command?).await?;
        match outcome {
            CommitOutcome::Committed(_) | CommitOutcome::LeaseLost(_) => {
                self.note_outcome(&outcome);
                Some(outcome)
            }
            CommitOutcome::GivenUp | CommitOutcome::Unknown => None,
        }
    }

    /// A commit in another task ends in its time: that of its tries, as much again to put it beyond
    /// doubt, and a request to read what the record says. One that nobody drives never does.
    fn longest_commit(&self) -> Duration {
        let table = &self.inner.core.table;
        let tries = self.tries().limit(table.clock.moment()).saturating_mul(2);
        tries.saturating_add(table.request_timeout)
    }

    /// Of a write that belongs to the execution and does not end it.
    pub(crate) fn tries(&self) -> Tries {
        Tries::until(self.end().tries_until(self.inner.core.table.clock.moment()))
    }

    fn note_outcome(&self, outcome: &CommitOutcome) {
        match outcome {
            CommitOutcome::Committed(_) => self.succeeded(),
            CommitOutcome::LeaseLost(_) => self.ended_as(Ending::LeaseLost),
            CommitOutcome::GivenUp => self.ended_as(Ending::Failed),
            CommitOutcome::Unknown => self.ended_as(Ending::Unconfirmed),
        }
    }

    /// How the commits ended the operation.
    async fn outcome(&self, ended: Ended, wire: &mut Wire<'_>) -> Option<CommitOutcome> {
        match ended {
            Ended::Stored | Ended::Landed => {
                let sent = self.inner.commits.applied().filter(|_| ended == Ended::Stored);
                let answer = if let Some(answer) = sent {
                    answer
                } else {
                    self.read_record(wire).await;
                    self.own(wire).await
                };
                Some(CommitOutcome::Committed(answer))
            }
            Ended::LeaseLost => {
                self.read_record(wire).await;
                Some(CommitOutcome::LeaseLost(self.others(wire).await))
            }
            Ended::NothingWritten(_) => Some(CommitOutcome::GivenUp),
            Ended::Unknown => Some(CommitOutcome::Unknown),
            Ended::Left | Ended::Reopened(_) | Ended::Unconfirmed => None,
        }
    }

    /// Reads the record, unless a response has shown it: the commit that ended the operation may have
    /// been another one than this wire's.
    async fn read_record(&self, wire: &mut Wire<'_>) {
        let (clock, mut tries) = (&self.inner.core.table.clock, self.tries());
        while wire.last.is_none() {
            let reply = wire.read(true, tries.limit(clock.moment())).await;
            if matches!(reply.outcome, Outcome::Found(_)) || !clock.wait(&mut tries).await {
                return;
            }
        }
    }
}

/// Why a commit is not begun.
pub(super) fn no_commit(refused: NoCommit) -> CommitError {
    match refused {
        NoCommit::Over(ended) => refusal(ended),
        NoCommit::Closed => {
            let message = "the handler has returned: there is nothing to commit any more";
            CommitError::Ended(Error::new(ErrorKind::InvalidInput, message))
        }
    }
}

pub(super) fn refused(refusal: ItemsRefusal) -> CommitError {
    match refusal {
        ItemsRefusal::ConditionFailed(failed) => CommitError::ConditionFailed(failed),
        ItemsRefusal::Invalid(invalid) => CommitError::Invalid(invalid),
    }
}

/// What a commit gets that comes after the end, or has brought it about without being it.
fn refusal(ended: Ended) -> CommitError {
    match ended {
        Ended::Stored | Ended::Landed => CommitError::AlreadyCommitted,
        Ended::LeaseLost => CommitError::Ended(lease_lost()),
        Ended::NothingWritten(_) | Ended::Left | Ended::Reopened(_) => {
            CommitError::Ended(given_up())
        }
        Ended::Unknown | Ended::Unconfirmed => CommitError::Ended(commit_unknown()),
    }
}
