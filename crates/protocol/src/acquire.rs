//! Taking a key, or learning why not. A whole operation in one transaction is the same with another
//! write.

use std::time::Duration;

use super::condition::{Condition, Term};
use super::decide::{Decision, decide};
use super::knowledge::{Knowledge, NoEffect, Seen};
use super::lease::{LeaseTerm, Window};
use super::record::{Header, State, Version, as_found};
use super::rules::{MIN_LIMIT, Rules, TooLate};
use super::time::{Backoff, End, Now, Stamp, StoreTime, Timestamp, Uptime};
use super::tries::Tries;
use super::write::{Cause, Form, Machine, Outcome, Reply, Write};
use crate::owner::OwnerId;
use crate::policy::Outage;

/// How often one call tries to write before it gives a contended key up.
const MAX_WRITES: u32 = 8;

/// How long a released record stays at least: longer than any request can be under way that was
/// signed before it. AWS denies a request that arrives more than 15 minutes after the time stamp in its
/// signature (most services: 5), and takes one that is as far ahead; so 30 minutes are the most, and
/// this is twice as much.
pub(super) const RELEASED_FOR: Duration = Duration::from_secs(60 * 60);

/// How often a call tries to give back what it does not use.
const MAX_GIVINGS: u32 = 3;

/// Until when a record stays that is released at `now`, in epoch seconds: not less than the lease that
/// it was under.
pub fn released_until(now: Timestamp, lease_expires_at: Timestamp) -> i64 {
    now.plus(RELEASED_FOR).max(lease_expires_at).seconds_up()
}

/// What a call wants of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// To run the handler under a lease.
    Own,
    /// To write the answer and its effect at once.
    Transact { form: Form },
    /// To know what the record says: nothing is written.
    LookUp,
}

/// What a call sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum First {
    Write,
    Read { is_consistent: bool },
}

/// Another owner, as it was seen at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ObservedLease {
    left: Duration,
    at: Uptime,
}

/// What a hook says of an abandoned operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    Completed,
    Failed,
    Execute,
    Refuse,
}

/// Where the machine waits for something else than the store and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Stop {
    /// The hook about the record that was seen last: [`Acquire::resolved`].
    Ask,
    /// The items of the transaction were refused. Is there another answer to be stored, without them?
    /// [`Acquire::instead`] or [`Acquire::no_instead`].
    AskInstead,
    /// The key is ours.
    Run(Window),
    /// The store is out of reach, and the policy lets the handler run all the same.
    RunUnprotected,
    Tell(Told),
}

type Command = super::write::Command<Stop>;

/// How the call ends. "The record" is the one that the last response has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Told {
    /// The answer is in the record.
    Replay,
    /// The hook's resolution is in the record.
    Reconciled,
    /// The transaction is in the tables.
    Executed,
    /// This call has changed nothing that counts, and never will.
    Nothing(Reason, NothingHappened),
    /// A transaction may have landed, or may yet.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    InProgress {
        lease_left: Duration,
    },
    Mismatch,
    Abandoned,
    /// It has failed for good. The failure is in the record, if it was kept.
    Failed,
    /// There is nothing to replay: said to who only looks.
    Free,
    ItemsRefused,
    /// The deadline is over.
    TooLate,
    /// The last response was an error.
    Error,
    /// The store has not answered in the time that there is.
    TimedOut,
    /// No lease was confirmed.
    NoLease,
}

/// Nothing ran and nothing was written. It exists only where no write of this call's has an effect, or
/// where none of them can land any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NothingHappened(());

impl NothingHappened {
    pub(crate) const fn for_sure(_: &NoEffect<'_>) -> Self {
        Self(())
    }
}

