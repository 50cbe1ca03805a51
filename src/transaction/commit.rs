//! The commit of a running operation: its answer and its effect in one transaction.
//!
//! Every write of an owner's asks for its own PENDING record, so of all that are under way (this
//! commit, an earlier one, a release, the completion) exactly one lands, whichever DynamoDB gets
//! first. What is told is what landed.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use serde::Serialize;
use tokio::sync::{Mutex, MutexGuard};

use super::preview::preview;
use super::reasons::{Refusal, Verdict, judge};
use super::{CommitError, ConditionFailed, InvalidTransaction, items, json, token};
use crate::clock::Timestamp;
use crate::completion::{Ended, Finished, Retries};
use crate::error::{Error, ErrorKind};
use crate::execution::Execution;
use crate::fault_injection::{Mutant, mutant};
use crate::record::{self, Item, Record, State};
use crate::refusal::lease_lost;
use crate::response::{Answer, AnswerKind, Draft, Packed};
use crate::signals::Ending;
use crate::table::{Guard, Sent, Transacted};

/// What the commits of one execution have come to.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// One commit at a time.
    ledger: Mutex<Ledger>,
    /// At least one was sent, and may be under way even if its caller was told of a refusal.
    sent: AtomicBool,
    /// One of them was never heard of, and may land as long as the record is PENDING.
    in_doubt: AtomicBool,
}

#[derive(Debug, Default)]
struct Ledger {
    stage: Stage,
    /// How many tokens were used.
    tokens: u32,
    /// Of the last commit; no two of an execution have the same, which tells which one landed.
    completed_at: Option<Timestamp>,
}

impl Ledger {
    fn next_completion(&self, now: Timestamp) -> Timestamp {
        self.completed_at.map_or(now, |last| now.max(last.shifted(1)))
    }
}

#[derive(Debug, Default)]
enum Stage {
    /// The handler has the word.
    #[default]
    Open,
    /// A commit was sent, and its caller has not waited for its end.
    InDoubt,
    /// The operation is over, whatever its handler returns.
    Over(Fate),
    /// Its handler has returned.
    Closed,
}

/// How an operation ended before its handler did.
#[derive(Debug)]
pub(crate) enum Fate {
    /// The effect and this answer are in the tables.
    Committed(Answer),
    /// Another owner has the key; with its answer, if it has completed. Nothing was written.
    LeaseLost(Option<Answer>),
    /// The record was given up. Nothing was written.
    GivenUp,
    /// The store was not heard of in time: all was written, or nothing.
    Unknown,
}

/// For a record that was given up.
pub(crate) fn given_up() -> Error {
    let message = "the commit could not be confirmed and was given up: nothing was written";
    Error::new(ErrorKind::Unavailable, message)
}

/// For a commit of which nobody knows.
pub(crate) fn commit_unknown() -> Error {
    let message = "the commit could not be confirmed: it has happened as a whole or not at all";
    Error::new(ErrorKind::OutcomeUnknown, message)
}

/// A commit about to be sent.
pub(crate) struct Commit<'a> {
    pub(crate) kind: AnswerKind,
    /// What this execution's caller gets: the stored answer and, in HTTP, what goes out only once.
    pub(crate) answer: Answer,
    pub(crate) stored: Draft<'a>,
    pub(crate) items: Vec<TransactWriteItem>,
}

impl Commits {
    pub(crate) fn were_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    /// When an operation is completed that ends now without a commit: at no commit's time.
    pub(crate) async fn next_completion(&self, now: Timestamp) -> Timestamp {
        if !self.were_sent() {
            return now;
        }
        self.ledger.lock().await.next_completion(now)
    }

    pub(crate) fn are_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }

    /// Nothing that a handler does now can be part of its operation. One that is under way is not
    /// counted: it may be refused.
    pub(crate) fn are_over(&self) -> bool {
        let ledger = self.ledger.try_lock();
        ledger.is_ok_and(|ledger| matches!(ledger.stage, Stage::Over(_) | Stage::Closed))
    }

    /// A commit was found to have landed after the handler had returned.
    pub(crate) async fn landed(&self, answer: Answer) {
        self.ledger.lock().await.stage = Stage::Over(Fate::Committed(answer));
    }

    /// The record could not be finished after the handler had returned: "nothing has happened" is
    /// not for sure if a try of a commit is in doubt.
    pub(crate) async fn unfinished(&self) {
        if self.are_in_doubt() {
            self.ledger.lock().await.stage = Stage::Over(Fate::Unknown);
        }
    }
}

