//! The choices of the policies.

use crate::protocol::First;

/// How long an owner holds the key.
///
/// If a lease is too short, a second execution can start beside a slow first one. If it is too
/// long, the key of a crashed owner stays locked.
///
/// ```
/// use std::time::Duration;
///
/// use dynamodb_idempotency::{Lease, Policy};
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
/// use dynamodb_idempotency::{InProgress, Policy};
///
/// let policy = Policy::default().in_progress(InProgress::Wait { timeout: Duration::from_secs(5) });
/// ```
pub use crate::protocol::policy::InProgress;

/// What a failure of the handler (an `Err`, a panic; in HTTP a status that is not stored) leaves
/// behind.
///
/// ```
/// use dynamodb_idempotency::{Failure, Policy};
///
/// let policy = Policy::default().failure(Failure::Retain { max_attempts: 3 });
/// ```
pub use crate::protocol::policy::Failure;

/// What happens to a handler whose lease is over, or known to be lost, while it runs.
///
/// ```
/// use dynamodb_idempotency::{LeaseExpired, Policy};
///
/// // A handler that may be repeated, and run twice at once.
/// let policy = Policy::default().lease_expired(LeaseExpired::Continue);
/// assert_ne!(policy.lease_expired, Policy::default().lease_expired);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseExpired {
    /// It is stopped: its future is dropped where it stands, and never polled again. So no two
    /// executions of a key make progress at the same time. The caller gets
    /// [`ErrorKind::LeaseExpired`](crate::ErrorKind::LeaseExpired). Nobody knows what the handler
    /// had done, so the record stays as it is. When the lease is over in DynamoDB's time, a repeat
    /// takes over, asks the [hook](crate::Operation::reconcile), or is refused
    /// ([`Takeover::Reject`]).
    ///
    /// The end is checked before each poll and by a timer, by the wall clock and by the monotonic
    /// clock, whichever is first. Since DynamoDB's clock is only known within bounds, the handler
    /// is stopped up to a second and a round trip early. Not stopped are code that blocks its
    /// thread between two awaits, a request that was already sent, and work that the handler has
    /// spawned.
    Stop,
    /// It goes on, beside the next owner if there is one: its effect can happen twice at the same
    /// time. Its answer is stored if nobody has taken the key. Otherwise it gets the other owner's
    /// answer or [`ErrorKind::LeaseLost`](crate::ErrorKind::LeaseLost). The handler can check
    /// [`Execution::lease_remaining`](crate::Execution::lease_remaining) and
    /// [`is_lease_lost`](crate::Execution::is_lease_lost).
    Continue,
}

/// What a repeat does with a record whose owner's lease ended without an answer.
///
/// ```
/// use dynamodb_idempotency::{Takeover, Policy};
///
/// let policy = Policy::default().takeover(Takeover::Reject);
/// ```
pub use crate::protocol::policy::Takeover;

/// What a repeat gets once the operation has completed.
///
/// ```
/// use dynamodb_idempotency::{Completed, Policy};
///
/// let policy = Policy::default().completed(Completed::Execute);
/// ```
pub use crate::protocol::policy::Completed;

/// What a call sends first. This decides what a first run and what a repeat cost.
///
/// Nothing runs before the write that takes the key, whatever the setting.
///
/// ```
/// # dynamodb_idempotency::testing::example(async |_, idempotency| {
/// use dynamodb_idempotency::Acquire;
///
/// // A webhook that its sender repeats until it is tired.
/// let hook = || idempotency.operation("hook").key("event-7").policy(|policy| {
///     policy.acquire(Acquire::ReadFirst { consistent: true })
/// });
/// for expected in ["first", "first"] {
///     let answer = hook().run(async |_| Ok::<_, std::io::Error>("first".to_owned())).await?;
///     assert_eq!(answer, expected);
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Acquire {
    /// The write that takes the key; if it fails, it returns the record. A repeat is billed one
    /// write unit for each KB of the record. The cheapest and the fastest if repeats are rare.
    ///
    /// The first call of a process reads first all the same, because it does not know DynamoDB's
    /// time yet. [`preflight`](crate::Idempotency::preflight) and
    /// [`warm`](crate::Idempotency::warm) save that.
    WriteFirst,
    /// A read, and the write only if the read does not answer. A repeat is billed one read unit for
    /// each 4 KB of the record, and half of that for an eventually consistent read. A first run is
    /// billed one read more and takes one round trip more. For traffic of mostly repeats.
    ///
    /// An eventually consistent read may show an earlier state. So it answers only with a completed
    /// operation and the right fingerprint, which later changes do not affect. Anything else goes
    /// on to the write. What it shows also counts under [`Outage::Open`], if DynamoDB is out of
    /// reach at the write.
    ReadFirst {
        /// Whether the read is strongly consistent. Then it answers whatever it finds, a running
        /// operation and a mismatch too.
        consistent: bool,
    },
}

