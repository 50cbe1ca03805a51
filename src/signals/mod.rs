//! What a call reports: a span, an event at its end, and metrics.
//!
//! | signal | content |
//! |---|---|
//! | span `idempotency`, INFO | around each call and its handler; fields `operation`, `key` ([`LogKey`]), and at its end `outcome` and `attempt` |
//! | event `an idempotent call has ended` | `operation`, `outcome`, `attempt`; INFO, but DEBUG for the outcome `first` unless [`Builder::log_first_runs`](crate::Builder::log_first_runs) is set |
//! | event `DynamoDB has answered`, DEBUG | one request, with the SDK's retries: `action`, `result`, `micros`, `units` |
//! | events at WARN and ERROR | problems; listed in `docs/signals.md` |
//! | counter [`EXECUTIONS`] | calls, by `operation` and `outcome` |
//! | counter [`CALLS`] | calls, by `operation` |
//! | counter [`TAKEOVERS`] | executions that took over an abandoned record, by `operation` |
//! | histogram [`HANDLER_SECONDS`] | a handler's time, by `operation` |
//! | histogram [`STORE_SECONDS`] | a request's time, with the SDK's retries, by `action` and `result` |
//! | histogram [`ANSWER_BYTES`] | an answer's size, by `operation` and `form`: `plain` and `stored` |
//! | histogram [`CAPACITY_UNITS`] | capacity units of a request, by `action`; only with [`Builder::report_capacity`](crate::Builder::report_capacity) |
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
//!     ANSWER_BYTES, CALLS, CAPACITY_UNITS, EXECUTIONS, HANDLER_SECONDS, STORE_SECONDS, TAKEOVERS,
//! };
//!
//! // The metrics that an exporter may have to configure.
//! assert_eq!(EXECUTIONS, "idempotency_executions_total");
//! assert_eq!(CALLS, "idempotency_calls_total");
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
    ANSWER_BYTES, CALLS, CAPACITY_UNITS, EXECUTIONS, HANDLER_SECONDS, STORE_SECONDS, TAKEOVERS,
};

/// Counts an execution that took over an abandoned record.
pub(crate) fn takeover(operation: &str) {
    metrics::count(TAKEOVERS, Some(operation), &[]);
}

/// Records the size of an answer, before and after it was encoded.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53 bytes")]
pub(crate) fn answer(operation: &str, plain: usize, stored: usize) {
    for (form, bytes) in [("plain", plain), ("stored", stored)] {
        metrics::record(ANSWER_BYTES, Some(operation), &[("form", form)], bytes as f64);
    }
}

/// What the span of a call shows of its record's key, `scope#key`.
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

/// Returns the value of the span's field `key` under [`LogKey::Hashed`], for a record's key.
///
/// ```
/// use dynamodb_idempotency::signals::hashed_key;
///
/// assert_eq!(hashed_key("payments#order-42"), "84732e2b3cfd95c4");
/// ```
#[must_use]
pub fn hashed_key(pk: &str) -> String {
    let digest = Sha256::digest(pk.as_bytes());
    let head = digest.iter().take(8).fold(0_u64, |head, byte| head << 8 | u64::from(*byte));
    format!("{head:016x}")
}

/// The outcome of a call, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending(&'static str);

impl Ending {
    pub(crate) const FIRST: Self = Self("first");
    pub(crate) const RETRY: Self = Self("retry");
    pub(crate) const TAKEOVER: Self = Self("takeover");
    pub(crate) const REPLAY: Self = Self("replay");
    pub(crate) const REPLAY_FAILURE: Self = Self("replay_failure");
    pub(crate) const RECONCILED: Self = Self("reconciled");
    pub(crate) const RECONCILE_FAILED: Self = Self("reconcile_failed");
    pub(crate) const IN_PROGRESS: Self = Self("in_progress");
    pub(crate) const MISMATCH: Self = Self("mismatch");
    pub(crate) const ABANDONED: Self = Self("abandoned");
    pub(crate) const RELEASED: Self = Self("released");
    pub(crate) const FAILED: Self = Self("failed");
    pub(crate) const LEASE_LOST: Self = Self("lease_lost");
    pub(crate) const LEASE_EXPIRED: Self = Self("lease_expired");
    pub(crate) const UNCONFIRMED: Self = Self("unconfirmed");
    pub(crate) const DROPPED: Self = Self("dropped");
    pub(crate) const FAIL_OPEN: Self = Self("fail_open");
    pub(crate) const UNPROTECTED: Self = Self("unprotected");
    pub(crate) const NOT_WRITTEN: Self = Self("not_written");
    pub(crate) const STORE_ERROR: Self = Self("store_error");
    pub(crate) const ERROR: Self = Self("error");

    pub(crate) fn of_error(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::InProgress { .. } => Self::IN_PROGRESS,
            ErrorKind::Mismatch => Self::MISMATCH,
            ErrorKind::Abandoned => Self::ABANDONED,
            ErrorKind::Unavailable | ErrorKind::OutcomeUnknown => Self::STORE_ERROR,
            ErrorKind::ConditionFailed | ErrorKind::InvalidTransaction => Self::NOT_WRITTEN,
            _ => Self::ERROR,
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
        let Ending(outcome) = ending;
        self.span.record("outcome", outcome);
        if let Some(attempt) = attempt {
            self.span.record("attempt", attempt);
        }
        if ending == Ending::FIRST && !self.log.first_runs {
            tracing::debug!(parent: &self.span, operation, outcome, attempt, "{ENDED}");
        } else {
            tracing::info!(parent: &self.span, operation, outcome, attempt, "{ENDED}");
        }
        metrics::count(EXECUTIONS, Some(operation), &[("outcome", outcome)]);
        metrics::count(CALLS, Some(operation), &[]);
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
        let labels = [("action", action), ("result", result)];
        metrics::record(STORE_SECONDS, None, &labels, took.as_secs_f64());
        if let Some(units) = units {
            metrics::record(CAPACITY_UNITS, None, &[("action", action)], units);
        }
    }

    /// A handler has ended.
    pub(crate) fn handler(self, operation: &str) {
        metrics::record(HANDLER_SECONDS, Some(operation), &[], self.0.elapsed().as_secs_f64());
    }
}