impl Execution {
    /// Whether a commit of this execution may land yet, though its caller was told of a refusal.
    pub(crate) fn has_commit_in_doubt(&self) -> bool {
        self.inner.commits.are_in_doubt()
    }

    /// Writes `items` and the completed record with `response` as its answer, in one transaction:
    /// all of it, once, or nothing. Then the operation is complete, and this is its answer whatever
    /// the handler returns; [`run`](crate::Operation::run) gives it as its own type.
    ///
    /// The items are the business's own writes and condition checks, at most
    /// [`MAX_TRANSACTION_ITEMS`](crate::MAX_TRANSACTION_ITEMS), on any tables of the account and
    /// region. It lands only while this execution owns its record: not after another one has taken
    /// over, but after the lease has run out with nobody else there.
    ///
    /// Conflicts with other transactions, throttling and lost responses are tried again, as long as
    /// [`Policy::completion_timeout`](crate::Policy::completion_timeout) and the deadline allow. If
    /// DynamoDB does not confirm by then, the record is given up instead, so that the commit cannot
    /// land any more. A commit whose future is dropped half-way is looked after in the same way when
    /// the handler returns.
    ///
    /// HTTP handlers use [`commit_response`](Self::commit_response).
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
    /// # use dynamodb_idempotency::{CommitError, Execution};
    /// async fn book(execution: Execution, payment: Put) -> Result<String, CommitError> {
    ///     let row = TransactWriteItem::builder().put(payment).build();
    ///     let receipt = "re_1".to_owned();
    ///     execution.commit(&receipt, [row]).await?;
    ///     Ok(receipt)
    /// }
    /// ```
    ///
    /// # Errors
    /// See [`CommitError`]: a failed condition comes with the item that failed it.
    pub async fn commit<T: Serialize + ?Sized>(
        &self,
        response: &T,
        items: impl IntoIterator<Item = TransactWriteItem>,
    ) -> Result<(), CommitError> {
        let json = json(response)?;
        let commit = Commit {
            kind: AnswerKind::Function,
            stored: Draft::Json(Cow::Borrowed(&json)),
            answer: Answer::Json(json.clone()),
            items: items.into_iter().collect(),
        };
        self.commit_answer(commit).await
    }

    pub(crate) async fn commit_answer(&self, commit: Commit<'_>) -> Result<(), CommitError> {
        let committed = Box::pin(async { Attempt::begin(self, commit).await?.run().await }).await;
        if self.is_lease_lost() {
            self.halt().await;
        }
        committed
    }

    /// The handler has returned: what its commits have come to, if the operation is over by them.
    /// One that its caller has not waited for is put beyond doubt first.
    pub(crate) async fn close(&self) -> Option<Fate> {
        let fate = match self.close_stage().await {
            None => Some(Fate::Unknown),
            Some(Stage::Open | Stage::Closed) => None,
            Some(Stage::InDoubt) => Some(Box::pin(self.put_beyond_doubt(None)).await.fate),
            Some(Stage::Over(fate)) => Some(fate),
        };
        if let Some(fate) = &fate {
            self.note_fate(fate);
        }
        fate
    }

    /// The handler was stopped, since its lease has ended: what its commits have come to, if the operation
    /// is over by them. One that nobody has heard of is looked for, and no more: it may land as long as
    /// nobody has taken the record, and to give that up would let the operation run again at once,
    /// whatever else its handler had done.
    pub(crate) async fn expire(&self) -> Option<Fate> {
        self.came_to(Ending::LeaseExpired);
        let fate = match self.close_stage().await {
            None | Some(Stage::Open | Stage::Closed | Stage::Over(Fate::GivenUp)) => None,
            Some(Stage::InDoubt) => Box::pin(self.look_for_commit()).await,
            Some(Stage::Over(fate)) => Some(fate),
        };
        if let Some(fate) = &fate {
            self.note_fate(fate);
        }
        fate
    }

    /// From now on there is nothing to commit any more: where the commits stand. `None` if one is under way
    /// in another task, and does not end.
    async fn close_stage(&self) -> Option<Stage> {
        let clock = &self.inner.core.table.clock;
        // A commit in another task ends in its time: that of its tries, as much again to put it beyond
        // doubt, and a request to read what the record says. One that nobody drives never does.
        let tries = self.retries().limit().saturating_mul(2);
        let limit = tries.saturating_add(self.inner.core.table.request_timeout);
        let mut ledger = clock.within(limit, self.inner.commits.ledger.lock()).await?;
        Some(std::mem::replace(&mut ledger.stage, Stage::Closed))
    }

