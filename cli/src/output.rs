//! What goes to the standard output: to people, programs and pipes, which may close early.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use serde_json::{Value, json};

use crate::failure::Failure;

/// The number of the layout of what programs get; it changes when a member goes or changes its meaning,
/// and not when one is new.
const SCHEMA: u32 = 1;

/// A document for programs, with the number of its layout.
pub(crate) fn versioned(mut document: Value) -> Value {
    if let Some(members) = document.as_object_mut() {
        members.insert("schema".to_owned(), json!(SCHEMA));
    }
    document
}

/// Prints a document for programs.
pub(crate) fn document(document: Value) -> Result<(), Failure> {
    line(versioned(document))
}

/// Prints a line.
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    print(format!("{text}\n"))
}

/// Prints text as it is.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_ref()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::Other(format!("the output cannot be written: {error}")),
    })
}
