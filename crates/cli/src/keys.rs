//! The keys that a command was asked to change and has not changed.

use serde_json::{Value, json};

use crate::failure::{Failure, named};
use crate::words::count;

/// How many keys of each kind are listed for people.
const MOST_PRINTED: usize = 20;

/// A scope and a key.
type Key = (String, String);

/// What was not done, and why.
#[derive(Debug, Default)]
pub(crate) struct NotDone {
    failed: Vec<(Key, Failure)>,
    /// Not tried, after a failure that would have met them too.
    untried: Vec<Key>,
    /// A failure that stopped the command and is not of a key that is not done.
    stopped: Option<Failure>,
}

impl NotDone {
    pub(crate) fn failed(&mut self, scope: &str, key: &str, failure: Failure) {
        self.failed.push(((scope.to_owned(), key.to_owned()), failure));
    }

    pub(crate) fn untried(&mut self, scope: &str, key: &str) {
        self.untried.push((scope.to_owned(), key.to_owned()));
    }

    pub(crate) fn stop(&mut self, failure: Failure) {
        self.stopped = Some(failure);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.failed.is_empty() && self.untried.is_empty()
    }

    /// Whether the other keys are not tried.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_some() || self.failed.iter().any(|(_, failure)| !failure.is_of_one_key())
    }

    /// For people: a line for each key. `done` is the participle of the command.
    pub(crate) fn lines(&self, done: &str) -> Vec<String> {
        let failed = self.failed.iter().take(MOST_PRINTED);
        let mut lines: Vec<_> = failed
            .map(|((scope, key), failure)| {
                let was = if failure.is_unknown() { "may be" } else { "was not" };
                format!("{} {was} {done}: {failure}", named(scope, key))
            })
            .collect();
        let untried = self.untried.iter().take(MOST_PRINTED);
        lines.extend(untried.map(|(scope, key)| format!("{} was not tried", named(scope, key))));
        let more = self.failed.len() + self.untried.len() - lines.len();
        if more > 0 {
            lines.push(format!("{} more not {done}", count(more as u64, "key is", "keys are")));
        }
        lines
    }

    /// For programs: adds all keys to the document of the command.
    pub(crate) fn document(&self, document: &mut Value) {
        let failed = self.failed.iter().map(|((scope, key), failure)| {
            json!({"scope": scope, "key": key, "message": failure.to_string()})
        });
        document["failed"] = failed.collect();
        let untried = self.untried.iter().map(|(scope, key)| json!({"scope": scope, "key": key}));
        document["untried"] = untried.collect();
    }

    /// The failure for the exit code: the one that stopped the command, or the first.
    pub(crate) fn end(mut self, asked: usize, done: &str) -> Result<(), Failure> {
        let number = self.failed.len() + self.untried.len();
        let stopping = self.failed.iter().position(|(_, failure)| !failure.is_of_one_key());
        let cause = match (self.stopped, self.failed.is_empty()) {
            (Some(stopped), _) => stopped,
            (None, true) => return Ok(()),
            (None, false) => {
                let ((scope, key), failure) = self.failed.swap_remove(stopping.unwrap_or(0));
                failure.of(&scope, &key)
            }
        };
        if number == 0 {
            return Err(cause);
        }
        let keys = count(asked as u64, "key", "keys");
        let message = format!("{cause}; not {done}: {number} of {keys}");
        Err(Failure::OfKeys { cause: Box::new(cause), message })
    }
}
