//! The machine of a call whose handler runs.

mod commit;
mod lease;
mod step;

use std::time::Duration;

use crate::acquisition::Grant;
use crate::condition::{Condition, Term};
use crate::fault_point::{FaultPoint, is_broken};
use crate::knowledge::{Knowledge, NoCompletion};
use crate::lease::Window;
use crate::machine::{Cause, Machine, Outcome, ReadResult, Reply, WriteResult};
use crate::record::{Attempts, RecordMeta, State, Status, created_at, restored};
use crate::retention::{Retention, released_until};
use crate::rules::Rules;
use crate::time::{Deadline, Now, Stamp, Timestamp};
use crate::tries::Tries;
use crate::write::{Kind, Write};

pub use self::lease::{Renewal, Renewals};
pub use self::step::{STEP_ITEM_MARGIN, StepCommand, StepResult, StepWrite};

/// The time in which an execution without a record tries to store its answer or its commit.
const UNPROTECTED_TIMEOUT: Duration = Duration::from_secs(1);

/// How the operation has ended while its handler was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// The commit that was sent last was applied.
    Committed,
    /// An earlier commit of the execution was applied. Its answer is in the record seen last.
    CommittedEarlier,
    /// Another owner has the record, or it was deleted. No commit was applied, and none will be.
    LeaseLost,
    /// No commit was applied, and none will be: the record was released or failed, or is absent.
    NotCommitted(NoCompletion),
    /// A commit may have been applied, or may still be applied.
    Unknown,
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitEnd {
    /// It was not applied and will not be: the handler continues.
    NotApplied(NoCompletion),
    Over(Over),
}

/// How the write of an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionEnd {
    Stored,
    /// A commit of the execution was applied before. Its answer is in the record seen last.
    Committed,
    LeaseLost,
    /// DynamoDB did not confirm the write in time.
    Unconfirmed,
    /// A commit may have been applied, or may still be applied.
    Unknown,
}

/// How the write of an execution without an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureEnd {
    Written(Left),
    LeaseLost,
    /// DynamoDB did not confirm the write in time.
    Unconfirmed,
    /// A commit of the execution was applied before. Its answer is in the record seen last.
    Committed,
    /// A commit may have been applied, or may still be applied.
    Unknown,
}

/// What an execution without an answer leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// A kept failure.
    Failed,
    /// A free key, or the record that was there before.
    Free,
}

/// How a conversation with a [`Tenure`] ended. The variant follows from what began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum TenureEnd {
    /// Of [`Tenure::commit`].
    Commit(CommitEnd),
    /// Of [`Tenure::complete`].
    Completion(CompletionEnd),
    /// Of [`Tenure::end`].
    Failure(FailureEnd),
    /// Of [`Tenure::close`] and [`Tenure::expire`].
    Over(Over),
}

impl From<TenureEnd> for CommitEnd {
    fn from(end: TenureEnd) -> Self {
        match end {
            TenureEnd::Commit(end) => end,
            other => other.of_another(Self::Over(Over::Unknown)),
        }
    }
}

impl From<TenureEnd> for CompletionEnd {
    fn from(end: TenureEnd) -> Self {
        match end {
            TenureEnd::Completion(end) => end,
            other => other.of_another(Self::Unknown),
        }
    }
}

impl From<TenureEnd> for FailureEnd {
    fn from(end: TenureEnd) -> Self {
        match end {
            TenureEnd::Failure(end) => end,
            other => other.of_another(Self::Unknown),
        }
    }
}

impl From<TenureEnd> for Over {
    fn from(end: TenureEnd) -> Self {
        match end {
            TenureEnd::Over(over) => over,
            other => other.of_another(Self::Unknown),
        }
    }
}

impl TenureEnd {
    /// A conversation ends as it has begun, or this crate has a defect. Then nothing is known of it.
    fn of_another<T>(self, unknown: T) -> T {
        debug_assert!(
            false,
            "a defect of this crate: a conversation that was not begun ended: {self:?}"
        );
        unknown
    }
}

