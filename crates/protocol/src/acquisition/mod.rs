//! The machine that acquires a key.

mod transact;

use std::time::Duration;

use self::transact::Transact;
use crate::condition::{Condition, Term};
use crate::decide::{Decision, decide};
use crate::fault_point::{FaultPoint, is_broken};
use crate::knowledge::{Knowledge, NoCompletion, Seen};
use crate::lease::{LeaseTerm, Window};
use crate::machine::{Cause, Machine, Outcome, ReadResult, Reply, WriteResult};
use crate::owner::OwnerId;
use crate::policy::{FirstRequest, Outage};
use crate::record::{Attempts, RecordMeta, State, Version, created_at, restored};
use crate::retention::{Retention, released_until};
use crate::rules::{MIN_LIMIT, Rules};
use crate::time::{Deadline, Now, Stamp, StoreTime, Timestamp, Uptime};
use crate::tries::{Backoff, Tries};
use crate::write::{Form, Kind, Write};

/// How many writes a call sends before it gives up a contended key.
const MAX_WRITES: u32 = 8;

/// How often a call reads again because responses have no `Date`.
const MAX_UNDATED_READS: u32 = 2;

const MAX_UNDO_TRIES: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Run the handler under a lease.
    Own,
    /// Write the answer and the caller's items in one transaction.
    Transact,
    /// Only read: nothing is written.
    LookUp,
}

/// The [`Goal`], with what only a call of this goal needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    Own,
    LookUp,
    Transact(Transact),
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
    /// DynamoDB is out of reach or too slow to confirm a lease, and the policy lets the handler run without a record.
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
    /// The transaction was applied, or the answer that is stored after its items were rejected.
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
    /// The record that was taken over, if there was one. Without a record ([`Next::RunUnprotected`]), the call may
    /// only have tried to.
    pub taken_over: Option<Box<RecordMeta>>,
    pub attempts: Attempts,
    /// The ends of leases that the call has stamped.
    pub stamped: Vec<Timestamp>,
}

