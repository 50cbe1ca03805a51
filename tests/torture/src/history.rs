//! The history of a run: the logs of the processes and the contents of the tables.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::event::{Entry, Event};
use crate::store::{Effect, Stored};

/// Everything about one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// In the order of their times.
    pub(crate) entries: Vec<Entry>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) record: Option<Stored>,
}

/// By key, in numerical order.
pub(crate) type Histories = BTreeMap<(usize, String), History>;

/// Combines logs and tables. `keys` are the keys that must exist.
pub(crate) fn gather(
    keys: impl IntoIterator<Item = String>,
    entries: Vec<Entry>,
    effects: Vec<Effect>,
    records: HashMap<String, Stored>,
) -> Histories {
    let mut histories: Histories =
        keys.into_iter().map(|key| (place(key), History::default())).collect();
    for entry in entries {
        histories.entry(place(entry.key.clone())).or_default().entries.push(entry);
    }
    for effect in effects {
        histories.entry(place(effect.key.clone())).or_default().effects.push(effect);
    }
    for (key, record) in records {
        histories.entry(place(key)).or_default().record = Some(record);
    }
    for history in histories.values_mut() {
        history.entries.sort_by_key(|entry| entry.at);
        history.effects.sort_by_key(|effect| effect.started);
    }
    histories
}

fn place(key: String) -> (usize, String) {
    (key.len(), key)
}

/// The logs of all processes, read as they grow.
#[derive(Debug)]
pub(crate) struct Logs {
    folder: PathBuf,
    /// How much of each file was read.
    read: HashMap<PathBuf, u64>,
    pub(crate) entries: Vec<Entry>,
    /// Calls that have ended.
    pub(crate) operations: u64,
}

impl Logs {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, read: HashMap::new(), entries: Vec::new(), operations: 0 }
    }

    /// Reads new lines. An incomplete line is left: its writer was killed, or is still writing.
    pub(crate) fn read(&mut self) -> Result<()> {
        for file in fs::read_dir(&self.folder)? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                self.read_file(path)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, path: PathBuf) -> Result<()> {
        let mut file = File::open(&path)?;
        let begin = self.read.get(&path).copied().unwrap_or(0);
        if file.metadata()?.len() == begin {
            return Ok(());
        }
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            let entry: Entry = serde_json::from_slice(line)
                .with_context(|| format!("{}: no entry", path.display()))?;
            let is_end = matches!(entry.event, Event::Answered { .. } | Event::Refused { .. });
            self.operations += u64::from(is_end);
            self.entries.push(entry);
        }
        self.read.insert(path, begin + whole as u64);
        Ok(())
    }
}
