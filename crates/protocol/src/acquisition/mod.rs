//! The machine that acquires a key, or finds out why it cannot. An operation in one transaction is an
//! acquisition whose write completes the record ([`Goal::Transact`]).

mod ending;
mod lease;
mod replies;
mod transaction;
mod undo;

use std::time::Duration;

use crate::knowledge::{Knowledge, NoCompletion};
use crate::lease::Window;
use crate::machine::{Cause, Machine, Outcome, Reply};
use crate::owner::OwnerId;
use crate::policy::FirstRequest;
use crate::record::{Attempts, Header, Version};
use crate::retention::Retention;
use crate::rules::{MIN_LIMIT, Rules};
use crate::time::{Deadline, Now, StoreTime, Timestamp, Uptime};
use crate::tries::{Backoff, Tries};
use crate::write::{Form, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Run the handler under a lease.
    Own,
    /// Write the answer and the caller's items in one transaction.
    /// `has_items` is `false` once the items were rejected, and an answer is stored without them.
    Transact { has_items: bool },
    /// Only read: nothing is written.
    LookUp,
}

/// What a hook decides about an abandoned operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    Completed,
    /// It completes with a transaction that contains the hook's items.
    Committed,
    Failed,
    Execute,
    Refuse,
}

/// What the caller of the machine does next, apart from requests and pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Next {
    /// Run the hook about the record that was seen last, then call [`Acquisition::resolved`].
    RunHook,
    /// The items of the transaction were rejected. The caller calls
    /// [`Acquisition::answer_without_items`] if there is an answer to store, else [`Acquisition::no_answer`].
    AnswerForFailedCondition,
    /// The call owns the key: run the handler within this window.
    Run(Window),
    /// DynamoDB is out of reach, and the policy lets the handler run without a record.
    RunUnprotected,
    Done(CallResult),
}

type Command = crate::machine::Command<Next>;

/// The result of a call that has run no handler. "The record" is the one that the last response has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallResult {
    /// The record contains the answer.
    Replay,
    /// The record contains the hook's resolution.
    Reconciled,
    /// The transaction was applied.
    Executed,
    /// The handler did not run, and no transaction of this call was applied or will be applied.
    Nothing(Reason, NoCompletion),
    /// A transaction may have been applied, or may still be applied.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    InProgress {
        lease_left: Duration,
    },
    Mismatch,
    Abandoned,
    /// The operation has failed for good. The record contains the failure, if it was stored.
    Failed,
    /// There is no answer to replay. Only under [`Goal::LookUp`].
    Free,
    ItemsRejected,
    DeadlineOver,
    /// The last response was an error.
    Error,
    TimedOut,
    /// No response proved that the lease is right.
    NoLease,
    /// No response had a `Date`.
    NoStoreTime,
}

