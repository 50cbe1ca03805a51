//! The machine that acquires a key, or finds out why it cannot. An operation in one transaction is an
//! acquisition whose write completes the record ([`Goal::Transact`]).

mod lease;
mod transaction;
mod undo;

use std::time::Duration;

use crate::decide::{Decision, decide};
use crate::knowledge::{Knowledge, NothingHappened};
use crate::lease::Window;
use crate::machine::{Cause, Machine, Outcome, ReadResult, Reply, WriteResult};
use crate::owner::OwnerId;
use crate::policy::{FirstRequest, Outage};
use crate::record::{Header, State, Version};
use crate::retention::Retention;
use crate::rules::{MIN_LIMIT, Rules};
use crate::time::{Backoff, Deadline, Now, StoreTime, Timestamp, Uptime};
use crate::tries::Tries;
use crate::write::{Form, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Run the handler under a lease.
    Own,
    /// Write the answer and the caller's items at once.
    Transact { form: Form },
    /// Only read: nothing is written.
    LookUp,
}

/// What a hook decides about an abandoned operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    Completed,
    Failed,
    Execute,
    Refuse,
}

/// What the caller of the machine does next, without the machine waiting for DynamoDB or for time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Next {
    /// Run the hook about the record that was seen last, then call [`Acquisition::resolved`].
    RunHook,
    /// The items of the transaction were rejected. If there is an answer to store without them, call
    /// [`Acquisition::answer_without_items`], else [`Acquisition::no_answer`].
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
    /// The record has the answer.
    Replay,
    /// The record has the hook's resolution.
    Reconciled,
    /// The transaction was applied.
    Executed,
    /// This call has changed nothing that counts, and no write of it will.
    Nothing(Reason, NothingHappened),
    /// A transaction may have been applied, or may still be.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    InProgress {
        lease_left: Duration,
    },
    Mismatch,
    Abandoned,
    /// It has failed for good. The record has the failure, if it was kept.
    Failed,
    /// There is no answer to replay. Only under [`Goal::LookUp`].
    Free,
    ItemsRejected,
    DeadlineOver,
    /// The last response was an error.
    Error,
    TimedOut,
    /// No stamp of the lease was confirmed to be right.
    NoLease,
}

/// The rights and the history with which a handler runs.
#[derive(Clone, Debug)]
pub struct Granted {
    pub knowledge: Knowledge,
    /// The record that was taken over, if there was one.
    pub replaced: Option<Header>,
    pub attempt: u32,
    pub released_attempts: u32,
    /// `None` if nothing was written: no record protects the execution.
    pub created_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquisition {
    rules: Rules,
    goal: Goal,
    knowledge: Knowledge,
    step: Step,
    started: Uptime,
    /// When every response must have arrived.
    budget: Deadline,
    /// The tries of a transaction. They end before the budget, so that time for a read is left.
    tries: Tries,
    writes: u32,
    waiting: Backoff,
    obstacle: Obstacle,
    /// A version that this call tried to replace had changed, or a transaction of another call was
    /// running.
    is_contended: bool,
    /// The record that this call took over, or tried to.
    replaced: Option<Header>,
    attempt: u32,
    released_attempts: u32,
    created_at: Option<Timestamp>,
    /// Of the transaction, or of the answer that replaces it. No two completions of a call have the same
    /// time.
    completed_at: Option<Timestamp>,
    /// Of the transaction whose items were rejected.
    rejected_at: Option<Timestamp>,
    /// When the record of the transaction expires, in epoch seconds.
    expires_at: i64,
    retention: Retention<Next>,
    /// The ends of leases that this call has stamped. None is stamped again, or else a delayed copy of the
    /// stamp that replaced it would match.
    stamped: Vec<Timestamp>,
    /// What the hook has decided about this version.
    resolution: Option<(Version, Resolution)>,
    resolved_at: Option<Timestamp>,
    /// The version that a resolution in doubt replaces.
    doubtful_resolution: Option<Version>,
    /// Of the response that is being handled.
    time: Option<StoreTime>,
    undo_tries: u32,
    /// The reason to report once no transaction of this call can still be applied, and how often the
    /// version that it requires was replaced.
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
    /// A transaction is sent again unchanged, after a pause.
    Retrying(Write, Intent),
    Undoing(Write, Reason),
    /// The version that a transaction in doubt requires is replaced.
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
    /// Write the hook's resolution.
    Resolve(Resolution),
}

/// Why a call must not run without a record if DynamoDB fails from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Obstacle {
    Nothing,
    Running(ObservedLease),
    /// The operation is over, or this call must not run it. After a stale read: it may be.
    MustNotRun,
}

