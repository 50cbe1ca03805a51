//! When a whole invocation fails, and not only a message of it.

use std::error::Error as StdError;
use std::fmt;

use lambda_runtime::Diagnostic;

/// Why a batch has no response: the invocation fails, and the source delivers all of its messages
/// again. Those that are done do not run again.
///
/// ```
/// use dynamodb_idempotency::messages::BatchError;
///
/// fn alarm(error: &BatchError) -> bool {
///     // The trigger is wrong; the others fix themselves with the next delivery.
///     matches!(error, BatchError::OtherSource { .. })
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BatchError {
    /// The event is not one of the source that the consumer is for. Nothing ran. **Fix the
    /// trigger.**
    OtherSource {
        /// What was expected, and what was found.
        message: String,
    },
    /// Messages failed, and this source (or
    /// [`partial_response(false)`](super::Consumer::partial_response)) accepts no partial response.
    Failed {
        /// How many.
        failed: usize,
        /// Of how many.
        total: usize,
    },
    /// Messages failed that have no identifier to report them by.
    Nameless {
        /// How many failed.
        failed: usize,
        /// Of how many.
        total: usize,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherSource { message } => f.write_str(message),
            Self::Failed { failed, total } => {
                write!(f, "{failed} of {total} messages are not done: all are delivered again")
            }
            Self::Nameless { failed, total } => write!(
                f,
                "{failed} of {total} messages are not done, and one of them has no identifier to \
                 report: all are delivered again"
            ),
        }
    }
}

impl StdError for BatchError {}

/// `Messages.` and the variant's name, which alarms can match.
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
