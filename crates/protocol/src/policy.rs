//! The choices of an operation that the machines read. The documentation of each is where the library
//! exports it.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lease {
    /// Until 2 s after the end of the Lambda invocation (1 s of clock
    /// tolerance by default, and 1 s of resolution of DynamoDB's
    /// time). If the operation has no deadline (outside Lambda, none given): as `Renewed(30 s)`.
    ///
    /// Lambda does not always stop a function when its time is over. Managed Instances do not enforce the timeout at all:
    /// "your code continues running" ([developer guide, execution
    /// environment](https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances-execution-environment.html)).
    /// Elsewhere too the runtime's process goes on when an invocation times out, or when the
    /// environment thaws ([aws-lambda-rust-runtime
    /// #1155](https://github.com/aws/aws-lambda-rust-runtime/issues/1155),
    /// [#1159](https://github.com/aws/aws-lambda-rust-runtime/pull/1159)). So the crate stops a
    /// handler when its lease is over: `LeaseExpired::Stop`.
    Invocation,
    /// This long from the acquisition. At least 3 s, and at least 2 s more than the clock
    /// tolerance.
    Fixed(Duration),
    /// This long, with the same minimum as `Fixed`, and renewed after each third of it while the
    /// handler runs. For long-lived hosts, and for long functions whose crash should free the key
    /// soon. The renewal runs in the handler's task: a handler that blocks its thread does not
    /// renew.
    Renewed(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InProgress {
    /// `ErrorKind::InProgress` at once; HTTP 409 with `Retry-After`.
    Reject,
    /// Waits for the owner's answer with jittered back-off (50 ms, doubling to 1 s; each poll is
    /// one strongly consistent read), at most this long and within the deadline; then as `Reject`.
    Wait {
        /// The longest wait.
        timeout: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// The record becomes RELEASED, for an hour. The next call runs, with `attempt` one higher,
    /// whatever its payload. A record with steps is kept as FAILED
    /// instead, and the next call continues after them.
    Release,
    /// The record becomes FAILED and keeps its attempt count. The next call runs again, until there
    /// were `max_attempts` runs; from then on as `Replay`. A run whose owner died counts too.
    Retain {
        /// How many runs there are in all, at least 1.
        max_attempts: u32,
    },
    /// The record becomes FAILED: a repeat gets the failure and never runs. A function's error is
    /// kept only with `Call::replay_errors`; without it a
    /// repeat gets `ErrorKind::Failed`.
    Replay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Takeover {
    /// The call becomes the owner and runs the handler again, with `attempt` one higher.
    Execute,
    /// `ErrorKind::Abandoned`, until the record's retention is over.
    /// For effects that must not happen twice and that cannot be looked up. A reconcile
    /// hook replaces this setting.
    Reject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Completed {
    /// A repeat gets the stored answer.
    Replay,
    /// A repeat becomes the owner and runs the handler again, with `attempt` one higher; its answer
    /// replaces the stored one. Two executions still never run at once. For handlers that only
    /// read, or that may be repeated but not at the same time. The same key with another payload is
    /// still a mismatch. A repeat that waits for a running one ([`InProgress::Wait`]) runs after
    /// it.
    Execute,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outage {
    /// `ErrorKind::Unavailable`, nothing ran.
    Closed,
    /// The handler runs without any protection, with an error in the log each time. It does not run
    /// if another owner was seen running before DynamoDB went out of reach. Its answer is stored if
    /// DynamoDB is back within a second after the handler's end.
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FirstRequest {
    /// The conditional write that acquires the key. If it is rejected, it returns the record.
    ///
    /// A repeat is billed one write unit for each KB of the record. The cheapest and fastest choice
    /// if repeats are rare.
    ///
    /// The first call of a process reads first even so, because it does not know DynamoDB's time
    /// yet. `Idempotency::preflight` and `Idempotency::warm`
    /// save that read.
    Write,
    /// An eventually consistent read, and the write only if the read does not settle the call.
    ///
    /// A repeat is billed half a read unit for each 4 KB of the record. A first run is billed one additional read and takes one
    /// additional round trip. For traffic that consists mostly of repeats.
    ///
    /// The read may return an earlier state. It therefore settles a call only
    /// with a completed operation that has the right fingerprint, which later changes do not
    /// affect. Everything else continues with the write. Under `Outage::Open` the read's result
    /// also counts if DynamoDB is unreachable at the write.
    Read,
    /// Like [`Read`](Self::Read), but the read is strongly consistent.
    ///
    /// It settles a call with whatever it returns, including a running operation and a mismatch. A
    /// repeat is billed one read unit for each 4 KB of the record.
    ConsistentRead,
}

impl Failure {
    /// Whether the record of a failed execution is kept as FAILED, rather than released.
    #[must_use]
    pub const fn is_kept(self) -> bool {
        !matches!(self, Self::Release)
    }
}

impl Lease {
    /// The variant, as code names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invocation => "Lease::Invocation",
            Self::Fixed(_) => "Lease::Fixed",
            Self::Renewed(_) => "Lease::Renewed",
        }
    }

    /// The length that the policy names, if it names one.
    #[must_use]
    pub const fn chosen_length(self) -> Option<Duration> {
        match self {
            Self::Invocation => None,
            Self::Fixed(length) | Self::Renewed(length) => Some(length),
        }
    }
}
