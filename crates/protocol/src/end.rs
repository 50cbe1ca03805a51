//! An execution: the lease that it runs under, and how it ends. Its answer is stored, its failure kept,
//! or its key released; or a commit of its own has ended it before.
//!
//! Every write of an owner's that can end its record excludes the others by its condition: whichever the
//! store gets first lands, and the others are refused. What is told is what landed.

use std::time::Duration;

use super::acquire::{Granted, NothingHappened, released_until};
use super::condition::{Condition, Term};
use super::knowledge::Knowledge;
use super::lease::{LeaseTerm, Window};
use super::record::{Header, State, as_found};
use super::rules::Rules;
use super::time::{End as Instant, Now, Stamp, StoreTime, Timestamp, Uptime};
use super::tries::Tries;
use super::write::{Cause, Form, Machine, Outcome, Reply, Write};

/// How long an execution without a record tries to leave its answer behind after all.
const UNPROTECTED_TIMEOUT: Duration = Duration::from_secs(1);

/// How an execution has ended, or a commit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Ended {
    /// What was sent is in the table.
    Stored,
    /// An earlier commit of the execution's is, with its own answer: that of the record seen last.
    Landed,
    /// The failure is kept, or the key is released.
    Left,
    /// The record seen last is another's. Nothing of what was sent is in the tables; nor will a commit
    /// be.
    LeaseLost,
    /// The record was given up. A commit has not landed, and never will.
    NothingWritten(NothingHappened),
    /// A commit has had no effect, and never will: the handler goes on.
    Reopened(NothingHappened),
    /// A commit may have landed, or may yet.
    Unknown,
    /// The store was not heard of in time.
    Unconfirmed,
}

type Command = super::write::Command<Ended>;

/// What a failed execution leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leaving {
    Release,
    Keep,
    /// What was there before: nothing was executed.
    GiveBack,
}

/// Why a commit is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoCommit {
    Over(Ended),
    /// The handler has returned.
    Closed,
}

/// What became of a stamp on the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Renewal {
    Renewed,
    /// It is ours, and stamped wrong: by a clock that has jumped since.
    Wrong(Timestamp),
    Failed,
    /// The operation has ended: there is no lease any more.
    Ended,
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct End {
    rules: Rules,
    knowledge: Knowledge,
    /// What of the record no write of the execution's changes.
    attempt: u32,
    released_attempts: u32,
    /// `None` for an execution without a record, until its first write.
    created_at: Option<Timestamp>,
    taken: Option<Header>,
    /// None where no record protects, and once the lease is given up.
    window: Option<Window>,
    is_protected: bool,
    is_lost: bool,
    /// Ends that were stamped anew. Never stamped again, or else a late copy of what replaced them
    /// would be in force once more.
    replaced: Vec<Timestamp>,
    stage: Stage,
    step: Step,
    /// Of what is sent.
    tries: Tries,
    /// Of the last commit; no two completions of an execution have the same, which tells which landed.
    completed_at: Option<Timestamp>,
    /// When the last finished record was stamped.
    stamped_at: Uptime,
    /// At least one commit was sent, and a copy may be under way even if its caller was told of a refusal.
    has_committed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The handler has the word.
    Open,
    /// The operation is over, whatever its handler returns.
    Over(Ended),
    /// Its handler has returned.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Idle,
    /// The store's time is read, because no response has told it yet.
    Learning(Order),
    Sending(Write, Aim),
    /// What a refused write has lost to, where the store did not say; or what has become of a commit.
    Reading(Option<Write>, Aim),
    Pausing(Write, Aim),
    /// The execution has ended so, and its record expires too early.
    Extending(Write, Ended),
}

/// What is written once the store's time is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Order {
    /// With what is left of the record where the commit has to be given up.
    Commit {
        or: Leaving,
    },
    /// With the time until when the answer's parts are kept.
    Complete {
        kept_until: i64,
    },
    Leave(Leaving),
    /// A commit that was sent is resolved.
    Resolve(Timestamp, Leaving),
}

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Aim {
    Complete {
        completed_at: Timestamp,
    },
    /// With what is left of the record where the commit has to be given up.
    Commit {
        completed_at: Timestamp,
        or: Leaving,
    },
    /// The failure is kept, or the key is released; whether a try was never heard of.
    Leave {
        in_doubt: bool,
    },
    /// A commit of which nobody knows is put beyond doubt: the record is given up in its place.
    Resolve {
        completed_at: Timestamp,
    },
    /// What has become of a commit is read, and no more.
    Look,
}

