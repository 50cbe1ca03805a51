//! Checks every event of a schedule against what is promised. The ledger looks at the store and at
//! what callers are told, never at the crate's own idea of it.

use std::collections::{BTreeMap, BTreeSet};

use dynamodb_idempotency::{ErrorKind, Execution};
use serde_json::Value;

use crate::expression::number;
use crate::guarantee::{Ended, Guarantee, Violation};
use crate::store::{Executed, Item, Operation, is_expired};
use crate::world::{End, Request, digest_of};

/// By how much a stamp may be short: the clock tolerance and the second to which a `Date` is exact.
const STAMP_TOLERANCE: i64 = 2_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Work {
    #[default]
    NotBegun,
    Running,
    /// It ran to success and the call goes on.
    Succeeded,
    /// It died, or could not confirm its completion: its effect may have happened.
    Lost,
    Failed,
    Over,
    /// It is over, and no handler has begun.
    Skipped,
}

impl Work {
    /// Once the call has ended.
    fn over(self) -> Self {
        if self == Self::NotBegun { Self::Skipped } else { Self::Over }
    }
}

#[derive(Debug, Default, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
struct Party {
    work: Work,
    is_protected: bool,
    /// The end of the lease that the store has confirmed to it, epoch milliseconds.
    lease: Option<i64>,
    /// How often its clocks were set or stood still since its lease was confirmed.
    clocks_turned: u32,
    /// The end of the lease in its last record in the table, whether it knows of it or not.
    stamped: Option<i64>,
    /// Its answer is in the table.
    has_completed: bool,
    /// How many of its writes changed something, as it was told.
    changes: u32,
    /// Its last write was answered.
    was_heard: bool,
    /// The last record that it was shown was its own.
    saw_itself: bool,
    /// The last record that it was shown was not the one that was there.
    saw_stale: bool,
    /// The last record that it was shown was held by another one.
    saw_owner: bool,
    /// The last record that it was shown was in nobody's hands.
    saw_released: bool,
    /// While it was there, another one has held the record.
    met_owner: bool,
    /// When it began, epoch milliseconds.
    started: i64,
    /// How many writes it has sent.
    writes: u32,
    transaction: Transaction,
}

/// A call gives up a key that it has tried so often to write to.
const CONTENDED: u32 = 8;

/// A caller's own transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Transaction {
    #[default]
    None,
    Sent,
    /// It was told that it was not executed, and never will be.
    Refused,
}

impl Party {
    /// Drops what no later check asks for, so that equivalent states are equal.
    fn forget(&mut self) {
        let Self { work, is_protected, lease, has_completed, transaction, .. } = *self;
        *self = Self { work, transaction, ..Self::default() };
        if work == Work::Lost {
            self.is_protected = is_protected;
            self.lease = lease;
            self.has_completed = has_completed;
        }
    }

    /// Whether its lease, promised by the store, still protects what it did or does.
    fn is_live(&self, now: i64) -> bool {
        self.is_protected
            && !self.has_completed
            && matches!(self.work, Work::Running | Work::Succeeded | Work::Lost)
            && self.lease.is_some_and(|lease| now <= lease)
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    parties: Vec<Party>,
    /// Successful runs in the record's present life.
    successes: u32,
    /// Transactions in the record's present life.
    effects: u32,
    /// The highest number that a handler was told in the record's present life.
    attempts: i64,
    /// How many handlers have begun under it in the record's present life, but for those that have executed
    /// nothing; and how many may.
    executions: u32,
    pub(crate) max_attempts: Option<u32>,
    /// Steps whose result was stored in the record's present life.
    steps: BTreeSet<String>,
    /// Something happened after which the handler may run again.
    may_repeat: bool,
    /// When an owner last gave the record up or ended, epoch milliseconds.
    owner_left: Option<i64>,
    /// Every answer that was ever stored, and to when, in epoch seconds.
    answers: BTreeMap<String, i64>,
    /// Every failure that was.
    failures: BTreeSet<String>,
    violation: Option<Violation>,
}

impl Ledger {
    pub(crate) fn new(callers: usize) -> Self {
        Self {
            parties: (0..callers).map(|_| Party::default()).collect(),
            successes: 0,
            effects: 0,
            attempts: 0,
            executions: 0,
            max_attempts: None,
            steps: BTreeSet::new(),
            may_repeat: false,
            owner_left: None,
            answers: BTreeMap::new(),
            failures: BTreeSet::new(),
            violation: None,
        }
    }

