//! What a call reports: a span, an event at its end, and metrics.
//!
//! | signal | content |
//! |---|---|
//! | span `idempotency`, INFO | around each call and its handler; fields `operation`, `key` ([`LogKey`]), and at its end `outcome` and `attempt` |
//! | event `an idempotent call has ended` | `operation`, `outcome`, `attempt`; INFO, and DEBUG for `first` unless [`Builder::log_first_runs`](crate::Builder::log_first_runs) asks for it |
//! | event `DynamoDB has answered`, DEBUG | one request, the SDK's tries included: `action`, `result`, `micros`, `units` |
//! | events at WARN and ERROR | problems; listed in `docs/signals.md` |
//! | counter [`EXECUTIONS`] | calls, by `operation` and `outcome` |
//! | counter [`TAKEOVERS`] | executions that took over an abandoned record, by `operation` |
//! | histogram [`HANDLER_SECONDS`] | a handler's time, by `operation` |
//! | histogram [`STORE_SECONDS`] | a request's time, the SDK's tries included, by `action` and `result` |
//! | histogram [`ANSWER_BYTES`] | an answer's size, by `operation` and `form`: `plain` and `stored` |
//! | histogram [`CAPACITY_UNITS`] | capacity units of a request, by `action`; only after [`Builder::report_capacity`](crate::Builder::report_capacity) |
//!
//! Metrics use the crate [`metrics`](https://docs.rs/metrics) and need the feature of that name.
//! Without it, or without a recorder, nothing is measured. A label never contains a key or a
//! tenant: `operation` is the first segment of the scope. `action` is DynamoDB's name of the
//! request, such as `PutItem`. `result` is `ok`, `refused` (its condition failed), `error` (it was
//! not executed) or `unknown`.
//!
//! The outcomes, and every other event, are listed in `docs/signals.md`.
//!
//! ```
//! use dynamodb_idempotency::signals::{
//!     ANSWER_BYTES, CAPACITY_UNITS, EXECUTIONS, HANDLER_SECONDS, STORE_SECONDS, TAKEOVERS,
//! };
//!
//! // The metrics that an exporter may have to configure.
//! assert_eq!(EXECUTIONS, "idempotency_executions_total");
//! assert_eq!(TAKEOVERS, "idempotency_takeovers_total");
//! assert_eq!(HANDLER_SECONDS, "idempotency_handler_seconds");
//! assert_eq!(STORE_SECONDS, "idempotency_store_seconds");
//! assert_eq!(ANSWER_BYTES, "idempotency_answer_bytes");
//! assert_eq!(CAPACITY_UNITS, "idempotency_capacity_units");
//! ```

mod metrics;

use std::time::Instant;

use sha2::{Digest, Sha256};
use tracing::Span;
use tracing::field::Empty;

use crate::error::{Error, ErrorKind};
use crate::store::key::RecordKey;

#[cfg(feature = "metrics")]
pub use self::metrics::describe;
pub use self::metrics::{
    ANSWER_BYTES, CAPACITY_UNITS, EXECUTIONS, HANDLER_SECONDS, STORE_SECONDS, TAKEOVERS,
};

pub(crate) use self::metrics::{answer, takeover};

/// What the span of a call shows of the record's key `scope#key`.
///
/// ```
/// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
/// use dynamodb_idempotency::{Idempotency, signals::LogKey};
///
/// // For keys that are easy to guess.
/// let idempotency = Idempotency::builder(client, "idempotency").log_key(LogKey::Omitted).build()?;
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogKey {
    /// The first 16 hex digits of its SHA-256, which identify the key without showing it. Anyone
    /// who can guess a key can verify the guess. The default.
    #[default]
    Hashed,
    /// The complete key, with the tenant and everything that the client put into it.
    Verbatim,
    /// Nothing.
    Omitted,
}

/// The settings of the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Log {
    pub(crate) key: LogKey,
    /// Logs first runs at INFO, like other calls.
    pub(crate) first_runs: bool,
}

