//! Drives a machine: sends its requests, waits, and passes the results in.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};

use crate::answer::Stored;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::protocol::{
    Cause, Command, Form, Header, Machine, Outcome, ReadResult, Reply, State, Write, WriteResult,
};
use crate::run::cache::Generation;
use crate::run::core::Core;
use crate::store::key::RecordKey;
use crate::store::record::{Item, OwnerId, Record, check_steps};
use crate::store::{self, Consistency};

/// What the writes of a call contain besides the record's header: an answer and the caller's items.
pub(crate) trait WriteBody: Send {
    /// Returns the answer for a write that has one. Its parts are written first. After an error the write
    /// is not sent, and the machine gets the error as if DynamoDB had returned it.
    async fn response(
        &mut self,
        write: &Write,
        limit: Duration,
    ) -> Result<Option<AttributeValue>, Error>
    where
        Self: Sized;

    /// The caller's items of a transaction.
    fn items(&self) -> &[TransactWriteItem] {
        &[]
    }

    /// The token of the transaction was used with other contents.
    fn token_used(&mut self) {}

    /// The token of a transaction. Each content has its own.
    fn token(&mut self, write: &Write) -> String {
        let _ = write;
        String::new()
    }

    /// Replaces an answer that DynamoDB rejects. Returns whether there was one to replace.
    fn replace_unstorable(&mut self, error: &Error) -> bool {
        let _ = error;
        false
    }
}

/// The body of writes without an answer and without items.
pub(crate) struct EmptyBody;

impl WriteBody for EmptyBody {
    async fn response(&mut self, _: &Write, _: Duration) -> Result<Option<AttributeValue>, Error> {
        Ok(None)
    }
}

/// Which call a session serves. It decides what a record that cannot be decoded means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionKind {
    /// The call ends with the error, and the record stays as it is.
    Acquisition,
    /// The record is treated as another owner's, so the lease is lost.
    Execution,
}

/// The session of one call with DynamoDB.
pub(crate) struct Session<'a> {
    pub(crate) core: &'a Core,
    key: &'a RecordKey,
    fingerprint: &'a Fingerprint,
    me: OwnerId,
    kind: SessionKind,
    /// The record that the last response has shown.
    pub(crate) last: Option<Record>,
    /// The generation of the key in the cache before the last request, to cache the answer in that record.
    pub(crate) generation: Option<Generation>,
    /// The record that this call took over, or tried to.
    pub(crate) taken_over: Option<Record>,
    /// The last error.
    pub(crate) error: Option<Error>,
    /// Why an undo failed.
    pub(crate) undo_error: Option<Error>,
    /// Why the items of the last transaction were rejected.
    pub(crate) items_error: Option<Error>,
}

impl<'a> Session<'a> {
    pub(crate) const fn new(
        core: &'a Core,
        (key, fingerprint): (&'a RecordKey, &'a Fingerprint),
        me: OwnerId,
        kind: SessionKind,
    ) -> Self {
        Self {
            core,
            key,
            fingerprint,
            me,
            kind,
            last: None,
            generation: None,
            taken_over: None,
            error: None,
            undo_error: None,
            items_error: None,
        }
    }

    /// Continues with `command` until the machine returns.
    pub(crate) async fn drive<M: Machine, B: WriteBody>(
        &mut self,
        machine: &mut M,
        mut command: Command<M::Output>,
        body: &mut B,
    ) -> M::Output {
        let clock = &self.core.table.clock;
        loop {
            let reply = match command {
                Command::Return(output) => return output,
                Command::Pause { bound, max } => {
                    clock.pause(bound, max).await;
                    command = machine.woke(clock.moment());
                    continue;
                }
                Command::Read { is_consistent, limit } => self.read(is_consistent, limit).await,
                Command::Send { write, limit } => self.send(&write, limit, body).await,
            };
            command = machine.replied(clock.moment(), &reply);
        }
    }

    pub(crate) async fn read(&mut self, is_consistent: bool, limit: Duration) -> Reply {
        let consistency = if is_consistent { Consistency::Strong } else { Consistency::Eventual };
        self.generation = self.core.cache_generation(self.key);
        let read = self.core.table.read(self.key, consistency, limit).await;
        let result = match (read.outcome, consistency) {
            (Err(error), _) => ReadResult::Failed(self.note_error(error)),
            (Ok(item), Consistency::Strong) => {
                self.decode(item).map_or_else(ReadResult::Failed, ReadResult::Found)
            }
            (Ok(item), Consistency::Eventual) => {
                self.decode(item).map_or_else(ReadResult::Failed, ReadResult::Stale)
            }
        };
        Reply { outcome: Outcome::Read(result), is_in_doubt: false, time: read.time }
    }

    /// Keeps the record that a response has shown, and returns its header.
    fn decode(&mut self, item: Option<Item>) -> Result<Option<Header>, Cause> {
        let record = item.map(|item| Record::decode(&self.core.table.schema, item)).transpose();
        match record {
            Ok(record) => {
                let header = record.as_ref().map(|record| record.header(self.fingerprint));
                self.last = record;
                Ok(header)
            }
            Err(error) if self.kind == SessionKind::Acquisition => {
                self.note_error(error);
                Err(Cause::Other)
            }
            Err(_) => {
                self.last = None;
                Ok(Some(unknown_owner_record(&self.me)))
            }
        }
    }

    fn note_error(&mut self, error: Error) -> Cause {
        let cause = match error.kind() {
            ErrorKind::Unavailable => Cause::Outage,
            _ => Cause::Other,
        };
        self.error = Some(error);
        cause
    }