    pub(crate) fn add_party(&mut self) {
        self.parties.push(Party::default());
    }

    /// All that later checks depend on.
    pub(crate) fn digest(&self) -> u64 {
        let Self { parties, successes, effects, attempts, steps, may_repeat, .. } = self;
        let life = (successes, effects, attempts, self.executions, steps);
        digest_of((parties, life, may_repeat, &self.answers, &self.failures))
    }

    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(crate) fn check(&mut self, holds: bool, guarantee: Guarantee, detail: impl Into<String>) {
        if !holds && self.violation.is_none() {
            self.violation = Some(Violation { guarantee, detail: detail.into() });
        }
    }

    /// The store has executed a request.
    pub(crate) fn applied(
        &mut self,
        now: i64,
        request: &Request,
        executed: &Executed,
        is_heard: bool,
        answer: Option<String>,
    ) {
        if executed.is_refused || request.operation == Operation::Get || request.is_of_a_part() {
            return;
        }
        let (me, before) = (request.caller, executed.before.as_ref());
        let after = executed.after.as_ref().expect("the crate deletes nothing");
        // An acquisition that its caller never heard of can lock a key for a lease: not promised away.
        self.parties[me].changes += u32::from(before != Some(after) && is_heard);
        if let Some(before) = before {
            if status(before) == "PENDING" && status(after) != "PENDING" {
                self.owner_left = Some(now);
            }
            self.overwritten(now, me, before, after, request.operation);
            let detail = format!("{} leaves {} after {}", name(me), attempt(after), self.attempts);
            let is_counted = attempt(after) >= self.attempts;
            self.check(is_counted, Guarantee::AttemptsAreCounted, detail);
        }
        if request.operation == Operation::Transact {
            self.transacted(me);
        }
        let is_own = status(after) == "PENDING" && owner(after) == me;
        if is_own && self.parties[me].work == Work::Lost {
            // A lease of its own in the place of a wrong one, and nobody goes by either any more.
            self.parties[me].lease = lease(after);
        }
        let gives_up = matches!(status(after), "FAILED" | "RELEASED");
        if gives_up && self.parties[me].transaction != Transaction::None {
            // It has given its record up: its effect can land no more, even if it does not know.
            self.parties[me].lease = None;
            self.commit_failed(me);
        }
        if status(after) == "PENDING" {
            let others = self.parties.iter_mut().enumerate().filter(|(i, _)| *i != owner(after));
            others.for_each(|(_, party)| party.met_owner = true);
        }
        if status(after) == "RELEASED" {
            let is_forgotten = self.max_attempts.is_some() && self.executions > 0;
            let detail = format!("{} releases after {} executions", name(me), self.executions);
            self.check(!is_forgotten, Guarantee::AttemptsAreCounted, detail);
            // Whoever takes back its own record has left nothing that counts.
            self.parties[me].changes = 0;
        }
        if owner(after) == me {
            self.parties[me].stamped = lease(after).or(self.parties[me].stamped);
        }
        let steps = after.get("steps").and_then(|steps| steps["M"].as_object());
        self.steps.extend(steps.into_iter().flat_map(|steps| steps.keys().cloned()));
        match status(after) {
            "COMPLETED" => {
                self.parties[me].has_completed |= owner(after) == me;
                self.completed(me, after, answer);
            }
            "FAILED" => self.failures.extend(answer),
            _ => {}
        }
    }

    /// A finished record has its answer, all of it, beside it or in it: all answers here are small.
    fn completed(&mut self, me: usize, record: &Item, answer: Option<String>) {
        let detail = format!("{} completed with {}", name(me), record["response"]);
        self.check(answer.is_some(), Guarantee::AnswersAreStored, detail);
        let until = record.get("expires_at").map_or(0, number);
        self.answers.extend(answer.map(|answer| (answer, until)));
    }

    /// A call begins, and this is the record. What happened in the same millisecond, it cannot tell
    /// from what happens now.
    pub(crate) fn started(&mut self, me: usize, now: i64, record: Option<&Item>) {
        let has_just_left = self.owner_left == Some(now);
        let party = &mut self.parties[me];
        party.started = now;
        party.met_owner = has_just_left || record.is_some_and(|record| status(record) == "PENDING");
    }

    /// A caller sends a write.
    pub(crate) fn writes(&mut self, me: usize) {
        self.parties[me].writes += 1;
    }

    /// What a caller was shown last is not what is there.
    pub(crate) fn heard_stale(&mut self, request: &Request) {
        self.parties[request.caller].saw_stale = !request.is_of_a_part();
    }

