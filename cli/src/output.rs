//! What goes to the standard output: to people, programs and pipes, which may close early.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use crate::failure::Failure;

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