    /// Errors of an undo are kept apart: the call reports the error that made it give up.
    async fn send<B: WriteBody>(&mut self, write: &Write, limit: Duration, body: &mut B) -> Reply {
        if write.is_extension() {
            return self.extend(write, limit, body).await;
        }
        let before = self.is_undo(write).then(|| self.error.take());
        let reply = self.write(write, limit, body).await;
        if let Some(before) = before {
            self.undo_error = std::mem::replace(&mut self.error, before);
        }
        reply
    }

    /// Extends the retention of a finished record. The session keeps its record and its error, which the
    /// call reports.
    async fn extend(&mut self, write: &Write, limit: Duration, body: &mut impl WriteBody) -> Reply {
        let (last, before) = (self.last.take(), self.error.take());
        let reply = self.put(write, None, limit, body).await;
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

    pub(crate) async fn write<B: WriteBody>(
        &mut self,
        write: &Write,
        limit: Duration,
        body: &mut B,
    ) -> Reply {
        match self.response(write, limit, body).await {
            Ok(response) => self.put(write, response, limit, body).await,
            Err(error) => {
                let result = WriteResult::NotApplied(self.note_error(error));
                Reply { outcome: Outcome::Write(result), is_in_doubt: false, time: None }
            }
        }
    }

    async fn response<B: WriteBody>(
        &mut self,
        write: &Write,
        limit: Duration,
        body: &mut B,
    ) -> Result<Option<AttributeValue>, Error> {
        let is_takeover = write.form == Form::Update
            && write.record.owner == self.me
            && matches!(write.record.state, State::Pending { .. });
        if is_takeover {
            self.note_takeover()?;
        }
        if self.is_undo(write) {
            return Ok(self.replaced_failure());
        }
        body.response(write, limit).await
    }

    /// Not generic over the body, so that this large function is compiled once.
    async fn put(
        &mut self,
        write: &Write,
        response: Option<AttributeValue>,
        limit: Duration,
        body: &mut dyn WriteBody,
    ) -> Reply {
        self.generation = self.core.cache_generation(self.key);
        let (table, fingerprint) = (&self.core.table, self.fingerprint.to_store());
        let of = (self.key, &fingerprint);
        if write.form == Form::Transaction {
            let token = body.token(write);
            let items = (body.items(), token.as_str());
            let reply = table.transact(of, write, response, items, limit).await;
            return self.note_reply(reply, body);
        }
        let reply = table.write_record(of, write, response, limit).await;
        self.note_reply(reply, body)
    }

    /// Keeps the record or the error of a reply, and returns the rest to the machine.
    fn note_reply<I: Into<Error>>(
        &mut self,
        reply: store::Reply<store::WriteResult<I>>,
        body: &mut dyn WriteBody,
    ) -> Reply {
        let result = match reply.outcome {
            WriteResult::Applied => WriteResult::Applied,
            WriteResult::Rejected(None) => WriteResult::Rejected(None),
            WriteResult::Rejected(item) => {
                self.decode(item).map_or_else(WriteResult::NotApplied, WriteResult::Rejected)
            }
            WriteResult::ItemsRejected(items_error) => {
                self.items_error = Some(items_error.into());
                WriteResult::ItemsRejected(())
            }
            WriteResult::Conflict(error) => WriteResult::Conflict(self.note_error(error)),
            WriteResult::TokenUsed(error) => {
                // The condition of the record keeps the transaction from being applied twice, whatever
                // its token.
                body.token_used();
                WriteResult::TokenUsed(self.note_error(error))
            }
            WriteResult::Invalid(error) if body.replace_unstorable(&error) => {
                WriteResult::Invalid(Cause::Other)
            }
            WriteResult::Invalid(error) | WriteResult::NotApplied(error) => {
                WriteResult::NotApplied(self.note_error(error))
            }
            WriteResult::Unknown(error) => WriteResult::Unknown(self.note_error(error)),
        };
        let store::Reply { is_in_doubt, time, .. } = reply;
        Reply { outcome: Outcome::Write(result), is_in_doubt, time }
    }

    /// Whether the write undoes an acquisition that has executed nothing.
    fn is_undo(&self, write: &Write) -> bool {
        self.kind == SessionKind::Acquisition
            && write.form == Form::Update
            && write.condition.accepts_holder(&self.me)
    }

    /// The stored failure of the record that was taken over.
    fn replaced_failure(&self) -> Option<AttributeValue> {
        let failed = self
            .taken_over
            .as_ref()
            .filter(|taken_over| taken_over.header.state == State::Failed)?;
        failed.answer.as_ref().map(Stored::attribute)
    }

    /// Keeps the record that is taken over. An error if another codec has written its steps: a process
    /// with that codec can continue the operation.
    fn note_takeover(&mut self) -> Result<(), Error> {
        let Some(record) = self.last.take().or_else(|| self.taken_over.take()) else {
            return Ok(());
        };
        let checked = match &record.steps {
            Some(steps) => check_steps(steps, self.core.coding.of(self.key)),
            None => Ok(()),
        };
        self.taken_over = Some(record);
        checked
    }

    /// The last error.
    pub(crate) fn take_error(&mut self) -> Error {
        self.error
            .take()
            .unwrap_or_else(|| Error::new(ErrorKind::Unavailable, "the record changes too fast"))
    }
}

/// Represents a record that cannot be decoded.
fn unknown_owner_record(me: &OwnerId) -> Header {
    let epoch = crate::clock::Timestamp::from_millis(0);
    Header {
        owner: me.alternate(),
        state: State::Failed,
        attempt: 0,
        released_attempts: 0,
        created_at: epoch,
        completed_at: None,
        expires_at: 0,
        steps: None,
        is_same_request: false,
    }
}