    /// A caller has no answer to a request of its.
    pub(crate) fn unheard(&mut self, request: &Request) {
        // Whatever it was shown before, it has not gone by that alone.
        self.parties[request.caller].saw_stale &= request.is_of_a_part();
        self.parties[request.caller].was_heard &= request.operation == Operation::Get;
    }

    fn overwritten(
        &mut self,
        now: i64,
        me: usize,
        before: &Item,
        after: &Item,
        operation: Operation,
    ) {
        let is_over = !is_held(before, now) && is_expired(before, now);
        if is_over {
            self.life_ends(before);
        }
        if status(before) == "COMPLETED" && !is_over {
            let same =
                status(after) == "COMPLETED" && after.get("response") == before.get("response");
            let detail = format!("{} wrote over the answer of {}", name(me), name(owner(before)));
            return self.check(same, Guarantee::CompletedAnswerStays, detail);
        }
        if owner(before) == me {
            return;
        }
        let who = format!("{} over {}'s {}", name(me), name(owner(before)), status(before));
        let own = Some(after).filter(|after| owner(after) == me);
        let taken = own.filter(|own| status(own) == "PENDING");
        // A whole operation as one transaction, or the word of a hook: nothing ran before it.
        let settled =
            own.is_some() && matches!(self.parties[me].work, Work::NotBegun | Work::Skipped);
        let by_a_hook = settled
            && operation == Operation::Put
            && own.is_some_and(|own| status(own) == "COMPLETED");
        self.successes += u32::from(by_a_hook);
        // What nobody holds, the answer of an effect that has happened may replace.
        let completed = own.is_some_and(|own| status(own) == "COMPLETED");
        // A lease that is over ends a little later, so that no late write meets the one that it asks for.
        let displaced = owner(after) == owner(before)
            && lease(after).zip(lease(before)).is_some_and(|(after, before)| after == before + 1);
        let is_fair = taken.is_some()
            || settled
            || (status(before) == "RELEASED" && completed)
            || (status(after) == "PENDING" && displaced);
        self.check(is_fair, Guarantee::ForeignRecordStays, who.clone());
        self.check(!is_held(before, now), Guarantee::OneLiveOwner, format!("{who}, lease live"));
        if let Some(taken) = taken.filter(|_| !is_over) {
            let counts = attempt(taken) > attempt(before);
            self.check(counts, Guarantee::AttemptsAreCounted, who);
        }
    }

    /// TTL has deleted what was past its retention.
    pub(crate) fn expired(&mut self, item: &Item) {
        self.life_ends(item);
    }

    fn life_ends(&mut self, item: &Item) {
        self.steps.clear();
        (self.attempts, self.executions) = (0, 0);
        if status(item) == "COMPLETED" {
            (self.successes, self.effects) = (0, 0);
        }
    }

    /// A handler's commit has failed: as far as it knows, it has come to nothing.
    pub(crate) fn commit_failed(&mut self, me: usize) {
        let party = &mut self.parties[me];
        if party.work == Work::Succeeded {
            party.work = Work::Failed;
            self.successes -= u32::from(party.is_protected);
        }
    }

    /// A caller sends a transaction.
    pub(crate) fn transacts(&mut self, me: usize) {
        self.parties[me].transaction = Transaction::Sent;
    }

    fn transacted(&mut self, me: usize) {
        self.effects += 1;
        let detail = format!("{} is number {}", name(me), self.effects);
        self.check(self.effects == 1, Guarantee::EffectsOnce, detail);
        let told = self.parties[me].transaction == Transaction::Refused;
        let detail = format!("{} was told otherwise", name(me));
        self.check(!told, Guarantee::EffectsOnce, detail);
        if self.parties[me].work == Work::NotBegun {
            self.parties[me].work = Work::Succeeded;
        }
    }