impl Aim {
    /// The time that tells this completion from the execution's others.
    const fn completed_at(self) -> Option<Timestamp> {
        match self {
            Self::Complete { completed_at }
            | Self::Commit { completed_at, .. }
            | Self::Resolve { completed_at } => Some(completed_at),
            Self::Leave { .. } | Self::Look => None,
        }
    }
}

impl End {
    pub fn new(granted: Granted, rules: Rules, window: Option<Window>, now: Now) -> Self {
        let Granted { knowledge, taken, attempt, released_attempts, created_at } = granted;
        Self {
            rules,
            knowledge,
            attempt,
            released_attempts,
            created_at,
            taken,
            is_protected: window.is_some(),
            window,
            is_lost: false,
            replaced: Vec::new(),
            stage: Stage::Open,
            step: Step::Idle,
            tries: Tries::until(now.lasting(Duration::ZERO)),
            completed_at: None,
            stamped_at: now.local.uptime,
            has_committed: false,
        }
    }

    pub const fn window(&self) -> Option<Window> {
        self.window
    }

    pub const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// A write of a step's has met another owner.
    pub fn lose(&mut self) {
        self.is_lost = true;
    }

    /// A response has told the store's time: every one that comes while the lease is held.
    pub fn heard(&mut self, time: Option<StoreTime>) {
        if let (Some(window), Some(time)) = (&mut self.window, time) {
            *window = window.heard(time);
        }
    }

    /// The handler was stopped: nothing runs under the lease, and it is renewed no more.
    pub fn stop(&mut self) {
        self.window = None;
    }

    /// Nothing that a handler does now can be part of its operation. A commit that is under way is not
    /// counted: it may be refused.
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_) | Stage::Closed)
    }

    /// Whether a commit of this execution may land yet.
    pub fn has_commit_in_doubt(&self) -> bool {
        self.knowledge.may_transact()
    }

    /// The beginning of time where there is no lease.
    fn lease_expires_at(&self) -> Timestamp {
        self.window.map_or(Timestamp::from_millis(0), |window| window.lease_expires_at)
    }

    /// When the table may delete the finished record, in epoch seconds: not before the lease ends,
    /// even where the retention is shorter. A completion that arrives late is then no sooner gone
    /// than the time in which nobody else may run.
    fn expires_at(&self, ended_at: Timestamp) -> i64 {
        let retained = ended_at.plus(self.rules.retention);
        retained.max(self.lease_expires_at()).seconds_up()
    }

    /// As [`expires_at`](Self::expires_at), for a record whose answer has parts: they are written once,
    /// and must stay for as long as it does, however long its lease is renewed meanwhile.
    pub fn parts_expire_at(&self, stamp: Stamp) -> i64 {
        let ended_at = self.next_completion(stamp.at);
        let renewed = self.rules.lease.renewed(self.rules.deadline).unwrap_or_default();
        let longest = ended_at.plus(self.rules.completion_timeout).plus(renewed).seconds_up();
        self.expires_at(ended_at).max(longest)
    }

    /// About when the operation is completed, and until when its record is kept: for the size of the
    /// record, since the machine stamps what it sends.
    pub fn about(&self, now: Now) -> (Timestamp, i64) {
        let completed_at = self.next_completion(now.guess().0);
        (completed_at, self.expires_at(completed_at))
    }

    /// How long what ends the execution is tried from now on.
    pub fn tries_until(&self, now: Now) -> Instant {
        let longest =
            if self.is_protected { self.rules.completion_timeout } else { UNPROTECTED_TIMEOUT };
        self.rules.before_answer(now.lasting(longest))
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
        let counted = (self.attempt, self.released_attempts);
        let times = (self.created_at.unwrap_or(stamp.at), completed_at, expires_at);
        Header::of(self.knowledge.me(), state, counted, times)
    }
}

/// The lease.
impl End {
    /// The write that renews it; none where there is no lease any more.
    pub fn renewal(&self, now: Now) -> Option<Write> {
        self.window?;
        let stamp = now.stamp()?;
        let term = self.rules.held_term(stamp, self.rules.renewed_length()).unlike(&self.replaced);
        let is_shorter = Term::LeaseExpiresBefore(term.lease_expires_at);
        Some(self.stamp(stamp, term, self.held().and(is_shorter)))
    }

