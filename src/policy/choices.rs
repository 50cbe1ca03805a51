//! What the policies choose between.

use std::time::Duration;

/// How long an owner holds the key.
///
/// A lease that is too short lets a second execution start beside a slow first one; one that is too
/// long keeps the key of a crashed owner locked.
///
/// ```
/// use std::time::Duration;
///
/// use dynamodb_idempotency::{Lease, Policy};
///
/// // A 15-minute function whose crash frees its key within half a minute.
/// let policy = Policy::default().lease(Lease::Renewed(Duration::from_secs(30)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lease {
    /// To the end of the Lambda invocation and 2 s more (the [clock
    /// tolerance](crate::Builder::clock_tolerance) and the second to which DynamoDB's time is known). Where
    /// the operation has no deadline (outside Lambda, none given): as `Renewed(30 s)`.
    ///
    /// Lambda does not stop a function then. Managed Instances do not enforce the time-out at all: "your
    /// code continues running" ([developer guide, execution
    /// environment](https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances-execution-environment.html));
    /// elsewhere too the runtime's process goes on when an invocation times out, or when the
    /// environment thaws
    /// ([aws-lambda-rust-runtime #1155](https://github.com/aws/aws-lambda-rust-runtime/issues/1155),
    /// [#1159](https://github.com/aws/aws-lambda-rust-runtime/pull/1159)). So it is the crate that stops a
    /// handler when its lease is over: [`LeaseExpired::Stop`].
    Invocation,
    /// This long from the acquisition; at least 3 s, and 2 s more than the [clock
    /// tolerance](crate::Builder::clock_tolerance).
    Fixed(Duration),
    /// This long, as long as `Fixed` at least, and renewed after each third of it while the handler runs: for
    /// long-lived hosts and for long functions whose crash should free the key soon. The renewal
    /// runs in the handler's task: a handler that blocks its thread does not renew.
    Renewed(Duration),
}

/// What a repeat gets while the owner's lease is live.
///
/// ```
/// use std::time::Duration;
///
/// use dynamodb_idempotency::{InProgress, Policy};
///
/// let policy = Policy::default().in_progress(InProgress::Wait { timeout: Duration::from_secs(5) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InProgress {
    /// [`ErrorKind::InProgress`](crate::ErrorKind::InProgress) at once; HTTP 409 with `Retry-After`.
    Reject,
    /// Waits for the owner's answer with jittered back-off (50 ms, doubling to 1 s; one strongly
    /// consistent read each), at most this long and never past the deadline; then as `Reject`.
    Wait {
        /// The longest wait.
        timeout: Duration,
    },
}

/// What a failure of the handler (an `Err`, a panic; in HTTP a status that is not stored) leaves
/// behind.
///
/// ```
/// use dynamodb_idempotency::{Failure, Policy};
///
/// let policy = Policy::default().failure(Failure::Retain { max_attempts: 3 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// A record in nobody's hands (RELEASED), for an hour: the next try runs, with `attempt` one
    /// higher, whatever its payload. A record with [steps](crate::Execution::step) is kept as FAILED
    /// instead, and the next try goes on after them.
    Release,
    /// The FAILED record with its attempt count: the next try runs again, until there were
    /// `max_attempts` runs; from then on as `Replay`. A run whose owner died counts too.
    Retain {
        /// How many runs there are in all, at least 1.
        max_attempts: u32,
    },
    /// The FAILED record: a repeat gets the failure back and never runs. A function's error is
    /// kept only by [`Operation::replay_errors`](crate::Operation::replay_errors); without it a
    /// repeat gets [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    Replay,
}

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
    /// It is stopped: its future is dropped where it stands, and never polled again, so that no two
    /// executions of a key make progress at once. The caller gets
    /// [`ErrorKind::LeaseExpired`](crate::ErrorKind::LeaseExpired). Nobody knows what the handler had done: the record stays as it is, and
    /// a repeat takes over when the lease is over in DynamoDB's time, or asks the
    /// [hook](crate::Operation::reconcile), or is refused ([`Takeover::Reject`]).
    ///
    /// The end is looked at before each poll and by a timer, by the wall clock and by the monotonic one,
    /// whichever comes first; of DynamoDB's clock what is certain counts, so it comes up to a
    /// second and a round trip early. What this cannot stop: code that blocks its thread between two
    /// awaits, a request that is sent already, work that the handler has spawned.
    Stop,
    /// It goes on, beside the next owner's if there is one: its effect can happen twice, at once. Its
    /// answer is stored if nobody has taken the key meanwhile, else it gets the other's or
    /// [`ErrorKind::LeaseLost`](crate::ErrorKind::LeaseLost). [`Execution::lease_remaining`](crate::Execution::lease_remaining) and
    /// [`is_lease_lost`](crate::Execution::is_lease_lost) tell it.
    Continue,
}