    /// A caller got the store's own answer to a request.
    pub(crate) fn heard(&mut self, now: i64, request: &Request, executed: &Executed) {
        if request.is_of_a_part() {
            return;
        }
        let me = request.caller;
        self.parties[me].saw_stale = false;
        self.parties[me].was_heard |= request.operation != Operation::Get;
        let is_answer = executed.is_refused || request.operation == Operation::Get;
        let shown = executed.before.as_ref().filter(|_| is_answer);
        let own = |item: &&Item| owner(item) == me;
        let party = &mut self.parties[me];
        party.saw_owner = shown.is_some_and(|item| !own(&item) && is_held(item, now));
        if is_answer {
            party.saw_itself = shown.is_some_and(|item| own(&item));
            party.saw_released = shown.is_some_and(|item| status(item) == "RELEASED");
        }
        let record = if is_answer { shown } else { executed.after.as_ref() };
        let promised = record.filter(own).and_then(lease);
        let began = party.work != Work::NotBegun;
        // A read of a running owner's is about something else; a refused renewal shows what it has.
        let is_read = request.operation == Operation::Get;
        if let Some(lease) = promised.filter(|_| !(began && is_read)) {
            party.lease = Some(lease);
            party.clocks_turned = 0;
            if matches!(party.work, Work::Running | Work::Succeeded) {
                self.check_alone(me, now);
            }
        }
    }

    pub(crate) fn handler_started(
        &mut self,
        me: usize,
        now: i64,
        execution: &Execution,
        record: Option<&Item>,
    ) {
        let party = &mut self.parties[me];
        let begun = party.work != Work::NotBegun;
        party.work = Work::Running;
        party.is_protected = execution.is_protected();
        let Party { lease, saw_owner, .. } = *party;
        self.check(!begun, Guarantee::OutcomeFits, format!("{} runs twice in one call", name(me)));
        if !execution.is_protected() {
            let detail = format!("{} runs without a record beside an owner it has seen", name(me));
            self.check(!saw_owner, Guarantee::OneLiveOwner, detail);
            self.may_repeat = true;
            return;
        }
        let holds = lease.is_some_and(|lease| lease + STAMP_TOLERANCE >= now);
        let detail = format!("{} starts at {now}, its lease is {lease:?}", name(me));
        self.check(holds, Guarantee::LeaseHoldsAtStart, detail);
        let told = i64::from(execution.attempt());
        let detail = format!("{} is told {told} after {}", name(me), self.attempts);
        self.check(told > self.attempts, Guarantee::AttemptsAreCounted, detail);
        self.attempts = told;
        self.executions += 1;
        let is_allowed = self.max_attempts.is_none_or(|most| self.executions <= most);
        let detail = format!("{} is execution {}", name(me), self.executions);
        self.check(is_allowed, Guarantee::AttemptsAreCounted, detail);
        if let Some(record) = record.filter(|record| owner(record) == me) {
            let detail =
                format!("{} is told {told}, the record says {}", name(me), attempt(record));
            self.check(told == attempt(record), Guarantee::AttemptsAreCounted, detail);
        }
        self.check_alone(me, now);
    }

    /// A clock of a caller's was set, or stands still.
    pub(crate) fn clock_turned(&mut self, me: usize) {
        self.parties[me].clocks_turned += 1;
    }

    /// A handler is polled, which has begun earlier.
    pub(crate) fn polled(&mut self, me: usize, now: i64) {
        let Party { is_protected, clocks_turned, lease, .. } = self.parties[me];
        // Without a lease it has given its record up.
        let is_over = lease.is_some_and(|lease| lease < now);
        let is_in_time = !is_protected || clocks_turned > 1 || !is_over;
        let detail = format!("{} is polled at {now}, its lease is {lease:?}", name(me));
        self.check(is_in_time, Guarantee::NotPastTheLease, detail);
    }

    /// An owner does the work of a step: not if its own record has it from an earlier attempt, and
    /// under a live lease not if any record of this operation ever had it.
    pub(crate) fn step_started(&mut self, me: usize, now: i64, step: &str, record: Option<&Item>) {
        let own = record.filter(|record| owner(record) == me);
        let stored = own.and_then(|record| record.get("steps")?["M"].get(step));
        let was_stored = self.steps.contains(step) && self.parties[me].is_live(now);
        let detail = format!("{} does step {step}, which is stored: {stored:?}", name(me));
        self.check(stored.is_none() && !was_stored, Guarantee::StoredStepsStay, detail);
    }

    fn check_alone(&mut self, me: usize, now: i64) {
        let other = (0..self.parties.len()).find(|&i| i != me && self.parties[i].is_live(now));
        if let Some(other) = other {
            let detail = format!("{} and {} at {now}", name(me), name(other));
            self.check(false, Guarantee::OneLiveOwner, detail);
        }
    }

    pub(crate) fn handler_ended(&mut self, me: usize, end: End) {
        let party = &mut self.parties[me];
        party.work = if end == End::Succeed { Work::Succeeded } else { Work::Failed };
        self.successes += u32::from(end == End::Succeed && party.is_protected);
        let executed_nothing = end == End::Decline && party.is_protected;
        self.executions = self.executions.saturating_sub(u32::from(executed_nothing));
    }