type Command = crate::machine::Command<TenureEnd>;

/// What the return of a handler without an answer to store means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Failed,
    /// The previous record is put back, unless the execution has sent a step.
    NothingExecuted,
    /// The execution has succeeded under [`Completed::Release`](crate::policy::Completed::Release).
    Succeeded,
}

/// The write that ends an execution without an answer in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum EndWrite {
    Release,
    Keep,
    /// Nothing was executed: the previous record is restored.
    Undo,
    ReleaseSucceeded,
}

impl EndWrite {
    const fn leaves(self) -> Left {
        match self {
            Self::Keep => Left::Failed,
            Self::Release | Self::Undo | Self::ReleaseSucceeded => Left::Free,
        }
    }
}

/// Why a commit cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoCommit {
    Over(Over),
    /// The handler has returned.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct KnownSteps {
    /// Whether the record is known to have the map of steps.
    have_map: bool,
    /// Whether this execution has sent a step. Steps of earlier attempts do not count.
    were_sent: bool,
}

/// Accompanies a handler, whose call usually holds the key: it renews the lease, commits, and at the end stores the
/// answer, keeps the failure or releases the key.
///
/// A *commit* stores an answer while the handler runs, together with the caller's items. A *completion* stores the
/// handler's answer after it has returned. (A [`NoCompletion`] rules out both, and a transaction.) An owner never sends
/// both a completion and a release, because a completion also accepts a RELEASED record.
///
/// # Driving a tenure
///
/// 1. [`new`](Self::new) takes what the acquisition has [granted](crate::Acquisition::grant), and the handler begins.
///    It is polled only before [`runs_until`](Self::runs_until). Meanwhile [`Renewals`] renew the lease, each
///    [`StepWrite`] stores a step, and [`commit`](Self::commit) commits.
/// 2. If the handler has not returned by then, it is dropped: [`stop`](Self::stop), then [`expire`](Self::expire). The
///    record stays as it is.
/// 3. If the handler returns, [`close`](Self::close) ends its commits. A commit that was applied or is in doubt
///    overrules what the handler returned. If there is none, [`complete`](Self::complete) or [`end`](Self::end) writes
///    what the handler's result means. The renewals go on until this write has ended. After [`end`](Self::end), a
///    second `close` returns the commit that the write has found, if any.
///
/// A commit, `expire`, `close`, `complete` and `end` each begin a conversation: the caller carries out the
/// [`Command`](crate::Command) and passes the result to [`replied`](Machine::replied) or
/// [`woke`](Machine::woke), until the tenure returns a [`TenureEnd`]. A conversation that begins while another
/// is unfinished takes its place: the caller has dropped the earlier one, and its request may still be applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tenure {
    rules: Rules,
    knowledge: Knowledge,
    /// `created_at` is `None` for an execution without a record, until its first write.
    attempts: Attempts,
    taken_over: Option<Box<RecordMeta>>,
    /// `None` if no record protects the execution, and after [`stop`](Self::stop).
    window: Option<Window>,
    is_protected: bool,
    is_lost: bool,
    /// The ends of leases that the acquisition has stamped, or that a write of this tenure has required. None is
    /// stamped again, because a delayed write that requires it would match.
    used_ends: Vec<Timestamp>,
    /// The end of the lease that a response has shown in the record last. A commit, and each write that moves the
    /// end, requires this end. So DynamoDB rejects a delayed one once the record has another end.
    recorded_lease: Timestamp,
    stage: Stage,
    waiting: Waiting,
    tries: Tries,
    /// The time of the last commit, which distinguishes it from the other completions of the execution.
    completed_at: Option<Timestamp>,
    steps: KnownSteps,
    retention: Retention<TenureEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The handler is running.
    Open,
    /// The operation is over, whatever the handler returns.
    Over(Over),
    /// The handler has returned, or was stopped.
    Closed,
}

