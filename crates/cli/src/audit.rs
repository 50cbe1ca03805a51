//! Who released or blocked which key, and why: two lines for each write that has a reason, one before the
//! request and one with its outcome.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use dynamodb_idempotency::admin::StoredRecord;
use serde_json::{Value, json};

use crate::args::Audit;
use crate::failure::Failure;
use crate::output;
use crate::words::time;

/// Where audit lines go, and what is the same in each.
#[derive(Debug)]
pub(crate) struct AuditLog {
    reason: Option<String>,
    table: String,
    /// The standard error without it.
    file: Option<File>,
}

impl AuditLog {
    /// Opened before anything is written to the table: no write must happen that leaves no line.
    pub(crate) fn open(audit: Audit, table: &str) -> Result<Self, Failure> {
        let open = |path: PathBuf| {
            let mut options = OpenOptions::new();
            let options = options.create(true).append(true);
            let opened = options.clone().read(true).open(&path);
            // A log that may not be read is only written to.
            opened.or_else(|_| options.open(&path)).map_err(|error| {
                Failure::Other(format!("the audit log {}: {error}", path.display()))
            })
        };
        let file = audit.audit_log.map(open).transpose()?;
        Ok(Self { reason: audit.reason, table: table.to_owned(), file })
    }

    /// Whether the lines go to standard error.
    pub(crate) const fn prints(&self) -> bool {
        self.reason.is_some() && self.file.is_none()
    }

    /// Says what is about to be done. If this line cannot be written, nothing is done.
    pub(crate) fn intend(&self, record: &StoredRecord, forced: bool) -> Result<(), Failure> {
        self.write("intended", release(record, forced)).map_err(|error| nothing_written(&error))
    }

    /// As [`intend`](Self::intend), for a key that is about to be blocked.
    pub(crate) fn intend_block(&self, scope: &str, key_hash: &str) -> Result<(), Failure> {
        self.write("intended", block(scope, key_hash)).map_err(|error| nothing_written(&error))
    }

    /// Says how a block ended: `blocked`, `exists` (nothing was written), `failed` or `unknown`.
    pub(crate) fn conclude_block(
        &self,
        outcome: &str,
        scope: &str,
        key_hash: &str,
    ) -> Result<(), Failure> {
        self.write(outcome, block(scope, key_hash)).map_err(|error| {
            Failure::Other(format!(
                "the outcome of the block is `{outcome}`, and the audit log fails: {error}"
            ))
        })
    }

    /// Says how it ended: `released`, `gone`, `changed`, `failed` (nothing was written) or `unknown`.
    pub(crate) fn conclude(
        &self,
        outcome: &str,
        record: &StoredRecord,
        forced: bool,
    ) -> Result<(), Failure> {
        self.write(outcome, release(record, forced)).map_err(|error| {
            let message = format!(
                "the outcome of the release is `{outcome}`, and the audit log fails: {error}"
            );
            Failure::Other(message)
        })
    }

    /// The key is in it as log lines have it.
    fn write(&self, outcome: &str, mut line: Value) -> std::io::Result<()> {
        let Some(reason) = &self.reason else { return Ok(()) };
        line["at"] = json!(time(SystemTime::now()));
        line["outcome"] = json!(outcome);
        line["table"] = json!(self.table);
        line["reason"] = json!(reason);
        line["user"] = json!(std::env::var("USER").ok());
        let line = output::versioned(line);
        // In one write, so that lines of several programs do not mix.
        let line = format!("{line}\n");
        match self.file.as_ref() {
            Some(mut file) if is_torn(file) => file.write_all(format!("\n{line}").as_bytes()),
            Some(mut file) => file.write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        }
    }
}

/// Whether the last line has no end, as after a write to a full disk. False for what has no places, such
/// as a pipe, or may not be read. Reading does not change where a line is appended.
fn is_torn(mut file: &File) -> bool {
    let mut last = [0];
    let read = file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last));
    read.is_ok() && last != *b"\n"
}

fn nothing_written(error: &std::io::Error) -> Failure {
    Failure::Other(format!("nothing was written to the table: the audit log fails: {error}"))
}

fn release(record: &StoredRecord, forced: bool) -> Value {
    json!({
        "action": "release",
        "scope": record.scope,
        "key_hash": record.key_hash(),
        "status": record.status(),
        "attempt": record.attempt,
        "owner": record.owner,
        "forced": forced,
    })
}

fn block(scope: &str, key_hash: &str) -> Value {
    json!({"action": "block", "scope": scope, "key_hash": key_hash})
}