    /// Time has passed: whoever outlives its lease may see its work repeated.
    pub(crate) fn time_passed(&mut self, now: i64) {
        self.may_repeat |= self.parties.iter().any(|party| {
            matches!(party.work, Work::Running | Work::Succeeded)
                && !party.has_completed
                && party.lease.is_some_and(|lease| lease < now)
        });
    }

    pub(crate) fn died(&mut self, me: usize) {
        let party = &mut self.parties[me];
        if matches!(party.work, Work::Running | Work::Succeeded) {
            self.may_repeat |= !party.has_completed;
            party.work = Work::Lost;
        } else {
            party.work = party.work.over();
        }
        party.forget();
    }

    /// A call has ended: does its outcome fit?
    pub(crate) fn ended(&mut self, me: usize, now: i64, ended: &Ended) {
        let party = &mut self.parties[me];
        let (work, completed) = (party.work, party.has_completed);
        party.work = work.over();
        if party.transaction == Transaction::Sent && says_nothing_happened(ended) {
            party.transaction = Transaction::Refused;
        }
        match ended {
            Ended::Executed(answer) => {
                let stored = completed && self.answers.contains_key(&json(answer));
                self.check(stored, Guarantee::AnswersAreStored, format!("{ended:?}"));
                let committed = self.parties[me].transaction == Transaction::Sent;
                self.fits(work == Work::Succeeded || committed, me, ended);
            }
            Ended::Reconciled(answer) => {
                let stored = completed && self.answers.contains_key(&json(answer));
                self.check(stored, Guarantee::AnswersAreStored, format!("{ended:?}"));
                self.fits(work == Work::NotBegun, me, ended);
            }
            Ended::Replayed(answer) => {
                // A `Date` is exact to the second.
                let until = self.answers.get(&json(answer)).map(|until| (until + 1) * 1000);
                let stored = until.is_some_and(|until| self.parties[me].started < until);
                self.check(stored, Guarantee::AnswersAreStored, format!("{ended:?}"));
                if work == Work::NotBegun {
                    self.rejected(me, now);
                }
            }
            Ended::HandlerError(error) => {
                let stored = work == Work::Failed || self.failures.contains(&json(error));
                self.check(stored, Guarantee::AnswersAreStored, format!("{ended:?}"));
            }
            Ended::NothingExecuted(_) => self.fits(work == Work::Failed, me, ended),
            Ended::Unprotected(_) => self.fits(work == Work::Succeeded, me, ended),
            Ended::Unconfirmed(_) => self.unconfirmed(me, work, ended),
            Ended::Refused(kind) => self.refused(me, now, *kind, work, ended),
            Ended::Died => {}
        }
        self.parties[me].forget();
    }

    fn unconfirmed(&mut self, me: usize, work: Work, ended: &Ended) {
        self.parties[me].work = if work == Work::NotBegun { work.over() } else { Work::Lost };
        self.may_repeat = true;
        let is_open = self.parties[me].transaction == Transaction::Sent;
        self.fits(work == Work::Succeeded || is_open, me, ended);
    }