/// What the machine waits for. The writes are boxed, because it waits for nothing while the handler runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Waiting {
    Nothing,
    /// A read learns store time, because no response has shown it yet.
    Learning(Order),
    Writing(Box<Write>, Purpose),
    /// A read finds the record that a write has met, or the outcome of a commit.
    Reading(Option<Box<Write>>, Purpose),
    Pausing(Box<Write>, Purpose),
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
    CloseOffByEnding(Timestamp, EndWrite),
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
        leaves: Left,
        is_in_doubt: bool,
    },
    /// The handler has returned: keep the failure or release the key, so that a commit in doubt is applied before
    /// this write or never. Without a record: look for the commit.
    CloseOffByEnding {
        completed_at: Timestamp,
    },
    /// Look for a commit in doubt, whose handler was stopped.
    LookForCommitOfStopped {
        completed_at: Timestamp,
    },
    /// Look for a commit in doubt, whose handler is running. The execution has no record, so no write can close the
    /// commit off. It stays in doubt if the read does not show it.
    LookForCommit {
        completed_at: Timestamp,
    },
}

impl Purpose {
    const fn completed_at(self) -> Option<Timestamp> {
        match self {
            Self::Complete { completed_at }
            | Self::Commit { completed_at }
            | Self::CloseOff { completed_at }
            | Self::LookForCommitOfStopped { completed_at }
            | Self::LookForCommit { completed_at }
            | Self::CloseOffByEnding { completed_at } => Some(completed_at),
            Self::Fail { .. } => None,
        }
    }
}

impl Tenure {
    pub fn new(grant: Grant, rules: Rules, window: Option<Window>, now: Now) -> Self {
        let Grant { knowledge, taken_over, mut attempts, stamped } = grant;
        if window.is_none() {
            // The call does not know that it has owned the key, so its record does not continue the one that it
            // tried to take over.
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
            used_ends: stamped,
            recorded_lease: window
                .map_or(Timestamp::from_millis(0), |window| window.lease_expires_at),
            stage: Stage::Open,
            waiting: Waiting::Nothing,
            tries: Tries::until(now.lasting(Duration::ZERO)),
            completed_at: None,
            steps: KnownSteps { have_map, were_sent: false },
            retention: Retention::new(now.local.uptime),
        }
    }

    /// Whether the handler's work no longer belongs to its operation. A commit in flight does not count,
    /// because it may be rejected. Items that are sent without a record count.
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_) | Stage::Closed)
    }

    /// When TTL may delete the finished record, in epoch seconds. This is never before the verified
    /// lease expires, even if the retention is shorter.
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

    /// Ends an execution that stores no answer.
    pub fn end(&mut self, now: Now, verdict: Verdict) -> Command {
        self.stage = Stage::Closed;
        let until = self.tries_until(now);
        let write = match verdict {
            Verdict::Failed => self.failure_write(),
            Verdict::NothingExecuted => self.undo_write(),
            Verdict::Succeeded => EndWrite::ReleaseSucceeded,
        };
        self.begin(now, Order::Fail(write), until)
    }
}

impl Machine for Tenure {
    type Output = TenureEnd;

    fn replied(&mut self, now: Now, reply: &Reply) -> Command {
        self.heard(reply.time);
        let tries = &mut self.tries;
        if let Some(command) = self.retention.replied(reply, || tries.pause(now)) {
            return command;
        }
        let waiting = std::mem::replace(&mut self.waiting, Waiting::Nothing);
        let write = match &waiting {
            Waiting::Writing(write, _) => Some(&**write),
            Waiting::Nothing
            | Waiting::Learning(_)
            | Waiting::Reading(..)
            | Waiting::Pausing(..) => None,
        };
        self.knowledge.learn(reply, write);
        self.note_lease(reply);
        let command = match (waiting, &reply.outcome) {
            (Waiting::Writing(write, purpose), Outcome::Write(result)) => {
                self.after_write(now, result, write, purpose)
            }
            (Waiting::Reading(write, purpose), Outcome::Read(ReadResult::Found(_))) => {
                self.after_record(now, write, purpose)
            }
            (Waiting::Reading(write, purpose), _) => self.after_failed_read(now, write, purpose),
            (Waiting::Learning(order), _) => return self.after_learning(now, order),
            (Waiting::Pausing(write, purpose) | Waiting::Writing(write, purpose), _) => {
                return self.send(now, write, purpose);
            }
            (Waiting::Nothing, _) => return Self::unasked(),
        };
        let shown = self.knowledge.shown_by(reply, false);
        let limit = self.tries.limit(now);
        self.retention.verify(&self.rules, shown, reply.time, limit, command)
    }