    /// What takes the place of a wrong stamp: never less than what the holder goes by, however late it
    /// arrives.
    pub fn restamp(&mut self, now: Now, wrong: Timestamp) -> Option<Write> {
        let (held, stamp) = (self.window?, now.stamp()?);
        if !self.replaced.contains(&wrong) {
            self.replaced.push(wrong);
        }
        let term = self.rules.held_term(stamp, self.rules.renewed_length());
        let term = term.not_before(held.lease_expires_at);
        let stamped = self.held().and(Term::LeaseExpiresAt(wrong));
        Some(self.stamp(stamp, term.unlike(&self.replaced), stamped))
    }

    /// [`renewed`](Self::renewed) verifies it.
    fn stamp(&self, stamp: Stamp, term: LeaseTerm, condition: Condition) -> Write {
        let state = State::Pending { lease_expires_at: term.lease_expires_at };
        let record = self.header(stamp, state, None, term.expires_at);
        Write { form: Form::Stamp, condition, record }
    }

    /// Goes by what a stamp has come to, if the store's time on its response says that it is right.
    pub fn renewed(&mut self, now: Now, write: &Write, reply: &Reply) -> Renewal {
        self.heard(reply.time);
        let lease_expires_at = match &reply.outcome {
            Outcome::Applied => write.record.state.lease_expires_at(),
            Outcome::Refused(Some(record)) if record.owner != *self.knowledge.me() => None,
            // A longer one of our own, from an earlier try; or our completion.
            Outcome::Refused(Some(record)) => match record.state.lease_expires_at() {
                Some(end) => Some(end),
                None => return Renewal::Ended,
            },
            Outcome::Refused(None) => None,
            Outcome::Found(_)
            | Outcome::Stale(_)
            | Outcome::Conflict
            | Outcome::Invalid
            | Outcome::NotApplied(_)
            | Outcome::ItemsRefused
            | Outcome::Unknown => return Renewal::Failed,
        };
        let Some(lease_expires_at) = lease_expires_at else {
            // What ends the record may be under way: whether the lease was lost is told by that alone.
            if !matches!(self.step, Step::Idle) || self.is_over() {
                return Renewal::Ended;
            }
            self.is_lost = true;
            return Renewal::Lost;
        };
        match self.rules.renewed_window(now, lease_expires_at, reply.time) {
            None => Renewal::Wrong(lease_expires_at),
            Some(window) => {
                self.window = self.window.map(|_| window);
                Renewal::Renewed
            }
        }
    }
}

/// How it ends.
impl End {
    /// Whether a commit may begin.
    pub fn may_commit(&self) -> Result<(), NoCommit> {
        match self.stage {
            Stage::Open => Ok(()),
            Stage::Over(ended) => Err(NoCommit::Over(ended)),
            Stage::Closed => Err(NoCommit::Closed),
        }
    }

    /// Items are about to be sent without a record. Until [`items_ended`](Self::items_ended) says otherwise,
    /// they may have been applied.
    pub fn begin_items(&mut self) -> Result<(), NoCommit> {
        match self.stage {
            Stage::Open => self.stage = Stage::Over(Ended::Unknown),
            Stage::Over(ended) => return Err(NoCommit::Over(ended)),
            Stage::Closed => return Err(NoCommit::Closed),
        }
        Ok(())
    }

    /// How they ended the operation; `None` if the handler goes on.
    pub fn items_ended(&mut self, ended: Option<Ended>) {
        self.stage = ended.map_or(Stage::Open, Stage::Over);
    }

    /// When an operation is completed that ends at `now`: at no commit's time.
    fn next_completion(&self, now: Timestamp) -> Timestamp {
        self.completed_at.map_or(now, |last| now.max(last.shifted(1)))
    }

    /// Sends the answer with its effect until `until`. `or`: what is left of the record where that is not
    /// heard of.
    pub fn commit(&mut self, now: Now, or: Leaving, until: Instant) -> Command {
        self.begin(now, Order::Commit { or }, until)
    }

    /// Stores the answer, at least until `kept_until` in epoch seconds.
    pub fn complete(&mut self, now: Now, kept_until: i64, until: Instant) -> Command {
        self.stage = Stage::Closed;
        self.begin(now, Order::Complete { kept_until }, until)
    }

