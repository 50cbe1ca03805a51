//! A whole operation as one transaction: the record is never PENDING, and a duplicate's own
//! transaction is cancelled with the stored answer.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{items, token};
use crate::answer::{Answer, Stored};
use crate::clock::Timestamp;
use crate::dynamodb::ItemsRefusal;
use crate::engine::acquire::{Acquisition, nothing, replay, too_late};
use crate::engine::call::CallContext;
use crate::engine::core::Core;
use crate::engine::driver::{Bare, Contents, Unreadable, Wire};
use crate::engine::placement::{Place, Unplaced};
use crate::error::{ConditionFailed, Error, ErrorKind, InvalidTransaction};
use crate::protocol::{Acquire, First, Form, Goal, Reason, State, Stop, Told, Write};
use crate::record::{self, Claim, Item, OwnerId, random_owner};
use crate::signals::Ending;

/// What is stored instead of the answer when a condition of the caller's does not hold.
pub(crate) enum Instead {
    Stored(Answer),
    /// It goes out, and nothing is stored.
    Unstored,
    Invalid(InvalidTransaction),
}

/// What a transaction has come to.
#[must_use]
pub(crate) enum Once {
    /// The effect and the answer are in the tables.
    Executed,
    /// A condition did not hold, and another answer is in the table.
    Instead,
    /// So it is, and that answer is none to be stored.
    InsteadUnstored,
    /// There was a record: never `Acquired`.
    Found(Acquisition),
    ConditionFailed(ConditionFailed),
    Invalid(InvalidTransaction),
}

/// What the transaction itself has come to.
#[must_use]
pub(crate) enum Try {
    Told(Once),
    /// Of the caller's items: there may be another answer for that.
    ConditionFailed(ConditionFailed),
}

/// What the record says to a call that has nothing to write: an answer that was stored earlier, or a
/// refusal. `None` where what the call says itself counts.
/// Boxed, as [`acquire`](crate::engine::acquire::acquire) is.
pub(crate) fn look_up(
    core: &Arc<Core>,
    call: CallContext,
) -> BoxFuture<'_, Result<Option<Acquisition>, Error>> {
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
    /// About when the operation is completed: for the size of its record.
    completed_at: Timestamp,
    machine: Acquire,
    wire: Wire<'a>,
    /// Our own record is in the table.
    is_written: bool,
}

/// What the transaction brings with it.
struct Carried<'a> {
    owner: OwnerId,
    answer: Stored,
    items: &'a [TransactWriteItem],
    /// What was sent last, and how many tokens were used.
    sent: Option<Write>,
    tokens: u32,
}