/// Acquires a key, or finds out why it cannot. An operation in one transaction is an acquisition whose write completes
/// the record ([`Goal::Transact`]).
///
/// # Driving an acquisition
///
/// [`start`](Self::start) returns the first [`Command`](crate::Command). The caller carries it out and passes the
/// result to [`replied`](Machine::replied) or [`woke`](Machine::woke), until the machine returns a [`Next`]:
///
/// - [`Next::Run`] and [`Next::RunUnprotected`]: the handler runs, under a [`Tenure`](crate::Tenure) of what
///   [`grant`](Self::grant) returns.
/// - [`Next::RunHook`] and [`Next::AnswerForFailedCondition`]: user code runs, and its result begins the next command.
/// - [`Next::Done`]: the call ends. An acquisition is undone; if the undo is not confirmed, its lease is
///   left to expire. [`CallResult::Unknown`] means that a transaction may have been applied, or may still be.
///
/// # What an earlier owner can still write
///
/// After a takeover, DynamoDB rejects every write of the earlier owner, because each requires its owner id in a PENDING
/// record. Its completion is also applied once the key is absent or released again, because its effect has happened. So
/// is the commit of an owner without a record. An undo of an acquisition that was not seen puts a RELEASED record where
/// there is none. If its renewal, step or completion comes before the takeover, DynamoDB rejects the takeover,
/// which compares the [version](crate::Version).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquisition {
    rules: Rules,
    work: Work,
    knowledge: Knowledge,
    waiting: Waiting,
    started: Uptime,
    budget: Deadline,
    /// The tries of a transaction. They end before the budget is used up, so that a read can follow. Other calls
    /// use only the pauses, and the end for an extension of the retention.
    tries: Tries,
    writes: u32,
    waits: Backoff,
    obstacle: Obstacle,
    /// Whether another call was seen to write.
    is_contended: bool,
    /// The record that this call took over, or tried to take over.
    taken_over: Option<Box<RecordMeta>>,
    attempts: Attempts,
    retention: Retention<Next>,
    /// The ends of leases that this call has stamped. No end is stamped twice, because a delayed write that
    /// requires this end would match again.
    stamped: Vec<Timestamp>,
    /// What the hook has decided about this version.
    resolution: Option<(Version, Resolution)>,
    /// The time of the first write of the present resolution. Only such a write reads it.
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
enum Waiting {
    Nothing,
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
    /// Correct the end of the own lease before anything runs, or settle the call's earlier writes.
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
        match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Pausing(AfterPause::ReadAgain) => {
                // Time spent waiting for the other owner does not count against the budget.
                self.begin_budget(now);
                self.read(now)
            }
            Waiting::Pausing(AfterPause::Write(intent)) => self.send(now, intent),
            Waiting::Pausing(AfterPause::Supersede) => self.supersede(now),
            Waiting::Retrying(..) if now.is_over(self.budget) => self.end(now, Reason::TimedOut),
            Waiting::Retrying(write, intent) => self.dispatch(now, write, intent),
            Waiting::Pausing(AfterPause::Read)
            | Waiting::Nothing
            | Waiting::Reading { .. }
            | Waiting::Writing { .. }
            | Waiting::Undoing(..)
            | Waiting::Superseding(_) => self.read(now),
        }
    }

    fn is_waiting(&self) -> bool {
        // An acquisition that can still be applied has to be undone first.
        self.waiting == Waiting::Pausing(AfterPause::ReadAgain) && !self.knowledge.may_hold_key()
    }

    fn replied(&mut self, now: Now, reply: &Reply) -> Command {
        let tries = &mut self.tries;
        if let Some(command) = self.retention.replied(reply, || tries.pause(now)) {
            return command;
        }
        self.time = reply.time;
        let waiting = std::mem::replace(&mut self.waiting, Waiting::Nothing);
        let write = match &waiting {
            Waiting::Writing { write, .. }
            | Waiting::Superseding(write)
            | Waiting::Undoing(write, _) => Some(write),
            Waiting::Nothing
            | Waiting::Reading { .. }
            | Waiting::Pausing(_)
            | Waiting::Retrying(..) => None,
        };
        let was_put = write.is_some_and(|write| write.form() == Form::Put);
        self.knowledge.learn(reply, write);
        self.note_doubt(reply, &waiting);
        let command = match (waiting, &reply.outcome) {
            (Waiting::Reading { .. }, Outcome::Read(_)) if self.ending.is_some() => {
                self.end_transaction(now)
            }
            (Waiting::Reading { is_first }, Outcome::Read(result)) => {
                self.after_read(now, result, is_first)
            }
            (Waiting::Writing { write, intent }, Outcome::Write(result)) => match self.work {
                Work::Transact(_) => self.after_transaction(now, result, write, intent),
                Work::Own | Work::LookUp => self.after_write(now, result, intent),
            },
            (Waiting::Undoing(_, reason), Outcome::Write(result)) => {
                self.after_undo(now, result, reason)
            }
            (Waiting::Superseding(write), Outcome::Write(result)) => {
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
        let (longest, work) = match goal {
            Goal::Own => (second, Work::Own),
            Goal::LookUp => (second, Work::LookUp),
            Goal::Transact => (2 * second, Work::Transact(Transact::new())),
        };
        let mut acquisition = Self {
            rules,
            work,
            knowledge: Knowledge::new(me),
            waiting: Waiting::Nothing,
            started: now.local.uptime,
            budget,
            tries: Tries::with_pauses_up_to(longest, budget),
            writes: 0,
            waits: Backoff::new(Duration::from_millis(50), second),
            obstacle: Obstacle::Nothing,
            is_contended: false,
            taken_over: None,
            attempts: Attempts::FIRST,
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

    /// When the time of the call's requests is over. Only an undo, a correction of its own lease, the end of a
    /// transaction in doubt, and an extension of the retention may begin later.
    pub const fn budget(&self) -> Deadline {
        self.budget
    }

    /// The input of [`Tenure`](crate::Tenure), after [`Next::Run`] and [`Next::RunUnprotected`].
    pub fn grant(&self) -> Grant {
        Grant {
            knowledge: self.knowledge.clone(),
            taken_over: self.taken_over.clone(),
            attempts: self.attempts,
            stamped: self.stamped.clone(),
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
        self.waiting = Waiting::Reading { is_first: true };
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
        let bound = match self.work {
            Work::Transact(_) => self.tries.pause(now),
            Work::Own | Work::LookUp => Some(self.tries.next_pause()),
        };
        let Some(bound) = bound else {
            return self.give_up(now, Reason::TimedOut, Cause::Outage);
        };
        self.waiting = Waiting::Pausing(next);
        Command::Pause { bound, max: self.limit(now) }
    }
}

/// What follows a read or a write. This depends on the result and on the record.
impl Acquisition {
    fn after_read(&mut self, now: Now, result: &ReadResult<RecordMeta>, is_first: bool) -> Command {
        match result {
            ReadResult::Found(_) => self.decide(now),
            ReadResult::Stale(record) if is_broken(FaultPoint::TrustStaleReads) => {
                self.knowledge.see(record.clone());
                self.decide(now)
            }
            ReadResult::Stale(record) => self.after_stale_read(now, record.as_ref()),
            // The write finds out what the read did not. If both fail by an outage, `Outage` decides. After any
            // other error, no handler runs without a record, because one may exist that cannot be read.
            ReadResult::Failed(cause)
                if is_first && self.work != Work::LookUp && now.stamp().is_some() =>
            {
                if *cause == Cause::Other {
                    self.obstacle = Obstacle::MustNotRun;
                }
                self.write(now, Intent::Create)
            }
            ReadResult::Failed(Cause::Outage) if is_first => self.read(now),
            ReadResult::Failed(cause) => self.after_failed_read(now, *cause),
        }
    }

    /// A completed operation stays completed, so even a stale read can replay. In any other case the record
    /// may have changed since, and a write follows. If the stale record forbids a run, the call does not run
    /// the handler without a record, even if DynamoDB fails from now on.
    fn after_stale_read(&mut self, now: Now, record: Option<&RecordMeta>) -> Command {
        let Some(judging) = now.judging(self.time, self.rules.tolerance) else {
            return self.undated(now, record.is_some());
        };
        match decide(record, self.knowledge.me(), judging, &self.rules) {
            Decision::Replay => return done(CallResult::Replay),
            _ if is_broken(FaultPoint::ForgetStaleReads) => {}
            // An execution without a record would run the stored steps again.
            Decision::TakeOver if record.is_some_and(|record| record.steps.is_some()) => {
                self.obstacle = Obstacle::MustNotRun;
            }
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

    /// Continues a wait for another owner. Without a wait, only a transaction reads again after an outage.
    fn after_failed_read(&mut self, now: Now, cause: Cause) -> Command {
        if let Some(observed) = self.observed()
            && !self.rules.wait_left(now, self.started).is_zero()
        {
            return self.wait(now, observed.left);
        }
        match self.work {
            Work::Transact(_) if cause == Cause::Outage => self.back_off(now, AfterPause::Read),
            Work::Transact(_) | Work::Own | Work::LookUp => self.give_up(now, Reason::Error, cause),
        }
    }

    fn after_write(
        &mut self,
        now: Now,
        result: &WriteResult<RecordMeta>,
        intent: Intent,
    ) -> Command {
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
            // Only a hook's commit has items here.
            (WriteResult::ItemsRejected(()), _) => self.end(now, Reason::ItemsRejected),
        }
    }

    /// Decides by the record that was seen last.
    fn decide(&mut self, now: Now) -> Command {
        let record = self.knowledge.seen().record();
        let Some(judging) = now.judging(self.time, self.rules.tolerance) else {
            let is_present = record.is_some();
            return self.undated(now, is_present);
        };
        let completed_at = record.and_then(|record| record.completed_at);
        let decision = decide(record, self.knowledge.me(), judging, &self.rules);
        // What was seen earlier no longer counts, except what forbids a run. `InProgress` below notes a live lease
        // again.
        match self.obstacle {
            Obstacle::Running(_) | Obstacle::Unjudged => self.obstacle = Obstacle::Nothing,
            Obstacle::Nothing | Obstacle::MustNotRun => {}
        }
        match decision {
            Decision::Acquired { lease_expires_at } => self.acquired(now, lease_expires_at),
            Decision::Finished => done(self.finished(completed_at)),
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

    /// This call has finished the record.
    fn finished(&self, completed_at: Option<Timestamp>) -> CallResult {
        match &self.work {
            Work::Own | Work::LookUp => CallResult::Reconciled,
            Work::Transact(it) if completed_at == it.completed_at => CallResult::Executed,
            // An earlier transaction of this call was applied.
            Work::Transact(_) => CallResult::Replay,
        }
    }

    /// No response has shown store time yet, and a record can neither be judged nor written without it. The call
    /// reads again, twice at most.
    fn undated(&mut self, now: Now, is_present: bool) -> Command {
        let is_forgotten = is_broken(FaultPoint::ForgetUndatedRecords);
        if is_present && self.obstacle == Obstacle::Nothing && !is_forgotten {
            self.obstacle = Obstacle::Unjudged;
        }
        self.undated_reads += 1;
        if self.undated_reads > MAX_UNDATED_READS {
            return self.end(now, Reason::NoStoreTime);
        }
        self.read(now)
    }

    fn run_hook(&mut self, now: Now) -> Command {
        let version = self.knowledge.seen().record().map(RecordMeta::version);
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
            Resolution::Completed | Resolution::Committed | Resolution::Failed => {
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
        self.waiting = Waiting::Pausing(AfterPause::ReadAgain);
        Command::Pause { bound: self.waits.next_bound(), max: left }
    }

    fn read(&mut self, now: Now) -> Command {
        if now.is_over(self.budget) {
            return self.give_up(now, Reason::TimedOut, Cause::Outage);
        }
        self.waiting = Waiting::Reading { is_first: false };
        Command::Read { is_consistent: true, limit: self.limit(now) }
    }
}

/// The writes that acquire the key under a lease, and the verification of the lease.
impl Acquisition {
    /// A read or a rejected write has shown this call's own record.
    fn acquired(&mut self, now: Now, lease_expires_at: Timestamp) -> Command {
        if let Some(own) = self.knowledge.own() {
            self.attempts = Attempts::of(own);
            // The record of another life was removed before it could be taken over.
            self.taken_over =
                self.taken_over.take().filter(|taken| taken.created_at == own.created_at);
        }
        self.verify_lease(now, lease_expires_at)
    }

    /// Runs the handler if the response that has shown the own record proves that the lease is right, and
    /// if no other write of this call can still change it. Otherwise the lease is stamped again.
    fn verify_lease(&mut self, now: Now, lease_expires_at: Timestamp) -> Command {
        self.obstacle = Obstacle::Nothing;
        let is_settled = self.knowledge.is_settled() || is_broken(FaultPoint::RunBeforeSettled);
        match self.rules.window(now, self.rules.deadline, lease_expires_at, self.time) {
            Some(window) if is_settled => Command::Return(Next::Run(window)),
            Some(_) | None => self.write(now, Intent::Restamp { lease_expires_at }),
        }
    }

    /// Begins a write. From the third write on, a pause comes first.
    fn write(&mut self, now: Now, intent: Intent) -> Command {
        match self.work {
            Work::LookUp => return self.end(now, Reason::Free),
            // The earlier transaction may have been applied, and its record removed since. No second one follows.
            Work::Transact(_) if self.is_in_doubt() && !is_broken(FaultPoint::TransactAgain) => {
                return self.end(now, Reason::Error);
            }
            Work::Transact(_) | Work::Own => {}
        }
        self.writes += 1;
        if self.may_have_resolved_another() {
            self.is_contended = true;
            return self.contended(now, intent);
        }
        if self.writes > 2 {
            self.back_off(now, AfterPause::Write(intent))
        } else {
            self.send(now, intent)
        }
    }

    /// Ends the call: other calls keep writing to this key, or DynamoDB confirms no lease.
    fn contended(&mut self, now: Now, intent: Intent) -> Command {
        if let Intent::Restamp { .. } = intent {
            return self.give_up(now, Reason::NoLease, Cause::Outage);
        }
        let lease_left = match self.lease_left_of_other(now) {
            Some(left) => left,
            None if self.is_contended => Duration::ZERO,
            // No other call was seen to write, so DynamoDB itself is failing.
            None => return self.give_up(now, Reason::Error, Cause::Outage),
        };
        self.end(now, Reason::InProgress { lease_left })
    }

    fn note_doubt(&mut self, reply: &Reply, waiting: &Waiting) {
        let is_in_doubt = reply.is_in_doubt || reply.outcome.is_unknown();
        if is_in_doubt && matches!(waiting, Waiting::Writing { intent: Intent::Resolve(_), .. }) {
            self.doubtful_resolution = self.resolution.as_ref().map(|(version, _)| version.clone());
        }
    }

    /// Whether a resolution may have been applied to another version than the one seen last. If so, the call
    /// begins no other write, because two finished records of one owner would be indistinguishable.
    fn may_have_resolved_another(&self) -> bool {
        let seen = self.knowledge.seen().record().map(RecordMeta::version);
        self.doubtful_resolution.is_some() && self.doubtful_resolution != seen
    }

    fn send(&mut self, now: Now, intent: Intent) -> Command {
        let is_transaction = matches!(self.work, Work::Transact(_));
        if !is_transaction && self.writes > MAX_WRITES {
            return self.contended(now, intent);
        }
        let Some(length) = self.rules.lease_length(now) else {
            return self.give_up(now, Reason::DeadlineOver, Cause::Other);
        };
        // A call that owns the key may still correct its lease, for example after a freeze.
        let is_owner = matches!(intent, Intent::Restamp { .. });
        if now.is_over(self.budget) && !is_owner {
            return self.give_up(now, Reason::TimedOut, Cause::Outage);
        }
        let Some(stamp) = now.stamp() else { return self.read(now) };
        self.note_replaced(stamp, intent);
        if is_transaction {
            return self.transact(now, intent);
        }
        self.send_lease(now, stamp, intent, length)
    }

    /// [`verify_lease`](Self::verify_lease) checks the stamp before anything runs.
    fn send_lease(&mut self, now: Now, stamp: Stamp, intent: Intent, length: Duration) -> Command {
        let term = self.rules.term(stamp, length).unlike(&self.stamped);
        self.stamped.push(term.lease_expires_at);
        let write = self.lease_write(stamp, intent, term);
        self.dispatch(now, write, intent)
    }

    /// Continues the counters of the record that the write replaces.
    fn note_replaced(&mut self, stamp: Stamp, intent: Intent) {
        let seen = self.knowledge.seen().record().cloned();
        match (intent, seen) {
            (Intent::Create, _) => self.start_from_scratch(stamp.at, 0),
            (Intent::Replace { attempts }, seen) => {
                self.start_from_scratch(created_at(stamp, seen.as_ref()), attempts);
            }
            (Intent::TakeOver, Some(seen)) => {
                let number =
                    seen.attempt.saturating_add(u32::from(!is_broken(FaultPoint::AttemptStays)));
                self.attempts = Attempts { number, ..Attempts::of(&seen) };
                self.taken_over = Some(Box::new(seen));
            }
            // A resolution is not an attempt.
            (Intent::Resolve(_), Some(seen)) => self.attempts = Attempts::of(&seen),
            (Intent::Restamp { .. } | Intent::TakeOver | Intent::Resolve(_), _) => {}
        }
    }

    /// The earlier attempts have left nothing, so they do not count.
    fn start_from_scratch(&mut self, created_at: Timestamp, attempts: u32) {
        let (number, created_at) = (attempts.saturating_add(1), Some(created_at));
        self.attempts = Attempts { number, released: attempts, created_at };
        self.taken_over = None;
    }

    fn lease_write(&mut self, stamp: Stamp, intent: Intent, term: LeaseTerm) -> Write {
        let state = State::Pending { lease_expires_at: term.lease_expires_at };
        let pending = self.meta(stamp, state, None, term.expires_at);
        let at = *self.resolved_at.get_or_insert(stamp.at);
        let retained = at.plus(self.rules.retention).seconds_up();
        self.retention.stamped(stamp);
        let (kind, condition, record) = match intent {
            Intent::Create => {
                let absent = Condition::absent().unless(FaultPoint::CreateUnfenced);
                (Kind::Acquire, absent, pending)
            }
            Intent::Replace { .. } => (Kind::Replace, self.unchanged(), pending),
            Intent::TakeOver => {
                let unchanged = self.unchanged().unless(FaultPoint::TakeOverUnfenced);
                (Kind::TakeOver, unchanged, pending)
            }
            Intent::Restamp { lease_expires_at } => {
                let stamped = self.held().and(Term::LeaseExpiresAt(lease_expires_at));
                let may_shorten = is_broken(FaultPoint::RestampMayShorten);
                (Kind::StampAgain, if may_shorten { self.held() } else { stamped }, pending)
            }
            Intent::Resolve(Resolution::Completed) => {
                let record = self.meta(stamp, State::Completed, Some(at), retained);
                let unchanged = self.unchanged().unless(FaultPoint::SettleUnfenced);
                (Kind::ResolveCompleted, unchanged, record)
            }
            Intent::Resolve(Resolution::Committed) => {
                let record = self.meta(stamp, State::Completed, Some(at), retained);
                let unchanged = self.unchanged().unless(FaultPoint::HookCommitUnfenced);
                (Kind::ResolveByCommit, unchanged, record)
            }
            Intent::Resolve(Resolution::Failed | Resolution::Execute | Resolution::Refuse) => {
                let record = self.meta(stamp, State::Failed, Some(at), retained);
                (Kind::ResolveFailed, self.unchanged(), record)
            }
        };
        Write { kind, condition, record }
    }

    /// The record has not changed since it was seen. The owner of a finished record may have extended its
    /// retention, which its version does not show.
    fn unchanged(&self) -> Condition {
        let Some(seen) = self.knowledge.seen().record() else { return Condition::absent() };
        let unchanged = Condition::unchanged(&seen.version());
        let compares = !is_broken(FaultPoint::CompareNoRetention);
        match seen.state {
            State::Completed | State::Failed if compares => {
                unchanged.and(Term::ExpiresAt(seen.expires_at))
            }
            State::Completed | State::Failed | State::Pending { .. } | State::Released => unchanged,
        }
    }

    fn held(&self) -> Condition {
        Condition::held_by(*self.knowledge.me())
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

    fn dispatch(&mut self, now: Now, write: Write, intent: Intent) -> Command {
        self.knowledge.send(&write);
        let limit = match (&self.work, intent) {
            (Work::Transact(_), _) => self.limit(now).min(self.tries.limit(now)).max(MIN_LIMIT),
            (Work::Own | Work::LookUp, Intent::Restamp { .. }) => self.limit(now).max(MIN_LIMIT),
            (Work::Own | Work::LookUp, _) => self.limit(now),
        };
        self.waiting = Waiting::Writing { write: write.clone(), intent };
        Command::Send { write, limit }
    }
}

/// The end of a call that has run nothing.
impl Acquisition {
    /// The lease of the other owner that was seen last.
    const fn observed(&self) -> Option<ObservedLease> {
        match self.obstacle {
            Obstacle::Running(observed) => Some(observed),
            Obstacle::Nothing | Obstacle::Unjudged | Obstacle::MustNotRun => None,
        }
    }

    /// The rest of the other owner's lease, if it has not expired since.
    fn lease_left_of_other(&self, now: Now) -> Option<Duration> {
        let observed = self.observed()?;
        observed.left.checked_sub(now.local.uptime.since(observed.at))
    }

    /// Ends the call after an error. For a call that would run a handler in an outage, the result is
    /// [`Reason::InProgress`] if another owner's lease is live. If no other lease was seen, the handler can run without
    /// a record ([`Outage::Open`]).
    fn give_up(&mut self, now: Now, reason: Reason, cause: Cause) -> Command {
        if cause == Cause::Outage && self.work == Work::Own {
            // The other lease may have expired since.
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
        let is_resolved = match self.resolution {
            Some((_, Resolution::Completed | Resolution::Committed | Resolution::Failed)) => true,
            Some((_, Resolution::Execute | Resolution::Refuse)) | None => false,
        };
        let is_free = self.obstacle == Obstacle::Nothing && !is_resolved && !self.is_in_doubt();
        self.rules.outage == Outage::Open && is_free
    }

    /// Ends a call that has run nothing. An acquisition that may have been applied is undone first, and a
    /// transaction in doubt is settled.
    fn end(&mut self, now: Now, reason: Reason) -> Command {
        match self.work {
            Work::Own if self.knowledge.may_hold_key() => self.undo(now, reason),
            Work::Own | Work::LookUp if !self.is_in_doubt() => self.report(reason),
            Work::Own | Work::LookUp | Work::Transact(_) => {
                self.ending = Some((reason, 0));
                self.end_transaction(now)
            }
        }
    }

    fn report(&self, reason: Reason) -> Command {
        done(match self.no_completion() {
            Some(proof) => CallResult::Nothing(reason, proof),
            None => CallResult::Unknown,
        })
    }

    fn no_completion(&self) -> Option<NoCompletion> {
        match self.work {
            // A hook can commit.
            Work::Own => self.knowledge.no_transaction(),
            Work::LookUp => Some(NoCompletion::without_completions()),
            Work::Transact(_) => self.knowledge.no_completion(),
        }
    }

    fn is_in_doubt(&self) -> bool {
        self.no_completion().is_none()
    }
}

/// Undoing an acquisition that has executed nothing: the previous record is put back, or the key is released.
impl Acquisition {
    /// Undoes an acquisition that was applied, or may still be applied. The undo sends a request even if a freeze has
    /// used up the time, and further ones if a rejection shows that this call may still hold the key. If the last is
    /// not confirmed, the lease is left to expire.
    fn undo(&mut self, now: Now, reason: Reason) -> Command {
        // A process that does not know store time has written nothing, unless a restored snapshot has
        // made it forget the time.
        let Some(stamp) = now.stamp() else { return self.report(reason) };
        self.retention.stamped(stamp);
        let retained = stamp.at.plus(self.rules.retention).seconds_up();
        // No handler has seen the attempt, so its number is used again.
        let attempt = self.attempts.number.saturating_sub(1);
        let failed = self.meta(stamp, State::Failed, Some(stamp.at), retained);
        let restored = restored(self.taken_over.as_deref(), &RecordMeta { attempt, ..failed });
        let record = restored.unwrap_or_else(|| self.released(stamp));
        let condition = match self.knowledge.seen() {
            Seen::Record(_) => self.held(),
            Seen::Nothing | Seen::Absent => Condition::held_by_or_absent(*self.knowledge.me()),
        };
        self.undo_by(now, reason, Write { kind: Kind::Undo, condition, record })
    }

    fn undo_by(&mut self, now: Now, reason: Reason, write: Write) -> Command {
        self.undo_tries += 1;
        self.knowledge.send(&write);
        self.waiting = Waiting::Undoing(write.clone(), reason);
        Command::Send { write, limit: self.limit(now).max(MIN_LIMIT) }
    }

    /// A rejected undo has shown the record. If this call owns it, the call undoes again. If an acquisition
    /// may still be applied to the record, the call replaces its version.
    fn after_undo(
        &mut self,
        now: Now,
        result: &WriteResult<RecordMeta>,
        reason: Reason,
    ) -> Command {
        let has_seen = matches!(result, WriteResult::Rejected(Some(_)));
        let is_last = self.undo_tries == MAX_UNDO_TRIES;
        if !has_seen || is_last || !self.knowledge.may_hold_key() {
            return self.report(reason);
        }
        if self.knowledge.holds_key() {
            return self.undo(now, reason);
        }
        match self.superseding_write(now) {
            Some(write) => self.undo_by(now, reason, write),
            None => self.report(reason),
        }
    }

    /// A record that no call owns. The attempt does not count, because no handler has seen it.
    fn released(&self, stamp: Stamp) -> RecordMeta {
        let attempt = self.attempts.number.saturating_sub(1);
        let expires_at = released_until(stamp.at, stamp.at);
        RecordMeta { attempt, ..self.meta(stamp, State::Released, None, expires_at) }
    }
}

const fn done(result: CallResult) -> Command {
    Command::Return(Next::Done(result))
}

#[cfg(test)]
mod tests;
