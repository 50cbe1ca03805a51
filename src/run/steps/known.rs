//! What an execution knows of its steps, before and after it stores them.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind};
use crate::store::record::{StoredStep, StoredSteps, steps_bytes};

/// The longest name of a step, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// What the results of all steps of an operation may take, names included, in bytes. The rest of an
/// item's 400 KB is for the other attributes and for a failure that is kept.
const MAX_BYTES: usize = 256 * 1024;

/// What an execution knows of its steps.
#[derive(Debug)]
pub(crate) struct Steps(Mutex<Known>);

#[derive(Debug)]
pub(crate) struct Known {
    /// What earlier attempts left.
    done: StoredSteps,
    /// The names that this execution has used.
    used: HashSet<String>,
    /// The size of all steps that are stored or about to be.
    pub(crate) bytes: usize,
    /// Whether the record has the attribute, as far as is known.
    pub(super) has_map: bool,
    /// Whether this execution has sent a step. Steps of earlier attempts do not count.
    pub(crate) are_sent: bool,
}

impl Steps {
    pub(crate) fn new(found: Option<StoredSteps>) -> Self {
        let has_map = found.is_some();
        let done = found.unwrap_or_default();
        let bytes = steps_bytes(&done);
        let used = HashSet::new();
        Self(Mutex::new(Known { done, used, bytes, has_map, are_sent: false }))
    }

    /// Whether the record may hold steps, so that it must not be released.
    pub(crate) fn may_be_stored(&self) -> bool {
        let known = self.lock();
        known.has_map || known.are_sent
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
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let message = format!("a step's name has 1 to {MAX_NAME_BYTES} bytes");
            return invalid(format!("{message}, this one {}", name.len()));
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

    /// Reserves room for a result. The error is why it cannot be stored.
    pub(super) fn make_room(
        &self,
        name: &str,
        made: Result<StoredStep, String>,
    ) -> Result<StoredStep, String> {
        let mut known = self.lock();
        let made = made.and_then(|step| {
            let bytes = step.bytes(name);
            let all = known.bytes + bytes;
            if all > MAX_BYTES {
                let message = "and all steps together would have";
                return Err(format!("it has {bytes} bytes, {message} {all} of {MAX_BYTES}"));
            }
            Ok(step)
        });
        known.bytes += made.as_ref().unwrap_or(&StoredStep::Unavailable).bytes(name);
        made
    }

    /// Notes that a step is being sent. Returns whether the record is known to have the map of steps.
    pub(super) fn begin_write(&self) -> bool {
        let mut known = self.lock();
        known.are_sent = true;
        known.has_map
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
