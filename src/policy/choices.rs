//! The values that the settings of a policy can take.

/// How long an owner holds the key.
///
/// If a lease is too short, a slow handler is stopped, and may already have had its effect; under
/// [`LeaseExpired::Continue`], a second execution can start while it still runs. If the lease is too long, the key of a crashed owner stays locked longer than necessary.
///
/// ```
/// use std::time::Duration;
///
/// use dynamodb_idempotency::policy::Lease;
/// use dynamodb_idempotency::Policy;
///
/// // A 15-minute function whose crash frees its key within half a minute.
/// let policy = Policy::default().lease(Lease::Renewed(Duration::from_secs(30)));
/// ```
pub use crate::protocol::policy::Lease;

/// What a repeat gets while the owner's lease is live.
///
/// ```
/// use std::time::Duration;
///
/// use dynamodb_idempotency::policy::InProgress;
/// use dynamodb_idempotency::Policy;
///
/// let policy = Policy::default().in_progress(InProgress::Wait { timeout: Duration::from_secs(5) });
/// ```
pub use crate::protocol::policy::InProgress;

/// What a failure of the handler leaves in the record.
///
/// A failure is an `Err` or a panic; in HTTP also 408, 409, 425, 429 and 5xx by default.
///
/// ```
/// use dynamodb_idempotency::policy::Failure;
/// use dynamodb_idempotency::Policy;
///
/// let policy = Policy::default().failure(Failure::Retain { max_attempts: 3 });
/// ```
pub use crate::protocol::policy::Failure;

/// What happens to a running handler when its lease expires or is lost.
///
/// ```
/// use dynamodb_idempotency::policy::LeaseExpired;
/// use dynamodb_idempotency::Policy;
///
/// // A handler that may be repeated, and run twice at once.
/// let policy = Policy::default().lease_expired(LeaseExpired::Continue);
/// assert_ne!(policy.lease_expired, Policy::default().lease_expired);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseExpired {
    /// Stops the handler: its future is dropped at its current await and never polled again.
    ///
    /// So no two executions of a key make progress at the same time. The caller gets
    /// [`ErrorKind::LeaseExpired`](crate::ErrorKind::LeaseExpired). It is unknown what the handler
    /// has done, so the record does not change. Once the lease has expired by DynamoDB's clock, a
    /// repeat takes over, asks the [hook](crate::Call::reconcile), or is rejected
    /// ([`Takeover::Reject`]).
    ///
    /// The crate checks the lease before each poll and with a timer, by the wall clock and by the
    /// monotonic clock. It stops the handler as soon as the lease has expired by one of the clocks.
    /// DynamoDB's clock is known only within bounds, so the handler is stopped up to one second and one
    /// round trip early. The crate cannot stop code that blocks its thread between two awaits, requests
    /// in flight, or tasks that the handler spawned.
    Stop,
    /// Lets the handler continue, even while another owner runs the operation: its effect can
    /// happen twice at the same time.
    ///
    /// Its answer is stored if no other call has taken over. Otherwise the caller gets the other
    /// owner's answer or [`ErrorKind::LeaseLost`](crate::ErrorKind::LeaseLost). The handler can
    /// check [`Execution::lease_remaining`](crate::Execution::lease_remaining) and
    /// [`is_lease_lost`](crate::Execution::is_lease_lost).
    Continue,
}

/// What a repeat does when the owner's lease expired without an answer.
///
/// ```
/// use dynamodb_idempotency::policy::Takeover;
/// use dynamodb_idempotency::Policy;
///
/// let policy = Policy::default().takeover(Takeover::Reject);
/// ```
pub use crate::protocol::policy::Takeover;

/// What a repeat gets once the operation has completed.
///
/// ```
/// use dynamodb_idempotency::policy::Completed;
/// use dynamodb_idempotency::Policy;
///
/// let policy = Policy::default().completed(Completed::Release);
/// ```
pub use crate::protocol::policy::Completed;

