//! The machine that finishes an execution. It renews the lease and commits. At the end it stores the answer,
//! keeps the failure or releases the key. An owner never sends both a completion and a release.

mod commit;
mod lease;
mod replies;
mod step;
mod writes;

use std::time::Duration;

use crate::acquisition::Grant;
use crate::knowledge::{Knowledge, NoCompletion};
use crate::lease::Window;
use crate::machine::{Machine, Outcome, ReadResult, Reply};
use crate::record::{Attempts, Header};
use crate::retention::Retention;
use crate::rules::Rules;
use crate::time::{Deadline, Now, Stamp, Timestamp};
use crate::tries::Tries;
use crate::write::Write;

pub use self::step::{StepResult, StepWrite};

/// How long an execution without a record tries to store its answer.
const UNPROTECTED_TIMEOUT: Duration = Duration::from_secs(1);

/// How an execution, or one of its commits, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum FinishResult {
    /// The answer or the commit was applied.
    Stored,
    /// An earlier commit of the execution was applied. Its answer is in the record seen last.
    Committed,
    /// The failure is kept, the key is free, or nothing had to be written.
    FailureWritten,
    /// The owner no longer holds the record. No commit was applied, and none will be.
    LeaseLost,
    /// The record is released, failed or absent. No commit was applied, and none will be.
    NothingWritten(NoCompletion),
    /// A commit was not applied and will not be: the handler continues.
    NotCommitted(NoCompletion),
    /// A commit may have been applied, or may still be applied.
    Unknown,
    /// DynamoDB did not confirm the write in time.
    Unconfirmed,
}

type Command = crate::machine::Command<FinishResult>;

/// The write that ends an execution without an answer in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndWrite {
    Release,
    Keep,
    /// Nothing was executed: the previous record is restored.
    Undo,
    /// The execution has succeeded under [`Completed::Release`](crate::policy::Completed::Release).
    ReleaseSucceeded,
}

/// Why a commit cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoCommit {
    Over(FinishResult),
    /// The handler has returned.
    Closed,
}

/// The result of a write that renews the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Renewal {
    Renewed,
    /// Applied with a wrong end, because a clock has jumped.
    Wrong(Timestamp),
    Failed,
    /// The operation has ended, or a write that may end it is in flight.
    Ended,
    /// Another owner has the record, or it was deleted.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct KnownSteps {
    /// Whether the record is known to have the map of steps.
    have_map: bool,
    /// Whether this execution has sent a step. Steps of earlier attempts do not count.
    were_sent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finish {
    rules: Rules,
    knowledge: Knowledge,
    /// `created_at` is `None` for an execution without a record, until its first write.
    attempts: Attempts,
    taken_over: Option<Header>,
    /// `None` if no record protects the execution, and after [`stop`](Self::stop).
    window: Option<Window>,
    is_protected: bool,
    is_lost: bool,
    /// The ends of leases that were corrected, or that a commit required. No end is stamped again, because a
    /// delayed write that requires this end would match.
    corrected: Vec<Timestamp>,
    /// The end of the lease that a response has shown in the record last. A commit requires this end, so
    /// DynamoDB rejects the commit once the record has another end.
    recorded_lease: Timestamp,
    stage: Stage,
    step: Step,
    tries: Tries,
    /// The time of the last commit, which distinguishes it from the other completions of the execution.
    completed_at: Option<Timestamp>,
    steps: KnownSteps,
    retention: Retention<FinishResult>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The handler is running.
    Open,
    /// The operation is over, whatever the handler returns.
    Over(FinishResult),
    /// The handler has returned.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Idle,
    /// A read learns store time, because no response has shown it yet.
    Learning(Order),
    Writing(Write, Purpose),
    /// A read finds the record that a write has met, or the outcome of a commit.
    Reading(Option<Write>, Purpose),
    Pausing(Write, Purpose),
}

/// A write that needs store time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Order {
    Commit,
    /// The parts of the answer are kept until this time, in epoch seconds.
    Complete {
        kept_until: i64,
    },
    Fail(EndWrite),
    ResolveCommit(Timestamp, EndWrite),
}

/// Why the machine reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    Complete {
        completed_at: Timestamp,
    },
    Commit {
        completed_at: Timestamp,
    },
    /// Move the end of the lease, so that a commit in doubt is applied before this write or never. The
    /// handler keeps the key.
    CloseOff {
        completed_at: Timestamp,
    },
    /// Keep the failure or release the key. If `is_in_doubt`, the outcome of an earlier try is unknown.
    Fail {
        is_in_doubt: bool,
    },
    /// Fail the attempt, so that a commit in doubt is applied before this write or never.
    ResolveCommit {
        completed_at: Timestamp,
    },
    FindCommit,
}

impl Purpose {
    const fn completed_at(self) -> Option<Timestamp> {
        match self {
            Self::Complete { completed_at }
            | Self::Commit { completed_at }
            | Self::CloseOff { completed_at }
            | Self::ResolveCommit { completed_at } => Some(completed_at),
            Self::Fail { .. } | Self::FindCommit => None,
        }
    }
}

