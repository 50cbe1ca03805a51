//! What ends a command: one line that says what is wrong and what to do.

use std::error::Error as StdError;
use std::fmt;
use std::process::ExitCode;

use dynamodb_idempotency::{Error, ErrorKind};

use crate::words::plain;

/// Why a command did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The crate says so.
    Crate(Error),
    /// This command line cannot be followed.
    Usage(String),
    /// As this says.
    Other(String),
    /// Who read the output has enough of it, as `head` does: nothing to tell, and to nobody.
    NobodyReads,
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Crate(_) | Self::Other(_) => ExitCode::FAILURE,
            Self::NobodyReads => ExitCode::SUCCESS,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Crate(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Other(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crate(error) => {
                f.write_str(&plain(&error.to_string()))?;
                match (error.kind(), root(error)) {
                    // Which name does not resolve, or who refused the connection.
                    (ErrorKind::Unavailable | ErrorKind::OutcomeUnknown, Some(root)) => {
                        write!(f, " ({})", plain(&root))
                    }
                    _ => Ok(()),
                }
            }
            Self::Usage(message) | Self::Other(message) => f.write_str(&plain(message)),
            Self::NobodyReads => f.write_str("the output is read no more"),
        }
    }
}

/// The last cause, which names the thing itself.
fn root(error: &Error) -> Option<String> {
    let mut cause = error.source()?;
    while let Some(next) = cause.source() {
        cause = next;
    }
    Some(cause.to_string())
}
