//! What an execution knows of its steps: those that earlier attempts stored, the names in use, and the room that is
//! left.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::types::AttributeValue;

use crate::error::{Error, ErrorKind};
use crate::store::key::RecordKey;
use crate::store::record::{
    Note, SENT, StepValue, StoredStep, StoredSteps, sent_by, step_item_bytes, steps_bytes,
};

/// The longest name of a step, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// The limit for the steps in a record, with their names, in bytes. The rest of an item's 400 KB is for the other
/// attributes and for a kept failure.
pub(crate) const MAX_BYTES: usize = 256 * 1024;

/// What DynamoDB bills as one unit of a write.
const WRITE_UNIT: usize = 1024;

/// What an execution knows of its steps.
#[derive(Debug)]
pub(crate) struct Steps(Mutex<Known>);

#[derive(Debug)]
pub(crate) struct Known {
    /// The steps that earlier attempts stored.
    done: StoredSteps,
    /// The names that this execution has used.
    used: HashSet<String>,
    /// The size in the record of all steps that are stored, or about to be stored.
    pub(crate) bytes: usize,
    /// The size of the results in items.
    item_bytes: usize,
}

/// Where a result is stored, and the value in the record.
pub(super) enum Placed {
    InRecord(AttributeValue),
    InItem(StepItem),
}

/// What limits the results of steps, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) record_without_steps: usize,
    /// For the results in items.
    pub(super) max_item_bytes: usize,
}

/// The error says why a step cannot have this name.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        let bytes = name.len();
        return Err(format!("a step's name has 1 to {MAX_NAME_BYTES} bytes, this one {bytes}"));
    }
    if name.contains(SENT) {
        return Err(format!("a step's name does not contain `{SENT}`: choose another"));
    }
    Ok(())
}

impl Steps {
    pub(crate) fn new(found: Option<StoredSteps>) -> Self {
        let done = found.unwrap_or_default();
        let (bytes, item_bytes) = (steps_bytes(&done), step_item_bytes(&done));
        let used = HashSet::new();
        Self(Mutex::new(Known { done, used, bytes, item_bytes }))
    }

    /// Never hold the lock across an await: a step whose future is not polled would block the others.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a name for a step, and finds what an earlier attempt left under it.
    pub(super) fn reserve<'a>(
        &'a self,
        name: &'a str,
    ) -> Result<(Name<'a>, Option<StoredStep>), Error> {
        let invalid = |message| Err(Error::new(ErrorKind::InvalidUse, message));
        if let Err(message) = check_name(name) {
            return invalid(message);
        }
        let mut known = self.lock();
        let done = known.done.get(name).cloned();
        if done.is_none() && known.bytes + StoredStep::Unavailable.bytes(name) > MAX_BYTES {
            let message =
                format!("step `{name}` was not started: the earlier ones fill the record");
            return invalid(format!("{message}, with {} of {MAX_BYTES} bytes", known.bytes));
        }
        if !known.used.insert(name.to_owned()) {
            return invalid(format!(
                "step `{name}` is used twice in one execution: give it another name"
            ));
        }
        Ok((Name { steps: self, text: name }, done))
    }

    /// The note of the last earlier attempt that may have sent the request of a step
    /// ([`step_at_most_once`](crate::Execution::step_at_most_once)).
    pub(super) fn last_note(&self, name: &str) -> Option<(u32, StoredStep)> {
        let known = self.lock();
        let notes = known.done.iter().filter_map(|(key, note)| {
            let (of, attempt) = sent_by(key)?;
            (of == name).then(|| (attempt, note.clone()))
        });
        notes.max_by_key(|(attempt, _)| *attempt)
    }

    /// Reserves room for a result: in the record as long as the record takes no further write unit for it, or
    /// if an item has no advantage or no room. `item` makes the item of the result; `None` if that is not
    /// possible. The error is why the result cannot be stored.
    pub(super) fn place(
        &self,
        name: &str,
        value: &StepValue,
        room: Room,
        item: impl FnOnce() -> Option<StepItem>,
    ) -> Result<Placed, String> {
        let mut known = self.lock();
        let bytes = value.bytes(name);
        let free = room.record_without_steps.next_multiple_of(WRITE_UNIT);
        if room.record_without_steps + known.bytes + bytes > free
            && known.item_bytes + value.len() <= room.max_item_bytes
            && let Some(item) = item()
        {
            let noted = item.note.bytes(name);
            if noted < bytes && known.bytes + noted <= MAX_BYTES {
                known.bytes += noted;
                known.item_bytes += value.len();
                return Ok(Placed::InItem(item));
            }
        }
        known.take(bytes)?;
        Ok(Placed::InRecord(value.encode()))
    }

    /// Reserves room in the record.
    pub(super) fn place_in_record(
        &self,
        name: &str,
        value: &StepValue,
    ) -> Result<AttributeValue, String> {
        self.lock().take(value.bytes(name))?;
        Ok(value.encode())
    }

    /// Reserves room for a step whose result cannot be stored.
    pub(super) fn place_unavailable(&self, name: &str) {
        self.lock().bytes += StoredStep::Unavailable.bytes(name);
    }

    /// Reserves room in the record for a result whose item was not confirmed. `None` if there is none.
    pub(super) fn move_into_record(&self, name: &str, item: StepItem) -> Option<AttributeValue> {
        let mut known = self.lock();
        let StepItem { note, value, .. } = item;
        known.bytes -= note.bytes(name);
        known.item_bytes -= value.len();
        if known.take(value.bytes(name)).is_err() {
            known.bytes += StoredStep::Unavailable.bytes(name);
            return None;
        }
        Some(value.encode())
    }
}

impl Known {
    /// Reserves bytes in the record. The error says why there are not enough.
    fn take(&mut self, bytes: usize) -> Result<(), String> {
        let all = self.bytes + bytes;
        if all > MAX_BYTES {
            let message = "and all steps in the record would have";
            return Err(format!("it has {bytes} bytes, {message} {all} of {MAX_BYTES}"));
        }
        self.bytes = all;
        Ok(())
    }
}

/// A name in use. It is free again if its step cannot be in the record.
pub(super) struct Name<'a> {
    steps: &'a Steps,
    text: &'a str,
}

impl Name<'_> {
    /// The name stays in use.
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Name<'_> {
    fn drop(&mut self) {
        self.steps.lock().used.remove(self.text);
    }
}

/// The item of a step that has run.
#[derive(Debug)]
pub(super) struct StepItem {
    pub(super) key: RecordKey,
    pub(super) note: Note,
    pub(super) value: StepValue,
}

/// The items that a record notes, as far as a call knows them, with the end of each in epoch seconds.
#[derive(Debug, Default)]
pub(crate) struct StepItems(Mutex<HashMap<RecordKey, i64>>);

impl StepItems {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<RecordKey, i64>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The items that end before `until`.
    pub(super) fn that_end_before(&self, until: i64) -> Vec<RecordKey> {
        let items = self.lock();
        let ending = items.iter().filter(|(_, end)| **end < until);
        ending.map(|(key, _)| key.clone()).collect()
    }
}
