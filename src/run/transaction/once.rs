//! A whole operation as one transaction. The record is never PENDING, and the transaction of a
//! duplicate is canceled with the stored answer.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{items, token};
use crate::answer::{Answer, Stored};
use crate::clock::Timestamp;
use crate::error::{ConditionFailed, Error, ErrorKind, InvalidTransaction};
use crate::policy::FirstRequest;
use crate::protocol::{Acquisition, CallResult, Form, Goal, Next, Reason, State, Write};
use crate::run::acquire::{AcquireResult, nothing, replay, too_late};
use crate::run::call::CallContext;
use crate::run::core::Core;
use crate::run::driver::{EmptyBody, Session, Unreadable, WriteBody};
use crate::run::placement::{Place, Unplaced};
use crate::signals::Ending;
use crate::store::ItemsRefusal;
use crate::store::record::{self, Claim, Item, OwnerId, random_owner};

/// The answer for a failed condition of the caller's items.
pub(crate) enum Fallback {
    Stored(Answer),
    /// It is returned and not stored.
    Unstored,
    Invalid(InvalidTransaction),
}

/// The result of an operation in one transaction.
#[must_use]
pub(crate) enum TransactionResult {
    /// The items and the answer were applied.
    Executed,
    /// A condition failed, and the fallback answer is stored.
    Fallback,
    /// A condition failed, and the fallback answer is returned without being stored.
    FallbackUnstored,
    /// The result of the record that was found. Never `Acquired`.
    Found(AcquireResult),
    ConditionFailed(ConditionFailed),
    Invalid(InvalidTransaction),
}

/// What the record means for a call that has nothing to write: a stored answer, or a rejection. `None` if
/// the call's own answer counts. Boxed, as [`acquire`](crate::run::acquire::acquire) is.
pub(crate) fn look_up(
    core: &Arc<Core>,
    call: CallContext,
) -> BoxFuture<'_, Result<Option<AcquireResult>, Error>> {
    let looking = async move {
        let mut caller = Caller::new(core, &call, Goal::LookUp)?;
        let found = caller.find().await;
        let ending = match &found {
            Ok(Some(found)) => found.ending(),
            Ok(None) => Some(Ending::NotWritten),
            Err(error) => Some(Ending::of_error(error)),
        };
        call.ended(ending.unwrap_or(Ending::NotWritten));
        found
    };
    looking.boxed()
}

/// A call whose whole operation is one transaction.
pub(crate) struct Caller<'a> {
    core: &'a Arc<Core>,
    call: &'a CallContext,
    claim: Claim,
    /// An estimate, to compute the size of the record.
    completed_at: Timestamp,
    machine: Acquisition,
    session: Session<'a>,
    /// The record of this call was applied.
    is_written: bool,
}

/// The answer and the items of the transaction.
struct TransactionBody<'a> {
    owner: OwnerId,
    answer: Stored,
    items: &'a [TransactWriteItem],
    /// The last write, and how many tokens were used.
    sent: Option<Write>,
    tokens: u32,
}

impl WriteBody for TransactionBody<'_> {
    async fn response(
        &mut self,
        write: &Write,
        _: Duration,
    ) -> Result<Option<AttributeValue>, Error> {
        Ok(write.record.is_completed().then(|| self.answer.attribute()))
    }

    fn items(&self) -> &[TransactWriteItem] {
        self.items
    }

    fn token_used(&mut self) {
        self.tokens += 1;
    }

    fn token(&mut self, write: &Write) -> String {
        if self.sent.as_ref() != Some(write) {
            self.tokens += 1;
            self.sent = Some(write.clone());
        }
        token(self.owner, self.tokens)
    }
}

impl<'a> Caller<'a> {
    fn new(core: &'a Arc<Core>, call: &'a CallContext, goal: Goal) -> Result<Self, Error> {
        let now = core.table.clock.moment();
        let (completed_at, owner) = (now.guess().0, random_owner()?);
        let claim = Claim {
            key: call.key.clone(),
            owner,
            attempt: 1,
            fingerprint: call.fingerprint.to_store(),
            created_at: completed_at,
        };
        let machine = Acquisition::new(owner, goal, call.rules(core, false), now);
        if machine.is_too_late(now) {
            return Err(too_late());
        }
        let of = (&call.key, &call.fingerprint);
        let session = Session::new(core, of, owner, Unreadable::IsAnError);
        Ok(Self { core, call, claim, completed_at, machine, session, is_written: false })
    }

