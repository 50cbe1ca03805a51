//! Standard output and standard error, for people, programs and pipes.
//!
//! An error of the standard output does not change the work: later output is dropped. A reader that closes its end
//! early, as `head` and `grep -q` do, does not change the exit code either.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::failure::Failure;

/// The version of the JSON layout. It changes when a member is removed or changes its meaning, not
/// when one is added.
const SCHEMA: u32 = 1;

/// Adds the layout version to a JSON document.
pub(crate) fn versioned(mut document: Value) -> Value {
    if let Some(members) = document.as_object_mut() {
        members.insert("schema".to_owned(), json!(SCHEMA));
    }
    document
}

/// Prints a JSON document.
pub(crate) fn document(document: Value) {
    line(versioned(document));
}

/// Prints a line.
pub(crate) fn line(text: impl Display) {
    print(format!("{text}\n"));
}

/// Prints text without adding a line break.
pub(crate) fn print(text: impl AsRef<[u8]>) {
    if has_ended() {
        return;
    }
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        // Nothing else sets it between the check and here.
        drop(ENDED.set(error));
    }
}

/// The first error of the standard output.
static ENDED: OnceLock<std::io::Error> = OnceLock::new();

/// Whether the standard output takes no more.
pub(crate) fn has_ended() -> bool {
    ENDED.get().is_some()
}

/// The failure of a command whose output could not be written, unless its reader has closed it.
pub(crate) fn end() -> Result<(), Failure> {
    match ENDED.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Other(format!("the output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Set for programs: all that is printed is JSON.
static JSON: AtomicBool = AtomicBool::new(false);

pub(crate) fn use_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Prints a remark to standard error, for programs as a document.
pub(crate) fn remark(text: impl Display) {
    if JSON.load(Ordering::Relaxed) {
        note(versioned(json!({"note": text.to_string()})));
    } else {
        note(text);
    }
}

/// Prints a line to standard error. Write errors are ignored; `eprintln!` would panic.
pub(crate) fn note(text: impl Display) {
    drop(writeln!(std::io::stderr(), "{text}"));
}