    fn woke(&mut self, now: Now) -> Command {
        if let Some(command) = self.retention.woke(self.tries.limit(now)) {
            return command;
        }
        match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Learning(order) => self.learn(now, order),
            Waiting::Writing(write, purpose) | Waiting::Pausing(write, purpose) => {
                self.send(now, write, purpose)
            }
            Waiting::Reading(write, purpose) => self.read(now, write, purpose),
            Waiting::Nothing => Self::unasked(),
        }
    }
}

/// The writes that end a tenure, and their tries.
impl Tenure {
    fn begin(&mut self, now: Now, order: Order, until: Deadline) -> Command {
        self.tries = Tries::until(until);
        self.retention.abandon();
        self.carry_out(now, order)
    }

    /// Sends the write. Without store time, a read comes first: an execution without a record may never have
    /// had a response.
    fn carry_out(&mut self, now: Now, order: Order) -> Command {
        let Some(stamp) = now.stamp() else { return self.learn(now, order) };
        let seen = self.knowledge.seen().record();
        self.attempts.created_at.get_or_insert_with(|| created_at(stamp, seen));
        self.retention.stamped(stamp);
        let (write, purpose) = match order {
            Order::Commit => self.commit_write(stamp),
            Order::Complete { kept_until } => self.completion(stamp, kept_until),
            Order::Fail(end) => {
                let purpose = Purpose::Fail { leaves: end.leaves(), is_in_doubt: false };
                (self.end_write(stamp, end), purpose)
            }
            Order::CloseOffByEnding(completed_at, end) => {
                (self.end_write(stamp, end), Purpose::CloseOffByEnding { completed_at })
            }
        };
        self.send(now, write, purpose)
    }

    fn learn(&mut self, now: Now, order: Order) -> Command {
        self.waiting = Waiting::Learning(order);
        Command::Read { is_consistent: true, limit: self.tries.limit(now) }
    }

    fn after_learning(&mut self, now: Now, order: Order) -> Command {
        if now.stamp().is_some() {
            return self.carry_out(now, order);
        }
        if let Some(bound) = self.tries.pause(now) {
            self.waiting = Waiting::Learning(order);
            return Command::Pause { bound, max: bound };
        }
        match (order, self.knowledge.no_completion()) {
            (Order::Commit, Some(nothing)) => not_applied(nothing),
            (Order::Commit, None) => {
                self.stage = Stage::Over(Over::Unknown);
                Command::Return(TenureEnd::Commit(CommitEnd::Over(Over::Unknown)))
            }
            (Order::CloseOffByEnding(completed_at, _), _) => {
                self.over(Purpose::CloseOffByEnding { completed_at }, Over::Unknown)
            }
            (Order::Complete { .. }, _) => completion(CompletionEnd::Unconfirmed),
            (Order::Fail(_), _) => failure(FailureEnd::Unconfirmed),
        }
    }

    fn completion(&self, stamp: Stamp, kept_until: i64) -> (Write, Purpose) {
        let completed_at = self.next_completion(stamp.at);
        let condition = if self.completed_at.is_some() {
            self.completable()
        } else {
            self.completable().unless(FaultPoint::CompleteUnfenced)
        };
        let expires_at = self.expires_at(completed_at).max(kept_until);
        let record = self.meta(stamp, State::Completed, Some(completed_at), expires_at);
        (Write { kind: Kind::Complete, condition, record }, Purpose::Complete { completed_at })
    }

