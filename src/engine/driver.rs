//! One loop that sends what a machine asks for, waits as it says, and tells it what came of that.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};

use crate::answer::Stored;
use crate::dynamodb::{Consistency, ItemsRefusal, Sent, Transacted, WriteOutcome};
use crate::engine::cache::Asked;
use crate::engine::core::Core;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::protocol::{Cause, Command, Form, Header, Machine, Outcome, Reply, State, Write};
use crate::record::{Item, OwnerId, Record};

/// What goes out with the writes of one call.
pub(crate) trait Contents: Send {
    /// The answer for a write that has one; made, and its parts stored, before the write is sent. An
    /// error stands for DynamoDB's: the write is not sent.
    async fn response(
        &mut self,
        write: &Write,
        limit: Duration,
    ) -> Result<Option<AttributeValue>, Error>
    where
        Self: Sized;

    /// The caller's items, for a transaction.
    fn items(&self) -> &[TransactWriteItem] {
        &[]
    }

    /// The transaction's token was used with other contents.
    fn token_used(&mut self) {}

    /// The token of a transaction: another one for each content.
    fn token(&mut self, write: &Write) -> String {
        let _ = write;
        String::new()
    }

    /// DynamoDB does not take the values of a write: whether there are others in their place.
    fn lessen(&mut self, error: &Error) -> bool {
        let _ = error;
        false
    }
}

/// Of writes that bring nothing but what the machine says.
pub(crate) struct Bare;

impl Contents for Bare {
    async fn response(&mut self, _: &Write, _: Duration) -> Result<Option<AttributeValue>, Error> {
        Ok(None)
    }
}

/// How records that cannot be read are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The call ends with that error, and the record stays as it is.
    IsAnError,
    /// Whoever holds a lease has lost it to somebody.
    IsAnothers,
}

/// One call's line to the store.
pub(crate) struct Wire<'a> {
    pub(crate) core: &'a Core,
    key: &'a RecordKey,
    fingerprint: &'a Fingerprint,
    me: OwnerId,
    unreadable: Unreadable,
    /// The record that a response has shown last.
    pub(crate) last: Option<Record>,
    /// For the answer that the record may be found to have.
    pub(crate) asked: Option<Asked>,
    /// The record that was taken over, or was tried to.
    pub(crate) taken: Option<Record>,
    /// What went wrong last.
    pub(crate) error: Option<Error>,
    /// Why a key that was not needed could not be given back.
    pub(crate) not_given_back: Option<Error>,
    /// Why the items of a transaction were refused, last.
    pub(crate) refusal: Option<ItemsRefusal>,
}

impl<'a> Wire<'a> {
    pub(crate) const fn new(
        core: &'a Core,
        (key, fingerprint): (&'a RecordKey, &'a Fingerprint),
        me: OwnerId,
        unreadable: Unreadable,
    ) -> Self {
        Self {
            core,
            key,
            fingerprint,
            me,
            unreadable,
            last: None,
            asked: None,
            taken: None,
            error: None,
            not_given_back: None,
            refusal: None,
        }
    }

    /// Goes on with `command` until the machine needs something else than the store and the time.
    pub(crate) async fn drive<M: Machine, C: Contents>(
        &mut self,
        machine: &mut M,
        mut command: Command<M::Stop>,
        contents: &mut C,
    ) -> M::Stop {
        let clock = &self.core.table.clock;
        loop {
            let reply = match command {
                Command::Stop(stop) => return stop,
                Command::Pause { bound, max } => {
                    clock.pause(bound, max).await;
                    command = machine.woke(clock.moment());
                    continue;
                }
                Command::Read { is_consistent, limit } => self.read(is_consistent, limit).await,
                Command::Send { write, limit } => self.send(&write, limit, contents).await,
            };
            command = machine.replied(clock.moment(), &reply);
        }
    }