    fn refused(&mut self, me: usize, now: i64, kind: ErrorKind, work: Work, ended: &Ended) {
        match kind {
            ErrorKind::OutcomeUnknown => {
                let Party { was_heard, transaction, stamped, .. } = self.parties[me];
                // Whoever takes no lease resolves its doubts as long as the store answers.
                let is_whole = transaction == Transaction::Sent && stamped.is_none();
                let detail = format!("{} was answered and knows nothing", name(me));
                self.check(!(is_whole && was_heard), Guarantee::OutcomeFits, detail);
                self.unconfirmed(me, work, ended);
            }
            ErrorKind::LeaseLost => {
                let itself = self.parties[me].saw_itself;
                self.check(!itself, Guarantee::NotRejectedByItself, format!("{ended:?}"));
                let committed = self.parties[me].transaction != Transaction::None;
                let is_lost_to_nobody = self.parties[me].saw_released && !committed;
                let fits = (work == Work::Succeeded || committed) && !is_lost_to_nobody;
                self.fits(fits, me, ended);
            }
            // Stopped, before its answer or while it committed: what it did may come again.
            ErrorKind::LeaseExpired => {
                let transaction = self.parties[me].transaction;
                self.parties[me].work = Work::Lost;
                self.may_repeat |= work == Work::Succeeded;
                // Its commit may have been given up by then.
                let is_given_up = work == Work::Failed && transaction != Transaction::None;
                let fits = matches!(work, Work::Running | Work::Succeeded) || is_given_up;
                self.fits(fits, me, ended);
            }
            ErrorKind::Unavailable => {
                let party = &self.parties[me];
                let is_undone = party.transaction == Transaction::Refused && !party.has_completed;
                self.may_repeat |= is_undone;
                self.fits(work == Work::NotBegun || is_undone, me, ended);
            }
            // Its commit has happened, and the answer could not be read back.
            ErrorKind::AnswerUnavailable => {
                let Party { transaction, has_completed, .. } = self.parties[me];
                self.fits(transaction == Transaction::Sent && has_completed, me, ended);
            }
            ErrorKind::InProgress { .. }
            | ErrorKind::Mismatch
            | ErrorKind::Abandoned
            | ErrorKind::Failed => {
                let Party { saw_itself, saw_stale, met_owner, .. } = self.parties[me];
                let is_contended = self.parties.iter().any(|party| party.writes >= CONTENDED);
                let is_in_progress = matches!(kind, ErrorKind::InProgress { .. });
                let has_reason = !is_in_progress || met_owner || is_contended;
                self.check(!saw_itself, Guarantee::NotRejectedByItself, format!("{ended:?}"));
                let detail = format!("{}: nobody has run since it began", name(me));
                self.check(has_reason, Guarantee::OutcomeFits, detail);
                let detail = format!("{} was refused by what is not there any more", name(me));
                self.check(!saw_stale, Guarantee::OutcomeFits, detail);
                self.fits(work == Work::NotBegun, me, ended);
                self.rejected(me, now);
            }
            _ => self.fits(false, me, ended),
        }
    }

    /// A duplicate is turned away. It has changed nothing, unless it was the owner itself and its
    /// lease ended before its handler began.
    fn rejected(&mut self, me: usize, now: i64) {
        let party = &self.parties[me];
        let has_owned = party.stamped.is_some_and(|lease| lease < now);
        let untouched = party.changes == 0 || has_owned;
        let detail = format!("{} changed the record", name(me));
        self.check(untouched, Guarantee::RejectedChangesNothing, detail);
    }

    fn fits(&mut self, fits: bool, me: usize, ended: &Ended) {
        self.check(fits, Guarantee::OutcomeFits, format!("{} ended with {ended:?}", name(me)));
    }

    /// At the very end, after somebody asked once more, without faults; `answered` if it got one.
    pub(crate) fn closing(&mut self, answered: bool, commits: bool) {
        let detail = format!("answered, with {} effects", self.effects);
        let has_effect = !commits || !answered || self.effects == 1;
        self.check(has_effect, Guarantee::EffectsOnce, detail);
        let least = u32::from(answered);
        let runs = self.successes.max(self.effects);
        let once = self.may_repeat || (least..=1).contains(&runs);
        let detail = format!("{runs} runs to success");
        self.check(once, Guarantee::RunsOnce, detail);
    }
}

/// Whether a caller takes this for "what I sent was not executed, and never will be".
fn says_nothing_happened(ended: &Ended) -> bool {
    match ended {
        Ended::Refused(kind) => {
            let other =
                [ErrorKind::OutcomeUnknown, ErrorKind::LeaseExpired, ErrorKind::AnswerUnavailable];
            !other.contains(kind)
        }
        ended => matches!(ended, Ended::HandlerError(_)),
    }
}

pub(crate) fn name(caller: usize) -> char {
    char::from(b'A' + u8::try_from(caller).expect("there are few callers"))
}

fn text<'a>(item: &'a Item, attribute: &str) -> &'a str {
    item.get(attribute).and_then(|value| value["S"].as_str()).unwrap_or_default()
}

fn status(item: &Item) -> &str {
    text(item, "status")
}

/// Owners are drawn so that they tell whose they are.
fn owner(item: &Item) -> usize {
    let byte = text(item, "owner").get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
    usize::from(byte.and_then(|byte| byte.checked_sub(0xa0)).unwrap_or(u8::MAX))
}

fn attempt(item: &Item) -> i64 {
    item.get("attempt").map_or(0, number)
}

fn lease(item: &Item) -> Option<i64> {
    item.get("lease_expires_at").map(number)
}

fn is_held(item: &Item, now: i64) -> bool {
    status(item) == "PENDING" && lease(item).is_some_and(|lease| now <= lease)
}

fn json(answer: &str) -> String {
    Value::from(answer).to_string()
}
