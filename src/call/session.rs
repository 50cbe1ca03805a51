//! Drives a machine: sends its requests, waits, and passes the results in.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};

use crate::answer::{Answer, Stored, Unstorable, reason};
use crate::call::cache::{Entry, Generation};
use crate::call::context::CallContext;
use crate::call::core::Core;
use crate::call::hook::{Reconciled, Resolved};
use crate::call::transaction::items;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind};
use crate::protocol::{
    Cause, Command, Form, Kind, Machine, Outcome, ReadResult, RecordMeta, Reply, State, Write,
    WriteResult,
};
use crate::store::record::{
    Item, OwnerId, Record, check_steps, completed_meta, random_owner, steps_bytes,
};
use crate::store::{self, Consistency};

/// Which call a session serves. This decides what a record that cannot be decoded means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionKind {
    /// The call ends with the error, and the record stays as it is.
    Acquisition,
    /// The record is treated as another owner's, so the lease is lost.
    Execution,
}

/// The session of one call with DynamoDB. What few calls use is boxed, because sessions are part of futures.
pub(crate) struct Session<'a> {
    pub(crate) core: &'a Core,
    pub(crate) call: &'a CallContext,
    pub(crate) me: OwnerId,
    kind: SessionKind,
    /// The answer or the failure of a record that is completed or failed.
    pub(crate) answer: Option<Stored>,
    /// In an execution, the failure of the record that it has taken over.
    pub(crate) failure: Option<&'a Stored>,
    /// What a hook has resolved. Its stored form is the answer of the next write.
    resolved: Option<Box<Resolved>>,
    /// Whether an answer that DynamoDB rejects is replaced by the reason.
    pub(crate) is_replaceable: bool,
    /// The caller's items of a transaction.
    pub(crate) items: Vec<TransactWriteItem>,
    /// The name and the stored form of the step that is written.
    pub(crate) step: Option<Box<(String, AttributeValue)>>,
    /// The transaction that was sent last, and its token.
    sent: Option<Box<(Write, String)>>,
    /// The record that the last response has shown.
    pub(crate) last: Option<Record>,
    /// The `expires_at` of this call's own COMPLETED record, if the last responses have confirmed or shown it.
    completed_until: Option<i64>,
    /// The cache's generation of the key before the last request. The answer that the request returns is
    /// cached only if the key was not invalidated since.
    generation: Option<Generation>,
    /// The record that this call took over, or tried to take over.
    pub(crate) taken_over: Option<Box<Record>>,
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
        call: &'a CallContext,
        me: OwnerId,
        kind: SessionKind,
    ) -> Self {
        Self {
            core,
            call,
            me,
            kind,
            answer: None,
            failure: None,
            resolved: None,
            is_replaceable: false,
            items: Vec::new(),
            step: None,
            sent: None,
            last: None,
            completed_until: None,
            generation: None,
            taken_over: None,
            error: None,
            undo_error: None,
            items_error: None,
        }
    }

    /// Continues with `command` until the machine returns.
    pub(crate) async fn drive<M: Machine>(
        &mut self,
        machine: &mut M,
        mut command: Command<M::Output>,
    ) -> M::Output
    where
        M::Output: Copy,
    {
        let clock = &self.core.table.clock;
        loop {
            // By reference: a moved part of the command would take its size twice.
            let reply = match &command {
                Command::Return(output) => return *output,
                Command::Pause { bound, max } => {
                    self.call.note_wait(machine.is_waiting());
                    clock.pause(*bound, *max).await;
                    self.call.note_wait(false);
                    command = machine.woke(clock.moment());
                    continue;
                }
                Command::Read { is_consistent, limit } => self.read(*is_consistent, *limit).await,
                Command::Send { write, limit } => self.send(write, *limit).await,
            };
            command = machine.replied(clock.moment(), &reply);
        }
    }

    pub(crate) async fn read(&mut self, is_consistent: bool, limit: Duration) -> Reply {
        let consistency = if is_consistent { Consistency::Strong } else { Consistency::Eventual };
        self.note_generation();
        let read = self.core.table.read(&self.call.key, consistency, limit).await;
        let found = read.outcome.map_err(|error| self.note_error(error));
        let result = match found.and_then(|item| self.decode(item)) {
            Ok(meta) if is_consistent => ReadResult::Found(meta),
            Ok(meta) => ReadResult::Stale(meta),
            Err(cause) => ReadResult::Failed(cause),
        };
        Reply { outcome: Outcome::Read(result), is_in_doubt: false, time: read.time }
    }

    /// Until when the answer of this call is stored, in epoch seconds. `None` if that is unknown, or if the record
    /// has a reason instead of the answer.
    pub(crate) fn stored_until(&self) -> Option<i64> {
        let has_reason = self.answer.as_ref().is_some_and(Stored::is_unavailable);
        self.completed_until.filter(|_| !has_reason)
    }

    /// Called before a request that may return the record.
    pub(crate) fn note_generation(&mut self) {
        let cache = self.core.cache.as_ref();
        self.generation = cache.map(|cache| cache.generation(self.call.key.as_str()));
    }

    /// Caches the answer of the record that the last response has confirmed or shown. Returns whether it did.
    pub(crate) fn cache(&self, expires_at: i64, answer: Answer) -> bool {
        let Self { core, call, .. } = self;
        let (Some(cache), Some(generation)) = (&core.cache, self.generation) else { return false };
        // A reason is not cached: a later read can have a larger limit, or find a part that was missing.
        if matches!(answer, Answer::Unavailable(_)) || !call.is_cacheable(core, answer.bytes()) {
            return false;
        }
        // Earlier by the tolerance, so that a wrong local clock does not extend the retention.
        let end = Timestamp::from_seconds(expires_at);
        let until = core.table.clock.end(end.minus(core.clock_tolerance));
        let entry = Entry { fingerprint: call.fingerprint, until, expires_at, answer };
        cache.insert(call.key.as_str(), generation, entry)
    }

    /// Keeps the record that a response has shown, and returns what the machines read of it.
    fn decode(&mut self, item: Option<Item>) -> Result<Option<RecordMeta>, Cause> {
        let record = item.map(|item| Record::decode(&self.core.table.schema, item)).transpose();
        match record {
            Ok(record) => {
                let meta = record.as_ref().map(|record| record.meta(&self.call.fingerprint));
                let own = meta.as_ref().filter(|it| it.is_completed() && it.owner == self.me);
                self.completed_until = own.map(|own| own.expires_at);
                self.last = record;
                Ok(meta)
            }
            Err(error) if self.kind == SessionKind::Acquisition => {
                self.note_error(error);
                Err(Cause::Other)
            }
            Err(_) => {
                (self.last, self.completed_until) = (None, None);
                Ok(Some(unknown_owner_record(&self.me)))
            }
        }
    }

    pub(super) fn note_error(&mut self, error: Error) -> Cause {
        let cause = if error.is_outage() { Cause::Outage } else { Cause::Other };
        self.error = Some(error);
        cause
    }

    async fn send(&mut self, write: &Write, limit: Duration) -> Reply {
        match (self.kind, write.kind) {
            // Boxed: few records have to be kept for longer.
            (_, Kind::Extend) => Box::pin(self.extend(write, limit)).await,
            // Its error is kept apart: the call reports the error that made it give up.
            (SessionKind::Acquisition, Kind::Undo) => {
                let before = self.error.take();
                let reply = self.write(write, limit).await;
                self.undo_error = std::mem::replace(&mut self.error, before);
                reply
            }
            (SessionKind::Execution, Kind::Renew | Kind::StampAgain) => {
                let reply = self.write(write, limit).await;
                if let Some(error) = self.error.take() {
                    let operation = self.call.key.operation();
                    tracing::warn!(operation, %error, "a lease was not renewed");
                }
                reply
            }
            _ => self.write(write, limit).await,
        }
    }

    /// Extends the retention of a finished or released record. The session keeps its record and its error,
    /// which the call reports.
    async fn extend(&mut self, write: &Write, limit: Duration) -> Reply {
        let (last, before) = (self.last.take(), self.error.take());
        let reply = self.put(write, None, limit).await;
        if reply.is_in_doubt || matches!(reply.outcome, Outcome::Write(WriteResult::Unknown(_))) {
            self.completed_until = None;
        }
        if let Some(error) = std::mem::replace(&mut self.error, before) {
            tracing::warn!(
                operation = self.call.key.operation(), %error,
                "a clock had jumped when a record was written: it expires too early, which could not be \
                 corrected, and its operation may run again after that"
            );
        }
        self.last = last;
        reply
    }

    pub(crate) async fn write(&mut self, write: &Write, limit: Duration) -> Reply {
        match self.response(write, limit).await {
            Ok(response) => self.put(write, response, limit).await,
            Err(error) => {
                let cause = self.note_error(error);
                // The steps of the record could not be read. No handler runs without them, even in an outage.
                let cause = if write.kind == Kind::TakeOver { Cause::Other } else { cause };
                not_sent(cause)
            }
        }
    }

    /// Returns the answer for a write that has one. Its parts are written first. After an error the write
    /// is not sent, and the machine gets the error as if DynamoDB had returned it.
    async fn response(
        &mut self,
        write: &Write,
        limit: Duration,
    ) -> Result<Option<AttributeValue>, Error> {
        if write.kind == Kind::TakeOver {
            // Boxed: few calls take over.
            Box::pin(self.note_takeover(limit)).await?;
        }
        if write.kind == Kind::Undo {
            return Ok(self.failure_before().map(Stored::attribute));
        }
        if !matches!(write.record.state, State::Completed | State::Failed) {
            return Ok(None);
        }
        if let Some(resolved) = self.resolved.take() {
            // Boxed: few calls run a hook.
            self.answer = Box::pin(self.place_resolution(*resolved, write, limit)).await?;
        }
        Ok(self.answer.as_ref().map(Stored::attribute))
    }

    /// The next write is the hook's resolution.
    pub(crate) fn resolve(&mut self, resolved: Resolved) {
        (self.resolved, self.answer, self.is_replaceable) = (Some(Box::new(resolved)), None, true);
    }

    /// Returns the stored form of the hook's resolution. After an error nothing is written, and the next call
    /// runs the hook again: the answer's parts cannot be written, and the record has no room for it; or a
    /// commit's answer is too large, or its items are not valid.
    async fn place_resolution(
        &mut self,
        resolved: Resolved,
        write: &Write,
        limit: Duration,
    ) -> Result<Option<Stored>, Error> {
        let CallContext { key, policy, answers, .. } = self.call;
        let answer = match resolved {
            Reconciled::Completed(answer) => answers.stored(answer),
            Reconciled::Commit { answer, mut items } => {
                let answer = answers.stored(answer);
                let (stored, record_bytes) =
                    self.core.place_answer(answer, self.call, &write.record, None).await?;
                items::prepare(&self.core.table, key, record_bytes, &mut items)?;
                (self.items, self.is_replaceable) = (items, false);
                return Ok(Some(stored));
            }
            Reconciled::Failed(Some(failure)) => {
                let steps = self.last.as_ref().and_then(|record| record.steps.as_ref());
                let bytes = steps.map_or(0, steps_bytes);
                return Ok(self.core.place_failure(answers.stored(failure), bytes, key, policy));
            }
            Reconciled::Failed(None) | Reconciled::Execute | Reconciled::Refuse => return Ok(None),
        };
        // `limit` is half of the time that is left. The other half is for the record.
        match self.core.place_answer(answer, self.call, &write.record, Some(limit)).await {
            Ok((stored, _)) => Ok(Some(stored)),
            Err(Unstorable::PartsNotWritten(error)) => Err(error),
            Err(unstorable) => {
                report_unstorable(self.kind, key.operation(), &unstorable.to_string());
                Ok(Some(unstorable.replacement()))
            }
        }
    }

    async fn put(
        &mut self,
        write: &Write,
        response: Option<AttributeValue>,
        limit: Duration,
    ) -> Reply {
        let ending = self.ending_step_items(write);
        if !ending.is_empty() {
            // Boxed: few operations last so long.
            let kept = Box::pin(self.keep_step_items(ending, write.record.expires_at, limit));
            if let Err(cause) = kept.await {
                return not_sent(cause);
            }
        }
        self.note_generation();
        let (table, call) = (&self.core.table, self.call);
        let fingerprint = call.fingerprint.to_store();
        let of = (&call.key, &fingerprint);
        if write.form() == Form::Transaction {
            let token = self.token(write);
            let items = (self.items.as_slice(), token.as_str());
            // Boxed: its future is three times as large as that of another write.
            let reply = Box::pin(table.transact(of, write, response, items, limit)).await;
            return self.note_reply(write, reply);
        }
        let reply = match self.step.as_deref() {
            Some((name, value)) if write.kind == Kind::Step => {
                table.store_step(&call.key, write, (name, value.clone()), limit).await
            }
            _ => table.write_record(of, write, response, limit).await,
        };
        self.note_reply(write, reply)
    }

    /// The random token of a transaction, the same for each try of one write. While the record stays, its condition
    /// alone keeps the transaction from being applied twice. If an operator removes the record between two tries, the
    /// token does, for ten minutes.
    fn token(&mut self, write: &Write) -> String {
        match self.sent.as_deref() {
            Some((sent, token)) if sent == write => token.clone(),
            Some(_) | None => {
                let token = random_owner().unwrap_or(self.me).to_string();
                self.sent = Some(Box::new((write.clone(), token.clone())));
                token
            }
        }
    }

    /// Keeps the record or the error of a reply, and returns the rest to the machine.
    fn note_reply<I: Into<Error>>(
        &mut self,
        write: &Write,
        reply: store::Reply<store::WriteResult<I>>,
    ) -> Reply {
        let result = match reply.outcome {
            WriteResult::Applied => {
                let record = Some(&write.record).filter(|record| record.is_completed());
                self.completed_until = record.map(|record| record.expires_at);
                WriteResult::Applied
            }
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
                self.sent = None;
                WriteResult::TokenUsed(self.note_error(error))
            }
            WriteResult::Invalid(error) if self.replace_unstorable(write, &error) => {
                WriteResult::Invalid(Cause::Other)
            }
            WriteResult::Invalid(error) if write.kind == Kind::Step => {
                WriteResult::Invalid(self.note_error(error))
            }
            WriteResult::Invalid(error) | WriteResult::NotApplied(error) => {
                WriteResult::NotApplied(self.note_error(error))
            }
            WriteResult::Unknown(error) => WriteResult::Unknown(self.note_error(error)),
        };
        let store::Reply { is_in_doubt, time, .. } = reply;
        Reply { outcome: Outcome::Write(result), is_in_doubt, time }
    }

    /// After DynamoDB has rejected a write as invalid, replaces its answer by the reason, and drops its
    /// failure. Returns whether there was an answer or a failure.
    fn replace_unstorable(&mut self, write: &Write, error: &Error) -> bool {
        let is_replaced = std::mem::take(&mut self.is_replaceable) && self.answer.is_some();
        if is_replaced {
            report_unstorable(self.kind, self.call.key.operation(), &error.to_string());
            let reason = Stored::unavailable(reason::REJECTED);
            self.answer = write.record.is_completed().then_some(reason);
        }
        is_replaced
    }

    /// The failure that an undo puts back: that of the record that was taken over.
    fn failure_before(&self) -> Option<&Stored> {
        let taken_over = self.taken_over.as_ref();
        let failed = taken_over.filter(|record| record.meta.state == State::Failed);
        self.failure.or_else(|| failed?.answer.as_ref())
    }

    /// Keeps the record that is taken over, with the results of its steps, which are read within `limit`. An
    /// error if this process cannot read or decode them, so that another process can continue the operation.
    async fn note_takeover(&mut self, limit: Duration) -> Result<(), Error> {
        let Some(mut record) = self.last.take().map(Box::new).or_else(|| self.taken_over.take())
        else {
            return Ok(());
        };
        let until = self.core.table.clock.lasting(limit);
        let read = self.read_step_items(&mut record, Some(until)).await;
        let checked = read.and_then(|()| match &record.steps {
            Some(steps) => check_steps(steps, self.core.coding.of(&self.call.key)),
            None => Ok(()),
        });
        self.taken_over = Some(record);
        checked
    }

    /// Whether the record in the last response has the step that is written, with the same value.
    pub(crate) fn shows_step(&self) -> bool {
        let steps = self.last.as_ref().and_then(|record| record.steps.as_ref());
        let stored = |(name, value): &(String, AttributeValue)| {
            steps.and_then(|steps| steps.get(name)).is_some_and(|stored| stored.encode() == *value)
        };
        self.step.as_deref().is_some_and(stored)
    }

    /// The last error.
    pub(crate) fn take_error(&mut self) -> Error {
        self.error
            .take()
            .unwrap_or_else(|| Error::new(ErrorKind::Unavailable, "the record changes too fast"))
    }
}

/// Logs that an answer cannot be stored: the handler's in an execution, the hook's in an acquisition.
pub(crate) fn report_unstorable(kind: SessionKind, operation: &str, reason: &str) {
    match kind {
        SessionKind::Execution => tracing::error!(
            operation,
            reason,
            "an operation completed and its answer cannot be stored: repeats get an error"
        ),
        SessionKind::Acquisition => tracing::error!(
            operation,
            reason,
            "a reconcile hook's answer cannot be stored: repeats get an error"
        ),
    }
}

/// The reply to a write that was not sent.
const fn not_sent(cause: Cause) -> Reply {
    let outcome = Outcome::Write(WriteResult::NotApplied(cause));
    Reply { outcome, is_in_doubt: false, time: None }
}

/// Represents a record that cannot be decoded.
fn unknown_owner_record(me: &OwnerId) -> RecordMeta {
    let epoch = Timestamp::from_millis(0);
    let record = completed_meta(me.alternate(), 0, epoch, 0);
    RecordMeta { state: State::Failed, completed_at: None, is_same_request: false, ..record }
}