    fn note_fate(&self, fate: &Fate) {
        match fate {
            Fate::Committed(_) => self.succeeded(),
            Fate::LeaseLost(_) => self.came_to(Ending::LeaseLost),
            Fate::GivenUp => self.came_to(Ending::Failed),
            Fate::Unknown => self.came_to(Ending::Unconfirmed),
        }
    }

    async fn look_for_commit(&self) -> Option<Fate> {
        let (table, claim) = (&self.inner.core.table, &self.inner.claim);
        let item = table.get(&claim.key, self.retries().limit()).await.outcome.ok()??;
        match self.found(item, None).await?.fate {
            Fate::GivenUp | Fate::Unknown => None,
            fate @ (Fate::Committed(_) | Fate::LeaseLost(_)) => Some(fate),
        }
    }

    /// Finds out whether a commit has landed, and sees to it that none does any more.
    ///
    /// The kept failure and the commit exclude each other by their conditions: whichever DynamoDB gets
    /// first is refused by nobody, and the other is. An execution without a record has nothing to
    /// fail, and a commit of its can land wherever there is no record: it can only look.
    async fn put_beyond_doubt(&self, sent: Option<&Ours>) -> Found {
        if !self.is_protected() {
            let limit = self.retries().limit();
            let claim = &self.inner.claim;
            let found = match self.inner.core.table.get(&claim.key, limit).await.outcome {
                Ok(Some(item)) => self.found(item, sent).await,
                Ok(None) | Err(_) => None,
            };
            return found.map_or(Found::from(Fate::Unknown), Found::without_record);
        }
        if mutant(Mutant::DoubtLeftOpen) {
            return Fate::GivenUp.into();
        }
        match self.give_up().await {
            Ended::Applied | Ended::Refused(None) => Fate::GivenUp.into(),
            Ended::Refused(Some(item)) => {
                self.found(item, sent).await.unwrap_or_else(|| Fate::Unknown.into())
            }
            Ended::Unknown => Fate::Unknown.into(),
        }
    }

    /// What a record says that is not our own pending one; `None` if it is that after all.
    async fn found(&self, item: Item, sent: Option<&Ours>) -> Option<Found> {
        let schema = &self.inner.core.table.schema;
        let completed_at = record::completed_at(schema, &item);
        match Record::decode(schema, item.clone()) {
            Ok(record) if record.owner == self.inner.claim.owner => match record.state {
                State::Pending { .. } => None,
                State::Failed { .. } | State::Released => Some(Fate::GivenUp.into()),
                State::Completed { answer } => {
                    match sent.filter(|sent| completed_at == Some(sent.completed_at)) {
                        Some(sent) => {
                            let fate = Fate::Committed(sent.answer.clone());
                            Some(Found { fate, is_this: true })
                        }
                        None => Some(Fate::Committed(self.own(answer).await).into()),
                    }
                }
            },
            Ok(_) | Err(_) => {
                self.note_lost_lease();
                Some(Fate::LeaseLost(self.others(item).await).into())
            }
        }
    }
}

/// What a record says of the commits of an execution.
struct Found {
    fate: Fate,
    /// It holds the very commit that was asked about.
    is_this: bool,
}

impl From<Fate> for Found {
    fn from(fate: Fate) -> Self {
        Self { fate, is_this: false }
    }
}

impl Found {
    /// Where no record protects, another owner's is no proof that a commit cannot land later, unless
    /// it is completed.
    fn without_record(self) -> Self {
        match self.fate {
            Fate::LeaseLost(None) | Fate::GivenUp => Fate::Unknown.into(),
            Fate::Committed(_) | Fate::LeaseLost(Some(_)) | Fate::Unknown => self,
        }
    }
}

impl Fate {
    /// What a commit gets that comes after it.
    fn refusal(&self) -> CommitError {
        match self {
            Self::Committed(_) => CommitError::AlreadyCommitted,
            Self::LeaseLost(_) => CommitError::Ended(lease_lost()),
            Self::GivenUp => CommitError::Ended(given_up()),
            Self::Unknown => CommitError::Ended(commit_unknown()),
        }
    }
}

/// What tells this commit from others of its execution.
struct Ours {
    completed_at: Timestamp,
    answer: Answer,
}