/// What a call sends to DynamoDB first. This decides the cost of a first run and of a repeat.
///
/// Whatever it sends first, a call acquires its key before its handler runs.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use dynamodb_idempotency::policy::FirstRequest;
///
/// // A webhook that its sender repeats many times.
/// let first = FirstRequest::ConsistentRead;
/// let hooks = idempotency.operation("hook").policy(|policy| policy.first_request(first))?;
/// for expected in ["first", "first"] {
///     let call = hooks.key("event-7").no_payload();
///     let answer = call.run(async |_| Ok::<_, std::io::Error>("first".to_owned())).await?;
///     assert_eq!(answer, expected);
/// }
/// # Ok(()) });
/// ```
pub use crate::protocol::policy::FirstRequest;

/// Whether answers are stored compressed.
///
/// ```
/// use dynamodb_idempotency::policy::Compression;
/// use dynamodb_idempotency::Policy;
///
/// // Another program reads the records.
/// let policy = Policy::default().compression(Compression::Off);
/// assert_ne!(policy.compression, Policy::default().compression);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Compresses an answer with zstd if that saves write units.
    ///
    /// Needs the feature `compression`; without it, nothing is compressed. Two kinds of answers
    /// are stored uncompressed: those whose record has at most 1 KB, and those that are compressed
    /// already (as `Content-Encoding`, `Content-Type` or a sample shows).
    Auto,
    /// No compression. With the feature `compression`, answers that were stored compressed are still read.
    Off,
}

/// Where a large answer is stored.
///
/// A repeat sends a conditional write, which fails, and DynamoDB bills it by the size of the record: one
/// write unit per KB. Reading an answer from a separate item costs an eighth of a read unit per KB, which
/// is about a fortieth of that price. `docs/cost.md` has the figures.
///
/// ```
/// use dynamodb_idempotency::policy::LargeAnswers;
/// use dynamodb_idempotency::Policy;
///
/// // Repeats are frequent, so answers over 2 KB are stored in parts.
/// let policy = Policy::default().large_answers(LargeAnswers::InParts { above: 2 * 1024 });
/// assert_ne!(policy.large_answers, Policy::default().large_answers);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LargeAnswers {
    /// In separate items, called parts, so that the record stays small.
    ///
    /// Used if the record would have more than `above` bytes after compression, or more than
    /// DynamoDB's 400 KB, whatever `above` is. The parts are written before the record is
    /// completed, and they expire with it.
    ///
    /// The first run usually takes one additional round trip, and up to one additional write unit per
    /// part. If a large answer does not compress, its parts take several round trips, because the crate
    /// limits the memory for an answer to two and a half times its size. Each replay takes one
    /// additional round trip, or more if the answer is above a megabyte.
    ///
    /// The parts must be written within half of
    /// [`Policy::completion_timeout`](crate::Policy#structfield.completion_timeout). If the lease is
    /// not renewed, they must also be written within half of its remaining time. If a part is not
    /// written in time, the answer is stored in the record, provided it fits.
    ///
    /// The key of a part contains the scope and is longer than it. If the scope is within 80 bytes of the
    /// limit of the table's key, parts cannot be written, and this is the same as `InRecord`.
    ///
    /// The answer of a commit or a transaction is always stored in its record.
    InParts {
        /// The largest record without parts, in bytes.
        above: usize,
    },
    /// In the record, up to DynamoDB's 400 KB for an item.
    InRecord,
}

/// What a call does while DynamoDB cannot be reached, throttles or fails.
///
/// A missing table or permission, or a missing or lapsed credential, is never an outage: it is an error
/// under both settings.
///
/// ```
/// use dynamodb_idempotency::policy::Outage;
/// use dynamodb_idempotency::Policy;
///
/// let policy = Policy::default().outage(Outage::Open);
/// ```
pub use crate::protocol::policy::Outage;

/// What the caller gets when the handler ran but its completion is not confirmed.
///
/// ```
/// use dynamodb_idempotency::policy::Unconfirmed;
/// use dynamodb_idempotency::Policy;
///
/// let policy = Policy::default().unconfirmed(Unconfirmed::Error);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unconfirmed {
    /// The handler's answer. The crate logs an error. A repeat runs the handler again
    /// once the lease has expired, unless the completion was applied.
    Answer,
    /// [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown).
    Error,
}