impl Finish {
    pub fn new(grant: Grant, rules: Rules, window: Option<Window>, now: Now) -> Self {
        let Grant { knowledge, taken_over, mut attempts } = grant;
        if window.is_none() {
            // The call has never owned the key, so its record does not continue the one that it tried to
            // take over.
            attempts.created_at = None;
        }
        // A takeover keeps the steps of the record.
        let have_map = taken_over.as_ref().is_some_and(|record| record.steps.is_some());
        Self {
            rules,
            knowledge,
            attempts,
            taken_over,
            is_protected: window.is_some(),
            window,
            is_lost: false,
            corrected: Vec::new(),
            recorded_lease: window
                .map_or(Timestamp::from_millis(0), |window| window.lease_expires_at),
            stage: Stage::Open,
            step: Step::Idle,
            tries: Tries::until(now.lasting(Duration::ZERO)),
            completed_at: None,
            steps: KnownSteps { have_map, were_sent: false },
            retention: Retention::new(now.local.uptime),
        }
    }

    /// Whether the handler's work no longer belongs to its operation. A commit in flight does not count,
    /// because it may be rejected.
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_) | Stage::Closed)
    }

    /// When TTL may delete the finished record, in epoch seconds. This is never before the lease expires,
    /// even if the retention is shorter.
    fn expires_at(&self, ended_at: Timestamp) -> i64 {
        let retained = ended_at.plus(self.rules.retention);
        retained.max(self.lease_expires_at()).seconds_up()
    }

    /// When the parts of an answer expire. This is not before the record expires, even if the completion
    /// takes all of its tries and the lease is renewed meanwhile.
    pub fn parts_expire_at(&self, stamp: Stamp) -> i64 {
        let ended_at = self.next_completion(stamp.at);
        let renewed = self.rules.lease.renewed(self.rules.deadline).unwrap_or_default();
        self.expires_at(ended_at.plus(self.rules.completion_timeout).plus(renewed))
    }

    /// An estimate of `completed_at` and `expires_at`, to compute the size of the record.
    pub fn estimate(&self, now: Now) -> (Timestamp, i64) {
        let completed_at = self.next_completion(now.guess().0);
        (completed_at, self.expires_at(completed_at))
    }

    /// The deadline for the tries of a write that is sent now.
    pub fn tries_until(&self, now: Now) -> Deadline {
        let longest =
            if self.is_protected { self.rules.completion_timeout } else { UNPROTECTED_TIMEOUT };
        self.rules.before_answer(now.lasting(longest))
    }

    /// Stores the answer. The record is kept at least until `kept_until`, in epoch seconds.
    pub fn complete(&mut self, now: Now, kept_until: i64, until: Deadline) -> Command {
        self.stage = Stage::Closed;
        self.begin(now, Order::Complete { kept_until }, until)
    }

    /// Ends an execution that has failed, or has executed nothing.
    pub fn fail(&mut self, now: Now, failure: EndWrite) -> Command {
        self.stage = Stage::Closed;
        let until = self.tries_until(now);
        self.begin(now, Order::Fail(failure), until)
    }
}

impl Machine for Finish {
    type Output = FinishResult;

    fn replied(&mut self, now: Now, reply: &Reply) -> Command {
        self.heard(reply.time);
        let tries = &mut self.tries;
        if let Some(command) = self.retention.replied(reply, || tries.pause(now)) {
            return command;
        }
        let step = std::mem::replace(&mut self.step, Step::Idle);
        let write = match &step {
            Step::Writing(write, _) => Some(write),
            Step::Idle | Step::Learning(_) | Step::Reading(..) | Step::Pausing(..) => None,
        };
        self.knowledge.learn(reply, write);
        self.note_lease();
        let command = match (step, &reply.outcome) {
            (Step::Writing(write, purpose), Outcome::Write(result)) => {
                self.after_write(now, result, write, purpose)
            }
            (Step::Reading(write, purpose), Outcome::Read(ReadResult::Found(_))) => {
                self.after_record(now, write, purpose)
            }
            (Step::Reading(write, purpose), _) => self.retry(now, write, purpose),
            (Step::Learning(order), _) => return self.after_learning(now, order),
            (Step::Pausing(write, purpose) | Step::Writing(write, purpose), _) => {
                return self.send(now, write, purpose);
            }
            (Step::Idle, _) => return Command::Return(FinishResult::Unconfirmed),
        };
        let shown = self.knowledge.shown_by(reply, false);
        let limit = self.tries.limit(now);
        self.retention.verify(&self.rules, shown, reply.time, limit, command)
    }

    fn woke(&mut self, now: Now) -> Command {
        if let Some(command) = self.retention.woke(self.tries.limit(now)) {
            return command;
        }
        match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Learning(order) => self.learn(now, order),
            Step::Writing(write, purpose) | Step::Pausing(write, purpose) => {
                self.send(now, write, purpose)
            }
            Step::Reading(write, purpose) => self.read(now, write, purpose),
            Step::Idle => Command::Return(FinishResult::Unconfirmed),
        }
    }
}

#[cfg(test)]
mod tests;