/// The lease of another owner.
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
        let was_put = write.is_some_and(|write| write.form == Form::Put);
        self.knowledge.learn(reply, write);
        self.note_doubt(reply, &step);
        let command = match (step, &reply.outcome) {
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
            replaced: None,
            attempt: 1,
            released_attempts: 0,
            created_at: None,
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
            ending: None,
        };
        acquisition.begin_tries(now);
        acquisition
    }

    /// When every response must have arrived.
    pub const fn budget(&self) -> Deadline {
        self.budget
    }

    /// For the handler, after [`Next::Run`] and [`Next::RunUnprotected`].
    pub fn granted(&self) -> Granted {
        Granted {
            knowledge: self.knowledge.clone(),
            replaced: self.replaced.clone(),
            attempt: self.attempt,
            released_attempts: self.released_attempts,
            created_at: self.created_at,
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
        self.rules.lease_length(now).is_err()
    }

    /// Continues after [`Next::RunHook`].
    pub fn resolved(&mut self, now: Now, resolution: Resolution) -> Command {
        self.begin_budget(now);
        self.resolved_at = None;
        self.resolve(now, resolution)
    }

    fn after_read(&mut self, now: Now, result: &ReadResult<Header>, is_first: bool) -> Command {
        match result {
            ReadResult::Found(_) => self.decide(now),
            ReadResult::Stale(record) => self.after_stale_read(now, record.as_ref()),
            // The write finds out what the first read would have shown.
            ReadResult::Failed(_)
                if is_first && self.goal != Goal::LookUp && now.stamp().is_some() =>
            {
                self.write(now, Intent::Create)
            }
            ReadResult::Failed(Cause::Outage) if is_first => self.read(now),
            ReadResult::Failed(cause) => self.after_failed_read(now, *cause),
        }
    }

    /// A completed operation stays completed, so even a stale read can replay. In any other case the record
    /// may have changed since, and a write follows. If DynamoDB fails then, the stale record counts as an
    /// obstacle.
    fn after_stale_read(&mut self, now: Now, record: Option<&Header>) -> Command {
        let judging = now.judging(self.time, self.rules.tolerance);
        match decide(record, self.knowledge.me(), judging, &self.rules) {
            Decision::Replay => return done(CallResult::Replay),
            Decision::Create | Decision::Replace { .. } | Decision::TakeOver => {}
            // Not reported: the operation may have ended since.
            Decision::InProgress { .. }
            | Decision::Mismatch
            | Decision::ReplayFailure
            | Decision::Abandoned
            | Decision::Reconcile
            | Decision::Finished
            | Decision::Acquired { .. } => self.obstacle = Obstacle::MustNotRun,
        }
        self.write(now, Intent::Create)
    }

    /// A failed read does not end the wait for another owner, and a transaction has time for another read.
    fn after_failed_read(&mut self, now: Now, cause: Cause) -> Command {
        if let Some(observed) = self.observed()
            && !self.rules.wait_left(now, self.started).is_zero()
        {
            return self.wait(now, observed.left);
        }
        match self.goal {
            Goal::Transact { .. } if cause == Cause::Outage => self.back_off(now, AfterPause::Read),
            Goal::Transact { .. } | Goal::Own | Goal::LookUp => {
                self.give_up(now, Reason::Error, cause)
            }
        }
    }

    fn after_write(&mut self, now: Now, result: &WriteResult<Header>, intent: Intent) -> Command {
        match (result, intent) {
            (WriteResult::Applied, Intent::Resolve(_)) => done(CallResult::Reconciled),
            (WriteResult::Applied, _) => match self.knowledge.own().map(|own| own.state) {
                Some(State::Pending { lease_expires_at }) => {
                    self.verify_lease(now, lease_expires_at)
                }
                _ => self.read(now),
            },
            (WriteResult::Rejected(Some(_)), intent) => {
                let replaces = !matches!(intent, Intent::Create | Intent::Restamp { .. });
                self.is_contended |= replaces;
                self.decide(now)
            }
            (WriteResult::Conflict(_) | WriteResult::TokenUsed(_), _) => {
                self.is_contended = true;
                self.read(now)
            }
            // The answer cannot be stored. The next write stores the reason instead.
            (WriteResult::Invalid(_), Intent::Resolve(_))
            | (WriteResult::Rejected(None) | WriteResult::Unknown(_), _) => self.read(now),
            (WriteResult::Invalid(_), _) => self.give_up(now, Reason::Error, Cause::Other),
            (WriteResult::NotApplied(cause), _) => self.give_up(now, Reason::Error, *cause),
            (WriteResult::ItemsRejected(()), _) => self.give_up(now, Reason::Error, Cause::Outage),
        }
    }

    /// Decides by the record that was seen last.
    fn decide(&mut self, now: Now) -> Command {
        let judging = now.judging(self.time, self.rules.tolerance);
        let record = self.knowledge.seen().record();
        let completed_at = record.and_then(|record| record.completed_at);
        match decide(record, self.knowledge.me(), judging, &self.rules) {
            Decision::Acquired { lease_expires_at } => self.acquired(now, lease_expires_at),
            Decision::Finished => done(match self.goal {
                Goal::Own | Goal::LookUp => CallResult::Reconciled,
                Goal::Transact { .. } if completed_at == self.completed_at => CallResult::Executed,
                // An earlier transaction of this call was applied.
                Goal::Transact { .. } => CallResult::Replay,
            }),
            Decision::Create => self.write(now, Intent::Create),
            Decision::Replace { attempts } => self.write(now, Intent::Replace { attempts }),
            Decision::TakeOver => self.write(now, Intent::TakeOver),
            Decision::Reconcile => self.run_hook(now),
            Decision::InProgress { lease_left } => {
                let at = now.local.uptime;
                self.obstacle = Obstacle::Running(ObservedLease { left: lease_left, at });
                if self.is_in_doubt() {
                    self.end(now, Reason::InProgress { lease_left })
                } else {
                    self.wait(now, lease_left)
                }
            }
            Decision::Replay => done(CallResult::Replay),
            Decision::ReplayFailure => self.end(now, Reason::Failed),
            Decision::Mismatch => self.end(now, Reason::Mismatch),
            Decision::Abandoned => self.end(now, Reason::Abandoned),
        }
    }

    fn run_hook(&mut self, now: Now) -> Command {
        let version = self.knowledge.seen().record().map(Header::version);
        match &self.resolution {
            Some((judged, resolution)) if version.as_ref() == Some(judged) => {
                let resolution = *resolution;
                self.resolve(now, resolution)
            }
            _ => Command::Return(Next::RunHook),
        }
    }

    fn resolve(&mut self, now: Now, resolution: Resolution) -> Command {
        if let Some(record) = self.knowledge.seen().record() {
            self.resolution = Some((record.version(), resolution));
        }
        match resolution {
            Resolution::Completed | Resolution::Failed => {
                self.write(now, Intent::Resolve(resolution))
            }
            Resolution::Execute => self.write(now, Intent::TakeOver),
            Resolution::Refuse => self.end(now, Reason::Abandoned),
        }
    }

    /// Waits for another owner, or reports that the operation is in progress.
    fn wait(&mut self, now: Now, lease_left: Duration) -> Command {
        let left = self.rules.wait_left(now, self.started);
        if left.is_zero() {
            return self.end(now, Reason::InProgress { lease_left });
        }
        self.step = Step::Pausing(AfterPause::ReadAgain);
        Command::Pause { bound: self.waiting.next_bound(), max: left }
    }

    fn read(&mut self, now: Now) -> Command {
        if now.is_over(self.budget) {
            return self.give_up(now, Reason::TimedOut, Cause::Outage);
        }
        self.step = Step::Reading { is_first: false };
        Command::Read { is_consistent: true, limit: self.limit(now) }
    }

    /// The time limit of the next request: half of the rest of the budget, so that a read or an undo can follow, and
    /// within the deadline.
    fn limit(&self, now: Now) -> Duration {
        (now.left(self.budget) / 2).min(self.rules.time_until_answer(now))
    }

    fn begin_budget(&mut self, now: Now) {
        self.budget = now.lasting(self.rules.request_timeout);
        self.begin_tries(now);
    }

    /// A quarter of the budget is left for the read after the last try.
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

    /// The other owner that was seen last.
    const fn observed(&self) -> Option<ObservedLease> {
        match self.obstacle {
            Obstacle::Running(observed) => Some(observed),
            Obstacle::Nothing | Obstacle::MustNotRun => None,
        }
    }

    /// The rest of the other owner's lease, if it has not expired since.
    fn lease_left_of_other(&self, now: Now) -> Option<Duration> {
        let observed = self.observed()?;
        observed.left.checked_sub(now.local.uptime.since(observed.at))
    }

    /// Ends the call after an error. If DynamoDB is out of reach, another owner that was seen or
    /// [`Outage::Open`] decide.
    fn give_up(&mut self, now: Now, reason: Reason, cause: Cause) -> Command {
        if cause == Cause::Outage && self.goal == Goal::Own {
            // The lease may have expired since, and this call may own the record now.
            if let Some(lease_left) = self.lease_left_of_other(now) {
                return self.end(now, Reason::InProgress { lease_left });
            }
            if self.may_run_unprotected() {
                return Command::Return(Next::RunUnprotected);
            }
        }
        self.end(now, reason)
    }

    fn may_run_unprotected(&self) -> bool {
        let is_resolved =
            matches!(self.resolution, Some((_, Resolution::Completed | Resolution::Failed)));
        self.rules.outage == Outage::Open && self.obstacle == Obstacle::Nothing && !is_resolved
    }

    /// Ends the call without having run anything. A key that this call may hold is released first.
    fn end(&mut self, now: Now, reason: Reason) -> Command {
        match self.goal {
            Goal::Own if self.knowledge.may_hold_key() => self.undo(now, reason),
            Goal::Own | Goal::LookUp => self.report(reason),
            Goal::Transact { .. } => {
                self.ending = Some((reason, 0));
                self.end_transaction(now)
            }
        }
    }

    fn report(&self, reason: Reason) -> Command {
        done(match self.nothing_happened() {
            Some(proof) if !self.may_be_replaced() => CallResult::Nothing(reason, proof),
            Some(_) | None => CallResult::Unknown,
        })
    }

    /// Whether a transaction of this call may have been applied and then replaced.
    fn may_be_replaced(&self) -> bool {
        self.rules.replaces_completed() && self.knowledge.may_have_been_replaced()
    }

    fn nothing_happened(&self) -> Option<NothingHappened> {
        match self.goal {
            Goal::Own | Goal::LookUp => Some(NothingHappened::without_completions()),
            Goal::Transact { .. } => {
                self.knowledge.no_effect().map(|proof| NothingHappened::proved(&proof))
            }
        }
    }

    fn is_in_doubt(&self) -> bool {
        self.nothing_happened().is_none()
    }
}

const fn done(result: CallResult) -> Command {
    Command::Return(Next::Done(result))
}
