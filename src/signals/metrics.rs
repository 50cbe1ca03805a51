//! The metrics, whose names are stable.

/// Counts calls, by `operation` and `outcome`.
///
/// ```
/// use dynamodb_idempotency::signals::EXECUTIONS;
///
/// assert_eq!(EXECUTIONS, "idempotency_executions_total");
/// ```
pub const EXECUTIONS: &str = "idempotency_executions_total";
/// Counts calls, whatever their outcome, by `operation`: what a rate of outcomes is compared with where
/// metrics cannot be summed over a label, as in an alarm of `CloudWatch`.
///
/// ```
/// use dynamodb_idempotency::signals::CALLS;
///
/// assert_eq!(CALLS, "idempotency_calls_total");
/// ```
pub const CALLS: &str = "idempotency_calls_total";
/// Counts executions that took over an abandoned record, whatever their outcome, by `operation`.
///
/// ```
/// use dynamodb_idempotency::signals::TAKEOVERS;
///
/// assert_eq!(TAKEOVERS, "idempotency_takeovers_total");
/// ```
pub const TAKEOVERS: &str = "idempotency_takeovers_total";
/// The duration of a handler in seconds, by `operation`.
///
/// ```
/// use dynamodb_idempotency::signals::HANDLER_SECONDS;
///
/// assert_eq!(HANDLER_SECONDS, "idempotency_handler_seconds");
/// ```
pub const HANDLER_SECONDS: &str = "idempotency_handler_seconds";
/// The duration of a request to DynamoDB in seconds, with the SDK's retries, by `action` and
/// `result`.
///
/// ```
/// use dynamodb_idempotency::signals::STORE_SECONDS;
///
/// assert_eq!(STORE_SECONDS, "idempotency_store_seconds");
/// ```
pub const STORE_SECONDS: &str = "idempotency_store_seconds";
/// The size of an answer in bytes, by `operation` and `form`.
///
/// `plain` is the size of its body; `stored` is the size in the table, after compression and the
/// [`AnswerCodec`](crate::AnswerCodec).
///
/// ```
/// use dynamodb_idempotency::signals::ANSWER_BYTES;
///
/// assert_eq!(ANSWER_BYTES, "idempotency_answer_bytes");
/// ```
pub const ANSWER_BYTES: &str = "idempotency_answer_bytes";
/// The capacity units of a request to DynamoDB, by `action`.
///
/// Read units for `GetItem`, write units for all other actions. DynamoDB reports none for a
/// rejected write.
///
/// ```
/// use dynamodb_idempotency::signals::CAPACITY_UNITS;
///
/// assert_eq!(CAPACITY_UNITS, "idempotency_capacity_units");
/// ```
pub const CAPACITY_UNITS: &str = "idempotency_capacity_units";

/// Describes each metric and its unit to the recorder.
///
/// Call it once, after the recorder is installed.
///
/// ```
/// dynamodb_idempotency::signals::describe();
/// ```
#[cfg(feature = "metrics")]
pub fn describe() {
    use metrics::{Unit, describe_counter, describe_histogram};

    describe_counter!(EXECUTIONS, Unit::Count, "Idempotent calls");
    describe_counter!(CALLS, Unit::Count, "Idempotent calls, whatever their outcome");
    describe_counter!(TAKEOVERS, Unit::Count, "Abandoned records that were taken over");
    describe_histogram!(HANDLER_SECONDS, Unit::Seconds, "Time of a handler");
    describe_histogram!(STORE_SECONDS, Unit::Seconds, "Time of a request to DynamoDB");
    describe_histogram!(ANSWER_BYTES, Unit::Bytes, "Size of an answer");
    describe_histogram!(CAPACITY_UNITS, Unit::Count, "Capacity units of a request to DynamoDB");
}

type Labels = [(&'static str, &'static str)];

#[cfg(feature = "metrics")]
mod recorded {
    use metrics::Label;

    use super::Labels;

    fn labels(operation: Option<&str>, labels: &Labels) -> Vec<Label> {
        let operation = operation.map(|operation| Label::new("operation", operation.to_owned()));
        let others = labels.iter().map(|(name, value)| Label::from_static_parts(name, value));
        operation.into_iter().chain(others).collect()
    }

    pub(crate) fn count(name: &'static str, operation: Option<&str>, others: &Labels) {
        metrics::counter!(name, labels(operation, others)).increment(1);
    }

    pub(crate) fn record(name: &'static str, operation: Option<&str>, others: &Labels, value: f64) {
        metrics::histogram!(name, labels(operation, others)).record(value);
    }
}

#[cfg(not(feature = "metrics"))]
mod recorded {
    use super::Labels;

    pub(crate) fn count(_: &'static str, _: Option<&str>, _: &Labels) {}

    pub(crate) fn record(_: &'static str, _: Option<&str>, _: &Labels, _: f64) {}
}

pub(crate) use self::recorded::{count, record};