    /// For a call that writes a transaction.
    pub(crate) fn of_items(core: &'a Arc<Core>, call: &'a CallContext) -> Result<Self, Error> {
        Self::new(core, call, Goal::Transact { form: Form::Transaction })
    }

    /// Writes `items` and the completed record, unless the operation is completed already. Boxed, as
    /// [`acquire`](crate::run::acquire::acquire) is.
    pub(crate) fn transact(
        &mut self,
        answer: Answer,
        items: Vec<TransactWriteItem>,
    ) -> BoxFuture<'_, Result<TransactionResult, Error>> {
        self.write(answer, items).boxed()
    }

    /// Ends a call whose condition failed, with the fallback answer if there is one.
    pub(crate) fn end(
        &mut self,
        failed: ConditionFailed,
        fallback: Option<Fallback>,
    ) -> BoxFuture<'_, Result<TransactionResult, Error>> {
        match fallback {
            Some(Fallback::Stored(answer)) => self.store_fallback(answer).boxed(),
            Some(Fallback::Unstored) => self.rejected(TransactionResult::FallbackUnstored).boxed(),
            Some(Fallback::Invalid(invalid)) => {
                self.rejected(TransactionResult::Invalid(invalid)).boxed()
            }
            None => self.rejected(TransactionResult::ConditionFailed(failed)).boxed(),
        }
    }

    async fn write(
        &mut self,
        answer: Answer,
        mut items: Vec<TransactWriteItem>,
    ) -> Result<TransactionResult, Error> {
        if let Some(answer) = self.call.cached(self.core) {
            return Ok(TransactionResult::Found(AcquireResult::Replay(answer)));
        }
        let stored = match self.place(answer).await {
            Ok(stored) => stored,
            Err(Unplaced::PartsNotWritten(error)) => return Err(error),
            // Nothing is sent, but the operation may be completed already.
            Err(Unplaced::Unstorable(unstorable)) => {
                let found = look_up_unsignaled(self.core, self.call).await?;
                let result = found.map_or_else(
                    || TransactionResult::Invalid(unstorable.into()),
                    TransactionResult::Found,
                );
                return Ok(result);
            }
        };
        let record = self.record(stored.attribute());
        if let Err(invalid) = items::prepare(&self.core.table, &self.claim.key, &record, &mut items)
        {
            return Ok(TransactionResult::Invalid(invalid));
        }
        let mut body = TransactionBody::new(self.claim.owner, stored, &items);
        let first = self.call.policy.first_request;
        let command = self.machine.start(self.core.table.clock.moment(), first);
        let next = self.session.drive(&mut self.machine, command, &mut body).await;
        if next != Next::AnswerForFailedCondition {
            return self.finished(next).await;
        }
        match self.session.refusal.take() {
            Some(ItemsRefusal::ConditionFailed(failed)) => {
                Ok(TransactionResult::ConditionFailed(failed))
            }
            Some(ItemsRefusal::Invalid(invalid)) => {
                self.rejected(TransactionResult::Invalid(invalid)).await
            }
            None => Err(self.session.take_error()),
        }
    }

    /// Returns `result` once no earlier try of the transaction can be applied.
    async fn rejected(&mut self, result: TransactionResult) -> Result<TransactionResult, Error> {
        let command = self.machine.no_answer(self.core.table.clock.moment());
        let next = self.session.drive(&mut self.machine, command, &mut EmptyBody).await;
        match next {
            Next::Done(CallResult::Nothing(Reason::ItemsRejected, _)) => Ok(result),
            next => self.finished(next).await,
        }
    }

    /// Stores the fallback answer on the condition of the transaction. Either it is applied, or an earlier
    /// try of the transaction was.
    async fn store_fallback(&mut self, answer: Answer) -> Result<TransactionResult, Error> {
        let stored = match self.place(answer).await {
            Ok(stored) => stored,
            Err(Unplaced::PartsNotWritten(error)) => return Err(error),
            Err(Unplaced::Unstorable(unstorable)) => {
                return self.rejected(TransactionResult::Invalid(unstorable.into())).await;
            }
        };
        let command = self.machine.answer_without_items(self.core.table.clock.moment());
        let mut body = TransactionBody::new(self.claim.owner, stored, &[]);
        let next = self.session.drive(&mut self.machine, command, &mut body).await;
        Ok(match self.finished(next).await? {
            TransactionResult::Executed => TransactionResult::Fallback,
            other => other,
        })
    }

    async fn find(&mut self) -> Result<Option<AcquireResult>, Error> {
        if let Some(answer) = self.call.cached(self.core) {
            return Ok(Some(AcquireResult::Replay(answer)));
        }
        let first = FirstRequest::ConsistentRead;
        let command = self.machine.start(self.core.table.clock.moment(), first);
        let next = self.session.drive(&mut self.machine, command, &mut EmptyBody).await;
        match next {
            Next::Done(CallResult::Nothing(Reason::Free, _)) => Ok(None),
            next => match self.finished(next).await? {
                TransactionResult::Found(found) => Ok(Some(found)),
                TransactionResult::Executed
                | TransactionResult::Fallback
                | TransactionResult::FallbackUnstored
                | TransactionResult::ConditionFailed(_)
                | TransactionResult::Invalid(_) => Ok(None),
            },
        }
    }

    async fn finished(&mut self, next: Next) -> Result<TransactionResult, Error> {
        let Next::Done(result) = next else {
            let message = "the record is one that this owner has never written";
            return Err(Error::new(ErrorKind::UnknownRecord, message));
        };
        match result {
            CallResult::Executed | CallResult::Reconciled => {
                self.core.forget(&self.claim.key);
                self.is_written = true;
                Ok(TransactionResult::Executed)
            }
            CallResult::Replay => replay(self.call, &mut self.session, self.machine.budget())
                .await
                .map(TransactionResult::Found),
            CallResult::Unknown => {
                let error = self.session.take_error();
                tracing::error!(
                    operation = self.claim.key.operation(), %error,
                    "a transaction was not confirmed in time: it has happened as a whole or not \
                     at all"
                );
                Err(unknown())
            }
            CallResult::Nothing(reason, _) => {
                let budget = self.machine.budget();
                nothing(self.call, &mut self.session, budget, reason)
                    .await
                    .map(TransactionResult::Found)
            }
        }
    }

    pub(crate) fn report(&self, done: &Result<TransactionResult, Error>) {
        let granted = self.machine.granted();
        let replaced = granted.replaced.as_ref().map(|replaced| replaced.state);
        let ending = match done {
            Ok(TransactionResult::Executed | TransactionResult::Fallback) if self.is_written => {
                match replaced {
                    Some(State::Pending { .. }) => Ending::Takeover,
                    _ if granted.attempts.number > 1 => Ending::Retry,
                    _ => Ending::First,
                }
            }
            Ok(TransactionResult::Found(found)) => found.ending().unwrap_or(Ending::NotWritten),
            Ok(_) => Ending::NotWritten,
            Err(error) => Ending::of_error(error),
        };
        let attempt = self.is_written.then_some(granted.attempts.number);
        self.call.signals.ended(self.claim.key.operation(), ending, attempt);
    }

    /// Chooses the form of an answer in the record.
    async fn place(&self, answer: Answer) -> Result<Stored, Unplaced> {
        let rest = record::item_bytes(&self.record(AttributeValue::Null(true)));
        let (key, policy) = (&self.claim.key, &self.call.policy);
        let place = Place { key, policy, rest, parts: None };
        self.core.place_answer(self.call.answers.stored(answer), place).await
    }

    /// The record, without what it keeps of the one that it replaces.
    fn record(&self, response: AttributeValue) -> Item {
        let schema = &self.core.table.schema;
        let expires_at = self.completed_at.plus(self.call.policy.retention).seconds_up();
        record::completed_item(schema, &self.claim, self.completed_at, expires_at, response)
    }
}

impl<'a> TransactionBody<'a> {
    const fn new(owner: OwnerId, answer: Stored, items: &'a [TransactWriteItem]) -> Self {
        Self { owner, answer, items, sent: None, tokens: 0 }
    }
}

/// As [`look_up`], without signals.
async fn look_up_unsignaled(
    core: &Arc<Core>,
    call: &CallContext,
) -> Result<Option<AcquireResult>, Error> {
    Caller::new(core, call, Goal::LookUp)?.find().await
}

fn unknown() -> Error {
    let message = "the transaction could not be confirmed: it has happened as a whole or not at \
                   all, ask again with the same key";
    Error::new(ErrorKind::OutcomeUnknown, message)
}