    fn end_write(&self, stamp: Stamp, end: EndWrite) -> Write {
        let expires_at = self.expires_at(stamp.at);
        let failed = || self.meta(stamp, State::Failed, Some(stamp.at), expires_at);
        match end {
            EndWrite::Keep => self.keep(Kind::Keep, failed()),
            EndWrite::Undo => {
                // A handler has seen the attempt, so its number is not used again. The attempt does not
                // count.
                let released_attempts = self.attempts.released.saturating_add(1);
                let undone = RecordMeta { released_attempts, ..failed() };
                match restored(self.taken_over.as_deref(), &undone) {
                    Some(record) => self.keep(Kind::Undo, record),
                    None => self.release(stamp),
                }
            }
            EndWrite::Release => self.release(stamp),
            EndWrite::ReleaseSucceeded => {
                let condition = self.held().unless(FaultPoint::ReleaseSucceededUnfenced);
                Write { kind: Kind::ReleaseSucceeded, condition, record: self.released(stamp) }
            }
        }
    }

    fn keep(&self, kind: Kind, record: RecordMeta) -> Write {
        Write { kind, condition: self.held().unless(FaultPoint::KeepFailureUnfenced), record }
    }

    fn release(&self, stamp: Stamp) -> Write {
        let owner = Term::Owner(*self.knowledge.me());
        let pending = Term::Status(Status::Pending);
        let condition = if is_broken(FaultPoint::ReleaseUnfenced) {
            Condition::all(&[pending, Term::NoSteps])
        } else if is_broken(FaultPoint::ReleaseAnyStatus) {
            Condition::all(&[owner, Term::NoSteps])
        } else {
            self.held().and(Term::NoSteps)
        };
        Write { kind: Kind::Release, condition, record: self.released(stamp) }
    }

    fn released(&self, stamp: Stamp) -> RecordMeta {
        let until = released_until(stamp.at, self.lease_expires_at());
        self.meta(stamp, State::Released, None, until)
    }

    fn held(&self) -> Condition {
        Condition::held_by(*self.knowledge.me())
    }

    fn completable(&self) -> Condition {
        Condition::completable_by(*self.knowledge.me(), self.attempts.number)
    }

    fn meta(
        &self,
        stamp: Stamp,
        state: State,
        completed_at: Option<Timestamp>,
        expires_at: i64,
    ) -> RecordMeta {
        self.attempts.meta(self.knowledge.me(), stamp.at, state, completed_at, expires_at)
    }

    fn send(&mut self, now: Now, write: impl Into<Box<Write>>, purpose: Purpose) -> Command {
        let mut write = write.into();
        // The lease may have been renewed between two tries, and no record expires before its lease.
        if write.record.is_completed() {
            let lease_ends = self.lease_expires_at().seconds_up();
            write.record.expires_at = write.record.expires_at.max(lease_ends);
        }
        if self.is_protected && matches!(purpose, Purpose::Commit { .. }) {
            write.condition = self.commit_condition();
        }
        self.knowledge.send(&write);
        let command = Command::Send { write: (*write).clone(), limit: self.tries.limit(now) };
        self.waiting = Waiting::Writing(write, purpose);
        command
    }

    fn read(&mut self, now: Now, write: Option<Box<Write>>, purpose: Purpose) -> Command {
        self.waiting = Waiting::Reading(write, purpose);
        Command::Read { is_consistent: true, limit: self.tries.limit(now) }
    }

    /// Sends the write again, or reads again if there is none.
    fn after_failed_read(
        &mut self,
        now: Now,
        write: Option<Box<Write>>,
        purpose: Purpose,
    ) -> Command {
        if write.is_some() {
            return self.retry(now, write, purpose);
        }
        match self.tries.pause(now) {
            Some(bound) => {
                self.waiting = Waiting::Reading(None, purpose);
                Command::Pause { bound, max: bound }
            }
            None => self.give_up(now, purpose),
        }
    }