/// What a repeat does with a record whose owner's lease ended without an answer.
///
/// ```
/// use dynamodb_idempotency::{Takeover, Policy};
///
/// let policy = Policy::default().takeover(Takeover::Reject);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Takeover {
    /// Becomes the owner and runs the handler again, with `attempt` one higher.
    Execute,
    /// [`ErrorKind::Abandoned`](crate::ErrorKind::Abandoned), until the record's retention is over: for effects that must not
    /// happen twice and that nobody can look up. Without effect where there is a
    /// [reconcile hook](crate::Operation::reconcile): that decides then.
    Reject,
}

/// What a repeat gets once the operation has completed.
///
/// ```
/// use dynamodb_idempotency::{Completed, Policy};
///
/// let policy = Policy::default().completed(Completed::Execute);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Completed {
    /// The stored answer.
    Replay,
    /// It becomes the owner and runs the handler again, with `attempt` one higher; its answer
    /// takes the place of the stored one. Two of them still never run at once: for handlers that
    /// only read, or that may be repeated but not side by side. The same key with another payload
    /// stays a mismatch, and a repeat that waits for a running one
    /// ([`InProgress::Wait`]) runs after it.
    Execute,
}

/// What a call sends first, which decides what a first run and what a repeat cost.
///
/// Whichever it is, nothing runs before the write that takes the key. It is not for transactions
/// ([`Operation::run_transaction`](crate::Operation::run_transaction)): they write first, but for
/// those whose answer has parts, which read first so that a repeat writes none.
///
/// ```
/// # use dynamodb_idempotency::testing::Sandbox;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sandbox = Sandbox::start().await?;
/// # let idempotency = sandbox.idempotency();
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
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Acquire {
    /// The write that takes the key; if it fails, it brings the record. A repeat is billed a write
    /// unit for each KB of the record. The cheapest, and the fastest, where repeats are rare.
    WriteFirst,
    /// A read, and the write only if that does not answer. A repeat is billed a read unit for each
    /// 4 KB of the record, and half of that where it need not be consistent; a first run is billed
    /// one read more and takes one round trip more. For traffic of mostly repeats.
    ///
    /// A read that need not be consistent may show what was there a moment ago: it answers only with
    /// a completed operation and the right fingerprint, which a later moment does not change.
    /// Anything else goes on to the write. What it shows counts under [`Outage::Open`] too, should
    /// DynamoDB be gone when it comes to the write.
    ReadFirst {
        /// Whether the read is strongly consistent: then it answers whatever it finds, a running
        /// operation and a mismatch too.
        consistent: bool,
    },
    /// `ReadFirst { consistent: false }` while a fifth or more of the calls are repeats, until it
    /// is a tenth or less; `WriteFirst` else, and at the start. What counts are the last calls
    /// (some dozens) under all `Adaptive` policies of this [`Idempotency`](crate::Idempotency) and
    /// its clones.
    Adaptive,
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
    /// Those that take fewer write units so, by zstd; needs the feature `compression`, and is as
    /// `Off` without it. An answer of up to 1 KB, and one that is compressed already (by its
    /// `Content-Encoding`, its `Content-Type`, or by trial) stays as it is.
    Auto,
    /// None. Those that were stored compressed are read all the same.
    Off,
}

/// Where a large answer is stored.
///
/// DynamoDB bills a failed conditional write, which is what a repeat costs, by the size of the
/// record that it lost to: a write unit a KB. Reading a part costs an eighth of a read unit a KB,
/// about a fortieth of the price. `docs/cost.md` has the figures.
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
    /// In items of their own, so that the record stays small: where the record would have more than
    /// `above` bytes, compressed if that helps; or more than DynamoDB's 400 KB, however large `above`
    /// is. They are written before the record is completed and expire with it. The first run takes
    /// one more round trip, some more where the answer is large and does not compress (as many parts
    /// are written at once as two and a half times its size in memory allow), and up to one more
    /// write unit a part; each replay one more round trip, two and more above a megabyte.
    ///
    /// Where they cannot be written within half of
    /// [`Policy::completion_timeout`](crate::Policy#structfield.completion_timeout), or of what is left of a lease
    /// that is not renewed, the answer goes into the record after all, if that has room for it.
    ///
    /// Where the scope is so long that no key can be made of it for them (within 80 bytes of what the
    /// table's key can hold), it is as `InRecord`.
    InParts {
        /// In bytes.
        above: usize,
    },
    /// In the record, whatever it costs; up to DynamoDB's 400 KB for an item.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outage {
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable), nothing ran.
    Closed,
    /// The handler runs without any protection, with an error in the log each time; not where
    /// another owner was seen at work before DynamoDB went out of reach. Its answer is stored if
    /// DynamoDB is back within a second after the handler's end.
    Open,
}

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
    /// The answer, with an error in the log: an error would only invite the retry that runs again
    /// after the lease.
    Answer,
    /// [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown).
    Error,
}