    pub(crate) async fn read(&mut self, is_consistent: bool, limit: Duration) -> Reply {
        let consistency = if is_consistent { Consistency::Strong } else { Consistency::Eventual };
        self.asked = self.core.ask(self.key);
        let read = self.core.table.read(self.key, consistency, limit).await;
        let outcome = match (read.outcome, consistency) {
            (Ok(item), Consistency::Strong) => self.seen(item, Outcome::Found),
            (Ok(item), Consistency::Eventual) => match self.seen(item, Outcome::Stale) {
                // The write will show it.
                Outcome::NotApplied(_) => Outcome::NotApplied(Cause::Outage),
                outcome => outcome,
            },
            (Err(error), _) => self.failed(error),
        };
        Reply { outcome, is_in_doubt: false, time: read.time }
    }

    /// What a response has shown.
    fn seen(
        &mut self,
        item: Option<Item>,
        outcome: impl FnOnce(Option<Header>) -> Outcome,
    ) -> Outcome {
        let record = item.map(|item| Record::decode(&self.core.table.schema, item)).transpose();
        match record {
            Ok(record) => {
                let header = record.as_ref().map(|record| record.header(self.fingerprint));
                self.last = record;
                outcome(header)
            }
            Err(error) if self.unreadable == Unreadable::IsAnError => {
                self.failed(error);
                Outcome::NotApplied(Cause::Other)
            }
            Err(_) => {
                self.last = None;
                outcome(Some(somebodys(&self.me)))
            }
        }
    }

    fn failed(&mut self, error: Error) -> Outcome {
        let cause = match error.kind() {
            ErrorKind::Unavailable => Cause::Outage,
            _ => Cause::Other,
        };
        self.error = Some(error);
        Outcome::NotApplied(cause)
    }

    /// Errors of an undo are kept apart: the call reports the error that made it give up.
    async fn send<C: Contents>(
        &mut self,
        write: &Write,
        limit: Duration,
        contents: &mut C,
    ) -> Reply {
        if write.is_extension() {
            return self.extend(write, limit, contents).await;
        }
        let before = self.is_giving_back(write).then(|| self.error.take());
        let reply = self.write(write, limit, contents).await;
        if let Some(before) = before {
            self.not_given_back = std::mem::replace(&mut self.error, before);
        }
        reply
    }

    /// Keeps a finished record for longer. The call reports what it had found before.
    async fn extend(
        &mut self,
        write: &Write,
        limit: Duration,
        contents: &mut impl Contents,
    ) -> Reply {
        let (last, before) = (self.last.take(), self.error.take());
        let reply = self.put(write, None, limit, contents).await;
        if let Some(error) = std::mem::replace(&mut self.error, before) {
            tracing::warn!(
                operation = self.key.operation(), %error,
                "a clock had jumped when a record was written: it expires too early, which could not be \
                 corrected, and its operation may run again after that"
            );
        }
        self.last = last;
        reply
    }

    pub(crate) async fn write<C: Contents>(
        &mut self,
        write: &Write,
        limit: Duration,
        contents: &mut C,
    ) -> Reply {
        let outcome = match self.response(write, limit, contents).await {
            Ok(response) => return self.put(write, response, limit, contents).await,
            Err(error) => self.failed(error),
        };
        Reply { outcome, is_in_doubt: false, time: None }
    }

    async fn response<C: Contents>(
        &mut self,
        write: &Write,
        limit: Duration,
        contents: &mut C,
    ) -> Result<Option<AttributeValue>, Error> {
        let is_takeover = write.form == Form::Update
            && write.record.owner == self.me
            && matches!(write.record.state, State::Pending { .. });
        if is_takeover {
            self.take_over()?;
        }
        if self.is_giving_back(write) {
            return Ok(self.failure_taken());
        }
        contents.response(write, limit).await
    }