/// Under what the handler runs.
#[derive(Clone, Debug)]
pub struct Granted {
    pub knowledge: Knowledge,
    /// The record that was taken over, if one was.
    pub taken: Option<Header>,
    pub attempt: u32,
    pub released_attempts: u32,
    /// `None` where nothing was written: no record protects the execution.
    pub created_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire {
    rules: Rules,
    goal: Goal,
    knowledge: Knowledge,
    step: Step,
    started: Uptime,
    /// When all that is sent must have had its answer.
    budget: End,
    /// Until when a transaction is tried; after it there is time for a look.
    tries: Tries,
    writes: u32,
    waiting: Backoff,
    obstacle: Obstacle,
    /// What a write was to replace had changed, or another's transaction was there.
    is_contended: bool,
    /// The record that we took over, or tried to.
    taken: Option<Header>,
    attempt: u32,
    released_attempts: u32,
    created_at: Option<Timestamp>,
    /// Of the transaction, or of the answer in its place: no two completions of a call have the same time.
    completed_at: Option<Timestamp>,
    /// The completion before that one.
    refused_at: Option<Timestamp>,
    /// Until when a transaction's record stays, in epoch seconds.
    expires_at: i64,
    /// When the last finished record was stamped.
    stamped_at: Uptime,
    /// Ends of leases that were stamped: none of them is stamped again, or a late copy of what replaced
    /// it would be in force once more.
    stamped: Vec<Timestamp>,
    /// What the hook said of an abandoned record, as long as that does not change.
    resolution: Option<(Version, Resolution)>,
    resolved_at: Option<Timestamp>,
    /// The version in whose place that was sent, and may be or come there, unheard of.
    judged: Option<Version>,
    /// Of the response that came last.
    time: Option<StoreTime>,
    /// How often it was tried to give the key back.
    givings: u32,
    /// What is told once nothing of ours is under way, and how often that was tried to bring about.
    ending: Option<(Reason, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Idle,
    Reading {
        is_first: bool,
    },
    Sending {
        write: Write,
        take: Take,
    },
    Pausing(Next),
    /// A transaction's write, to be sent once more as it is.
    Repeating(Write, Take),
    GivingBack(Write, Reason),
    ClosingOff(Write),
    /// The call has ended so, and its record expires too early.
    Extending(Write, Stop),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Next {
    /// After another owner was waited for.
    LookAnew,
    Look,
    Take(Take),
    /// A transaction that is in doubt is closed off, once more.
    Close,
}

/// A write in the place of what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Take {
    Create,
    Replace {
        attempts: u32,
    },
    /// The operation goes on.
    Over,
    /// The same lease with another end, before anything runs.
    Restamp {
        lease_expires_at: Timestamp,
    },
    /// The hook's resolution.
    Settle(Resolution),
}

/// What keeps a call from running without a record, even where the store is gone from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Obstacle {
    Nothing,
    Running(ObservedLease),
    /// The operation is over, or this call must not run it; or, by a read that may show what was there
    /// before, that may be so.
    MustNotRun,
}

impl Machine for Acquire {
    type Stop = Stop;

    fn woke(&mut self, now: Now) -> Command {
        match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Pausing(Next::LookAnew) => {
                // What came in between was not the store's own time.
                self.begin_budget(now);
                self.look(now)
            }
            Step::Pausing(Next::Take(take)) => self.send(now, take),
            Step::Pausing(Next::Close) => self.close_off(now),
            Step::Repeating(..) if now.is_over(self.budget) => self.end(now, Reason::TimedOut),
            Step::Repeating(write, take) => self.dispatch(now, write, take),
            Step::Extending(write, stop) => self.extend(now, write, stop),
            Step::Pausing(Next::Look)
            | Step::Idle
            | Step::Reading { .. }
            | Step::Sending { .. }
            | Step::GivingBack(..)
            | Step::ClosingOff(_) => self.look(now),
        }
    }

    fn replied(&mut self, now: Now, reply: &Reply) -> Command {
        self.time = reply.time;
        let step = match std::mem::replace(&mut self.step, Step::Idle) {
            // The call ends with the record that was seen before, whatever has replaced it since.
            Step::Extending(write, stop) => {
                return self.extended(now, &reply.outcome, write, stop);
            }
            step => step,
        };
        let write = match &step {
            Step::Sending { write, .. } | Step::ClosingOff(write) | Step::GivingBack(write, _) => {
                Some(write)
            }
            _ => None,
        };
        let was_put = write.is_some_and(|write| write.form == Form::Put);
        self.knowledge.learn(reply, write);
        self.note_doubt(reply, &step);
        let command = match step {
            Step::GivingBack(_, reason) => self.given_back(now, &reply.outcome, reason),
            Step::ClosingOff(write) => {
                // Closed off now, or by a try before: nothing of ours came in between.
                let is_closed = match &reply.outcome {
                    Outcome::Applied => true,
                    Outcome::Refused(Some(found)) => found.version() == write.record.version(),
                    _ => false,
                };
                if is_closed {
                    self.knowledge.rule_out();
                }
                self.closed_off(now)
            }
            Step::Sending { write, take } => match self.goal {
                Goal::Transact { .. } => self.transacted(now, &reply.outcome, write, take),
                Goal::Own | Goal::LookUp => self.written(now, &reply.outcome, take),
            },
            Step::Reading { is_first } => self.read(now, &reply.outcome, is_first),
            Step::Idle | Step::Pausing(_) | Step::Repeating(..) | Step::Extending(..) => {
                self.look(now)
            }
        };
        let command = self.verified(now, reply, was_put, command);
        // Of a response that is done with, nothing is left.
        self.time = None;
        command
    }
}

