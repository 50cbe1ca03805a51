//! The machine that finishes an execution: it holds the lease, stores the answer, keeps a failure or
//! releases the key, and commits.
//!
//! Each write of an owner that can end its record excludes the others by its condition: DynamoDB applies
//! the first one and rejects the others. The result is what was applied.

mod commit;
mod lease;

use std::time::Duration;

use crate::acquisition::Granted;
use crate::condition::{Condition, Term};
use crate::knowledge::{Knowledge, NothingHappened};
use crate::lease::Window;
use crate::machine::{Cause, Machine, Outcome, ReadResult, Reply, WriteResult};
use crate::record::{Header, State, restored};
use crate::retention::{Retention, released_until};
use crate::rules::Rules;
use crate::time::{Deadline, Now, Stamp, Timestamp};
use crate::tries::Tries;
use crate::write::{Form, Write};

/// How long an execution without a record tries to store its answer after all.
const UNPROTECTED_TIMEOUT: Duration = Duration::from_secs(1);

/// How an execution ended, or one of its commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum FinishResult {
    /// The answer or the commit was applied.
    Stored,
    /// An earlier commit of the execution was applied. Its answer is in the record seen last.
    Committed,
    /// The failure is kept, or the key is released.
    FailureWritten,
    /// The record seen last belongs to another owner. Nothing was applied, and no commit will be.
    LeaseLost,
    /// The record was given up. No commit was applied, and none will be.
    NothingWritten(NothingHappened),
    /// A commit was not applied and will not be: the handler continues.
    NotCommitted(NothingHappened),
    /// A commit may have been applied, or may still be.
    Unknown,
    /// DynamoDB did not confirm the write in time.
    Unconfirmed,
}

type Command = crate::machine::Command<FinishResult>;

/// What becomes of the record of an execution that has not succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureWrite {
    Release,
    Keep,
    /// Nothing was executed: the previous record is restored.
    Undo,
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
    /// The operation has ended, so there is no lease.
    Ended,
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finish {
    rules: Rules,
    knowledge: Knowledge,
    attempt: u32,
    released_attempts: u32,
    /// `None` for an execution without a record, until its first write.
    created_at: Option<Timestamp>,
    replaced: Option<Header>,
    /// `None` if no record protects the execution, and after [`stop`](Self::stop).
    window: Option<Window>,
    is_protected: bool,
    is_lost: bool,
    /// The ends of leases that were corrected. None is stamped again, or else a delayed copy of the stamp
    /// that replaced it would match.
    corrected: Vec<Timestamp>,
    stage: Stage,
    step: Step,
    tries: Tries,
    /// Of the last commit. Its time distinguishes it from the other completions of the execution.
    completed_at: Option<Timestamp>,
    retention: Retention<FinishResult>,
    /// At least one commit was sent. A copy of it may be delayed even if the handler got a rejection.
    has_committed: bool,
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
    Commit {
        on_doubt: FailureWrite,
    },
    /// The parts of the answer are kept until this time, in epoch seconds.
    Complete {
        kept_until: i64,
    },
    Fail(FailureWrite),
    ResolveCommit(Timestamp, FailureWrite),
}

/// Why the machine reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    Complete {
        completed_at: Timestamp,
    },
    /// A commit that stays in doubt is resolved by the write `on_doubt`.
    Commit {
        completed_at: Timestamp,
        on_doubt: FailureWrite,
    },
    /// Keep the failure or release the key. `is_in_doubt`: the outcome of an earlier try is unknown.
    Fail {
        is_in_doubt: bool,
    },
    /// Fail the attempt, so that a commit in doubt is applied before that or never.
    ResolveCommit {
        completed_at: Timestamp,
    },
    /// Read whether a commit was applied.
    FindCommit,
}

impl Purpose {
    /// The time of this completion.
    const fn completed_at(self) -> Option<Timestamp> {
        match self {
            Self::Complete { completed_at }
            | Self::Commit { completed_at, .. }
            | Self::ResolveCommit { completed_at } => Some(completed_at),
            Self::Fail { .. } | Self::FindCommit => None,
        }
    }
}