    /// Sends the write again after a pause, if there is time. [`send`](Self::send) renews the condition of a commit.
    fn retry(&mut self, now: Now, write: Option<Box<Write>>, purpose: Purpose) -> Command {
        let may_retry = self.is_protected || matches!(purpose, Purpose::Commit { .. });
        match (write, self.tries.pause(now)) {
            (Some(write), Some(bound)) if may_retry => {
                self.waiting = Waiting::Pausing(write, purpose);
                Command::Pause { bound, max: bound }
            }
            _ => self.give_up(now, purpose),
        }
    }
}

/// What follows a response: the record in it shows which write was applied.
impl Tenure {
    /// Ends a write that is not confirmed, and will not be tried again.
    fn give_up(&mut self, now: Now, purpose: Purpose) -> Command {
        match purpose {
            Purpose::Commit { completed_at } => match self.knowledge.no_completion() {
                Some(nothing) => not_applied(nothing),
                None => self.close_off(now, completed_at),
            },
            Purpose::CloseOff { .. }
            | Purpose::CloseOffByEnding { .. }
            | Purpose::LookForCommit { .. }
            | Purpose::LookForCommitOfStopped { .. } => self.over(purpose, Over::Unknown),
            Purpose::Complete { .. } | Purpose::Fail { .. } if self.has_commit_in_doubt() => {
                self.over(purpose, Over::Unknown)
            }
            Purpose::Complete { .. } => completion(CompletionEnd::Unconfirmed),
            Purpose::Fail { .. } => failure(FailureEnd::Unconfirmed),
        }
    }

    /// Ends the conversation, because the operation is over.
    fn over(&mut self, purpose: Purpose, over: Over) -> Command {
        if let Purpose::Complete { .. } = purpose {
            return completion(match over {
                Over::Committed | Over::CommittedEarlier => CompletionEnd::Committed,
                Over::LeaseLost => CompletionEnd::LeaseLost,
                Over::NotCommitted(_) | Over::Unknown => CompletionEnd::Unknown,
            });
        }
        self.stage = Stage::Over(over);
        Command::Return(match purpose {
            Purpose::Commit { .. } | Purpose::CloseOff { .. } | Purpose::LookForCommit { .. } => {
                TenureEnd::Commit(CommitEnd::Over(over))
            }
            Purpose::Fail { leaves, .. } => TenureEnd::Failure(match over {
                Over::Committed | Over::CommittedEarlier => FailureEnd::Committed,
                Over::LeaseLost => FailureEnd::LeaseLost,
                Over::NotCommitted(_) => FailureEnd::Written(leaves),
                Over::Unknown => FailureEnd::Unknown,
            }),
            Purpose::Complete { .. }
            | Purpose::CloseOffByEnding { .. }
            | Purpose::LookForCommitOfStopped { .. } => TenureEnd::Over(over),
        })
    }

    /// The answer or the commit was applied.
    fn stored(&mut self, purpose: Purpose) -> Command {
        match purpose {
            // The answer of the operation is that of the commit, if the commit was applied.
            Purpose::Complete { .. } if self.has_commit_in_doubt() => {
                completion(CompletionEnd::Unknown)
            }
            Purpose::Complete { .. } => completion(CompletionEnd::Stored),
            Purpose::Commit { .. }
            | Purpose::CloseOff { .. }
            | Purpose::Fail { .. }
            | Purpose::CloseOffByEnding { .. }
            | Purpose::LookForCommit { .. }
            | Purpose::LookForCommitOfStopped { .. } => self.over(purpose, Over::Committed),
        }
    }