impl Acquire {
    pub fn new(me: OwnerId, goal: Goal, rules: Rules, now: Now) -> Self {
        let budget = now.lasting(rules.request_timeout);
        let second = Duration::from_secs(1);
        let longest = match goal {
            Goal::Own | Goal::LookUp => second,
            Goal::Transact { .. } => 2 * second,
        };
        let first = Duration::from_millis(50);
        let mut acquire = Self {
            rules,
            goal,
            knowledge: Knowledge::new(me),
            step: Step::Idle,
            started: now.local.uptime,
            budget,
            tries: Tries::with_pauses_up_to(longest, budget),
            writes: 0,
            waiting: Backoff::new(first, second),
            obstacle: Obstacle::Nothing,
            is_contended: false,
            taken: None,
            attempt: 1,
            released_attempts: 0,
            created_at: None,
            completed_at: None,
            refused_at: None,
            expires_at: 0,
            stamped_at: now.local.uptime,
            stamped: Vec::new(),
            resolution: None,
            resolved_at: None,
            judged: None,
            time: None,
            givings: 0,
            ending: None,
        };
        acquire.begin_tries(now);
        acquire
    }

    /// When all that is sent must have had its answer.
    pub const fn budget(&self) -> End {
        self.budget
    }

    /// The other owner that was seen at work, if nothing newer was seen.
    const fn observed(&self) -> Option<ObservedLease> {
        match self.obstacle {
            Obstacle::Running(observed) => Some(observed),
            Obstacle::Nothing | Obstacle::MustNotRun => None,
        }
    }

    /// What the handler runs under, after [`Stop::Run`] and [`Stop::RunUnprotected`].
    pub fn granted(&self) -> Granted {
        Granted {
            knowledge: self.knowledge.clone(),
            taken: self.taken.clone(),
            attempt: self.attempt,
            released_attempts: self.released_attempts,
            created_at: self.created_at,
        }
    }

    pub fn started(&mut self, now: Now, first: First) -> Command {
        if self.is_too_late(now) {
            return self.end(now, Reason::TooLate);
        }
        match first {
            First::Write if now.stamp().is_some() => self.take(now, Take::Create),
            // No response has told the store's time yet, and no write is stamped without it.
            First::Write => {
                self.step = Step::Reading { is_first: true };
                Command::Read { is_consistent: true, limit: self.limit(now) }
            }
            First::Read { is_consistent } => {
                self.step = Step::Reading { is_first: true };
                Command::Read { is_consistent, limit: self.limit(now) }
            }
        }
    }

    /// Whether its deadline is over before it has begun.
    pub fn is_too_late(&self, now: Now) -> bool {
        self.rules.lease_length(now).is_err()
    }

    /// What the hook has said.
    pub fn resolved(&mut self, now: Now, resolution: Resolution) -> Command {
        self.begin_budget(now);
        self.resolved_at = None;
        self.resolve(now, resolution)
    }

