//! Who made which key free, and why: a line for each release that has a reason.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use dynamodb_idempotency::admin::StoredRecord;
use serde_json::json;

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
    /// Before anything is written to the table: a release that leaves no line must not happen.
    pub(crate) fn open(audit: Audit, table: &str) -> Result<Self, Failure> {
        let open = |path: PathBuf| {
            let opened = OpenOptions::new().create(true).append(true).open(&path);
            opened.map_err(|error| {
                Failure::Other(format!("the audit log {}: {error}", path.display()))
            })
        };
        let file = audit.audit_log.map(open).transpose()?;
        Ok(Self { reason: audit.reason, table: table.to_owned(), file })
    }

    /// The key is in it as log lines have it.
    pub(crate) fn write(
        &self,
        outcome: &str,
        record: &StoredRecord,
        forced: bool,
    ) -> Result<(), Failure> {
        let Some(reason) = &self.reason else { return Ok(()) };
        let line = output::versioned(json!({
            "at": time(SystemTime::now()),
            "action": "release",
            "outcome": outcome,
            "table": self.table,
            "scope": record.scope,
            "key_hash": record.key_hash(),
            "status": record.status(),
            "attempt": record.attempt,
            "owner": record.owner,
            "forced": forced,
            "reason": reason,
            "user": std::env::var("USER").ok(),
        }));
        let Some(mut file) = self.file.as_ref() else {
            eprintln!("{line}");
            return Ok(());
        };
        // In one write, so that lines of several programs do not mix.
        file.write_all(format!("{line}\n").as_bytes()).map_err(|error| {
            Failure::Other(format!("{outcome}, and the audit log is not written: {error}"))
        })
    }
}