impl Contents for Carried<'_> {
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
        let machine = Acquire::new(owner, goal, call.rules(core, false), now);
        if machine.is_too_late(now) {
            return Err(too_late());
        }
        let of = (&call.key, &call.fingerprint);
        let wire = Wire::new(core, of, owner, Unreadable::IsAnError);
        Ok(Self { core, call, claim, completed_at, machine, wire, is_written: false })
    }

    /// With a transaction of its own to write.
    pub(crate) fn of_items(core: &'a Arc<Core>, call: &'a CallContext) -> Result<Self, Error> {
        Self::new(core, call, Goal::Transact { form: Form::Transaction })
    }

    /// Writes `items` and the completed record, unless the record shows that this has been done. Boxed, as
    /// [`acquire`](crate::engine::acquire::acquire) is.
    pub(crate) fn transact(
        &mut self,
        answer: Answer,
        items: Vec<TransactWriteItem>,
    ) -> BoxFuture<'_, Result<Try, Error>> {
        self.write(answer, items).boxed()
    }

    /// Ends what a condition of the caller's has refused: by another answer, where there is one.
    pub(crate) fn end(
        &mut self,
        failed: ConditionFailed,
        instead: Option<Instead>,
    ) -> BoxFuture<'_, Result<Once, Error>> {
        match instead {
            Some(Instead::Stored(answer)) => self.store_instead(answer).boxed(),
            Some(Instead::Unstored) => self.refused(Once::InsteadUnstored).boxed(),
            Some(Instead::Invalid(invalid)) => self.refused(Once::Invalid(invalid)).boxed(),
            None => self.refused(Once::ConditionFailed(failed)).boxed(),
        }
    }

    async fn write(
        &mut self,
        answer: Answer,
        mut items: Vec<TransactWriteItem>,
    ) -> Result<Try, Error> {
        if let Some(answer) = self.call.cached(self.core) {
            return Ok(Try::Told(Once::Found(Acquisition::Replay(answer))));
        }
        let stored = match self.place(answer).await {
            Ok(stored) => stored,
            Err(Unplaced::PartsNotWritten(error)) => return Err(error),
            // Nothing is sent, but it may have been executed long ago.
            Err(Unplaced::Unstorable(unstorable)) => {
                let found = look_up_quietly(self.core, self.call).await?;
                let once = found.map_or_else(|| Once::Invalid(unstorable.into()), Once::Found);
                return Ok(Try::Told(once));
            }
        };
        let record = self.record(stored.attribute());
        if let Err(invalid) = items::prepare(&self.core.table, &self.claim.key, &record, &mut items)
        {
            return Ok(Try::Told(Once::Invalid(invalid)));
        }
        let mut carried = Carried::new(self.claim.owner, stored, &items);
        let first = self.call.policy.first_request.first();
        let command = self.machine.started(self.core.table.clock.moment(), first);
        let stop = self.wire.drive(&mut self.machine, command, &mut carried).await;
        if stop != Stop::AskInstead {
            return self.told(stop).await.map(Try::Told);
        }
        match self.wire.refusal.take() {
            Some(ItemsRefusal::ConditionFailed(failed)) => Ok(Try::ConditionFailed(failed)),
            Some(ItemsRefusal::Invalid(invalid)) => {
                self.refused(Once::Invalid(invalid)).await.map(Try::Told)
            }
            None => Err(self.wire.take_error()),
        }
    }

    /// The items were refused, and that is told once no earlier try can land.
    async fn refused(&mut self, told: Once) -> Result<Once, Error> {
        let command = self.machine.no_instead(self.core.table.clock.moment());
        let stop = self.wire.drive(&mut self.machine, command, &mut Bare).await;
        match stop {
            Stop::Tell(Told::Nothing(Reason::ItemsRefused, _)) => Ok(told),
            stop => self.told(stop).await,
        }
    }

    /// Stores another answer than the transaction's, under the same guard: it lands, or an earlier try
    /// of the transaction has.
    async fn store_instead(&mut self, answer: Answer) -> Result<Once, Error> {
        let stored = match self.place(answer).await {
            Ok(stored) => stored,
            Err(Unplaced::PartsNotWritten(error)) => return Err(error),
            Err(Unplaced::Unstorable(unstorable)) => {
                return self.refused(Once::Invalid(unstorable.into())).await;
            }
        };
        let command = self.machine.instead(self.core.table.clock.moment());
        let mut carried = Carried::new(self.claim.owner, stored, &[]);
        let stop = self.wire.drive(&mut self.machine, command, &mut carried).await;
        Ok(match self.told(stop).await? {
            Once::Executed => Once::Instead,
            told => told,
        })
    }

    async fn find(&mut self) -> Result<Option<Acquisition>, Error> {
        if let Some(answer) = self.call.cached(self.core) {
            return Ok(Some(Acquisition::Replay(answer)));
        }
        let first = First::Read { is_consistent: true };
        let command = self.machine.started(self.core.table.clock.moment(), first);
        let stop = self.wire.drive(&mut self.machine, command, &mut Bare).await;
        match stop {
            Stop::Tell(Told::Nothing(Reason::Free, _)) => Ok(None),
            stop => match self.told(stop).await? {
                Once::Found(found) => Ok(Some(found)),
                Once::Executed
                | Once::Instead
                | Once::InsteadUnstored
                | Once::ConditionFailed(_)
                | Once::Invalid(_) => Ok(None),
            },
        }
    }

    async fn told(&mut self, stop: Stop) -> Result<Once, Error> {
        let Stop::Tell(told) = stop else {
            let message = "the record is one that this owner has never written";
            return Err(Error::new(ErrorKind::UnknownRecord, message));
        };
        match told {
            Told::Executed | Told::Reconciled => {
                self.core.forget(&self.claim.key);
                self.is_written = true;
                Ok(Once::Executed)
            }
            Told::Replay => {
                replay(self.call, &mut self.wire, self.machine.budget()).await.map(Once::Found)
            }
            Told::Unknown => {
                let error = self.wire.take_error();
                tracing::error!(
                    operation = self.claim.key.operation(), %error,
                    "a transaction was not confirmed in time: it has happened as a whole or not \
                     at all"
                );
                Err(unknown())
            }
            Told::Nothing(reason, _) => {
                let budget = self.machine.budget();
                nothing(self.call, &mut self.wire, budget, reason).await.map(Once::Found)
            }
        }
    }

    pub(crate) fn report(&self, done: &Result<Once, Error>) {
        let granted = self.machine.granted();
        let taken = granted.taken.as_ref().map(|taken| taken.state);
        let ending = match done {
            Ok(Once::Executed | Once::Instead) if self.is_written => match taken {
                Some(State::Pending { .. }) => Ending::Takeover,
                _ if granted.attempt > 1 => Ending::Retry,
                _ => Ending::First,
            },
            Ok(Once::Found(found)) => found.ending().unwrap_or(Ending::NotWritten),
            Ok(_) => Ending::NotWritten,
            Err(error) => Ending::of_error(error),
        };
        let attempt = self.is_written.then_some(granted.attempt);
        self.call.signals.ended(self.claim.key.operation(), ending, attempt);
    }

    /// Chooses the form of an answer in the record.
    async fn place(&self, answer: Answer) -> Result<Stored, Unplaced> {
        let rest = record::item_bytes(&self.record(AttributeValue::Null(true)));
        let (key, policy) = (&self.claim.key, &self.call.policy);
        let place = Place { key, policy, rest, parts: None };
        self.core.place_answer(self.call.answers.stored(answer), place).await
    }

    /// The record, but for what the one that it takes the place of adds.
    fn record(&self, response: AttributeValue) -> Item {
        let schema = &self.core.table.schema;
        let expires_at = self.completed_at.plus(self.call.policy.retention).seconds_up();
        record::completed_item(schema, &self.claim, self.completed_at, expires_at, response)
    }
}

impl<'a> Carried<'a> {
    const fn new(owner: OwnerId, answer: Stored, items: &'a [TransactWriteItem]) -> Self {
        Self { owner, answer, items, sent: None, tokens: 0 }
    }
}

/// As [`look_up`], of a call that is told of elsewhere.
async fn look_up_quietly(
    core: &Arc<Core>,
    call: &CallContext,
) -> Result<Option<Acquisition>, Error> {
    Caller::new(core, call, Goal::LookUp)?.find().await
}

fn unknown() -> Error {
    let message = "the transaction could not be confirmed: it has happened as a whole or not at \
                   all, ask again with the same key";
    Error::new(ErrorKind::OutcomeUnknown, message)
}