    /// Another answer is to be stored in the place of the transaction's, without its items. It is told
    /// from that by its time.
    pub fn instead(&mut self, now: Now) -> Command {
        self.goal = Goal::Transact { form: Form::Put };
        self.refused_at = self.completed_at.take();
        self.begin_tries(now);
        match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Repeating(_, take) => self.transact(now, take),
            _ => self.look(now),
        }
    }

    pub fn no_instead(&mut self, now: Now) -> Command {
        self.end(now, Reason::ItemsRefused)
    }

    /// What a read has shown. A first one that fails, the write makes up for.
    fn read(&mut self, now: Now, outcome: &Outcome, is_first: bool) -> Command {
        match outcome {
            Outcome::Found(_) => self.decide(now),
            Outcome::Stale(record) => {
                if self.stale(now, record.as_ref()) {
                    tell(Told::Replay)
                } else {
                    self.take(now, Take::Create)
                }
            }
            _ if is_first && self.goal != Goal::LookUp && now.stamp().is_some() => {
                self.take(now, Take::Create)
            }
            Outcome::NotApplied(Cause::Outage) if is_first => self.look(now),
            other => self.not_read(now, cause(other)),
        }
    }

    /// A read has failed. Where somebody runs it, that is no reason to stop waiting; a transaction has
    /// time for another.
    fn not_read(&mut self, now: Now, cause: Cause) -> Command {
        if let Some(observed) = self.observed()
            && !self.rules.wait_left(now, self.started).is_zero()
        {
            return self.wait(now, observed.left);
        }
        match self.goal {
            Goal::Transact { .. } if cause == Cause::Outage => self.pace(now, Next::Look),
            Goal::Transact { .. } | Goal::Own | Goal::LookUp => {
                self.give_up(now, Reason::Error, cause)
            }
        }
    }

    /// What an eventually consistent read has shown: a completed operation stays what it is. Of anything
    /// else there may be something newer, which the write brings; where it does not, because the store
    /// is gone by then, what was seen here counts.
    fn stale(&mut self, now: Now, record: Option<&Header>) -> bool {
        let judging = now.judging(self.time, self.rules.tolerance);
        match decide(record, self.knowledge.me(), judging, &self.rules) {
            Decision::Replay => return true,
            Decision::Create | Decision::Replace { .. } | Decision::TakeOver => {}
            // Whoever was at work may have ended long ago: nobody is told of it.
            Decision::InProgress { .. }
            | Decision::Mismatch
            | Decision::ReplayFailure
            | Decision::Abandoned
            | Decision::Reconcile
            | Decision::Finished
            | Decision::Acquired { .. } => self.obstacle = Obstacle::MustNotRun,
        }
        false
    }

    /// What became of a write that takes the key.
    fn written(&mut self, now: Now, outcome: &Outcome, take: Take) -> Command {
        match (outcome, take) {
            (Outcome::Applied, Take::Settle(_)) => tell(Told::Reconciled),
            (Outcome::Applied, _) => match self.knowledge.own().map(|own| own.state) {
                Some(State::Pending { lease_expires_at }) => self.verify(now, lease_expires_at),
                _ => self.look(now),
            },
            (Outcome::Refused(Some(_)), take) => {
                self.is_contended |= !matches!(take, Take::Create | Take::Restamp { .. });
                self.decide(now)
            }
            // Another's transaction is at the item.
            (Outcome::Conflict, _) => {
                self.is_contended = true;
                self.look(now)
            }
            // An answer that cannot be stored: the driver puts a lesser one in its place.
            (Outcome::Invalid, Take::Settle(_))
            | (
                Outcome::Refused(None) | Outcome::Found(_) | Outcome::Stale(_) | Outcome::Unknown,
                _,
            ) => self.look(now),
            (Outcome::Invalid | Outcome::NotApplied(_) | Outcome::ItemsRefused, _) => {
                self.give_up(now, Reason::Error, cause(outcome))
            }
        }
    }

    /// By what was seen, and by nothing else.
    fn decide(&mut self, now: Now) -> Command {
        let judging = now.judging(self.time, self.rules.tolerance);
        let record = self.knowledge.seen().record();
        let completed_at = record.and_then(|record| record.completed_at);
        let decision = decide(record, self.knowledge.me(), judging, &self.rules);
        match decision {
            Decision::Acquired { lease_expires_at } => self.acquired(now, lease_expires_at),
            Decision::Finished => match self.goal {
                Goal::Own | Goal::LookUp => tell(Told::Reconciled),
                Goal::Transact { .. } if completed_at == self.completed_at => tell(Told::Executed),
                // An earlier one of ours has landed.
                Goal::Transact { .. } => tell(Told::Replay),
            },
            Decision::Create => self.take(now, Take::Create),
            Decision::Replace { attempts } => self.take(now, Take::Replace { attempts }),
            Decision::TakeOver => self.take(now, Take::Over),
            Decision::Reconcile => self.ask(now),
            Decision::InProgress { lease_left } => {
                let at = now.local.uptime;
                self.obstacle = Obstacle::Running(ObservedLease { left: lease_left, at });
                if self.is_in_doubt() {
                    self.end(now, Reason::InProgress { lease_left })
                } else {
                    self.wait(now, lease_left)
                }
            }
            Decision::Replay => tell(Told::Replay),
            Decision::ReplayFailure => self.end(now, Reason::Failed),
            Decision::Mismatch => self.end(now, Reason::Mismatch),
            Decision::Abandoned => self.end(now, Reason::Abandoned),
        }
    }

    /// A read or a refusal has shown our own record.
    fn acquired(&mut self, now: Now, lease_expires_at: Timestamp) -> Command {
        if let Some(own) = self.knowledge.own() {
            self.attempt = own.attempt;
            self.released_attempts = own.released_attempts;
            self.created_at = Some(own.created_at);
        }
        self.verify(now, lease_expires_at)
    }

    /// The key is ours. Nothing runs before the response that has shown it says that the lease is right,
    /// nor while another write of ours could still change it; else it is stamped anew.
    fn verify(&mut self, now: Now, lease_expires_at: Timestamp) -> Command {
        self.obstacle = Obstacle::Nothing;
        let is_settled = self.knowledge.settled().is_some();
        match self.rules.window(now, lease_expires_at, self.time) {
            Some(window) if is_settled => Command::Stop(Stop::Run(window)),
            Some(_) | None => self.take(now, Take::Restamp { lease_expires_at }),
        }
    }

    fn ask(&mut self, now: Now) -> Command {
        let version = self.knowledge.seen().record().map(Header::version);
        match &self.resolution {
            Some((seen, resolution)) if version.as_ref() == Some(seen) => {
                let resolution = *resolution;
                self.resolve(now, resolution)
            }
            _ => Command::Stop(Stop::Ask),
        }
    }

    /// The hook has said what became of the record that was seen last.
    fn resolve(&mut self, now: Now, resolution: Resolution) -> Command {
        if let Some(record) = self.knowledge.seen().record() {
            self.resolution = Some((record.version(), resolution));
        }
        match resolution {
            Resolution::Completed | Resolution::Failed => self.take(now, Take::Settle(resolution)),
            Resolution::Execute => self.take(now, Take::Over),
            Resolution::Refuse => self.end(now, Reason::Abandoned),
        }
    }

    /// Waits for an operation that another owner runs, or tells that it is in progress.
    fn wait(&mut self, now: Now, lease_left: Duration) -> Command {
        let left = self.rules.wait_left(now, self.started);
        if left.is_zero() {
            return self.end(now, Reason::InProgress { lease_left });
        }
        self.step = Step::Pausing(Next::LookAnew);
        Command::Pause { bound: self.waiting.next_bound(), max: left }
    }

    fn look(&mut self, now: Now) -> Command {
        if now.is_over(self.budget) {
            return self.give_up(now, Reason::TimedOut, Cause::Outage);
        }
        self.step = Step::Reading { is_first: false };
        Command::Read { is_consistent: true, limit: self.limit(now) }
    }

    /// Waits before the third write and each later one; ends in a race that nobody wins.
    fn take(&mut self, now: Now, take: Take) -> Command {
        if self.goal == Goal::LookUp {
            return self.end(now, Reason::Free);
        }
        self.writes += 1;
        if self.has_judged_another() || self.may_be_gone() {
            self.is_contended = true;
            return self.contended(now, take);
        }
        // In a race, who has lost twice waits a little.
        if self.writes > 2 { self.pace(now, Next::Take(take)) } else { self.send(now, take) }
    }

    /// Others write to this key all the time, or DynamoDB confirms no lease.
    fn contended(&mut self, now: Now, take: Take) -> Command {
        if let Take::Restamp { .. } = take {
            return self.give_up(now, Reason::NoLease, Cause::Outage);
        }
        let lease_left = match self.still_running(now) {
            Some(left) => left,
            None if self.is_contended => Duration::ZERO,
            // Nobody else writes: it is the store that takes no writes.
            None => return self.give_up(now, Reason::Error, Cause::Outage),
        };
        self.end(now, Reason::InProgress { lease_left })
    }

    fn note_doubt(&mut self, reply: &Reply, step: &Step) {
        let is_in_doubt = reply.is_in_doubt || reply.outcome == Outcome::Unknown;
        if is_in_doubt && matches!(step, Step::Sending { take: Take::Settle(_), .. }) {
            self.judged = self.resolution.as_ref().map(|(version, _)| version.clone());
        }
    }

    /// Whether a resolution may have been written in the place of another version. A second finished
    /// record in this call's name could not be told from the first, and no version of a record comes
    /// back.
    fn has_judged_another(&self) -> bool {
        let seen = self.knowledge.seen().record().map(Header::version);
        self.judged.is_some() && self.judged != seen
    }

    fn pace(&mut self, now: Now, next: Next) -> Command {
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

    fn send(&mut self, now: Now, take: Take) -> Command {
        let is_transaction = matches!(self.goal, Goal::Transact { .. });
        if !is_transaction && self.writes > MAX_WRITES {
            return self.contended(now, take);
        }
        let length = match self.rules.lease_length(now) {
            Err(TooLate) if !is_transaction => {
                return self.give_up(now, Reason::TooLate, Cause::Other);
            }
            length => length,
        };
        // The key is ours: a machine that was frozen may be back.
        let is_ours = matches!(take, Take::Restamp { .. });
        if now.is_over(self.budget) && !is_ours {
            return self.give_up(now, Reason::TimedOut, Cause::Outage);
        }
        let Some(stamp) = now.stamp() else { return self.look(now) };
        self.note_taken(stamp, take);
        match length {
            Ok(length) if !is_transaction => self.send_lease(now, stamp, take, length),
            Ok(_) | Err(TooLate) => self.transact(now, take),
        }
    }

    /// [`verify`](Self::verify) makes its stamp safe.
    fn send_lease(&mut self, now: Now, stamp: Stamp, take: Take, length: Duration) -> Command {
        let term = match take {
            Take::Restamp { .. } => self.rules.held_term(stamp, length),
            _ => self.rules.term(stamp, length),
        };
        let term = term.unlike(&self.stamped);
        self.stamped.push(term.lease_expires_at);
        let write = self.taking(stamp, take, term);
        self.dispatch(now, write, take)
    }

    /// What the record will have of the one that it takes the place of.
    fn note_taken(&mut self, stamp: Stamp, take: Take) {
        let seen = self.knowledge.seen().record().cloned();
        match (take, seen) {
            (Take::Create, _) => self.begin_anew(stamp, 0),
            (Take::Replace { attempts }, _) => self.begin_anew(stamp, attempts),
            (Take::Over, Some(seen)) => {
                self.attempt = seen.attempt.saturating_add(1);
                self.created_at = Some(seen.created_at);
                self.released_attempts = seen.released_attempts;
                self.taken = Some(seen);
            }
            // A hook's resolution is no attempt.
            (Take::Settle(_), Some(seen)) => {
                (self.attempt, self.created_at) = (seen.attempt, Some(seen.created_at));
                self.released_attempts = seen.released_attempts;
            }
            (Take::Restamp { .. } | Take::Over | Take::Settle(_), _) => {}
        }
    }

    /// The operation starts from its beginning, after so many attempts that have left nothing.
    fn begin_anew(&mut self, stamp: Stamp, attempts: u32) {
        self.attempt = attempts.saturating_add(1);
        self.released_attempts = attempts;
        self.created_at = Some(stamp.at);
        self.taken = None;
    }

    /// The write that takes the key.
    fn taking(&mut self, stamp: Stamp, take: Take, term: LeaseTerm) -> Write {
        let state = State::Pending { lease_expires_at: term.lease_expires_at };
        let pending = self.header(stamp, state, None, term.expires_at);
        let at = *self.resolved_at.get_or_insert(stamp.at);
        let retained = at.plus(self.rules.retention).seconds_up();
        self.stamped_at = stamp.made;
        let (form, condition, record) = match take {
            Take::Create => (Form::Put, Condition::absent(), pending),
            Take::Replace { .. } => (Form::Put, self.unchanged(), pending),
            Take::Over => (Form::Update, self.unchanged(), pending),
            Take::Restamp { lease_expires_at } => {
                let stamped = Term::LeaseExpiresAt(lease_expires_at);
                (Form::Stamp, self.held().and(stamped), pending)
            }
            Take::Settle(Resolution::Completed) => {
                let record = self.header(stamp, State::Completed, Some(at), retained);
                (Form::Put, self.unchanged(), record)
            }
            Take::Settle(_) => {
                let record = self.header(stamp, State::Failed, Some(at), retained);
                (Form::Update, self.unchanged(), record)
            }
        };
        Write { form, condition, record }
    }

    fn unchanged(&self) -> Condition {
        let seen = self.knowledge.seen().record();
        seen.map_or_else(Condition::absent, |seen| Condition::unchanged(&seen.version()))
    }

    fn held(&self) -> Condition {
        Condition::held_by(*self.knowledge.me())
    }

    fn header(
        &self,
        stamp: Stamp,
        state: State,
        completed_at: Option<Timestamp>,
        expires_at: i64,
    ) -> Header {
        let counted = (self.attempt, self.released_attempts);
        let times = (self.created_at.unwrap_or(stamp.at), completed_at, expires_at);
        Header::of(self.knowledge.me(), state, counted, times)
    }

    fn dispatch(&mut self, now: Now, write: Write, take: Take) -> Command {
        self.knowledge.send(&write);
        let limit = match (self.goal, take) {
            (Goal::Transact { .. }, _) => self.limit(now).min(self.tries.limit(now)).max(MIN_LIMIT),
            (Goal::Own | Goal::LookUp, Take::Restamp { .. }) => self.limit(now).max(MIN_LIMIT),
            (Goal::Own | Goal::LookUp, _) => self.limit(now),
        };
        self.step = Step::Sending { write: write.clone(), take };
        Command::Send { write, limit }
    }

    /// How long the next request may last: half of what is left, so that whatever becomes of it, there
    /// is time to look, and to give back what it has left; and the answer has to get out before the
    /// deadline.
    fn limit(&self, now: Now) -> Duration {
        (now.left(self.budget) / 2).min(self.rules.time_until_answer(now))
    }

    /// The store's time begins anew: what came in between was not its own.
    fn begin_budget(&mut self, now: Now) {
        self.budget = now.lasting(self.rules.request_timeout);
        self.begin_tries(now);
    }

    /// A quarter of the budget is for the look after the last try.
    fn begin_tries(&mut self, now: Now) {
        let longest = self.rules.completion_timeout.min(now.left(self.budget) / 4 * 3);
        self.tries.until = self.rules.before_answer(now.lasting(longest));
    }

    /// How long the lease still lasts of the owner that was seen at work; nothing where it is over by now.
    fn still_running(&self, now: Now) -> Option<Duration> {
        let observed = self.observed()?;
        observed.left.checked_sub(now.local.uptime.since(observed.at))
    }

    /// The call ends with an error.
    fn give_up(&mut self, now: Now, reason: Reason, cause: Cause) -> Command {
        if cause == Cause::Outage && self.goal == Goal::Own {
            // What was seen may be long ago, and the record ours by now.
            if let Some(lease_left) = self.still_running(now) {
                return self.end(now, Reason::InProgress { lease_left });
            }
            if self.may_run_unprotected() {
                return Command::Stop(Stop::RunUnprotected);
            }
        }
        self.end(now, reason)
    }

    /// Not where the record, or the hook's resolution, said that it must not.
    fn may_run_unprotected(&self) -> bool {
        let is_settled =
            matches!(self.resolution, Some((_, Resolution::Completed | Resolution::Failed)));
        self.rules.outage == Outage::Open && self.obstacle == Obstacle::Nothing && !is_settled
    }

    /// Nothing ran; a key that we may hold and shall not use is given back first.
    fn end(&mut self, now: Now, reason: Reason) -> Command {
        match self.goal {
            Goal::Own if self.knowledge.may_hold_key() => self.give_back(now, reason),
            Goal::Own | Goal::LookUp => self.tell_nothing(reason),
            Goal::Transact { .. } => {
                self.ending = Some((reason, 0));
                self.closed_off(now)
            }
        }
    }

    fn tell_nothing(&self, reason: Reason) -> Command {
        tell(match self.nothing_happened() {
            Some(nothing) if !self.may_be_gone() => Told::Nothing(reason, nothing),
            Some(_) | None => Told::Unknown,
        })
    }

    /// Whether a transaction of this call's may have landed, and be seen no more.
    fn may_be_gone(&self) -> bool {
        self.rules.replaces_completed() && self.knowledge.may_have_been_replaced()
    }

    /// A write that takes the key has no effect by itself; a transaction has.
    fn nothing_happened(&self) -> Option<NothingHappened> {
        match self.goal {
            Goal::Own | Goal::LookUp => Some(NothingHappened(())),
            Goal::Transact { .. } => {
                self.knowledge.no_effect().map(|proof| NothingHappened::for_sure(&proof))
            }
        }
    }

    fn is_in_doubt(&self) -> bool {
        self.nothing_happened().is_none()
    }

    /// Leaves the record as it was before we took it, or may have. Even where no time is left, it gets
    /// enough for one request: a machine that was frozen may be back. If it fails, the lease frees the key.
    fn give_back(&mut self, now: Now, reason: Reason) -> Command {
        // Without the store's time nothing was written either, unless it was forgotten since.
        let Some(stamp) = now.stamp() else { return self.tell_nothing(reason) };
        self.stamped_at = stamp.made;
        let retained = stamp.at.plus(self.rules.retention).seconds_up();
        // Nobody was told of the attempt.
        let attempt = self.attempt.saturating_sub(1);
        let failed = self.header(stamp, State::Failed, Some(stamp.at), retained);
        let failed = Header { attempt, ..failed };
        let as_found = as_found(self.taken.as_ref(), &failed);
        let record = as_found.unwrap_or_else(|| self.released(stamp));
        let condition = match self.knowledge.seen() {
            Seen::Record(_) => self.held(),
            Seen::Nothing | Seen::Absent => Condition::held_by_or_absent(*self.knowledge.me()),
        };
        self.give_back_by(now, reason, Write { form: Form::Update, condition, record })
    }

    fn give_back_by(&mut self, now: Now, reason: Reason, write: Write) -> Command {
        self.givings += 1;
        self.knowledge.send(&write);
        self.step = Step::GivingBack(write.clone(), reason);
        Command::Send { write, limit: self.limit(now).max(MIN_LIMIT) }
    }

    /// Where the record is ours after all, it is given back now. Where it was never ours, and a late take
    /// of ours still finds it, it is put out of its way.
    fn given_back(&mut self, now: Now, outcome: &Outcome, reason: Reason) -> Command {
        let was_told = matches!(outcome, Outcome::Refused(Some(_)));
        if !was_told || self.givings == MAX_GIVINGS || !self.knowledge.may_hold_key() {
            return self.tell_nothing(reason);
        }
        if self.knowledge.holds_key() {
            return self.give_back(now, reason);
        }
        match self.closing(now) {
            Some(closing) => self.give_back_by(now, reason, closing),
            None => self.tell_nothing(reason),
        }
    }

    /// A record in nobody's hands. The attempt that nobody has made does not count.
    fn released(&self, stamp: Stamp) -> Header {
        let attempt = self.attempt.saturating_sub(1);
        let expires_at = released_until(stamp.at, stamp.at);
        Header { attempt, ..self.header(stamp, State::Released, None, expires_at) }
    }
}