    /// The handler has failed, or said that it has executed nothing.
    pub fn leave(&mut self, now: Now, leaving: Leaving) -> Command {
        self.stage = Stage::Closed;
        let until = self.tries_until(now);
        self.begin(now, Order::Leave(leaving), until)
    }

    /// Of the last commit that was sent.
    pub const fn completed_at(&self) -> Option<Timestamp> {
        self.completed_at
    }

    fn begin(&mut self, now: Now, order: Order, until: Instant) -> Command {
        self.tries = Tries::until(until);
        self.carry_out(now, order)
    }

    /// A process that has never learned the store's time reads first: an execution without a record may
    /// not have heard of the store at all.
    fn carry_out(&mut self, now: Now, order: Order) -> Command {
        let Some(stamp) = now.stamp() else { return self.learn(now, order) };
        self.created_at.get_or_insert(stamp.at);
        self.stamped_at = stamp.made;
        let (write, aim) = match order {
            Order::Commit { or } => self.commit_write(stamp, or),
            Order::Complete { kept_until } => self.completion(stamp, kept_until),
            Order::Leave(leaving) => (self.leaving(stamp, leaving), Aim::Leave { in_doubt: false }),
            Order::Resolve(completed_at, leaving) => {
                (self.leaving(stamp, leaving), Aim::Resolve { completed_at })
            }
        };
        self.send(now, write, aim)
    }

    fn learn(&mut self, now: Now, order: Order) -> Command {
        self.step = Step::Learning(order);
        Command::Read { is_consistent: true, limit: self.tries.limit(now) }
    }

    /// The store's time was read; or was to be, and the store has not answered.
    fn learned(&mut self, now: Now, order: Order) -> Command {
        if now.stamp().is_some() {
            return self.carry_out(now, order);
        }
        if let Some(bound) = self.tries.pause(now) {
            self.step = Step::Learning(order);
            return Command::Pause { bound, max: bound };
        }
        match (order, self.knowledge.no_effect()) {
            (Order::Commit { .. }, Some(proof)) => {
                Command::Stop(Ended::Reopened(NothingHappened::for_sure(&proof)))
            }
            (Order::Resolve(..), _) | (Order::Commit { .. }, None) => self.over(Ended::Unknown),
            (Order::Complete { .. } | Order::Leave(_), _) => Command::Stop(Ended::Unconfirmed),
        }
    }

    fn commit_write(&mut self, stamp: Stamp, or: Leaving) -> (Write, Aim) {
        let completed_at = self.next_completion(stamp.at);
        self.completed_at = Some(completed_at);
        self.has_committed = true;
        let condition = if self.is_protected { self.held() } else { self.completable() };
        let expires_at = self.expires_at(completed_at);
        let record = self.header(stamp, State::Completed, Some(completed_at), expires_at);
        (Write { form: Form::Transaction, condition, record }, Aim::Commit { completed_at, or })
    }

    fn completion(&self, stamp: Stamp, kept_until: i64) -> (Write, Aim) {
        let completed_at = self.next_completion(stamp.at);
        let condition = if self.rules.replaces_completed() {
            // An answer may be replaced, and the record be released after that. A late copy would bring the
            // same version back.
            Condition::held_by_or_absent(*self.knowledge.me())
        } else {
            self.completable()
        };
        let expires_at = self.expires_at(completed_at).max(kept_until);
        let record = self.header(stamp, State::Completed, Some(completed_at), expires_at);
        (Write { form: Form::Put, condition, record }, Aim::Complete { completed_at })
    }

    fn leaving(&self, stamp: Stamp, leaving: Leaving) -> Write {
        let kept = self.expires_at(stamp.at);
        let kept = self.header(stamp, State::Failed, Some(stamp.at), kept);
        // The attempt was told, and does not count.
        let released_attempts = self.released_attempts.saturating_add(1);
        let given_back = Header { released_attempts, ..kept.clone() };
        let kept = match leaving {
            Leaving::Release => None,
            Leaving::Keep => Some(kept),
            Leaving::GiveBack => as_found(self.taken.as_ref(), &given_back),
        };
        let Some(record) = kept else {
            let until = released_until(stamp.at, self.lease_expires_at());
            let record = self.header(stamp, State::Released, None, until);
            let condition = self.held().and(Term::NoSteps);
            return Write { form: Form::Update, condition, record };
        };
        Write { form: Form::Update, condition: self.held(), record }
    }