/// One commit on its way.
struct Attempt<'a> {
    execution: &'a Execution,
    ledger: MutexGuard<'a, Ledger>,
    record: Item,
    /// The record's.
    attempt: u32,
    items: Vec<TransactWriteItem>,
    ours: Ours,
    in_doubt: bool,
    /// One time for the answer's parts and for all tries.
    retries: Retries<'a>,
}

/// What one try asks for.
enum Step {
    /// Once more, if there is time.
    Again(Error),
    Ended(Result<(), CommitError>),
}

impl<'a> Attempt<'a> {
    /// Takes the execution's turn and checks what is to be sent.
    async fn begin(execution: &'a Execution, commit: Commit<'_>) -> Result<Self, CommitError> {
        let inner = &execution.inner;
        if commit.kind != inner.answers.kind {
            return Err(InvalidTransaction::WrongKindOfAnswer.into());
        }
        let mut ledger = inner.commits.ledger.lock().await;
        let in_doubt = match &ledger.stage {
            Stage::Open => !execution.is_protected() && inner.commits.are_in_doubt(),
            Stage::InDoubt => true,
            Stage::Over(fate) => return Err(fate.refusal()),
            Stage::Closed => {
                let message = "the handler has returned: there is nothing to commit any more";
                return Err(CommitError::Ended(Error::new(ErrorKind::InvalidInput, message)));
            }
        };
        let table = &inner.core.table;
        let now = table.clock.store_now();
        let completed_at = ledger.next_completion(now);
        let changed = inner.answers.stored(&commit.stored);
        let stored = changed.as_ref().map_or(commit.stored, Answer::draft);
        let Packed { response, parts } = execution.pack(stored, completed_at)?;
        let expires_at = match parts {
            Some(_) => execution.parts_expire_at(completed_at),
            None => execution.expires_at(completed_at),
        };
        let mut record = execution
            .finished_item(inner.claim.attempt, Finished { completed_at, expires_at, response });
        let mut items = commit.items;
        let others = items::prepare(table, &inner.claim.key, &record, &mut items)?;
        let retries = execution.retries();
        // An earlier one may have landed, and then its effect is what the condition meets.
        if parts.is_some() && !inner.commits.were_sent() {
            let empty = AttributeValue::Null(true);
            let finished = Finished { completed_at, expires_at, response: empty };
            let probe = execution.finished_item(inner.claim.attempt, finished);
            let is_held = |found: Option<&Item>| found.is_some_and(|item| execution.holds(item));
            let limit = retries.limit() / 4;
            match preview(&inner.core, probe, &items, limit, is_held).await {
                Some(Refusal::ConditionFailed(failed)) => return Err(failed.into()),
                Some(Refusal::Invalid(invalid)) => return Err(invalid.into()),
                None => {}
            }
        }
        if let Some(parts) = parts
            && let Err(error) = execution.write_parts(&parts, expires_at, &retries).await
        {
            let whole = parts.in_record().map(|response| {
                execution.finished_item(
                    inner.claim.attempt,
                    Finished { completed_at, expires_at, response },
                )
            });
            match whole.filter(|whole| items::fit(whole, others).is_ok()) {
                Some(whole) => record = whole,
                None => return Err(CommitError::NotApplied(error)),
            }
        }
        ledger.completed_at = Some(completed_at);
        ledger.tokens += 1;
        let ours = Ours { completed_at, answer: commit.answer };
        let attempt = inner.claim.attempt;
        Ok(Self { execution, ledger, record, attempt, items, ours, in_doubt, retries })
    }

    async fn run(mut self) -> Result<(), CommitError> {
        // From here on a dropped future leaves a commit in doubt.
        self.ledger.stage = Stage::InDoubt;
        self.execution.inner.commits.sent.store(true, Ordering::Relaxed);
        if self.in_doubt {
            self.execution.inner.commits.in_doubt.store(true, Ordering::Relaxed);
        }
        loop {
            let error = match self.send(self.retries.limit()).await {
                Step::Ended(result) => return result,
                Step::Again(error) => error,
            };
            if !self.retries.wait().await {
                return self.out_of_time(error).await;
            }
        }
    }

