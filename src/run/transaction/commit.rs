//! The commit of a running operation: its answer and its effect in one transaction.
//!
//! DynamoDB applies at most one of the commits, the release and the kept failure of an owner, because of
//! their conditions. No owner sends both a release and a completion.

use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;

use super::commits::{commit_unknown, nothing_committed, other_commit};
use super::{items, json};
use crate::answer::{Answer, Stored};
use crate::error::{Error, ErrorKind};
use crate::protocol::{
    Command, Condition, FinishResult, NoCommit, Outcome, ReadResult, Tries, Write,
};
use crate::run::completion::Overruled;
use crate::run::driver::{EmptyBody, Session, WriteBody};
use crate::run::errors::lease_lost;
use crate::run::execution::Execution;
use crate::signals::Ending;

/// A commit about to be sent.
pub(crate) struct Commit {
    /// The caller's answer: the stored one and, in HTTP, what is sent only once.
    pub(crate) answer: Answer,
    /// What repeats get.
    pub(crate) stored: Answer,
    pub(crate) items: Vec<TransactWriteItem>,
}

/// The answer and the items of a commit.
struct CommitBody<'a> {
    execution: &'a Execution,
    response: Stored,
    items: &'a [TransactWriteItem],
    /// The condition of the transaction that was sent last. With another end of the lease it is another
    /// transaction, which needs another token.
    condition: Option<Condition>,
}

impl WriteBody for CommitBody<'_> {
    async fn response(
        &mut self,
        write: &Write,
        _: Duration,
    ) -> Result<Option<AttributeValue>, Error> {
        // The write that resolves the commit has no answer.
        Ok(write.record.is_completed().then(|| self.response.attribute()))
    }

    fn items(&self) -> &[TransactWriteItem] {
        self.items
    }

    fn token_used(&mut self) {
        self.execution.inner.commits.tokens.fetch_add(1, Ordering::Relaxed);
    }

    fn token(&mut self, write: &Write) -> String {
        let tokens = &self.execution.inner.commits.tokens;
        if self.condition.as_ref() != Some(&write.condition) {
            tokens.fetch_add(1, Ordering::Relaxed);
            self.condition = Some(write.condition.clone());
        }
        let number = tokens.load(Ordering::Relaxed);
        items::token(self.execution.inner.own_record.owner, number)
    }
}

impl Execution {
    /// Whether a commit of this execution may still be applied.
    pub(crate) fn has_commit_in_doubt(&self) -> bool {
        self.finish().has_commit_in_doubt()
    }

    /// Writes `items` and the completed record with `response` as its answer, in one transaction:
    /// all of it, once, or nothing. Then the operation is complete, and this is its answer whatever
    /// the handler returns. [`run`](crate::Call::run) returns it as its own type.
    ///
    /// The items are your own writes and condition checks, at most
    /// [`MAX_TRANSACTION_ITEMS`](crate::MAX_TRANSACTION_ITEMS), on any tables of the account and
    /// region. The commit succeeds only while this execution owns its record: not after another one
    /// has taken over, but even after the lease has expired if no other call has taken over.
    ///
    /// Conflicts with other transactions, throttling and lost responses are tried again, for
    /// [`Policy::completion_timeout`](crate::Policy::completion_timeout) and within the deadline.
    /// If DynamoDB does not confirm by then, one more write moves the end of the lease by a
    /// millisecond, so that the commit can no longer be applied. The handler keeps the key and may
    /// commit again. A commit whose future is dropped half-way is resolved when the handler returns.
    ///
    /// The answer is stored in the record, compressed, and the record has at most 400 KB. Store a
    /// reference instead of a larger answer.
    ///
    /// HTTP handlers use [`commit_response`](Self::commit_response).
    ///
    /// ```
    /// use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
    /// use dynamodb_idempotency::{Error, Execution};
    ///
    /// async fn book(execution: Execution, payment: Put) -> Result<String, Error> {
    ///     let row = TransactWriteItem::builder().put(payment).build();
    ///     let receipt = "re_1".to_owned();
    ///     execution.commit(&receipt, [row]).await?;
    ///     Ok(receipt)
    /// }
    /// ```
    ///
    /// # Errors
    /// After [`ErrorKind::ConditionFailed`] (see [`Error::condition_failed`]),
    /// [`ErrorKind::InvalidTransaction`], [`ErrorKind::Unavailable`] and [`ErrorKind::Configuration`] (a
    /// table or a permission is missing) nothing was written, and the execution continues: the handler
    /// may commit something else or answer without a commit. `Unavailable` means that, until the time
    /// was over, other transactions held the items, DynamoDB throttled or did not confirm, or the future
    /// of another commit of this execution was not polled.
    ///
    /// After other kinds the execution has ended, and the handler's return value is not stored:
    /// [`ErrorKind::AlreadyCommitted`], [`ErrorKind::LeaseLost`], [`ErrorKind::NothingCommitted`],
    /// [`ErrorKind::OutcomeUnknown`], and [`ErrorKind::InvalidUse`] if the handler had returned. Only
    /// `OutcomeUnknown` leaves open whether the items were written.
    pub async fn commit<T: Serialize + ?Sized>(
        &self,
        response: &T,
        items: impl IntoIterator<Item = TransactWriteItem>,
    ) -> Result<(), Error> {
        let answer = Answer::Json(json(response)?.into());
        let commit = Commit { stored: answer.clone(), answer, items: items.into_iter().collect() };
        self.commit_answer(commit).await
    }

