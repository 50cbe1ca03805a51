//! The commit of a running operation: its answer and its effect in one transaction.
//!
//! DynamoDB applies at most one of the commits, the release and the kept failure of an owner, because of
//! their conditions. An owner never sends both a completion, which also accepts RELEASED, and a release.

use aws_sdk_dynamodb::types::TransactWriteItem;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::sync::MutexGuard;

use crate::answer::Answer;
use crate::call::context::End;
use crate::call::errors::{commit_unknown, lease_lost, nothing_committed};
use crate::call::execution::{Execution, Inner, LastCommit};
use crate::call::session::Session;
use crate::call::transaction::{items, json};
use crate::error::{Error, ErrorKind};
use crate::protocol::{Command, CommitEnd, NoCommit, Outcome, Over, ReadResult, TenureEnd, Tries};
use crate::signals::Ending;

/// A commit about to be sent.
pub(crate) struct Commit {
    /// What this caller gets. In HTTP this answer also has the headers that are never stored.
    pub(crate) answer: Answer,
    /// What repeats get.
    pub(crate) stored: Answer,
    pub(crate) items: Vec<TransactWriteItem>,
}

impl Execution {
    /// Writes `items` and the completed record with the answer `response`, in one transaction.
    ///
    /// DynamoDB applies all of it, once, or nothing. The commit completes the operation with this answer,
    /// whatever the handler returns. [`run`](crate::Call::run) deserializes the answer as its own type.
    ///
    /// The items are your own writes and condition checks, at most
    /// [`MAX_TRANSACTION_ITEMS`](crate::MAX_TRANSACTION_ITEMS), on any tables of the account and region. The
    /// commit succeeds only while this execution owns its record. If the lease has expired, a commit still
    /// succeeds until another call takes over.
    ///
    /// The crate retries after conflicts with other transactions, throttling and lost responses, for
    /// [`Policy::completion_timeout`](crate::Policy::completion_timeout) and within the deadline. If DynamoDB
    /// does not confirm the commit by then, one more write settles the doubt: the commit was applied, or no
    /// longer can be. In the second case the handler keeps the key, and can commit again. If the future of a
    /// commit is dropped half-way, the crate resolves the commit when the handler returns. The record has at
    /// most 400 KB, with the compressed answer. If an answer is larger, store a reference to it.
    ///
    /// HTTP handlers use [`commit_response`](Self::commit_response). With the feature `rows`, `rows::Table` builds
    /// items from your own types.
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
    /// table or a permission is missing), nothing was written, and the execution continues. The handler can
    /// commit something else, or answer without a commit. `Unavailable` means that the time was over. Until
    /// then, other transactions held the items, DynamoDB throttled or did not confirm, or another commit of
    /// this execution did not end.
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
        let answer = json(response)?;
        let items = items.into_iter().collect();
        self.commit_answer(Commit { stored: answer.clone(), answer, items }).await
    }

    /// Boxed, as [`acquire`](crate::call::acquiring::acquire) is.
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
        let Inner { core, call, tenure, .. } = &*self.inner;
        call.stores_answers("a commit")?;
        if self.has_record() && !self.is_protected() {
            // Like a transaction, it is also applied if there is no record.
            call.policy.validate_transaction()?;
        }
        if matches!(commit.stored, Answer::Http(_)) != call.answers.is_http {
            let message = "an HTTP handler commits by commit_response(), a function by commit()";
            return Err(Error::invalid_transaction(message));
        }
        let lock = self.lock_commits().await;
        let Some(mut last_commit) = lock else {
            self.tenure().may_commit().map_err(no_commit)?;
            return Err(other_commit());
        };
        let Commit { answer, stored, mut items } = commit;
        if !self.has_record() {
            // If this future is dropped, the items may have been written.
            self.tenure().begin_items().map_err(no_commit)?;
            *last_commit = Some(Box::new(LastCommit { answer, stored_until: None }));
            return self.commit_items(items).await;
        }
        let now = core.table.clock.moment();
        self.tenure().may_commit().map_err(no_commit)?;
        let (stored, record) = (call.answers.stored(stored), self.completed_meta());
        let (response, record_bytes) = core.place_answer(stored, call, &record, None).await?;
        let until = self.tenure().tries_until(now);
        items::prepare(&core.table, &call.key, record_bytes, &mut items)?;
        let mut session = self.session();
        (session.answer, session.items) = (Some(response), items);
        let last_commit = last_commit.insert(Box::new(LastCommit { answer, stored_until: None }));
        let command = self.tenure().commit(core.table.clock.moment(), until);
        let ended = session.drive(&mut &*tenure, command).await;
        last_commit.stored_until = session.stored_until();
        self.commit_result(ended.into(), &mut session)
    }

    /// Waits for a commit that runs in another task. A commit that is polled ends within the time of its
    /// tries, the same time again to resolve a doubt, and one request. `None` if it has not ended then.
    async fn lock_commits(&self) -> Option<MutexGuard<'_, Option<Box<LastCommit>>>> {
        let Inner { core, last_commit, .. } = &*self.inner;
        let table = &core.table;
        let tries = self.tries().limit(table.clock.moment()).saturating_mul(2);
        let longest = tries.saturating_add(table.request_timeout);
        table.clock.within(longest, last_commit.lock()).await
    }

    /// The result of a commit. Not async, so that the result is logged before the next await, where a
    /// handler whose lease is lost is dropped.
    fn commit_result(&self, ended: CommitEnd, session: &mut Session<'_>) -> Result<(), Error> {
        let (over, fate) = match ended {
            CommitEnd::Over(Over::Committed) => return Ok(()),
            CommitEnd::NotApplied(_) => {
                let items_error = session.items_error.take();
                return Err(items_error.unwrap_or_else(|| session.take_error()));
            }
            CommitEnd::Over(over @ (Over::CommittedEarlier | Over::LeaseLost)) => {
                return Err(already_over(over));
            }
            CommitEnd::Over(over @ Over::NotCommitted(_)) => {
                (over, "given up: nothing was written")
            }
            CommitEnd::Over(over @ Over::Unknown) => (over, "unknown"),
        };
        tracing::error!(
            operation = self.operation(), attempt = self.attempt(), error = %session.take_error(), fate,
            "a commit was not confirmed in time"
        );
        Err(already_over(over))
    }

    /// The handler has returned. Returns the outcome of its commits, if they have ended the operation.
    /// A commit whose future was dropped is resolved first.
    pub(crate) async fn close(&self) -> Option<End> {
        let Some(mut last_commit) = self.lock_commits().await else {
            self.ended_as(Ending::UNCONFIRMED);
            return Some(commit_unknown().into());
        };
        let command = self.tenure().close(self.inner.core.table.clock.moment());
        // Boxed: most executions have no commit to resolve.
        Some(Box::pin(self.conclude(command?, &mut last_commit)).await)
    }

    /// The handler was stopped because its lease expired. Returns the outcome of its commits, if they have
    /// ended the operation.
    pub(crate) fn expire(&self) -> BoxFuture<'_, Option<End>> {
        let expiring = async {
            self.ended_as(Ending::LEASE_EXPIRED);
            let mut last_commit = self.lock_commits().await?;
            let command = self.tenure().expire(self.inner.core.table.clock.moment());
            let end = self.conclude(command?, &mut last_commit).await;
            Some(end).filter(|end| match end {
                // The call ends with `LeaseExpired`, because it is unknown what else the handler has done.
                End::NoAnswer(error) if error.kind() != ErrorKind::LeaseLost => {
                    self.ended_as(Ending::LEASE_EXPIRED);
                    false
                }
                End::Committed(..)
                | End::Replayed(_)
                | End::FailureReplayed(_)
                | End::NoAnswer(_) => true,
            })
        };
        expiring.boxed()
    }

    /// How the commits have ended the operation. A commit whose future was dropped is resolved first.
    /// `last_commit` is the commit that was sent last.
    async fn conclude(
        &self,
        command: Command<TenureEnd>,
        last_commit: &mut Option<Box<LastCommit>>,
    ) -> End {
        let mut session = self.session();
        let over = Over::from(session.drive(&mut &self.inner.tenure, command).await);
        match over {
            Over::Committed | Over::CommittedEarlier => {
                self.succeeded();
                let sent = last_commit.take().filter(|_| over == Over::Committed);
                if let Some(sent) = sent {
                    let LastCommit { answer, stored_until } = *sent;
                    // A commit whose future was dropped was found by this session.
                    let stored_until = stored_until.or_else(|| session.stored_until());
                    return End::Committed(answer, stored_until);
                }
                self.read_record(&mut session).await;
                self.own_completion(&mut session).await
            }
            Over::LeaseLost => {
                self.read_record(&mut session).await;
                self.lost_lease(&mut session).await
            }
            Over::NotCommitted(_) => {
                self.ended_as(Ending::FAILED);
                nothing_committed().into()
            }
            Over::Unknown => {
                self.ended_as(Ending::UNCONFIRMED);
                commit_unknown().into()
            }
        }
    }

    /// Commits the items of a call without a record.
    async fn commit_items(&self, items: Vec<TransactWriteItem>) -> Result<(), Error> {
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

    /// The tries of a write or read of this execution that begins now.
    pub(crate) fn tries(&self) -> Tries {
        Tries::until(self.tries_until())
    }

    /// Reads the record if no response of this session has shown it, because a commit of another session
    /// ended the operation.
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

/// The error of a commit that has waited too long for another one.
fn other_commit() -> Error {
    let message = "another commit of this execution did not end in time, perhaps because its future is \
                   not polled: nothing of this commit was written. Await one commit before the next";
    Error::new(ErrorKind::Unavailable, message)
}

/// Why a commit is not begun.
fn no_commit(reason: NoCommit) -> Error {
    match reason {
        NoCommit::Over(over) => already_over(over),
        NoCommit::Closed => {
            let message = "the handler has returned: nothing can be committed";
            Error::new(ErrorKind::InvalidUse, message)
        }
    }
}

/// The error of a commit whose operation is over, but not by this commit.
fn already_over(over: Over) -> Error {
    match over {
        Over::Committed | Over::CommittedEarlier => {
            Error::new(ErrorKind::AlreadyCommitted, "this execution has committed before")
        }
        Over::LeaseLost => lease_lost(),
        Over::NotCommitted(_) => nothing_committed(),
        Over::Unknown => commit_unknown(),
    }
}
