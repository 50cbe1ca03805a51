//! Errors that fail a whole invocation, and those that reject single messages.

use std::error::Error as StdError;

use lambda_runtime::Diagnostic;

/// Why an invocation fails as a whole.
///
/// The source delivers all messages of the batch again. Messages that are done do not run again.
///
/// ```
/// use dynamodb_idempotency::messages::BatchError;
///
/// fn alarm(error: &BatchError) -> bool {
/// // The trigger is wrong. The other errors are resolved by the next delivery.
///     matches!(error, BatchError::OtherSource { .. })
/// }
/// ```
#[derive(Debug, derive_more::Display)]
#[non_exhaustive]
pub enum BatchError {
    /// The event belongs to another source than the consumer's. Nothing ran. **Fix the trigger.**
    OtherSource {
        /// The expected source, and what the event contains instead.
        message: String,
    },
    /// Messages failed, and the consumer does not report them individually: by the source's
    /// default, or after [`report_batch()`](super::Consumer::report_batch).
    #[display("{failed} of {total} messages are not done: all are delivered again")]
    Failed {
        /// The number of failed messages.
        failed: usize,
        /// The number of messages in the batch.
        total: usize,
    },
    /// Messages without an identifier failed, so they cannot be reported individually.
    #[display(
        "{failed} of {total} messages are not done, and one of them has no identifier to report: \
         all are delivered again"
    )]
    Nameless {
        /// The number of failed messages.
        failed: usize,
        /// The number of messages in the batch.
        total: usize,
    },
}

/// Why a message does not run. No variant quotes the message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// It does not have the format of its source, or its key is invalid.
    Malformed(String),
    /// It contains no key.
    NoKey(String),
    /// Reading it panicked, so nothing is known about it.
    Panicked(&'static str),
}

impl StdError for BatchError {}

/// The error type is `Messages.` and the name of the variant, which alarms can match.
impl From<BatchError> for Diagnostic {
    fn from(error: BatchError) -> Self {
        let error_type = match error {
            BatchError::OtherSource { .. } => "Messages.OtherSource",
            BatchError::Failed { .. } => "Messages.Failed",
            BatchError::Nameless { .. } => "Messages.Nameless",
        };
        Self { error_type: error_type.to_owned(), error_message: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../docs/guide/operate.md");

    #[test]
    fn the_page_on_operation_names_each_error_type() {
        let (failed, total) = (1, 2);
        for error in [
            BatchError::OtherSource { message: String::new() },
            BatchError::Failed { failed, total },
            BatchError::Nameless { failed, total },
        ] {
            let Diagnostic { error_type, .. } = error.into();
            assert!(PAGE.contains(&format!("`{error_type}`")), "{error_type}");
        }
    }
}