    fn after_write(
        &mut self,
        now: Now,
        result: &WriteResult<RecordMeta>,
        write: Box<Write>,
        purpose: Purpose,
    ) -> Command {
        match result {
            WriteResult::Applied => match purpose {
                Purpose::Complete { .. } | Purpose::Commit { .. } => self.stored(purpose),
                Purpose::CloseOff { completed_at } => self.closed_off(now, completed_at),
                Purpose::Fail { .. }
                | Purpose::CloseOffByEnding { .. }
                | Purpose::LookForCommit { .. }
                | Purpose::LookForCommitOfStopped { .. } => self.unheld(purpose),
            },
            WriteResult::Rejected(Some(_)) => self.after_record(now, Some(write), purpose),
            WriteResult::Rejected(None) => match purpose {
                // There is no record, so nothing has to be changed.
                Purpose::Fail { is_in_doubt, .. } => self.deleted(is_in_doubt),
                _ => self.read(now, Some(write), purpose),
            },
            // If an earlier try may still be applied, it is closed off.
            WriteResult::ItemsRejected(()) if is_broken(FaultPoint::RefusedInDoubt) => {
                not_applied(NoCompletion::unproved())
            }
            WriteResult::ItemsRejected(()) => self.give_up(now, purpose),
            WriteResult::NotApplied(Cause::Other)
                if matches!(purpose, Purpose::Commit { .. }) && !self.has_commit_in_doubt() =>
            {
                self.give_up(now, purpose)
            }
            WriteResult::Unknown(_) if is_broken(FaultPoint::UnknownIsRefused) => {
                self.lost(now, purpose)
            }
            WriteResult::Unknown(_) => {
                let purpose = match purpose {
                    Purpose::Fail { leaves, .. } => Purpose::Fail { leaves, is_in_doubt: true },
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

    /// Continues after a read or a rejected write has shown the record, or its absence.
    fn after_record(&mut self, now: Now, write: Option<Box<Write>>, purpose: Purpose) -> Command {
        if let Some(write) = self.completion_over_released(write.as_deref()) {
            return self.send(now, write, purpose);
        }
        let seen = self.knowledge.seen().record();
        let own = self.knowledge.own().map(|own| (own.state, own.completed_at));
        match own {
            Some((State::Completed, completed_at)) => match purpose {
                // This execution has sent no completion, so other software has written the answer. It stays.
                Purpose::Fail { leaves, .. } if self.completed_at.is_none() => {
                    failure(FailureEnd::Written(leaves))
                }
                _ if completed_at.is_some() && completed_at == purpose.completed_at() => {
                    self.stored(purpose)
                }
                _ => self.over(purpose, Over::CommittedEarlier),
            },
            Some((State::Pending { .. }, _)) => match purpose {
                Purpose::CloseOff { completed_at } => self.closed_off(now, completed_at),
                _ => self.retry(now, write, purpose),
            },
            Some((State::Failed | State::Released, _)) => match purpose {
                Purpose::Commit { .. }
                | Purpose::CloseOff { .. }
                | Purpose::CloseOffByEnding { .. }
                | Purpose::LookForCommit { .. }
                | Purpose::Fail { .. } => self.unheld(purpose),
                Purpose::Complete { .. } => self.lost(now, purpose),
                Purpose::LookForCommitOfStopped { .. } => self.over(purpose, Over::Unknown),
            },
            // An earlier try of an undo was applied. It leaves the record to an id that no call has.
            None if seen
                .zip(write.as_deref())
                .is_some_and(|(seen, write)| write.has_left(seen)) =>
            {
                self.unheld(purpose)
            }
            None if seen.is_some() => self.lost(now, purpose),
            // There is no record: it was deleted.
            None => match purpose {
                Purpose::Fail { is_in_doubt, .. } => self.deleted(is_in_doubt),
                Purpose::CloseOff { .. }
                | Purpose::CloseOffByEnding { .. }
                | Purpose::LookForCommit { .. } => self.unheld(purpose),
                Purpose::Commit { .. } if self.is_protected => self.lost(now, purpose),
                Purpose::Commit { .. } | Purpose::Complete { .. } => {
                    self.retry(now, write, purpose)
                }
                Purpose::LookForCommitOfStopped { .. } => self.over(purpose, Over::Unknown),
            },
        }
    }

    /// The same completion over a record that was released after a later attempt. The record keeps that
    /// attempt's number, because a handler has seen it. It also keeps `created_at`, by which another call
    /// recognizes that its record was released by hand.
    ///
    /// A commit in doubt is not sent so. It would be another transaction, and if the first one was applied and an
    /// operator has released its record, its items would be written twice.
    fn completion_over_released(&self, write: Option<&Write>) -> Option<Write> {
        let (write, seen) = (write?, self.knowledge.seen().record()?);
        let is_in_doubt = self.has_commit_in_doubt() && !is_broken(FaultPoint::CommitAgain);
        let may_commit = !self.is_protected && !is_in_doubt;
        let accepts_released =
            write.kind == Kind::Complete || (write.kind == Kind::Commit && may_commit);
        let is_later = seen.state == State::Released && seen.attempt > write.record.attempt;
        let condition = Condition::completable_by(*self.knowledge.me(), seen.attempt);
        let record = RecordMeta {
            attempt: seen.attempt,
            created_at: seen.created_at,
            ..write.record.clone()
        };
        (accepts_released && is_later).then_some(Write { condition, record, ..*write })
    }

    /// Ends a request after which this call holds no record: it is released, failed or absent, or the one that was
    /// taken over is back.
    fn unheld(&mut self, purpose: Purpose) -> Command {
        match (purpose, self.knowledge.no_completion()) {
            (Purpose::Fail { leaves, .. }, _) if !self.has_commit_in_doubt() => {
                failure(FailureEnd::Written(leaves))
            }
            (Purpose::Fail { .. }, _) | (_, None) => self.over(purpose, Over::Unknown),
            (_, Some(nothing)) => self.over(purpose, Over::NotCommitted(nothing)),
        }
    }

    /// Ends the write of a failure whose record was deleted.
    fn deleted(&mut self, is_in_doubt: bool) -> Command {
        self.unheld(Purpose::Fail { leaves: Left::Free, is_in_doubt })
    }

    /// Ends a request of an owner that no longer holds the record.
    fn lost(&mut self, now: Now, purpose: Purpose) -> Command {
        let nothing_completed = self.knowledge.no_completion().is_some();
        match purpose {
            // The lease has not expired, so no call has taken over. An earlier try has freed the key.
            Purpose::Fail { is_in_doubt: true, .. }
                if self.window.is_some_and(|held| !now.is_over(held.end)) =>
            {
                self.unheld(purpose)
            }
            Purpose::Fail { .. } if !self.has_commit_in_doubt() => failure(FailureEnd::LeaseLost),
            Purpose::Complete { .. } if !self.has_commit_in_doubt() => {
                completion(CompletionEnd::LeaseLost)
            }
            Purpose::Commit { .. }
            | Purpose::CloseOff { .. }
            | Purpose::CloseOffByEnding { .. }
            | Purpose::LookForCommit { .. }
            | Purpose::LookForCommitOfStopped { .. }
                if nothing_completed =>
            {
                self.is_lost = true;
                self.over(purpose, Over::LeaseLost)
            }
            Purpose::Fail { .. }
            | Purpose::Complete { .. }
            | Purpose::Commit { .. }
            | Purpose::CloseOff { .. }
            | Purpose::CloseOffByEnding { .. }
            | Purpose::LookForCommit { .. }
            | Purpose::LookForCommitOfStopped { .. } => self.over(purpose, Over::Unknown),
        }
    }

    /// Neither a conversation has begun, nor is one unfinished.
    fn unasked() -> Command {
        debug_assert!(false, "a defect of this crate: a reply to a tenure that has asked nothing");
        Command::Return(TenureEnd::Over(Over::Unknown))
    }
}

const fn not_applied(nothing: NoCompletion) -> Command {
    Command::Return(TenureEnd::Commit(CommitEnd::NotApplied(nothing)))
}

const fn completion(end: CompletionEnd) -> Command {
    Command::Return(TenureEnd::Completion(end))
}

const fn failure(end: FailureEnd) -> Command {
    Command::Return(TenureEnd::Failure(end))
}

#[cfg(test)]
mod tests;
