//! The logs of the processes: one JSON line for each event, in one file for each process, written with
//! one system call for each line. Lines written before a SIGKILL survive it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::now;

/// An event with its time and its process.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Entry {
    /// Epoch milliseconds.
    pub(crate) at: i64,
    pub(crate) process: String,
    pub(crate) key: String,
    #[serde(flatten)]
    pub(crate) event: Event,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A handler starts. `at` was read before the lease, so the lease is at most this long.
    Started {
        owner: String,
        attempt: u32,
        lease_ends: i64,
    },
    /// The owner observed that its lease was renewed.
    Renewed {
        owner: String,
        lease_ends: i64,
    },
    /// The handler is about to fail, before any effect.
    Failing {
        owner: String,
    },
    /// The handler is about to commit. If that is not confirmed, its record is released.
    Committing {
        owner: String,
    },
    Answered {
        how: How,
        answer: Answer,
    },
    /// The call ended without an answer: the kind of the error.
    Refused {
        kind: String,
    },
}

/// How a caller got its answer.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    Executed,
    Replayed,
    /// The completion could not be confirmed.
    Unconfirmed,
}

/// The answer of a handler, which differs for each owner.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Answer {
    pub(crate) key: String,
    pub(crate) owner: String,
    pub(crate) attempt: u32,
}

/// The log of one process.
#[derive(Debug)]
pub(crate) struct Log {
    process: String,
    file: File,
}

impl Log {
    /// Creates the file. Its name without the extension is the name of the process.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        let file = file.with_context(|| format!("no log at {}", path.display()))?;
        let process = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { process, file })
    }

    pub(crate) fn write(&self, key: &str, event: Event) -> io::Result<()> {
        self.write_at(now(), key, event)
    }

    pub(crate) fn write_at(&self, at: i64, key: &str, event: Event) -> io::Result<()> {
        let entry = Entry { at, process: self.process.clone(), key: key.to_owned(), event };
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        // Unbuffered, so the line is written completely or not at all.
        (&self.file).write_all(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_line_and_round_trips() {
        let answer = Answer { key: "k1".into(), owner: "a\n".into(), attempt: 2 };
        let event = Event::Answered { how: How::Executed, answer };
        let entry = Entry { at: 5, process: "w0-1".into(), key: "k1".into(), event };
        let line = serde_json::to_string(&entry).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
    }
}