/// What the acquisition passes to the execution of the handler.
#[derive(Clone, Debug)]
pub struct Grant {
    pub knowledge: Knowledge,
    /// The record that was taken over, if there was one.
    pub taken_over: Option<Header>,
    pub attempts: Attempts,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquisition {
    rules: Rules,
    goal: Goal,
    knowledge: Knowledge,
    step: Step,
    started: Uptime,
    budget: Deadline,
    /// The tries of a transaction. They end before the budget is used up, so that a read can follow.
    tries: Tries,
    writes: u32,
    waiting: Backoff,
    obstacle: Obstacle,
    /// Whether another call was seen to write.
    is_contended: bool,
    /// The record that this call took over, or tried to take over.
    taken_over: Option<Header>,
    attempts: Attempts,
    /// The time of the transaction, or of the answer that is stored instead. No two completions of a call
    /// have the same time.
    completed_at: Option<Timestamp>,
    /// `completed_at` of the transaction whose items were rejected.
    rejected_at: Option<Timestamp>,
    /// `expires_at` of the transaction, in epoch seconds.
    expires_at: i64,
    retention: Retention<Next>,
    /// The ends of leases that this call has stamped. No end is stamped twice, because a delayed write that
    /// requires this end would match again.
    stamped: Vec<Timestamp>,
    /// What the hook has decided about this version.
    resolution: Option<(Version, Resolution)>,
    resolved_at: Option<Timestamp>,
    /// The version that a resolution in doubt replaces.
    doubtful_resolution: Option<Version>,
    /// Store time, as the current response shows it.
    time: Option<StoreTime>,
    undo_tries: u32,
    /// How many responses in a row have shown no store time, before any has shown it.
    undated_reads: u32,
    /// The reason to report once no transaction of this call can still be applied. The number counts the
    /// tries to replace the version that the transaction requires.
    ending: Option<(Reason, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Idle,
    Reading {
        is_first: bool,
    },
    Writing {
        write: Write,
        intent: Intent,
    },
    Pausing(AfterPause),
    /// A transaction that is sent again after a pause, or whose items were rejected.
    Retrying(Write, Intent),
    Undoing(Write, Reason),
    /// Replacing the version that a transaction in doubt requires.
    Superseding(Write),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AfterPause {
    /// Read again, because another owner is running.
    ReadAgain,
    Read,
    Write(Intent),
    Supersede,
}

/// Why the machine writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Intent {
    Create,
    /// Start the operation from scratch, after this many attempts.
    Replace {
        attempts: u32,
    },
    /// Continue the operation of another owner.
    TakeOver,
    /// Correct the end of the own lease before anything runs.
    Restamp {
        lease_expires_at: Timestamp,
    },
    Resolve(Resolution),
}

/// Why a call must not run without a record if DynamoDB fails from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Obstacle {
    Nothing,
    Running(ObservedLease),
    /// There is a record, and no store time by which to judge it.
    Unjudged,
    /// The record forbids a run, or it could not be read. If the read was stale, the record may have changed
    /// since.
    MustNotRun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ObservedLease {
    left: Duration,
    at: Uptime,
}

impl Machine for Acquisition {
    type Output = Next;

    fn woke(&mut self, now: Now) -> Command {
        if let Some(command) = self.retention.woke(self.limit(now).max(MIN_LIMIT)) {
            return command;
        }
        match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Pausing(AfterPause::ReadAgain) => {
                // Time spent waiting for the other owner does not count against the budget.
                self.begin_budget(now);
                self.read(now)
            }
            Step::Pausing(AfterPause::Write(intent)) => self.send(now, intent),
            Step::Pausing(AfterPause::Supersede) => self.supersede(now),
            Step::Retrying(..) if now.is_over(self.budget) => self.end(now, Reason::TimedOut),
            Step::Retrying(write, intent) => self.dispatch(now, write, intent),
            Step::Pausing(AfterPause::Read)
            | Step::Idle
            | Step::Reading { .. }
            | Step::Writing { .. }
            | Step::Undoing(..)
            | Step::Superseding(_) => self.read(now),
        }
    }

    fn is_waiting(&self) -> bool {
        // An acquisition that can still be applied has to be undone first.
        self.step == Step::Pausing(AfterPause::ReadAgain) && !self.knowledge.may_hold_key()
    }

    fn replied(&mut self, now: Now, reply: &Reply) -> Command {
        let tries = &mut self.tries;
        if let Some(command) = self.retention.replied(reply, || tries.pause(now)) {
            return command;
        }
        self.time = reply.time;
        let step = std::mem::replace(&mut self.step, Step::Idle);
        let write = match &step {
            Step::Writing { write, .. } | Step::Superseding(write) | Step::Undoing(write, _) => {
                Some(write)
            }
            Step::Idle | Step::Reading { .. } | Step::Pausing(_) | Step::Retrying(..) => None,
        };
        let was_put = write.is_some_and(|write| write.form() == Form::Put);
        self.knowledge.learn(reply, write);
        self.note_doubt(reply, &step);
        let command = match (step, &reply.outcome) {
            (Step::Reading { .. }, Outcome::Read(_)) if self.ending.is_some() => {
                self.end_transaction(now)
            }
            (Step::Reading { is_first }, Outcome::Read(result)) => {
                self.after_read(now, result, is_first)
            }
            (Step::Writing { write, intent }, Outcome::Write(result)) => match self.goal {
                Goal::Transact { .. } => self.after_transaction(now, result, write, intent),
                Goal::Own | Goal::LookUp => self.after_write(now, result, intent),
            },
            (Step::Undoing(_, reason), Outcome::Write(result)) => {
                self.after_undo(now, result, reason)
            }
            (Step::Superseding(write), Outcome::Write(result)) => {
                self.after_superseding(now, result, &write)
            }
            _ => self.read(now),
        };
        let shown = self.knowledge.shown_by(reply, was_put);
        let limit = self.limit(now).max(MIN_LIMIT);
        let command = self.retention.verify(&self.rules, shown, reply.time, limit, command);
        self.time = None;
        command
    }
}

impl Acquisition {
    pub fn new(me: OwnerId, goal: Goal, rules: Rules, now: Now) -> Self {
        let budget = now.lasting(rules.request_timeout);
        let second = Duration::from_secs(1);
        let longest = match goal {
            Goal::Own | Goal::LookUp => second,
            Goal::Transact { .. } => 2 * second,
        };
        let mut acquisition = Self {
            rules,
            goal,
            knowledge: Knowledge::new(me),
            step: Step::Idle,
            started: now.local.uptime,
            budget,
            tries: Tries::with_pauses_up_to(longest, budget),
            writes: 0,
            waiting: Backoff::new(Duration::from_millis(50), second),
            obstacle: Obstacle::Nothing,
            is_contended: false,
            taken_over: None,
            attempts: Attempts::FIRST,
            completed_at: None,
            rejected_at: None,
            expires_at: 0,
            retention: Retention::new(now.local.uptime),
            stamped: Vec::new(),
            resolution: None,
            resolved_at: None,
            doubtful_resolution: None,
            time: None,
            undo_tries: 0,
            undated_reads: 0,
            ending: None,
        };
        acquisition.begin_tries(now);
        acquisition
    }