    /// Boxed, as [`acquire`](crate::run::caller::acquire) is.
    pub(crate) fn commit_answer(&self, commit: Commit) -> BoxFuture<'_, Result<(), Error>> {
        let body = async move {
            let committed = self.lock_and_commit(commit).await;
            if self.is_lease_lost() {
                self.inner.handler.wake();
                self.halt().await;
            }
            committed
        };
        body.boxed()
    }

    async fn lock_and_commit(&self, commit: Commit) -> Result<(), Error> {
        let inner = &self.inner;
        if matches!(commit.answer, Answer::Http(_)) != inner.call.answers.is_http {
            let message = "an HTTP handler commits by commit_response(), a function by commit()";
            return Err(Error::invalid_transaction(message));
        }
        let clock = &inner.core.table.clock;
        let Some(_lock) = clock.within(self.longest_commit(), inner.commit_lock.lock()).await
        else {
            self.finish().may_commit().map_err(no_commit)?;
            return Err(other_commit());
        };
        if !self.has_record() {
            return self.commit_items(commit).await;
        }
        let (table, now) = (&inner.core.table, inner.core.table.clock.moment());
        self.finish().may_commit().map_err(no_commit)?;
        let Commit { answer, stored, mut items, .. } = commit;
        let stored = inner.call.answers.stored(stored);
        let response = inner.core.place_answer(stored, self.place_in_record()).await?;
        let until = self.finish().tries_until(now);
        let (completed_at, expires_at) = self.finish().estimate(now);
        let (own_record, attribute) = (&inner.own_record, response.attribute());
        let bytes = own_record.completed_bytes(&table.schema, completed_at, expires_at, attribute);
        items::prepare(table, &own_record.key, bytes, &mut items)?;
        let mut body = CommitBody { execution: self, response, items: &items, condition: None };
        let now = table.clock.moment();
        inner.commits.begin(answer);
        let command = self.finish().commit(now, until);
        let mut session = self.session();
        let ended = session.drive(&mut &inner.finish, command, &mut body).await;
        self.committed(ended, &mut session)
    }

    /// The result of a commit. It waits for nothing, because a handler whose lease is lost is dropped
    /// at the next await.
    fn committed(&self, ended: FinishResult, session: &mut Session<'_>) -> Result<(), Error> {
        if let FinishResult::NothingWritten(_) | FinishResult::Unknown = ended {
            let error = session.take_error();
            let found = match ended {
                FinishResult::Unknown => "unknown",
                _ => "given up: nothing was written",
            };
            tracing::error!(
                operation = self.operation(), attempt = self.attempt(), %error, fate = found,
                "a commit was not confirmed in time"
            );
        }
        match ended {
            FinishResult::Stored => Ok(()),
            FinishResult::NotCommitted(_)
            | FinishResult::FailureWritten
            | FinishResult::Unconfirmed => {
                Err(session.items_error.take().unwrap_or_else(|| session.take_error()))
            }
            FinishResult::Committed
            | FinishResult::LeaseLost
            | FinishResult::NothingWritten(_)
            | FinishResult::Unknown => Err(already_ended(ended)),
        }
    }

    /// The handler has returned. Returns the outcome of its commits, if they have ended the operation.
    /// A commit whose future was dropped is resolved first.
    pub(crate) async fn close(&self) -> Option<Overruled> {
        let outcome = self.lock_and_close().await;
        if let Some(outcome) = &outcome {
            self.note_outcome(outcome);
        }
        outcome
    }

    async fn lock_and_close(&self) -> Option<Overruled> {
        let clock = &self.inner.core.table.clock;
        let Some(_lock) = clock.within(self.longest_commit(), self.inner.commit_lock.lock()).await
        else {
            return Some(Overruled::Unknown(commit_unknown()));
        };
        let command = self.finish().close(clock.moment(), self.failure_write());
        // Boxed: most executions have no commit to resolve.
        Box::pin(self.conclude(command?)).await
    }

    /// Resolves a commit whose future was dropped.
    async fn conclude(&self, command: Command<FinishResult>) -> Option<Overruled> {
        let mut session = self.session();
        let ended = session.drive(&mut &self.inner.finish, command, &mut EmptyBody).await;
        self.outcome(ended, &mut session).await
    }

    /// The handler was stopped because its lease expired. Returns the outcome of its commits, if they have
    /// ended the operation.
    pub(crate) fn expire(&self) -> BoxFuture<'_, Option<Overruled>> {
        self.lock_and_expire().boxed()
    }

    async fn lock_and_expire(&self) -> Option<Overruled> {
        self.ended_as(Ending::LeaseExpired);
        let clock = &self.inner.core.table.clock;
        let _lock = clock.within(self.longest_commit(), self.inner.commit_lock.lock()).await?;
        let command = self.finish().expire(clock.moment());
        let outcome = self.conclude(command?).await?;
        match outcome {
            Overruled::Committed(_) | Overruled::LeaseLost(_) => {
                self.note_outcome(&outcome);
                Some(outcome)
            }
            Overruled::NothingCommitted | Overruled::Unknown(_) => None,
        }
    }

    /// The longest time that a commit in another task takes: for its tries, as long again to resolve a doubt,
    /// and for a read of the record. A commit whose future is not polled never ends.
    fn longest_commit(&self) -> Duration {
        let table = &self.inner.core.table;
        let tries = self.tries().limit(table.clock.moment()).saturating_mul(2);
        tries.saturating_add(table.request_timeout)
    }

    /// The tries of a write or read of this execution that begins now.
    pub(crate) fn tries(&self) -> Tries {
        Tries::until(self.finish().tries_until(self.inner.core.table.clock.moment()))
    }

    fn note_outcome(&self, outcome: &Overruled) {
        match outcome {
            Overruled::Committed(_) => self.succeeded(),
            Overruled::LeaseLost(_) => self.ended_as(Ending::LeaseLost),
            Overruled::NothingCommitted => self.ended_as(Ending::Failed),
            Overruled::Unknown(_) => self.ended_as(Ending::Unconfirmed),
        }
    }

    /// How the commits ended the operation.
    async fn outcome(&self, ended: FinishResult, session: &mut Session<'_>) -> Option<Overruled> {
        match ended {
            FinishResult::Stored | FinishResult::Committed => {
                let sent = self.inner.commits.applied().filter(|_| ended == FinishResult::Stored);
                let answer = if let Some(answer) = sent {
                    answer
                } else {
                    self.read_record(session).await;
                    self.own_answer(session).await
                };
                Some(Overruled::Committed(answer))
            }
            FinishResult::LeaseLost => {
                self.read_record(session).await;
                Some(Overruled::LeaseLost(self.answer_of_other_owner(session).await))
            }
            FinishResult::NothingWritten(_) => Some(Overruled::NothingCommitted),
            FinishResult::Unknown => Some(Overruled::Unknown(commit_unknown())),
            FinishResult::FailureWritten
            | FinishResult::NotCommitted(_)
            | FinishResult::Unconfirmed => None,
        }
    }

    /// Reads the record, unless a response has shown it: the commit that ended the operation may have
    /// been another one than this session's.
    async fn read_record(&self, session: &mut Session<'_>) {
        let (clock, mut tries) = (&self.inner.core.table.clock, self.tries());
        while session.last.is_none() {
            let reply = session.read(true, tries.limit(clock.moment())).await;
            if matches!(reply.outcome, Outcome::Read(ReadResult::Found(_)))
                || !clock.wait(&mut tries).await
            {
                return;
            }
        }
    }
}

/// Why a commit is not begun.
pub(super) fn no_commit(reason: NoCommit) -> Error {
    match reason {
        NoCommit::Over(ended) => already_ended(ended),
        NoCommit::Closed => {
            let message = "the handler has returned: nothing can be committed";
            Error::new(ErrorKind::InvalidUse, message)
        }
    }
}

/// The error of a commit whose operation is over, and not because this commit was applied.
fn already_ended(ended: FinishResult) -> Error {
    match ended {
        FinishResult::Stored | FinishResult::Committed => {
            Error::new(ErrorKind::AlreadyCommitted, "this execution has committed before")
        }
        FinishResult::LeaseLost => lease_lost(),
        FinishResult::NothingWritten(_)
        | FinishResult::FailureWritten
        | FinishResult::NotCommitted(_) => nothing_committed(),
        FinishResult::Unknown | FinishResult::Unconfirmed => commit_unknown(),
    }
}
