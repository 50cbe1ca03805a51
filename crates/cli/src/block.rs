//! `idempotency block`

use std::cell::RefCell;
use std::io::{IsTerminal, Read};
use std::process::ExitCode;
use std::time::Duration;

use dynamodb_idempotency::admin::{Admin, Blocked, StoredRecord, StoredState};
use dynamodb_idempotency::{ErrorKind, Scope};
use futures_util::future::join_all;
use serde_json::json;

use crate::audit::AuditLog;
use crate::failure::{Failure, named};
use crate::keys::NotDone;
use crate::progress::{Pace, Progress, Steps};
use crate::record::Name;
use crate::release::agreed;
use crate::words::{count, plain, span};
use crate::{interrupt, output, record};

/// Printed when the signal comes.
const INTERRUPTED: &str = "interrupted: the keys in flight are finished first. To block the others, run the same command again. \
                           A second interrupt ends the program at once";

/// Some programs write it at the beginning of a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// White space, or a character without width that nobody sees in a file.
fn is_white(char: char) -> bool {
    char.is_whitespace() || matches!(char, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

/// How many keys are written at once.
const AT_ONCE: usize = 16;

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) scope: Scope,
    /// From standard input if there are none.
    pub(crate) keys: Vec<String>,
    pub(crate) sha256: bool,
    pub(crate) lasts: Duration,
    /// Replace a record with which a request can run.
    pub(crate) force: bool,
    pub(crate) yes: bool,
    pub(crate) max_write_units: u32,
}

pub(crate) async fn run(
    admin: Admin<'_>,
    options: Options,
    audit: &AuditLog,
    json: bool,
) -> Result<ExitCode, Failure> {
    let Options { scope, keys, sha256, lasts, force, yes, max_write_units } = options;
    if json && !yes {
        return Err(Failure::Usage("--json cannot ask for consent: add --yes".to_owned()));
    }
    let keys = if keys.is_empty() { typed().await? } else { keys };
    record::question_scope(admin, &scope).await;
    let number = count(keys.len() as u64, "key", "keys");
    let notes = [format!("Until {} from now, no request with them runs.", span(lasts))];
    let question = format!("Block {number} of `{}`?", plain(scope.as_str()));
    if !yes && !agreed(&notes, &question).await? {
        let message = "the block was not confirmed, so nothing was written";
        return Err(Failure::Refused(message.to_owned()));
    }
    interrupt::finish_first(INTERRUPTED);
    let names: Vec<_> = keys.into_iter().map(|key| Name::new(scope.clone(), key, sha256)).collect();
    let block = Block { pace: Pace::new(max_write_units), counts: RefCell::default() };
    let progress = Progress::audited(Steps::Keys(names.len() as u64), audit);
    let work =
        block.all(&names, &progress, async |name| one(admin, name, (lasts, force), audit).await);
    progress.during(|| format!("{} blocked", block.counts.borrow().blocked), work).await;
    let Counts { blocked, replaced, existing, not_done } = block.counts.into_inner();
    if json {
        let summaries =
            |records: &[StoredRecord]| records.iter().map(record::summary).collect::<Vec<_>>();
        let mut document = json!({
            "blocked": blocked,
            "replaced": summaries(&replaced),
            "existing": summaries(&existing),
        });
        not_done.document(&mut document);
        output::document(document);
    } else {
        for (records, verb) in [(&replaced, "had"), (&existing, "has")] {
            for record in records {
                let name = named(&record.scope, &record.key);
                output::line(format!("{name} {verb} a record: {}", record::state(record)));
            }
        }
        for line in not_done.lines("blocked") {
            output::line(line);
        }
        let keys = count(blocked, "key is", "keys are");
        let replaced = match replaced.len() {
            0 => String::new(),
            number => format!(" ({number} in place of a record)"),
        };
        output::line(format!("{keys} blocked{replaced}, {} had a record", existing.len()));
    }
    // A second run finds what the first one has blocked.
    not_done.end(names.len(), "blocked")?;
    match existing.iter().filter(|record| !is_protected(record)).count() {
        0 => Ok(ExitCode::SUCCESS),
        number => {
            let keys = count(number as u64, "key has", "keys have");
            let what = if force { "wait for its lease" } else { "--force blocks it" };
            Err(Failure::Refused(format!(
                "{keys} a record with which a request can run, and which was not changed: look at \
                 it with `show`; {what}"
            )))
        }
    }
}

/// The outcomes of the keys.
#[derive(Debug, Default)]
struct Counts {
    blocked: u64,
    replaced: Vec<StoredRecord>,
    existing: Vec<StoredRecord>,
    not_done: NotDone,
}

/// A running block.
#[derive(Debug)]
struct Block {
    pace: Pace,
    counts: RefCell<Counts>,
}