    /// The handler has returned: how its commits have ended it, if they have. One that its caller has not
    /// waited for is put beyond doubt first: the record is given up as `leaving`, unless it has landed.
    pub fn close(&mut self, now: Now, leaving: Leaving) -> Option<Command> {
        let interrupted = self.interrupted();
        if let Stage::Over(ended) = self.stage {
            return Some(Command::Stop(ended));
        }
        self.stage = Stage::Closed;
        interrupted.map(|completed_at| self.resolve(now, completed_at, leaving))
    }

    /// The handler was stopped, since its lease has ended: how its commits have ended it, if they have. One
    /// that nobody has heard of is looked for, and no more: it may land as long as nobody has taken the
    /// record, and to give that up would let the operation run again at once, whatever else its handler
    /// had done.
    pub fn expire(&mut self, now: Now) -> Option<Command> {
        let interrupted = self.interrupted();
        match self.stage {
            Stage::Over(Ended::NothingWritten(_)) => return None,
            Stage::Over(ended) => return Some(Command::Stop(ended)),
            Stage::Open | Stage::Closed => self.stage = Stage::Closed,
        }
        interrupted?;
        self.tries.until = self.tries_until(now);
        Some(self.read(now, None, Aim::Look))
    }

    /// A commit whose caller has not waited for its end.
    fn interrupted(&mut self) -> Option<Timestamp> {
        let aim = match std::mem::replace(&mut self.step, Step::Idle) {
            // Nothing was sent yet, or the end is known.
            Step::Idle | Step::Learning(_) | Step::Extending(..) => return None,
            Step::Sending(write, aim) => {
                self.knowledge.lose(&write);
                aim
            }
            Step::Reading(_, aim) | Step::Pausing(_, aim) => aim,
        };
        aim.completed_at()
    }

    /// Gives the record up, so that a commit under way can never land: it asks for a pending record, and
    /// this one never is pending again in these hands. An execution without a record has none to give
    /// up, and a commit of its can land wherever there is no record: it can only look.
    fn resolve(&mut self, now: Now, completed_at: Timestamp, leaving: Leaving) -> Command {
        let aim = Aim::Resolve { completed_at };
        let until = self.tries_until(now);
        if self.is_protected {
            return self.begin(now, Order::Resolve(completed_at, leaving), until);
        }
        self.tries.until = until;
        self.read(now, None, aim)
    }

    fn send(&mut self, now: Now, mut write: Write, aim: Aim) -> Command {
        // The lease may be renewed between two tries, and no record expires before it ends.
        if write.record.is_completed() {
            let lease_ends = self.lease_expires_at().seconds_up();
            write.record.expires_at = write.record.expires_at.max(lease_ends);
        }
        self.knowledge.send(&write);
        self.step = Step::Sending(write.clone(), aim);
        Command::Send { write, limit: self.tries.limit(now) }
    }

    fn read(&mut self, now: Now, write: Option<Write>, aim: Aim) -> Command {
        self.step = Step::Reading(write, aim);
        Command::Read { is_consistent: true, limit: self.tries.limit(now) }
    }

    /// The same once more, if there is time.
    fn again(&mut self, now: Now, write: Option<Write>, aim: Aim) -> Command {
        let has_time = self.is_protected || matches!(aim, Aim::Commit { .. });
        match (write, self.tries.pause(now)) {
            (Some(write), Some(bound)) if has_time => {
                self.step = Step::Pausing(write, aim);
                Command::Pause { bound, max: bound }
            }
            _ => self.out_of_time(now, aim),
        }
    }

    fn out_of_time(&mut self, now: Now, aim: Aim) -> Command {
        match aim {
            Aim::Commit { completed_at, or } => match self.knowledge.no_effect() {
                Some(proof) => Command::Stop(Ended::Reopened(NothingHappened::for_sure(&proof))),
                None => self.resolve(now, completed_at, or),
            },
            Aim::Resolve { .. } => self.over(Ended::Unknown),
            Aim::Complete { .. } | Aim::Leave { .. } if self.has_commit_in_doubt() => {
                self.concluded(aim, Ended::Unknown)
            }
            Aim::Complete { .. } | Aim::Leave { .. } => Command::Stop(Ended::Unconfirmed),
            Aim::Look => Command::Stop(Ended::Unknown),
        }
    }