    /// When every response must have arrived.
    pub const fn budget(&self) -> Deadline {
        self.budget
    }

    /// The input of [`Finish`](crate::Finish), after [`Next::Run`] and [`Next::RunUnprotected`].
    pub fn grant(&self) -> Grant {
        Grant {
            knowledge: self.knowledge.clone(),
            taken_over: self.taken_over.clone(),
            attempts: self.attempts,
        }
    }

    pub fn start(&mut self, now: Now, first: FirstRequest) -> Command {
        if self.is_too_late(now) {
            return self.end(now, Reason::DeadlineOver);
        }
        let is_consistent = match first {
            FirstRequest::Write if now.stamp().is_some() => return self.write(now, Intent::Create),
            // No response has shown store time yet, and every write is stamped with it.
            FirstRequest::Write | FirstRequest::ConsistentRead => true,
            FirstRequest::Read => false,
        };
        self.step = Step::Reading { is_first: true };
        Command::Read { is_consistent, limit: self.limit(now) }
    }

    /// Whether the deadline is over already.
    pub fn is_too_late(&self, now: Now) -> bool {
        self.rules.lease_length(now).is_none()
    }

    /// Continues after [`Next::RunHook`].
    pub fn resolved(&mut self, now: Now, resolution: Resolution) -> Command {
        self.begin_budget(now);
        self.resolved_at = None;
        self.resolve(now, resolution)
    }

    /// The time limit of the next request, within the deadline. It is half of what is left of the budget, so
    /// that a read or an undo can follow.
    fn limit(&self, now: Now) -> Duration {
        (now.left(self.budget) / 2).min(self.rules.time_until_answer(now))
    }

    fn begin_budget(&mut self, now: Now) {
        self.budget = now.lasting(self.rules.request_timeout);
        self.begin_tries(now);
    }

    /// Leaves a quarter of the budget for the read after the last try.
    fn begin_tries(&mut self, now: Now) {
        let longest = self.rules.completion_timeout.min(now.left(self.budget) / 4 * 3);
        self.tries.until = self.rules.before_answer(now.lasting(longest));
    }

    fn back_off(&mut self, now: Now, next: AfterPause) -> Command {
        let bound = match self.goal {
            Goal::Transact { .. } => self.tries.pause(now),
            Goal::Own | Goal::LookUp => Some(self.tries.next_pause()),
        };
        let Some(bound) = bound else {
            return self.give_up(now, Reason::TimedOut, Cause::Outage);
        };
        self.step = Step::Pausing(next);
        Command::Pause { bound, max: self.limit(now) }
    }
}

#[cfg(test)]
mod tests;