impl Block {
    /// Blocks the keys, some at once, until a failure would meet the others too.
    async fn all(
        &self,
        names: &[Name],
        progress: &Progress,
        one: impl AsyncFn(&Name) -> (Result<Blocked, Failure>, Result<(), Failure>),
    ) {
        for some in names.chunks(AT_ONCE) {
            let is_stopped = || self.counts.borrow().not_done.is_stopped();
            if !is_stopped() {
                self.pace.wait().await;
            }
            if interrupt::has_come() {
                self.counts.borrow_mut().not_done.stop(Failure::Interrupted);
            }
            if is_stopped() {
                for name in some {
                    self.counts.borrow_mut().not_done.untried(name.scope.as_str(), &name.key);
                }
                continue;
            }
            let ended = join_all(some.iter().map(|name| one(name))).await;
            for (name, (result, concluded)) in some.iter().zip(ended) {
                self.add(name, result, concluded);
            }
            progress.add(some.len() as u64);
        }
    }

    fn add(&self, name: &Name, result: Result<Blocked, Failure>, concluded: Result<(), Failure>) {
        let mut counts = self.counts.borrow_mut();
        let units = match result {
            Ok(Blocked::Written) => {
                counts.blocked += 1;
                units_of_blocker(name)
            }
            Ok(Blocked::Replaced(record)) => {
                // The first write was rejected, which is billed too.
                let units = 2 * record.write_units();
                counts.blocked += 1;
                counts.replaced.push(*record);
                units
            }
            Ok(Blocked::Exists(record)) => {
                let units = record.write_units();
                counts.existing.push(*record);
                units
            }
            Err(failure) => {
                counts.not_done.failed(name.scope.as_str(), &name.key, failure);
                units_of_blocker(name)
            }
        };
        self.pace.wrote(units);
        if let Err(failure) = concluded {
            counts.not_done.stop(failure);
        }
    }
}

/// The write units of a blocker, at most. Its attributes have less than half a KB without the key.
fn units_of_blocker(name: &Name) -> u64 {
    1 + (name.scope.as_str().len() + name.key.len() + 512) as u64 / 1024
}

/// Blocks a key, between its two audit lines. Returns its outcome, and the failure of the second line.
async fn one(
    admin: Admin<'_>,
    name: &Name,
    (lasts, force): (Duration, bool),
    audit: &AuditLog,
) -> (Result<Blocked, Failure>, Result<(), Failure>) {
    let scope = name.scope.as_str();
    let key_hash = match name.key_hash(admin) {
        Ok(key_hash) => key_hash,
        Err(error) => return (Err(error.into()), Ok(())),
    };
    if let Err(failure) = audit.intend_block(scope, &key_hash) {
        return (Err(failure), Ok(()));
    }
    let result = name.block(admin, lasts, force).await;
    let outcome = match &result {
        Ok(Blocked::Written) => "blocked",
        Ok(Blocked::Replaced(_)) => "replaced",
        Ok(Blocked::Exists(_)) => "exists",
        Err(error) if error.kind() == ErrorKind::OutcomeUnknown => "unknown",
        Err(_) => "failed",
    };
    let concluded = audit.conclude_block(outcome, scope, &key_hash);
    let concluded = concluded.map_err(|failure| failure.of(scope, &name.key));
    (result.map_err(Failure::from), concluded)
}

/// Whether no request of the record's key runs while it exists.
fn is_protected(record: &StoredRecord) -> bool {
    match record.state {
        StoredState::Completed { .. } | StoredState::Blocked => true,
        StoredState::Pending { .. } | StoredState::Failed { .. } | StoredState::Released => false,
    }
}

/// The keys on standard input, one on each line.
async fn typed() -> Result<Vec<String>, Failure> {
    let input = std::io::stdin();
    if input.is_terminal() {
        let message = "name the keys, or pass them on standard input, one on each line";
        return Err(Failure::Usage(message.to_owned()));
    }
    let mut bytes = Vec::new();
    let read = move || input.lock().read_to_end(&mut bytes).map(|_| bytes);
    keys_of(&interrupt::blocking(read).await??)
}

/// The keys in a text file, of Windows too.
fn keys_of(bytes: &[u8]) -> Result<Vec<String>, Failure> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let mut keys = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let wrong = |what: &str, fix: &str| {
            let line = index + 1;
            let message =
                format!("line {line} of standard input {what}; nothing was written: {fix}");
            Failure::Usage(message)
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let key = str::from_utf8(line).map_err(|_| wrong("is not UTF-8", "convert the file"))?;
        if key.trim_matches(is_white) != key {
            let what = "begins or ends with white space, which would be part of the key";
            return Err(wrong(what, "remove it, or name the key as an argument"));
        }
        if !key.is_empty() {
            keys.push(key.to_owned());
        }
    }
    if keys.is_empty() {
        return Err(Failure::Usage("there is no key on standard input".to_owned()));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_windows_has_the_keys_that_one_sees() {
        assert_eq!(keys_of(b"\xef\xbb\xbfa\r\n\r\nb c\nd").unwrap(), ["a", "b c", "d"]);
    }

    #[test]
    fn a_key_that_is_not_what_one_sees_is_refused_with_its_line() {
        for wrong in ["a\n b", "a\nb\u{a0}", "a\n\u{feff}b", "a\nb\u{200b}\n"] {
            let message = keys_of(wrong.as_bytes()).unwrap_err().to_string();
            assert!(message.contains("line 2") && message.contains("white space"), "{message}");
        }
        let message = keys_of(b"a\nb\xff").unwrap_err().to_string();
        assert!(message.contains("line 2") && message.contains("not UTF-8"), "{message}");
        assert!(keys_of(b"\n\r\n").is_err());
    }
}