    fn over(&mut self, ended: Ended) -> Command {
        self.stage = Stage::Over(ended);
        Command::Stop(ended)
    }

    fn sent(&mut self, now: Now, outcome: &Outcome, write: Write, aim: Aim) -> Command {
        match outcome {
            Outcome::Applied => match aim {
                Aim::Complete { .. } | Aim::Commit { .. } => self.concluded(aim, Ended::Stored),
                Aim::Leave { .. } | Aim::Resolve { .. } | Aim::Look => self.given_up(aim),
            },
            Outcome::Refused(Some(_)) => self.found(now, Some(write), aim),
            // There is no record: nothing is left to be changed.
            Outcome::Refused(None) if matches!(aim, Aim::Leave { .. }) => self.given_up(aim),
            Outcome::Refused(None) => self.read(now, Some(write), aim),
            // Where an earlier try may land, the record is given up, and the operation is over.
            Outcome::ItemsRefused => self.out_of_time(now, aim),
            Outcome::NotApplied(Cause::Other)
                if matches!(aim, Aim::Commit { .. }) && !self.has_commit_in_doubt() =>
            {
                self.out_of_time(now, aim)
            }
            Outcome::Unknown => {
                let aim = match aim {
                    Aim::Leave { .. } => Aim::Leave { in_doubt: true },
                    other => other,
                };
                self.again(now, Some(write), aim)
            }
            Outcome::Found(_)
            | Outcome::Stale(_)
            | Outcome::Conflict
            | Outcome::Invalid
            | Outcome::NotApplied(_) => self.again(now, Some(write), aim),
        }
    }

    /// The same write over a record that was released after a later attempt: what was told of it stays
    /// told, and the number never falls.
    fn over_released(&self, write: Option<&Write>) -> Option<Write> {
        let (write, seen) = (write?, self.knowledge.seen().record()?);
        let is_later = write.condition.latest_released_attempt()? < seen.attempt;
        let condition = Condition::completable_by(*self.knowledge.me(), seen.attempt);
        let record = Header { attempt: seen.attempt, ..write.record.clone() };
        (is_later && seen.state == State::Released).then_some(Write { condition, record, ..*write })
    }

    /// A record was seen, or that there is none.
    fn found(&mut self, now: Now, write: Option<Write>, aim: Aim) -> Command {
        if let Some(write) = self.over_released(write.as_ref()) {
            return self.send(now, write, aim);
        }
        let own = self.knowledge.own().map(|own| (own.state, own.completed_at));
        match own {
            Some((State::Completed, _))
                if matches!(aim, Aim::Leave { .. }) && !self.has_committed =>
            {
                Command::Stop(Ended::Left)
            }
            Some((State::Completed, completed_at)) => {
                let is_this = completed_at.is_some() && completed_at == aim.completed_at();
                self.concluded(aim, if is_this { Ended::Stored } else { Ended::Landed })
            }
            Some((State::Pending { .. }, _)) => self.again(now, write, aim),
            Some((State::Failed | State::Released, _)) => match aim {
                Aim::Commit { .. } | Aim::Resolve { .. } | Aim::Leave { .. } => self.given_up(aim),
                Aim::Complete { .. } => self.lost(now, aim),
                Aim::Look => Command::Stop(Ended::Unknown),
            },
            None if self.knowledge.seen().record().is_some() => self.lost(now, aim),
            // Past its retention, or deleted by hand.
            None => match aim {
                Aim::Leave { .. } | Aim::Resolve { .. } => self.given_up(aim),
                Aim::Commit { .. } if self.is_protected => self.lost(now, aim),
                Aim::Commit { .. } | Aim::Complete { .. } => self.again(now, write, aim),
                Aim::Look => Command::Stop(Ended::Unknown),
            },
        }
    }

    /// The record is in nobody's hands, or a failed one.
    fn given_up(&mut self, aim: Aim) -> Command {
        let nothing = self.knowledge.no_effect().map(|proof| NothingHappened::for_sure(&proof));
        match (aim, nothing) {
            (Aim::Leave { .. }, _) if !self.has_commit_in_doubt() => Command::Stop(Ended::Left),
            (Aim::Leave { .. }, _) | (_, None) => self.over(Ended::Unknown),
            (_, Some(nothing)) => self.over(Ended::NothingWritten(nothing)),
        }
    }