    /// Once for all kinds of contents: it is most of what a function has of this loop.
    async fn put(
        &mut self,
        write: &Write,
        response: Option<AttributeValue>,
        limit: Duration,
        contents: &mut dyn Contents,
    ) -> Reply {
        self.asked = self.core.ask(self.key);
        if write.form == Form::Transaction {
            return self.transact(write, response, limit, contents).await;
        }
        let fingerprint = self.fingerprint.to_store();
        let of = (self.key, &fingerprint);
        let sent = self.core.table.write_record(of, write, response, limit).await;
        let outcome = match sent.outcome {
            WriteOutcome::Applied => Outcome::Applied,
            WriteOutcome::Refused(None) => Outcome::Refused(None),
            WriteOutcome::Refused(item) => self.seen(item, Outcome::Refused),
            WriteOutcome::Conflict(error) => {
                self.error = Some(error);
                Outcome::Conflict
            }
            WriteOutcome::Invalid(error) if contents.lessen(&error) => Outcome::Invalid,
            WriteOutcome::Invalid(error) | WriteOutcome::NotApplied(error) => self.failed(error),
            WriteOutcome::Unknown(error) => {
                self.error = Some(error);
                Outcome::Unknown
            }
        };
        Reply { outcome, is_in_doubt: false, time: sent.time }
    }

    /// Whether it leaves a key that was not needed as it was found: of a call that has run nothing.
    fn is_giving_back(&self, write: &Write) -> bool {
        self.unreadable == Unreadable::IsAnError
            && write.form == Form::Update
            && write.condition.accepts_holder(&self.me)
    }

    /// The stored failure of the record that was taken over.
    fn failure_taken(&self) -> Option<AttributeValue> {
        let failed = self.taken.as_ref().filter(|taken| taken.state == State::Failed)?;
        failed.answer.as_ref().map(Stored::attribute)
    }

    /// The operation goes on in our hands, unless it has steps that another codec than ours wrote: who
    /// has that one can go on with it.
    fn take_over(&mut self) -> Result<(), Error> {
        let Some(record) = self.last.take().or_else(|| self.taken.take()) else { return Ok(()) };
        let checked = match &record.steps {
            Some(steps) => steps.check(self.core.coding.of(self.key)),
            None => Ok(()),
        };
        self.taken = Some(record);
        checked
    }

    async fn transact(
        &mut self,
        write: &Write,
        response: Option<AttributeValue>,
        limit: Duration,
        contents: &mut dyn Contents,
    ) -> Reply {
        let table = &self.core.table;
        let fingerprint = self.fingerprint.to_store();
        let of = (self.key, &fingerprint);
        let token = contents.token(write);
        let with = (contents.items(), token.as_str());
        let sent = table.transact(of, write, response, with, limit).await;
        let Sent { outcome, in_doubt, time } = sent;
        let outcome = match outcome {
            Transacted::Applied => Outcome::Applied,
            Transacted::Refused(None) => Outcome::Refused(None),
            Transacted::Refused(record) => self.seen(record, Outcome::Refused),
            Transacted::ItemsRefused(refusal) => {
                self.refusal = Some(refusal);
                Outcome::ItemsRefused
            }
            Transacted::Conflict(error) => {
                self.error = Some(error);
                Outcome::Conflict
            }
            Transacted::TokenUsed(error) => {
                // The record's condition keeps it from landing twice, whatever its token.
                contents.token_used();
                self.error = Some(error);
                Outcome::Conflict
            }
            Transacted::NotApplied(error) => self.failed(error),
            Transacted::Unknown(error) => {
                self.error = Some(error);
                Outcome::Unknown
            }
        };
        Reply { outcome, is_in_doubt: in_doubt, time }
    }

    /// What went wrong last.
    pub(crate) fn take_error(&mut self) -> Error {
        self.error
            .take()
            .unwrap_or_else(|| Error::new(ErrorKind::Unavailable, "the record changes too fast"))
    }
}

/// The record of an owner of whom nothing is known.
fn somebodys(me: &OwnerId) -> Header {
    let beginning = crate::clock::Timestamp::from_millis(0);
    Header {
        owner: me.alternate(),
        state: State::Failed,
        attempt: 0,
        released_attempts: 0,
        created_at: beginning,
        completed_at: None,
        expires_at: 0,
        steps: None,
        is_same_request: false,
    }
}