/// How long what a call leaves behind is kept.
impl Acquire {
    /// Before the call ends: a finished record that it has written by a clock that had jumped, and that
    /// expires too early, is kept for longer by one more write.
    fn verified(&mut self, now: Now, reply: &Reply, was_put: bool, command: Command) -> Command {
        let Command::Stop(stop) = command else { return command };
        let shown = self.knowledge.shown_by(reply, was_put);
        let extension =
            shown.and_then(|record| self.rules.extension(record, self.stamped_at, reply.time));
        match extension {
            Some(write) => self.extend(now, write, stop),
            None => Command::Stop(stop),
        }
    }

    fn extend(&mut self, now: Now, write: Write, stop: Stop) -> Command {
        self.step = Step::Extending(write.clone(), stop);
        Command::Send { write, limit: self.limit(now).max(MIN_LIMIT) }
    }

    /// What the call ends with does not depend on it.
    fn extended(&mut self, now: Now, outcome: &Outcome, write: Write, stop: Stop) -> Command {
        match self.tries.pause(now) {
            Some(bound) if !outcome.is_final() => {
                self.step = Step::Extending(write, stop);
                Command::Pause { bound, max: bound }
            }
            _ => Command::Stop(stop),
        }
    }
}

/// A whole operation in one transaction.
impl Acquire {
    /// The finished record, under the guard of what was seen.
    fn transact(&mut self, now: Now, take: Take) -> Command {
        let Goal::Transact { form } = self.goal else { return self.look(now) };
        let Some(stamp) = now.stamp() else { return self.look(now) };
        self.stamped_at = stamp.made;
        let after_refused = self.refused_at.map_or(stamp.at, |at| stamp.at.max(at.shifted(1)));
        let completed_at = *self.completed_at.get_or_insert(after_refused);
        // The retention begins with what is written now, however long the call has waited.
        let retained = stamp.at.plus(self.rules.retention).seconds_up();
        self.expires_at = self.expires_at.max(retained);
        let record = self.header(stamp, State::Completed, Some(completed_at), self.expires_at);
        let condition = match take {
            Take::Create => Condition::absent(),
            _ => self.unchanged(),
        };
        self.dispatch(now, Write { form, condition, record }, take)
    }