    /// The record is another's.
    fn lost(&mut self, now: Now, aim: Aim) -> Command {
        let may_be_gone =
            self.rules.replaces_completed() && self.knowledge.may_have_been_replaced();
        let is_settled = self.knowledge.no_effect().is_some() && !may_be_gone;
        match aim {
            // Within the lease nobody has taken the record but after an earlier try.
            Aim::Leave { in_doubt: true }
                if self.window.is_some_and(|held| !now.is_over(held.end)) =>
            {
                self.given_up(aim)
            }
            Aim::Leave { .. } | Aim::Complete { .. }
                if !self.has_commit_in_doubt() && !may_be_gone =>
            {
                Command::Stop(Ended::LeaseLost)
            }
            Aim::Commit { .. } | Aim::Resolve { .. } | Aim::Look if is_settled => {
                self.is_lost = true;
                self.over(Ended::LeaseLost)
            }
            Aim::Leave { .. }
            | Aim::Complete { .. }
            | Aim::Commit { .. }
            | Aim::Resolve { .. }
            | Aim::Look => self.concluded(aim, Ended::Unknown),
        }
    }

    /// What a commit has come to, the operation has; of a completion its caller alone is told.
    fn concluded(&mut self, aim: Aim, ended: Ended) -> Command {
        match aim {
            Aim::Complete { .. } => Command::Stop(ended),
            Aim::Commit { .. } | Aim::Leave { .. } | Aim::Resolve { .. } | Aim::Look => {
                self.over(ended)
            }
        }
    }
}

impl Machine for End {
    type Stop = Ended;

    fn replied(&mut self, now: Now, reply: &Reply) -> Command {
        self.heard(reply.time);
        let command = match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Sending(write, aim) => {
                self.knowledge.learn(reply, Some(&write));
                self.sent(now, &reply.outcome, write, aim)
            }
            Step::Learning(order) => {
                self.knowledge.learn(reply, None);
                return self.learned(now, order);
            }
            Step::Reading(write, aim) => {
                self.knowledge.learn(reply, None);
                match reply.outcome {
                    Outcome::Found(_) => self.found(now, write, aim),
                    _ => self.again(now, write, aim),
                }
            }
            Step::Extending(write, ended) => {
                self.knowledge.learn(reply, Some(&write));
                return self.extended(now, &reply.outcome, write, ended);
            }
            Step::Pausing(write, aim) => return self.send(now, write, aim),
            Step::Idle => return Command::Stop(Ended::Unconfirmed),
        };
        self.verified(now, reply, command)
    }

    fn woke(&mut self, now: Now) -> Command {
        match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Learning(order) => self.learn(now, order),
            Step::Sending(write, aim) | Step::Pausing(write, aim) => self.send(now, write, aim),
            Step::Reading(write, aim) => self.read(now, write, aim),
            Step::Extending(write, ended) => self.extend(now, write, ended),
            Step::Idle => Command::Stop(Ended::Unconfirmed),
        }
    }
}

/// How long what an execution leaves behind is kept.
impl End {
    /// Before the execution ends: a finished record that was stamped by a clock that had jumped, and that
    /// expires too early, is kept for longer by one more write.
    fn verified(&mut self, now: Now, reply: &Reply, command: Command) -> Command {
        let Command::Stop(ended) = command else { return command };
        let shown = self.knowledge.shown_by(reply, false);
        let extension =
            shown.and_then(|record| self.rules.extension(record, self.stamped_at, reply.time));
        match extension {
            Some(write) => self.extend(now, write, ended),
            None => Command::Stop(ended),
        }
    }

    fn extend(&mut self, now: Now, write: Write, ended: Ended) -> Command {
        self.knowledge.send(&write);
        self.step = Step::Extending(write.clone(), ended);
        Command::Send { write, limit: self.tries.limit(now) }
    }

    /// How the execution ends does not depend on it.
    fn extended(&mut self, now: Now, outcome: &Outcome, write: Write, ended: Ended) -> Command {
        match self.tries.pause(now) {
            Some(bound) if !outcome.is_final() => {
                self.step = Step::Extending(write, ended);
                Command::Pause { bound, max: bound }
            }
            _ => Command::Stop(ended),
        }
    }
}
