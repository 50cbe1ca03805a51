//! Why a command failed: one line that says what is wrong and what to do, and an exit code.

use std::error::Error as StdError;
use std::fmt;
use std::process::ExitCode;

use dynamodb_idempotency::{Error, ErrorKind};
use serde_json::{Value, json};

use crate::output;
use crate::resume::Resume;
use crate::words::plain;

/// Why a command did not do its work, in a sentence.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the library.
    Crate(Error),
    /// The command line is invalid.
    Usage(String),
    /// The record does not exist.
    Absent(String),
    /// The release is dangerous or was not confirmed. Nothing was written.
    Refused(String),
    /// The record has changed since it was shown. Nothing was written.
    Changed(String),
    /// The operation did not end before the timeout.
    TimeUp(String),
    /// Ctrl-C was pressed.
    Interrupted,
    /// Any other cause, described by the message.
    Other(String),
    /// A scan stopped before its end.
    Stopped { cause: Box<Failure>, resume: Resume },
    /// Some of several keys failed, for this cause. The message contains it.
    OfKeys { cause: Box<Failure>, message: String },
}

/// The exit code for an invalid command line; clap uses the same.
pub(crate) const USAGE: u8 = 2;

impl Failure {
    /// The exit code, and its name for programs; both are in `docs/command-line.md`.
    fn code(&self) -> (u8, &'static str) {
        match self {
            Self::Other(_) => (1, "wrong"),
            Self::Usage(_) => (USAGE, "usage"),
            Self::Absent(_) => (3, "absent"),
            Self::Refused(_) => (4, "refused"),
            Self::Changed(_) => (5, "changed"),
            Self::TimeUp(_) => (7, "time_up"),
            // As of a program that the signal ends.
            Self::Interrupted => (130, "interrupted"),
            Self::Stopped { cause, .. } | Self::OfKeys { cause, .. } => cause.code(),
            Self::Crate(error) => match error.kind() {
                ErrorKind::InvalidInput => (USAGE, "usage"),
                ErrorKind::Unavailable | ErrorKind::OutcomeUnknown => (6, "unavailable"),
                _ => (1, "wrong"),
            },
        }
    }

    /// Whether the cause is the record or the key alone, so that other keys need not fail too.
    pub(crate) fn is_of_one_key(&self) -> bool {
        use ErrorKind::{InvalidInput, NewerRecord, UnknownRecord};
        let Self::Crate(error) = self else { return false };
        matches!(error.kind(), InvalidInput | NewerRecord | UnknownRecord)
    }

    /// Whether a write may have been applied.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Crate(error) if error.is_outcome_unknown())
    }

    /// This failure, with the key that it is of.
    pub(crate) fn of(self, scope: &str, key: &str) -> Self {
        self.of_item(&format!("{scope}#{key}"))
    }

    /// As [`of`](Self::of), with the key in its stored form.
    pub(crate) fn of_item(self, pk: &str) -> Self {
        let message = format!("`{}`: {self}", plain(pk));
        Self::OfKeys { cause: Box::new(self), message }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        self.code().0.into()
    }

    /// For programs.
    pub(crate) fn document(&self) -> Value {
        let (code, kind) = self.code();
        let mut error = json!({"kind": kind, "exit_code": code, "message": self.to_string()});
        if let Self::Stopped { resume, .. } = self {
            error["resume"] = json!(resume.to_string());
        }
        output::versioned(json!({"error": error}))
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
                    // The root cause names the host that does not resolve or refuses the connection.
                    (ErrorKind::Unavailable | ErrorKind::OutcomeUnknown, Some(root)) => {
                        write!(f, " ({})", plain(&root))
                    }
                    _ => Ok(()),
                }
            }
            Self::Usage(message)
            | Self::Absent(message)
            | Self::Refused(message)
            | Self::Changed(message)
            | Self::TimeUp(message)
            | Self::Other(message) => f.write_str(&plain(message)),
            Self::Interrupted => f.write_str("interrupted"),
            Self::OfKeys { message, .. } => f.write_str(message),
            Self::Stopped { cause, resume } => {
                write!(f, "{cause}; continue with --resume {resume}")
            }
        }
    }
}

/// A key as messages have it.
pub(crate) fn named(scope: &str, key: &str) -> String {
    format!("`{}`", plain(&format!("{scope}#{key}")))
}

/// The last error in the source chain.
fn root(error: &Error) -> Option<String> {
    let mut cause = error.source()?;
    while let Some(next) = cause.source() {
        cause = next;
    }
    Some(cause.to_string())
}