    fn transacted(&mut self, now: Now, outcome: &Outcome, write: Write, take: Take) -> Command {
        match outcome {
            Outcome::Applied => tell(Told::Executed),
            Outcome::Refused(Some(_)) => self.decide(now),
            Outcome::Refused(None) | Outcome::Found(_) | Outcome::Stale(_) => self.look(now),
            Outcome::ItemsRefused => {
                self.step = Step::Repeating(write, take);
                Command::Stop(Stop::AskInstead)
            }
            Outcome::Invalid | Outcome::NotApplied(Cause::Other) if !self.is_in_doubt() => {
                self.give_up(now, Reason::Error, Cause::Other)
            }
            Outcome::Invalid | Outcome::NotApplied(_) | Outcome::Conflict | Outcome::Unknown => {
                self.again(now, write, take)
            }
        }
    }

    /// The same once more, if there is time: a request that was executed is recognised by its token.
    fn again(&mut self, now: Now, write: Write, take: Take) -> Command {
        let Some(bound) = self.tries.pause(now) else {
            return self.end(now, Reason::Error);
        };
        self.step = Step::Repeating(write, take);
        Command::Pause { bound, max: bound }
    }

    /// Tells that nothing was written, once no write of ours can land. Where one still can, the record
    /// that it asks for is put out of its way.
    fn closed_off(&mut self, now: Now) -> Command {
        let Some((reason, tries)) = self.ending else { return tell(Told::Unknown) };
        if let Some(own) = self.knowledge.own().filter(|own| own.state == State::Completed) {
            let is_this = own.completed_at == self.completed_at;
            return tell(if is_this { Told::Executed } else { Told::Replay });
        }
        if !self.is_in_doubt() {
            return self.tell_nothing(reason);
        }
        self.ending = Some((reason, tries + 1));
        if tries > 0 {
            let Some(bound) = self.tries.pause_before(now, self.budget) else {
                return tell(Told::Unknown);
            };
            self.step = Step::Pausing(Next::Close);
            return Command::Pause { bound, max: bound };
        }
        self.close_off(now)
    }