impl Finish {
    pub fn new(granted: Granted, rules: Rules, window: Option<Window>, now: Now) -> Self {
        let Granted { knowledge, replaced, attempt, released_attempts, created_at } = granted;
        Self {
            rules,
            knowledge,
            attempt,
            released_attempts,
            created_at,
            replaced,
            is_protected: window.is_some(),
            window,
            is_lost: false,
            corrected: Vec::new(),
            stage: Stage::Open,
            step: Step::Idle,
            tries: Tries::until(now.lasting(Duration::ZERO)),
            completed_at: None,
            retention: Retention::new(now.local.uptime),
            has_committed: false,
        }
    }

    /// Whether the handler's work no longer belongs to its operation. A commit in flight does not count,
    /// because it may be rejected.
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_) | Stage::Closed)
    }

    /// When TTL may delete the finished record, in epoch seconds: not before the lease expires, even if the
    /// retention is shorter. So a late completion is not deleted while the lease is still live.
    fn expires_at(&self, ended_at: Timestamp) -> i64 {
        let retained = ended_at.plus(self.rules.retention);
        retained.max(self.lease_expires_at()).seconds_up()
    }

    /// As [`expires_at`](Self::expires_at), for a record whose answer has parts. They are written once, so
    /// the time includes the tries of the completion and the renewals meanwhile.
    pub fn parts_expire_at(&self, stamp: Stamp) -> i64 {
        let ended_at = self.next_completion(stamp.at);
        let renewed = self.rules.lease.renewed(self.rules.deadline).unwrap_or_default();
        let latest = ended_at.plus(self.rules.completion_timeout).plus(renewed).seconds_up();
        self.expires_at(ended_at).max(latest)
    }

    /// An estimate of `completed_at` and `expires_at`, to compute the size of the record.
    pub fn estimate(&self, now: Now) -> (Timestamp, i64) {
        let completed_at = self.next_completion(now.guess().0);
        (completed_at, self.expires_at(completed_at))
    }

    /// When the tries of a write that begins now end.
    pub fn tries_until(&self, now: Now) -> Deadline {
        let longest =
            if self.is_protected { self.rules.completion_timeout } else { UNPROTECTED_TIMEOUT };
        self.rules.before_answer(now.lasting(longest))
    }

    /// Stores the answer, at least until `kept_until` in epoch seconds.
    pub fn complete(&mut self, now: Now, kept_until: i64, until: Deadline) -> Command {
        self.stage = Stage::Closed;
        self.begin(now, Order::Complete { kept_until }, until)
    }

    /// Ends an execution that has failed, or has executed nothing.
    pub fn fail(&mut self, now: Now, failure: FailureWrite) -> Command {
        self.stage = Stage::Closed;
        let until = self.tries_until(now);
        self.begin(now, Order::Fail(failure), until)
    }

    fn begin(&mut self, now: Now, order: Order, until: Deadline) -> Command {
        self.tries = Tries::until(until);
        self.retention.abandon();
        self.carry_out(now, order)
    }

    /// A process that has never learned store time reads first. An execution without a record may never
    /// have had a response.
    fn carry_out(&mut self, now: Now, order: Order) -> Command {
        let Some(stamp) = now.stamp() else { return self.learn(now, order) };
        self.created_at.get_or_insert(stamp.at);
        self.retention.stamped(stamp);
        let (write, purpose) = match order {
            Order::Commit { on_doubt } => self.commit_write(stamp, on_doubt),
            Order::Complete { kept_until } => self.completion(stamp, kept_until),
            Order::Fail(failure) => {
                (self.failure_write(stamp, failure), Purpose::Fail { is_in_doubt: false })
            }
            Order::ResolveCommit(completed_at, failure) => {
                (self.failure_write(stamp, failure), Purpose::ResolveCommit { completed_at })
            }
        };
        self.send(now, write, purpose)
    }

    fn learn(&mut self, now: Now, order: Order) -> Command {
        self.step = Step::Learning(order);
        Command::Read { is_consistent: true, limit: self.tries.limit(now) }
    }

    fn after_learning(&mut self, now: Now, order: Order) -> Command {
        if now.stamp().is_some() {
            return self.carry_out(now, order);
        }
        if let Some(bound) = self.tries.pause(now) {
            self.step = Step::Learning(order);
            return Command::Pause { bound, max: bound };
        }
        match (order, self.knowledge.no_effect()) {
            (Order::Commit { .. }, Some(proof)) => {
                Command::Return(FinishResult::NotCommitted(NothingHappened::proved(&proof)))
            }
            (Order::ResolveCommit(..), _) | (Order::Commit { .. }, None) => {
                self.over(FinishResult::Unknown)
            }
            (Order::Complete { .. } | Order::Fail(_), _) => {
                Command::Return(FinishResult::Unconfirmed)
            }
        }
    }

    fn completion(&self, stamp: Stamp, kept_until: i64) -> (Write, Purpose) {
        let completed_at = self.next_completion(stamp.at);
        let condition = if self.rules.replaces_completed() {
            // The answer may be replaced, and the record released after that. A delayed completion over
            // the released record would restore the same version.
            Condition::held_by_or_absent(*self.knowledge.me())
        } else {
            self.completable()
        };
        let expires_at = self.expires_at(completed_at).max(kept_until);
        let record = self.header(stamp, State::Completed, Some(completed_at), expires_at);
        (Write { form: Form::Put, condition, record }, Purpose::Complete { completed_at })
    }

    fn failure_write(&self, stamp: Stamp, failure: FailureWrite) -> Write {
        let expires_at = self.expires_at(stamp.at);
        let failed = self.header(stamp, State::Failed, Some(stamp.at), expires_at);
        // A handler has seen the attempt, so its number is not used again; but it does not count.
        let released_attempts = self.released_attempts.saturating_add(1);
        let undone = Header { released_attempts, ..failed.clone() };
        let kept = match failure {
            FailureWrite::Release => None,
            FailureWrite::Keep => Some(failed),
            FailureWrite::Undo => restored(self.replaced.as_ref(), &undone),
        };
        let Some(record) = kept else {
            let until = released_until(stamp.at, self.lease_expires_at());
            let record = self.header(stamp, State::Released, None, until);
            let condition = self.held().and(Term::NoSteps);
            return Write { form: Form::Update, condition, record };
        };
        Write { form: Form::Update, condition: self.held(), record }
    }

    fn held(&self) -> Condition {
        Condition::held_by(*self.knowledge.me())
    }

    fn completable(&self) -> Condition {
        Condition::completable_by(*self.knowledge.me(), self.attempt)
    }

    fn header(
        &self,
        stamp: Stamp,
        state: State,
        completed_at: Option<Timestamp>,
        expires_at: i64,
    ) -> Header {
        let attempts = (self.attempt, self.released_attempts);
        let times = (self.created_at.unwrap_or(stamp.at), completed_at, expires_at);
        Header::of(self.knowledge.me(), state, attempts, times)
    }

    fn send(&mut self, now: Now, mut write: Write, purpose: Purpose) -> Command {
        // The lease may have been renewed between two tries, and no record expires before its lease.
        if write.record.is_completed() {
            let lease_ends = self.lease_expires_at().seconds_up();
            write.record.expires_at = write.record.expires_at.max(lease_ends);
        }
        self.knowledge.send(&write);
        self.step = Step::Writing(write.clone(), purpose);
        Command::Send { write, limit: self.tries.limit(now) }
    }

    fn read(&mut self, now: Now, write: Option<Write>, purpose: Purpose) -> Command {
        self.step = Step::Reading(write, purpose);
        Command::Read { is_consistent: true, limit: self.tries.limit(now) }
    }

    /// Sends the same write again, if there is time.
    fn retry(&mut self, now: Now, write: Option<Write>, purpose: Purpose) -> Command {
        let may_retry = self.is_protected || matches!(purpose, Purpose::Commit { .. });
        match (write, self.tries.pause(now)) {
            (Some(write), Some(bound)) if may_retry => {
                self.step = Step::Pausing(write, purpose);
                Command::Pause { bound, max: bound }
            }
            _ => self.out_of_time(now, purpose),
        }
    }

    fn out_of_time(&mut self, now: Now, purpose: Purpose) -> Command {
        match purpose {
            Purpose::Commit { completed_at, on_doubt } => match self.knowledge.no_effect() {
                Some(proof) => {
                    Command::Return(FinishResult::NotCommitted(NothingHappened::proved(&proof)))
                }
                None => self.resolve_commit(now, completed_at, on_doubt),
            },
            Purpose::ResolveCommit { .. } => self.over(FinishResult::Unknown),
            Purpose::Complete { .. } | Purpose::Fail { .. } if self.has_commit_in_doubt() => {
                self.concluded(purpose, FinishResult::Unknown)
            }
            Purpose::Complete { .. } | Purpose::Fail { .. } => {
                Command::Return(FinishResult::Unconfirmed)
            }
            Purpose::FindCommit => Command::Return(FinishResult::Unknown),
        }
    }

    fn over(&mut self, result: FinishResult) -> Command {
        self.stage = Stage::Over(result);
        Command::Return(result)
    }

    fn after_write(
        &mut self,
        now: Now,
        result: &WriteResult<Header>,
        write: Write,
        purpose: Purpose,
    ) -> Command {
        match result {
            WriteResult::Applied => match purpose {
                Purpose::Complete { .. } | Purpose::Commit { .. } => {
                    self.concluded(purpose, FinishResult::Stored)
                }
                Purpose::Fail { .. } | Purpose::ResolveCommit { .. } | Purpose::FindCommit => {
                    self.given_up(purpose)
                }
            },
            WriteResult::Rejected(Some(_)) => self.after_record(now, Some(write), purpose),
            // There is no record, so nothing has to be changed.
            WriteResult::Rejected(None) if matches!(purpose, Purpose::Fail { .. }) => {
                self.given_up(purpose)
            }
            WriteResult::Rejected(None) => self.read(now, Some(write), purpose),
            // If an earlier try may still be applied, the commit is resolved and the operation is over.
            WriteResult::ItemsRejected(()) => self.out_of_time(now, purpose),
            WriteResult::NotApplied(Cause::Other)
                if matches!(purpose, Purpose::Commit { .. }) && !self.has_commit_in_doubt() =>
            {
                self.out_of_time(now, purpose)
            }
            WriteResult::Unknown(_) => {
                let purpose = match purpose {
                    Purpose::Fail { .. } => Purpose::Fail { is_in_doubt: true },
                    other => other,
                };
                self.retry(now, Some(write), purpose)
            }
            WriteResult::Conflict(_)
            | WriteResult::TokenUsed(_)
            | WriteResult::Invalid(_)
            | WriteResult::NotApplied(_) => self.retry(now, Some(write), purpose),
        }
    }

    /// A read or a rejected write has shown the record, or that there is none.
    fn after_record(&mut self, now: Now, write: Option<Write>, purpose: Purpose) -> Command {
        if let Some(write) = self.completion_over_released(write.as_ref()) {
            return self.send(now, write, purpose);
        }
        let own = self.knowledge.own().map(|own| (own.state, own.completed_at));
        match own {
            Some((State::Completed, _))
                if matches!(purpose, Purpose::Fail { .. }) && !self.has_committed =>
            {
                Command::Return(FinishResult::FailureWritten)
            }
            Some((State::Completed, completed_at)) => {
                let is_this = completed_at.is_some() && completed_at == purpose.completed_at();
                let result = if is_this { FinishResult::Stored } else { FinishResult::Committed };
                self.concluded(purpose, result)
            }
            Some((State::Pending { .. }, _)) => self.retry(now, write, purpose),
            Some((State::Failed | State::Released, _)) => match purpose {
                Purpose::Commit { .. } | Purpose::ResolveCommit { .. } | Purpose::Fail { .. } => {
                    self.given_up(purpose)
                }
                Purpose::Complete { .. } => self.lost(now, purpose),
                Purpose::FindCommit => Command::Return(FinishResult::Unknown),
            },
            None if self.knowledge.seen().record().is_some() => self.lost(now, purpose),
            // Its retention is over, or it was deleted.
            None => match purpose {
                Purpose::Fail { .. } | Purpose::ResolveCommit { .. } => self.given_up(purpose),
                Purpose::Commit { .. } if self.is_protected => self.lost(now, purpose),
                Purpose::Commit { .. } | Purpose::Complete { .. } => {
                    self.retry(now, write, purpose)
                }
                Purpose::FindCommit => Command::Return(FinishResult::Unknown),
            },
        }
    }

    /// The same completion over a record that was released after a later attempt. It keeps that attempt,
    /// because a handler has seen the number.
    fn completion_over_released(&self, write: Option<&Write>) -> Option<Write> {
        let (write, seen) = (write?, self.knowledge.seen().record()?);
        let is_later = write.condition.latest_released_attempt()? < seen.attempt;
        let condition = Condition::completable_by(*self.knowledge.me(), seen.attempt);
        let record = Header { attempt: seen.attempt, ..write.record.clone() };
        (is_later && seen.state == State::Released).then_some(Write { condition, record, ..*write })
    }

    /// The record is released, failed or absent.
    fn given_up(&mut self, purpose: Purpose) -> Command {
        let nothing = self.knowledge.no_effect().map(|proof| NothingHappened::proved(&proof));
        match (purpose, nothing) {
            (Purpose::Fail { .. }, _) if !self.has_commit_in_doubt() => {
                Command::Return(FinishResult::FailureWritten)
            }
            (Purpose::Fail { .. }, _) | (_, None) => self.over(FinishResult::Unknown),
            (_, Some(nothing)) => self.over(FinishResult::NothingWritten(nothing)),
        }
    }

    /// The record belongs to another owner.
    fn lost(&mut self, now: Now, purpose: Purpose) -> Command {
        let may_be_replaced =
            self.rules.replaces_completed() && self.knowledge.may_have_been_replaced();
        let has_no_effect = self.knowledge.no_effect().is_some() && !may_be_replaced;
        match purpose {
            // Another call can own the record before the lease expires only if an earlier try was applied.
            Purpose::Fail { is_in_doubt: true }
                if self.window.is_some_and(|held| !now.is_over(held.end)) =>
            {
                self.given_up(purpose)
            }
            Purpose::Fail { .. } | Purpose::Complete { .. }
                if !self.has_commit_in_doubt() && !may_be_replaced =>
            {
                Command::Return(FinishResult::LeaseLost)
            }
            Purpose::Commit { .. } | Purpose::ResolveCommit { .. } | Purpose::FindCommit
                if has_no_effect =>
            {
                self.is_lost = true;
                self.over(FinishResult::LeaseLost)
            }
            Purpose::Fail { .. }
            | Purpose::Complete { .. }
            | Purpose::Commit { .. }
            | Purpose::ResolveCommit { .. }
            | Purpose::FindCommit => self.concluded(purpose, FinishResult::Unknown),
        }
    }

    /// The result of a commit ends the operation. That of a completion is only returned.
    fn concluded(&mut self, purpose: Purpose, result: FinishResult) -> Command {
        match purpose {
            Purpose::Complete { .. } => Command::Return(result),
            Purpose::Commit { .. }
            | Purpose::Fail { .. }
            | Purpose::ResolveCommit { .. }
            | Purpose::FindCommit => self.over(result),
        }
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
