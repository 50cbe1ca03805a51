//! Results of steps in items of their own. The record only notes them, so that no later write pays for their size
//! again. An item is written before its note, and read before a takeover. Its content never changes.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::call::core::Core;
use crate::call::session::Session;
use crate::call::steps::{StepItem, StepItems};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind};
use crate::protocol::{
    Cause, Form, Outcome, RecordMeta, Reply, STEP_ITEM_MARGIN, Write, WriteResult as Written,
};
use crate::store::WriteResult;
use crate::store::key::RecordKey;
use crate::store::record::{
    self, ItemValue, MAX_ITEM_BYTES, Note, Record, StepValue, StoredStep, StoredSteps,
    step_item_bytes,
};

/// The limit for requests of items in flight. Most items are small, and a takeover waits for all of them.
const MAX_IN_FLIGHT: usize = 32;

/// Copies the results that were read for an earlier version of the record.
fn reuse(steps: &mut StoredSteps, earlier: &StoredSteps) {
    for (name, step) in steps {
        if let (
            StoredStep::InItem(note, value @ ItemValue::Unread),
            Some(StoredStep::InItem(same, read @ ItemValue::Read(_))),
        ) = (step, earlier.get(name))
            && note == same
        {
            *value = read.clone();
        }
    }
}

impl Session<'_> {
    /// Puts the item of a step, as one request of the step.
    pub(super) async fn put_step_item(
        &mut self,
        item: &StepItem,
        expires_at: i64,
        limit: Duration,
    ) -> Reply {
        let table = &self.core.table;
        let reply = table.put_step_item(&item.key, expires_at, &item.value, limit).await;
        let result = match reply.outcome {
            WriteResult::Applied => self.step_item_is_there(item, expires_at),
            WriteResult::Rejected(Some(found)) => {
                match record::step_item_value(&table.schema, found, item.note) {
                    Some((_, expires_at)) => self.step_item_is_there(item, expires_at),
                    None => Written::NotApplied(self.note_error(other_contents())),
                }
            }
            // The rejection does not show what is there, so the item is put again.
            WriteResult::Rejected(None) => Written::Conflict(Cause::Outage),
            WriteResult::Unknown(error) => Written::Unknown(self.note_error(error)),
            WriteResult::Conflict(error) => Written::Conflict(self.note_error(error)),
            WriteResult::TokenUsed(error)
            | WriteResult::Invalid(error)
            | WriteResult::NotApplied(error) => Written::NotApplied(self.note_error(error)),
        };
        Reply { outcome: Outcome::Write(result), is_in_doubt: false, time: reply.time }
    }

    fn step_item_is_there(&self, item: &StepItem, expires_at: i64) -> Written<RecordMeta> {
        self.call.step_items.lock().insert(item.key.clone(), expires_at);
        Written::Applied
    }

    /// Reads the items that the record notes.
    pub(super) async fn read_step_items(
        &mut self,
        record: &mut Record,
        until: Option<Deadline>,
    ) -> Result<(), Error> {
        let Some(steps) = &mut record.steps else { return Ok(()) };
        if let Some(earlier) = self.taken_over.as_ref().and_then(|record| record.steps.as_ref()) {
            reuse(steps, earlier);
        }
        let (key, max_bytes) = (&self.call.key, self.call.policy.max_answer_bytes);
        self.core.read_step_items(key, steps, &self.call.step_items, (max_bytes, until)).await
    }

    /// The items that would end before the record, after this write.
    pub(super) fn ending_step_items(&self, write: &Write) -> Vec<RecordKey> {
        match write.form() {
            Form::Update | Form::Stamp => {
                self.call.step_items.that_end_before(write.record.expires_at)
            }
            // These remove the steps, or do not move the end of the record.
            Form::Put | Form::Transaction | Form::UpdateWithoutSteps | Form::Touch | Form::Step => {
                Vec::new()
            }
        }
    }

    /// Moves the ends of these items, before the end of the record is moved to `expires_at`.
    pub(super) async fn keep_step_items(
        &mut self,
        ending: Vec<RecordKey>,
        expires_at: i64,
        limit: Duration,
    ) -> Result<(), Cause> {
        let (core, items) = (self.core, &self.call.step_items);
        let margin = i64::try_from(STEP_ITEM_MARGIN.as_secs()).unwrap_or(i64::MAX);
        let until = expires_at.saturating_add(margin);
        let by = core.table.clock.lasting(limit);
        let extensions = stream::iter(ending).map(|key| {
            async move {
                let (table, of) = (&core.table, &key);
                let extend =
                    |limit| async move { table.extend_step_item(of, until, limit).await.outcome };
                core.confirm_unchanging(by, extend).await?;
                items.lock().insert(key, until);
                Ok::<_, Error>(())
            }
            .boxed()
        });
        let extended = extensions.buffer_unordered(MAX_IN_FLIGHT).try_collect().await;
        extended.map_err(|error| self.note_error(error))
    }
}

