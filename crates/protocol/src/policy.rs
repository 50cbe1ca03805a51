//! The settings of a policy that the machines read. The library exports and documents each type.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lease {
    /// The lease ends 2 s after the deadline of the Lambda invocation.
    ///
    /// The 2 s are the clock tolerance, 1 s by default, and the 1 s resolution of DynamoDB's clock. If
    /// the call has no deadline, the lease is `Renewed(30 s)`.
    ///
    /// Lambda does not always stop a function at its deadline. So by default (`LeaseExpired::Stop`), the
    /// crate stops a handler whose lease expires.
    Invocation,
    /// The lease lasts this long from the acquisition.
    ///
    /// The minimum is 3 s, or the clock tolerance plus 2 s if that is longer.
    Fixed(Duration),
    /// The lease lasts this long, and the owner renews it while the handler runs.
    ///
    /// The minimum is that of `Fixed`. The owner renews the lease after a third of its length. Use this
    /// lease on long-lived hosts, and for long functions whose crash should free the key soon. The
    /// renewal runs in the handler's task, so a handler that blocks its thread delays the renewal.
    Renewed(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InProgress {
    /// The call gets `ErrorKind::InProgress` at once. HTTP clients get 409 with `Retry-After`.
    Reject,
    /// The call waits for the owner's answer. It is rejected after `timeout`, or near its own deadline.
    ///
    /// The call polls with strongly consistent reads, and with jittered pauses of 50 ms, doubling to 1 s.
    Wait {
        /// The longest wait.
        timeout: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// The record becomes RELEASED, and the next call runs the handler, even with another payload.
    ///
    /// The next call has an `attempt` one higher. The record stays for an hour. A record with steps
    /// becomes FAILED instead, and the next call continues after the stored steps.
    Release,
    /// The record becomes FAILED. The next call runs the handler, up to `max_attempts` runs in all.
    ///
    /// After that, a repeat gets the failure, as under `Replay`. A run whose owner died counts too.
    Retain {
        /// The largest number of runs, at least 1.
        max_attempts: u32,
    },
    /// The record becomes FAILED. A repeat gets the failure and never runs.
    ///
    /// A function's error is stored only with `Call::replay_errors`. Without it, a repeat gets
    /// `ErrorKind::Failed`.
    Replay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Takeover {
    /// The call becomes the owner and runs the handler again, with `attempt` one higher.
    Execute,
    /// The call gets `ErrorKind::Abandoned`, until the record's retention is over.
    ///
    /// Use it for effects that must not happen twice and that no hook can look up. A reconcile hook
    /// replaces this setting.
    Reject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Completed {
    /// A repeat gets the stored answer.
    Replay,
    /// After a success the owner releases the key, and each repeat runs the handler again.
    ///
    /// Two executions never run at once: with [`InProgress::Wait`], a repeat first waits for the running
    /// execution. Nothing is stored, so a repeat can have another payload. Use it for handlers that only
    /// read, or that are safe to repeat but not to run concurrently.
    ///
    /// The caller gets the handler's answer even if DynamoDB does not confirm the release. Steps, commits and
    /// transactions are `ErrorKind::InvalidUse`, and a reconcile hook is a configuration error. `attempt`
    /// grows from run to run, and starts again at 1 an hour after the last one. An answer that was stored
    /// under `Replay` is replayed until its retention is over.
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outage {
    /// The call gets `ErrorKind::Unavailable`, and the handler does not run.
    Closed,
    /// The handler runs without any protection, and the crate logs an error each time.
    ///
    /// The handler does not run if the call has already seen a record that forbids a run, such as that of a
    /// running owner. The answer is stored if DynamoDB is back within a second after the handler returns.
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FirstRequest {
    /// The conditional write that acquires the key. If it is rejected, it returns the record.
    ///
    /// A repeat is billed one write unit for each KB of the record. This is the cheapest and fastest
    /// choice if repeats are rare.
    ///
    /// The first call of a process still reads first, because it does not know DynamoDB's time yet.
    /// `Idempotency::preflight` and `Idempotency::warm` save that read.
    Write,
    /// An eventually consistent read. The write follows unless the read returns the answer.
    ///
    /// A repeat is billed half a read unit for each 4 KB of the record. A first run is billed one
    /// additional read and takes one additional round trip. Use it if most calls are repeats.
    ///
    /// The read can return an earlier state. So it ends the call only if it returns a completed operation
    /// with the same fingerprint, because a completed answer never changes.
    Read,
    /// Like [`Read`](Self::Read), but the read is strongly consistent.
    ///
    /// The read alone can also end the call as in progress or as a mismatch. A repeat is billed one read
    /// unit for each 4 KB of the record.
    ConsistentRead,
}

impl Failure {
    /// Whether the record of a failed execution becomes FAILED instead of RELEASED.
    #[must_use]
    pub const fn is_kept(self) -> bool {
        !matches!(self, Self::Release)
    }
}

impl Lease {
    /// The name of the variant in code.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invocation => "Lease::Invocation",
            Self::Fixed(_) => "Lease::Fixed",
            Self::Renewed(_) => "Lease::Renewed",
        }
    }

    /// The length that the variant contains, if any.
    #[must_use]
    pub const fn chosen_length(self) -> Option<Duration> {
        match self {
            Self::Invocation => None,
            Self::Fixed(length) | Self::Renewed(length) => Some(length),
        }
    }
}