    async fn send(&mut self, limit: Duration) -> Step {
        let inner = &self.execution.inner;
        let owner = &inner.claim.owner;
        let guard = if self.execution.is_protected() {
            Guard::Held(owner)
        } else {
            Guard::FreeOrHeld(owner, self.attempt)
        };
        let token = token(owner.as_str(), self.ledger.tokens);
        let sent =
            inner.core.table.transact(self.record.clone(), guard, &self.items, &token, limit);
        let Sent { outcome, in_doubt, .. } = sent.await;
        self.in_doubt |= in_doubt;
        if in_doubt {
            inner.commits.in_doubt.store(true, Ordering::Relaxed);
        }
        match outcome {
            Transacted::Applied => {
                let fate = Fate::Committed(self.ours.answer.clone());
                self.end(Found { fate, is_this: true })
            }
            Transacted::Canceled(reasons) => match judge(reasons) {
                Verdict::Record(item) => self.refused(item, limit).await,
                Verdict::ConditionFailed(failed) => self.reopen(failed.into()),
                Verdict::Invalid(invalid) => self.reopen(invalid.into()),
                Verdict::Retry(error) => Step::Again(error),
            },
            Transacted::TokenUsed(error) => {
                // The record's condition keeps it from landing twice, whatever its token.
                self.ledger.tokens += 1;
                Step::Again(error)
            }
            Transacted::Invalid(message) => {
                self.reopen(InvalidTransaction::Refused { index: None, message }.into())
            }
            Transacted::NotApplied(error)
                if error.kind() == ErrorKind::Configuration && !self.in_doubt =>
            {
                self.reopen(CommitError::NotApplied(error))
            }
            Transacted::NotApplied(error) | Transacted::Unknown(error) => Step::Again(error),
        }
    }

    /// The record is not our own pending one any more.
    async fn refused(&mut self, item: Option<Item>, limit: Duration) -> Step {
        let inner = &self.execution.inner;
        let found = match item {
            Some(item) => Ok(Some(item)),
            // Past its retention, or deleted by hand; or a store that has not sent it.
            None => inner.core.table.get(&inner.claim.key, limit).await.outcome,
        };
        let is_protected = self.execution.is_protected();
        let later = found.as_ref().ok().and_then(Option::as_ref);
        let later = later.and_then(|item| self.execution.released_attempt(item));
        if let Some(later) = later.filter(|later| !is_protected && *later > self.attempt) {
            // In nobody's hands, and what was told of it stays told.
            self.attempt = later;
            record::set_attempt(&inner.core.table.schema, &mut self.record, later);
            self.ledger.tokens += 1;
            let message = "the record was released after a later attempt";
            return Step::Again(Error::new(ErrorKind::Unavailable, message));
        }
        let found = match found {
            Ok(Some(item)) => self.execution.found(item, Some(&self.ours)).await,
            Ok(None) if is_protected => Some(Fate::LeaseLost(None).into()),
            Ok(None) => None,
            Err(error) => return Step::Again(error),
        };
        match found {
            None => Step::Again(Error::new(ErrorKind::Unavailable, "the record changes too fast")),
            Some(found) if !is_protected && self.in_doubt => self.end(found.without_record()),
            Some(found) => self.end(found),
        }
    }

    /// No more tries: what is in doubt is put beyond it.
    async fn out_of_time(mut self, error: Error) -> Result<(), CommitError> {
        let step = if self.in_doubt {
            let found = self.execution.put_beyond_doubt(Some(&self.ours)).await;
            tracing::error!(
                operation = self.execution.operation(), attempt = self.execution.attempt(),
                %error, fate = found.fate.name(),
                "a commit was not confirmed in time"
            );
            self.end(found)
        } else {
            self.reopen(CommitError::NotApplied(error))
        };
        match step {
            Step::Ended(result) => result,
            Step::Again(error) => Err(CommitError::Ended(error)),
        }
    }

    fn end(&mut self, found: Found) -> Step {
        // An earlier one of the execution's may have landed, whose caller was not told so.
        let result = if found.is_this { Ok(()) } else { Err(found.fate.refusal()) };
        self.ledger.stage = Stage::Over(found.fate);
        Step::Ended(result)
    }

    /// Nothing was written: the handler has the word again.
    fn reopen(&mut self, error: CommitError) -> Step {
        self.ledger.stage = Stage::Open;
        Step::Ended(Err(error))
    }
}

impl Fate {
    fn name(&self) -> &'static str {
        match self {
            Self::Committed(_) => "it has landed",
            Self::LeaseLost(_) => "the lease is lost",
            Self::GivenUp => "given up: nothing was written",
            Self::Unknown => "unknown",
        }
    }
}

impl From<ConditionFailed> for CommitError {
    fn from(failed: ConditionFailed) -> Self {
        Self::ConditionFailed(failed)
    }
}