impl Core {
    /// Returns the item of a step's result; `None` if an item or its key has no room for it.
    pub(super) fn step_item(
        &self,
        key: &RecordKey,
        name: &str,
        value: &StepValue,
    ) -> Option<StepItem> {
        let (schema, note) = (&self.table.schema, value.note());
        let key = key.step_item(name, note.digest, schema.max_key_bytes())?;
        let fits = value.len() <= MAX_ITEM_BYTES - record::step_item_overhead(schema, &key);
        fits.then(|| StepItem { key, note, value: value.clone() })
    }

    /// Reads the items that the steps of the record of `key` note, of at most `max_bytes` together. An error if
    /// DynamoDB does not answer, or if they are larger. An item that is missing or damaged is
    /// [`ItemValue::Missing`].
    pub(crate) async fn read_step_items(
        &self,
        key: &RecordKey,
        steps: &mut StoredSteps,
        items: &StepItems,
        (max_bytes, until): (usize, Option<Deadline>),
    ) -> Result<(), Error> {
        let bytes = step_item_bytes(steps);
        if bytes > max_bytes {
            let message = format!(
                "the results of the steps of an unfinished operation have {bytes} bytes, more than this \
                 process may read: raise Policy::max_answer_bytes ({max_bytes})"
            );
            return Err(Error::new(ErrorKind::StepsUnreadable, message));
        }
        let mut unread = Vec::new();
        for (name, step) in &*steps {
            match step {
                StoredStep::InItem(note, ItemValue::Unread) => unread.push((name.clone(), *note)),
                StoredStep::InItem(..) | StoredStep::Inline(_) | StoredStep::Unavailable => {}
            }
        }
        let count = unread.len();
        let reads = stream::iter(unread)
            .map(|(name, note)| self.read_step_item(key, name, note, items, until).boxed());
        let read: Result<Vec<_>, Error> = reads.buffer_unordered(MAX_IN_FLIGHT).try_collect().await;
        steps.extend(read.map_err(|error| not_all_read(count, error))?);
        Ok(())
    }

    /// Reads the item of a step. Returns the name and the step.
    async fn read_step_item(
        &self,
        key: &RecordKey,
        name: String,
        note: Note,
        items: &StepItems,
        until: Option<Deadline>,
    ) -> Result<(String, StoredStep), Error> {
        let schema = &self.table.schema;
        // No item has been written under a key that is too long.
        let item_key = key.step_item(&name, note.digest, schema.max_key_bytes());
        let found = match &item_key {
            Some(item_key) => self.read_unchanging(item_key, until).await?,
            None => None,
        };
        let found = found.and_then(|item| record::step_item_value(schema, item, note));
        let (Some((value, expires_at)), Some(item_key)) = (found, item_key) else {
            tracing::error!(
                operation = key.operation(),
                "the result of a stored step is missing or damaged: repeats get an error"
            );
            return Ok((name, StoredStep::InItem(note, ItemValue::Missing)));
        };
        items.lock().insert(item_key, expires_at);
        Ok((name, StoredStep::InItem(note, ItemValue::Read(value))))
    }
}

fn not_all_read(count: usize, error: Error) -> Error {
    if !error.is_outage() {
        return error;
    }
    let message = format!(
        "{count} results of steps have items, which were not all read in time: try again, or raise \
         Builder::request_timeout"
    );
    Error::new(ErrorKind::Unavailable, message).with_source(error)
}

/// The error of an item whose key is taken by an item that is damaged, or of a newer format.
fn other_contents() -> Error {
    let message = "the table has another item under the key of a step's result";
    Error::new(ErrorKind::UnknownRecord, message)
}