/// Returns the field `key` for a stored record's key.
///
/// ```
/// use dynamodb_idempotency::signals::hashed_key;
///
/// assert_eq!(hashed_key("payments#order-42"), "84732e2b3cfd95c4");
/// ```
#[must_use]
pub fn hashed_key(pk: &str) -> String {
    use std::fmt::Write as _;
    let mut hex = String::with_capacity(16);
    for byte in &Sha256::digest(pk.as_bytes())[..8] {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    First,
    Retry,
    Takeover,
    Replay,
    ReplayFailure,
    Reconciled,
    ReconcileFailed,
    InProgress,
    Mismatch,
    Abandoned,
    Released,
    Failed,
    LeaseLost,
    LeaseExpired,
    Unconfirmed,
    Dropped,
    FailOpen,
    Unprotected,
    NotWritten,
    StoreError,
    Error,
}

impl Ending {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Retry => "retry",
            Self::Takeover => "takeover",
            Self::Replay => "replay",
            Self::ReplayFailure => "replay_failure",
            Self::Reconciled => "reconciled",
            Self::ReconcileFailed => "reconcile_failed",
            Self::InProgress => "in_progress",
            Self::Mismatch => "mismatch",
            Self::Abandoned => "abandoned",
            Self::Released => "released",
            Self::Failed => "failed",
            Self::LeaseLost => "lease_lost",
            Self::LeaseExpired => "lease_expired",
            Self::Unconfirmed => "unconfirmed",
            Self::Dropped => "dropped",
            Self::FailOpen => "fail_open",
            Self::Unprotected => "unprotected",
            Self::NotWritten => "not_written",
            Self::StoreError => "store_error",
            Self::Error => "error",
        }
    }

    pub(crate) fn of_error(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::InProgress { .. } => Self::InProgress,
            ErrorKind::Mismatch => Self::Mismatch,
            ErrorKind::Abandoned => Self::Abandoned,
            ErrorKind::Unavailable | ErrorKind::OutcomeUnknown => Self::StoreError,
            ErrorKind::ConditionFailed | ErrorKind::InvalidTransaction => Self::NotWritten,
            _ => Self::Error,
        }
    }
}

const ENDED: &str = "an idempotent call has ended";

/// The signals of one call, which clones share.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    span: Span,
    log: Log,
}

impl Signals {
    pub(crate) fn new(key: &RecordKey, log: Log) -> Self {
        let operation = key.operation();
        let span = tracing::info_span!(
            "idempotency",
            operation,
            key = Empty,
            outcome = Empty,
            attempt = Empty
        );
        if !span.is_disabled() {
            match log.key {
                LogKey::Hashed => drop(span.record("key", hashed_key(key.as_str()))),
                LogKey::Verbatim => drop(span.record("key", key.as_str())),
                LogKey::Omitted => {}
            }
        }
        Self { span, log }
    }

    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Called once for each call.
    pub(crate) fn ended(&self, operation: &str, ending: Ending, attempt: Option<u32>) {
        let outcome = ending.as_str();
        self.span.record("outcome", outcome);
        if let Some(attempt) = attempt {
            self.span.record("attempt", attempt);
        }
        if ending == Ending::First && !self.log.first_runs {
            tracing::debug!(parent: &self.span, operation, outcome, attempt, "{ENDED}");
        } else {
            tracing::info!(parent: &self.span, operation, outcome, attempt, "{ENDED}");
        }
        metrics::execution(operation, outcome);
    }
}

/// Records one measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "no decision depends on the measurement")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// A request has ended.
    pub(crate) fn store(self, action: &'static str, result: &'static str, units: Option<f64>) {
        let took = self.0.elapsed();
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        tracing::debug!(action, result, micros, units, "DynamoDB has answered");
        metrics::store(action, result, took);
        if let Some(units) = units {
            metrics::capacity(action, units);
        }
    }

    /// A handler has ended.
    pub(crate) fn handler(self, operation: &str) {
        metrics::handler(operation, self.0.elapsed());
    }
}
