//! The choices that an operation has, as plain data.

use std::time::Duration;

use crate::clock::End;
use crate::error::{Error, ErrorKind};
use crate::key::KeyForm;

/// How one operation behaves; every field has a safe default.
///
/// ```
/// use std::time::Duration;
/// use dynamodb_idempotency::{Failure, InProgress, Policy};
///
/// let policy = Policy::default()
///     .retention(Duration::from_secs(72 * 3600))
///     .in_progress(InProgress::Wait { timeout: Duration::from_secs(5) })
///     .failure(Failure::Retain { max_attempts: 3 });
/// # assert_eq!(policy.retention, Duration::from_secs(72 * 3600));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// How long a finished record answers repeats, and how long after the end of its lease an unfinished
    /// one is known as abandoned; at least 1 s, and not below
    /// [`completion_timeout`](Self#structfield.completion_timeout). Default 24 h, as Stripe's keys.
    ///
    /// DynamoDB deletes an expired item within days, not at once; a record past its retention
    /// counts as absent from the first second on. No retention ends before the lease was to end.
    pub retention: Duration,
    /// How long an owner holds the key. Default [`Lease::Invocation`].
    pub lease: Lease,
    /// What a repeat gets while the owner runs. Default [`InProgress::Reject`].
    pub in_progress: InProgress,
    /// What a failure of the handler leaves behind. Default [`Failure::Release`].
    pub failure: Failure,
    /// What happens to a handler whose lease is over while it runs. Default [`LeaseExpired::Stop`].
    pub lease_expired: LeaseExpired,
    /// What a repeat does when the owner's lease ended without an answer. Default
    /// [`Takeover::Execute`]. A hook has its say in the place of this:
    /// [`Operation::reconcile`](crate::Operation::reconcile).
    pub takeover: Takeover,
    /// What a repeat gets once the operation has completed. Default [`Completed::Replay`].
    pub completed: Completed,
    /// What happens while DynamoDB cannot be reached. Default [`Outage::Closed`].
    pub outage: Outage,
    /// What the caller gets when the handler ran and its completion cannot be confirmed. Default
    /// [`Unconfirmed::Answer`].
    pub unconfirmed: Unconfirmed,
    /// How long an unconfirmed completion or release is tried again, at the most; the
    /// invocation's deadline less 500 ms ends it earlier. Default 10 s.
    pub completion_timeout: Duration,
    /// How the key is written into the table. Default [`KeyForm::Verbatim`].
    pub key_form: KeyForm,
    /// What a call sends first. Default [`Acquire::WriteFirst`].
    pub acquire: Acquire,
    /// Whether answers are stored compressed. Default [`Compression::Auto`].
    pub compression: Compression,
    /// Where a large answer is stored. Default [`LargeAnswers::InParts`] above 8 KiB.
    pub large_answers: LargeAnswers,
    /// The largest answer that is stored, and that is read, in bytes: what an answer has before it is
    /// compressed, and what it has once an [`AnswerCodec`](crate::AnswerCodec) has encoded it. A larger one
    /// completes with the reason in its place, and its repeats get
    /// [`ErrorKind::AnswerUnavailable`]. At least 1 KiB, at most 1 GiB; default 10 MiB.
    pub max_answer_bytes: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            retention: Duration::from_secs(24 * 3600),
            lease: Lease::Invocation,
            in_progress: InProgress::Reject,
            failure: Failure::Release,
            lease_expired: LeaseExpired::Stop,
            takeover: Takeover::Execute,
            completed: Completed::Replay,
            outage: Outage::Closed,
            unconfirmed: Unconfirmed::Answer,
            completion_timeout: Duration::from_secs(10),
            key_form: KeyForm::Verbatim,
            acquire: Acquire::WriteFirst,
            compression: Compression::Auto,
            large_answers: LargeAnswers::InParts { above: 8 * 1024 },
            max_answer_bytes: 10 * 1024 * 1024,
        }
    }
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InProgress {
    /// [`ErrorKind::InProgress`] at once; HTTP 409 with `Retry-After`.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// repeat gets [`ErrorKind::Failed`].
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseExpired {
    /// It is stopped: its future is dropped where it stands, and never polled again, so that no two
    /// executions of a key make progress at once. The caller gets
    /// [`ErrorKind::LeaseExpired`]. Nobody knows what the handler had done: the record stays as it is, and
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
    /// [`ErrorKind::LeaseLost`]. [`Execution::lease_remaining`](crate::Execution::lease_remaining) and
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Takeover {
    /// Becomes the owner and runs the handler again, with `attempt` one higher.
    Execute,
    /// [`ErrorKind::Abandoned`], until the record's retention is over: for effects that must not
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// [`Policy::completion_timeout`](Policy#structfield.completion_timeout), or of what is left of a lease
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outage {
    /// [`ErrorKind::Unavailable`], nothing ran.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unconfirmed {
    /// The answer, with an error in the log: an error would only invite the retry that runs again
    /// after the lease.
    Answer,
    /// [`ErrorKind::OutcomeUnknown`].
    Error,
}

macro_rules! setters {
    ($($field:ident: $type:ty, such as $example:literal;)*) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self#structfield.", stringify!($field), ").")]
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use dynamodb_idempotency::*;
        #[doc = concat!("let policy = Policy::default().", stringify!($field), "(", $example, ");")]
        #[doc = concat!("assert_eq!(policy.", stringify!($field), ", ", $example, ");")]
        /// ```
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )*};
}

impl Policy {
    setters! {
        retention: Duration, such as "Duration::from_secs(72 * 3600)";
        lease: Lease, such as "Lease::Renewed(Duration::from_secs(30))";
        in_progress: InProgress, such as "InProgress::Wait { timeout: Duration::from_secs(5) }";
        failure: Failure, such as "Failure::Retain { max_attempts: 3 }";
        lease_expired: LeaseExpired, such as "LeaseExpired::Continue";
        takeover: Takeover, such as "Takeover::Reject";
        completed: Completed, such as "Completed::Execute";
        outage: Outage, such as "Outage::Open";
        unconfirmed: Unconfirmed, such as "Unconfirmed::Error";
        completion_timeout: Duration, such as "Duration::from_secs(3)";
        key_form: KeyForm, such as "KeyForm::Sha256";
        acquire: Acquire, such as "Acquire::Adaptive";
        compression: Compression, such as "Compression::Off";
        large_answers: LargeAnswers, such as "LargeAnswers::InRecord";
        max_answer_bytes: usize, such as "2 * 1024 * 1024";
    }

    /// Whether the settings can hold, each for itself and beside the others and `clock_tolerance`.
    pub(crate) fn validate(&self, clock_tolerance: Duration) -> Result<(), Error> {
        let invalid = |message| Err(Error::new(ErrorKind::Configuration, message));
        let second = Duration::from_secs(1);
        if self.retention < second {
            return invalid("Policy::retention is below 1 s");
        }
        if self.retention < self.completion_timeout {
            return invalid(
                "Policy::retention is below Policy::completion_timeout: an answer that is confirmed late \
                 would be over by then",
            );
        }
        // The store's clock is known to the second, less the tolerance: of a shorter lease it may not be
        // certain that anything is left, and a renewal could come too late.
        let shortest = clock_tolerance + 2 * second;
        match self.lease {
            Lease::Fixed(length) if length < 3 * second => {
                return invalid("Lease::Fixed is below 3 s");
            }
            Lease::Renewed(length) if length < 3 * second => {
                return invalid("Lease::Renewed is below 3 s");
            }
            Lease::Fixed(length) if length < shortest => {
                return invalid("Lease::Fixed is below Builder::clock_tolerance and 2 s");
            }
            Lease::Renewed(length) if length < shortest => {
                return invalid("Lease::Renewed is below Builder::clock_tolerance and 2 s");
            }
            Lease::Invocation | Lease::Fixed(_) | Lease::Renewed(_) => {}
        }
        if !MAX_ANSWER_BYTES.contains(&self.max_answer_bytes) {
            return invalid("Policy::max_answer_bytes is not between 1 KiB and 1 GiB");
        }
        match self.failure {
            Failure::Retain { max_attempts: 0 } => {
                invalid("Failure::Retain needs max_attempts of at least 1")
            }
            Failure::Release | Failure::Retain { .. } | Failure::Replay => Ok(()),
        }
    }
}

/// Within which the largest answer may be chosen.
const MAX_ANSWER_BYTES: std::ops::RangeInclusive<usize> = 1024..=1 << 30;

/// What is kept of an invocation's time for the answer's way out.
pub(crate) const COMPLETION_MARGIN: Duration = Duration::from_millis(500);

/// For an operation without a deadline under [`Lease::Invocation`].
const DEFAULT_RENEWED: Duration = Duration::from_secs(30);

impl Lease {
    /// How long a lease is that is taken or renewed now, with so much left until the deadline. What its
    /// stamp may be short by and not be found so (`margin`) is added to an invocation's.
    pub(crate) fn length(self, deadline_left: Option<Duration>, margin: Duration) -> Duration {
        match (self, deadline_left) {
            (Self::Invocation, Some(left)) => left + margin,
            (Self::Invocation, None) => DEFAULT_RENEWED,
            (Self::Fixed(length) | Self::Renewed(length), _) => length,
        }
    }

    /// How much of its length may be over, or may not be known to be there, when it is granted.
    pub(crate) fn may_lack(self, deadline: Option<End>, margin: Duration) -> Duration {
        match (self, deadline) {
            (Self::Invocation, Some(_)) => margin,
            (Self::Invocation, None) => margin.max(DEFAULT_RENEWED / 3),
            (Self::Fixed(length) | Self::Renewed(length), _) => margin.max(length / 3),
        }
    }

    /// How long a lease is that has to be renewed, if it has to.
    pub(crate) fn renewed(self, deadline: Option<End>) -> Option<Duration> {
        match (self, deadline) {
            (Self::Renewed(length), _) => Some(length),
            (Self::Invocation, None) => Some(DEFAULT_RENEWED),
            (Self::Invocation, Some(_)) | (Self::Fixed(_), _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults that the documentation names.
    #[test]
    fn defaults_are_those_documented() {
        let policy = Policy::default();
        assert_eq!(policy.retention, Duration::from_secs(86_400));
        assert_eq!(policy.lease, Lease::Invocation);
        assert_eq!(policy.in_progress, InProgress::Reject);
        assert_eq!(policy.failure, Failure::Release);
        assert_eq!(policy.lease_expired, LeaseExpired::Stop);
        assert_eq!(policy.takeover, Takeover::Execute);
        assert_eq!(policy.completed, Completed::Replay);
        assert_eq!(policy.outage, Outage::Closed);
        assert_eq!(policy.unconfirmed, Unconfirmed::Answer);
        assert_eq!(policy.completion_timeout, Duration::from_secs(10));
        assert_eq!(policy.key_form, KeyForm::Verbatim);
        assert_eq!(policy.acquire, Acquire::WriteFirst);
        assert_eq!(policy.compression, Compression::Auto);
        assert_eq!(policy.large_answers, LargeAnswers::InParts { above: 8192 });
        assert_eq!(policy.max_answer_bytes, 10_485_760);
        assert!(policy.validate(TOLERANCE).is_ok());
    }

    const TOLERANCE: Duration = Duration::from_secs(1);

    #[test]
    fn settings_that_cannot_hold_are_refused_by_name() {
        let seconds = Duration::from_secs;
        let tiny = Duration::from_millis(999);
        for (policy, named) in [
            (Policy::default().retention(tiny), "Policy::retention"),
            (Policy::default().lease(Lease::Fixed(seconds(2))), "Lease::Fixed"),
            (Policy::default().lease(Lease::Renewed(seconds(2))), "Lease::Renewed"),
            (Policy::default().failure(Failure::Retain { max_attempts: 0 }), "Failure::Retain"),
            (Policy::default().max_answer_bytes(1023), "Policy::max_answer_bytes"),
            (Policy::default().max_answer_bytes((1 << 30) + 1), "Policy::max_answer_bytes"),
            // Those that contradict each other.
            (Policy::default().retention(seconds(9)), "Policy::completion_timeout"),
            (Policy::default().completion_timeout(seconds(90_000)), "Policy::completion_timeout"),
        ] {
            let error = policy.validate(TOLERANCE).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().contains(named), "{error}");
        }
        for lease in [Lease::Fixed(seconds(4)), Lease::Renewed(seconds(4))] {
            let policy = Policy::default().lease(lease);
            assert!(policy.validate(seconds(2)).is_ok());
            let error = policy.validate(seconds(3)).unwrap_err();
            assert!(error.to_string().contains("Builder::clock_tolerance"), "{error}");
        }
    }

    #[test]
    fn an_invocation_lease_outlives_the_invocation() {
        let (left, margin) = (Duration::from_secs(8), Duration::from_secs(2));
        assert_eq!(Lease::Invocation.length(Some(left), margin), Duration::from_secs(10));
        assert_eq!(Lease::Invocation.length(None, margin), Duration::from_secs(30));
        assert_eq!(Lease::Invocation.renewed(None), Some(Duration::from_secs(30)));
    }
}