impl Acquire {
    /// The first request of a call.
    pub(crate) const fn first(self) -> First {
        match self {
            Self::WriteFirst => First::Write,
            Self::ReadFirst { consistent } => First::Read { is_consistent: consistent },
        }
    }
}

/// Whether answers are stored compressed.
///
/// ```
/// use dynamodb_idempotency::{Compression, Policy};
///
/// // Another program reads the records.
/// let policy = Policy::default().compression(Compression::Off);
/// assert_ne!(policy.compression, Policy::default().compression);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Compresses an answer with zstd if that takes fewer write units. Needs the feature
    /// `compression`, and is as `Off` without it. An answer of up to 1 KB, and one that is
    /// compressed already (by its `Content-Encoding`, its `Content-Type`, or by trial) stays as it
    /// is.
    Auto,
    /// No compression. Answers that were stored compressed are still read.
    Off,
}

/// Where a large answer is stored.
///
/// A repeat costs a failed conditional write. DynamoDB bills it by the size of the record in the
/// table: one write unit a KB. Reading a part costs an eighth of a read unit a KB, about a fortieth
/// of the price. `docs/cost.md` has the figures.
///
/// ```
/// use dynamodb_idempotency::{LargeAnswers, Policy};
///
/// // Repeats are frequent: what is over 2 KB goes beside the record.
/// let policy = Policy::default().large_answers(LargeAnswers::InParts { above: 2 * 1024 });
/// assert_ne!(policy.large_answers, Policy::default().large_answers);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LargeAnswers {
    /// In separate items, so that the record stays small. Used if the record would have more than
    /// `above` bytes, after compression if that helps; or more than DynamoDB's 400 KB, however
    /// large `above` is. The parts are written before the record is completed, and expire with it.
    /// The first run takes one more round trip, or some more if the answer is large and does not
    /// compress (as many parts are written at once as two and a half times its size in memory
    /// allow), and up to one more write unit a part. Each replay takes one more round trip, two or
    /// more above a megabyte.
    ///
    /// If the parts cannot be written within half of
    /// [`Policy::completion_timeout`](crate::Policy#structfield.completion_timeout), or within half
    /// of what is left of a lease that is not renewed, the answer goes into the record, provided it
    /// fits.
    ///
    /// If the scope is too long to make keys for parts (within 80 bytes of what the table's key can
    /// hold), this is as `InRecord`.
    ///
    /// The answer of a commit or a transaction is always in its record.
    InParts {
        /// In bytes of the record.
        above: usize,
    },
    /// In the record, whatever it costs, up to DynamoDB's 400 KB for an item.
    InRecord,
}

/// What happens while DynamoDB cannot be reached, throttles or fails.
///
/// A missing table, permission or credential is never an outage: it is an error under both.
///
/// ```
/// use dynamodb_idempotency::{Outage, Policy};
///
/// let policy = Policy::default().outage(Outage::Open);
/// ```
pub use crate::protocol::policy::Outage;

/// What the caller gets when the handler ran and its completion cannot be confirmed.
///
/// ```
/// use dynamodb_idempotency::{Unconfirmed, Policy};
///
/// let policy = Policy::default().unconfirmed(Unconfirmed::Error);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unconfirmed {
    /// The answer, with an error in the log. An error would only cause a retry, which runs again
    /// after the lease.
    Answer,
    /// [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown).
    Error,
}