    fn close_off(&mut self, now: Now) -> Command {
        let Some(write) = self.closing(now) else { return tell(Told::Unknown) };
        self.knowledge.send(&write);
        self.step = Step::ClosingOff(write.clone());
        Command::Send { write, limit: self.limit(now).max(MIN_LIMIT) }
    }

    /// The record that a late transaction asks for, as another version that says the same. Whoever runs
    /// under it keeps it.
    fn closing(&mut self, now: Now) -> Option<Write> {
        let nobody = self.knowledge.me().alternate();
        let Seen::Record(seen) = self.knowledge.seen() else {
            let stamp = now.stamp()?;
            self.stamped_at = stamp.made;
            let record = Header { owner: nobody, attempt: 0, ..self.released(stamp) };
            return Some(Write { form: Form::Put, condition: Condition::absent(), record });
        };
        let record = match seen.state {
            // Its answer may have parts, which are its owner's.
            State::Completed => Header { steps: Some(0), ..seen.clone() },
            // Its owner is slow perhaps, and may complete it still. Not an earlier end: a late renewal of
            // its owner's would bring this version back.
            State::Pending { lease_expires_at } => {
                let state = State::Pending { lease_expires_at: lease_expires_at.shifted(1) };
                Header { state, ..seen.clone() }
            }
            State::Failed | State::Released => Header { owner: nobody, ..seen.clone() },
        };
        let condition = Condition::unchanged(&seen.version());
        Some(Write { form: Form::Touch, condition, record })
    }
}

const fn tell(told: Told) -> Command {
    Command::Stop(Stop::Tell(told))
}

fn cause(outcome: &Outcome) -> Cause {
    match outcome {
        Outcome::NotApplied(cause) => *cause,
        Outcome::Invalid => Cause::Other,
        _ => Cause::Outage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_record_stays_for_an_hour_and_not_less_than_its_lease() {
        let (now, hour) = (Timestamp::from_millis(10_000), 3_600);
        assert_eq!(released_until(now, now), 10 + hour);
        let lease = now.plus(2 * RELEASED_FOR);
        assert_eq!(released_until(now, lease), 10 + 2 * hour);
    }
}
