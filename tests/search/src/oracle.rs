//! Checks the guarantees by the table and by what the machines return, never by their private state.

use std::hash::Hash;

use crate::clock::{Clock, store_time};
use crate::model::{SEATS, State, owner, sender};
use crate::process::{Acquiring, Execution, Fate, Phase};
use crate::rows::{Role, Row};
use crate::store::{Stored, Wire};
use dynamodb_idempotency_protocol::OwnerId;
use dynamodb_idempotency_protocol::policy::{Completed, Lease};
use dynamodb_idempotency_protocol::{
    CallResult, CompletionEnd, FailureEnd, Form, Grant, Kind, Outcome, Over, ReadResult, Reason,
    Reply, State as Stands, TenureEnd, Window, WriteResult,
};

/// What has happened to the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    /// The callers whose effects were applied, one bit each.
    applied: u8,
    /// The number of applied effects.
    effects: u8,
    /// A request that is sent at most once was sent. It may take effect at any later time.
    is_sent: bool,
    /// The attempt of the execution that began last.
    attempt: u32,
    /// How many handlers have succeeded without a commit. A success that releases the key counts only after
    /// one that does not.
    successes: u8,
    /// An owner has outlived its lease, could not confirm its completion, or ran without a record.
    pub(crate) excused: bool,
    /// The callers whose record was removed by an operator, one bit each. They belong to an earlier life of
    /// the key, so their executions are not compared with those of the present one.
    removed: u8,
}

impl Ledger {
    /// The record was deleted, or replaced after its retention.
    pub(crate) fn reset(&mut self) {
        let Self { applied, removed, .. } = *self;
        *self = Self { applied, removed, ..Self::default() };
    }

    /// An operator has removed the record of this owner.
    pub(crate) fn removed(&mut self, owner: OwnerId) {
        self.reset();
        if let Ok(seat @ 0..8) = u32::try_from(owner.0) {
            self.removed |= 1 << seat;
        }
    }

    const fn was_removed(self, seat: usize) -> bool {
        self.removed & 1 << seat != 0
    }

    /// A handler has succeeded without a commit.
    pub(crate) fn succeeded(&mut self, seat: usize, completed: Completed) {
        let counts = completed == Completed::Replay || self.successes > 0;
        self.successes += u8::from(counts && !self.was_removed(seat));
    }

    const fn was_applied(self, seat: usize) -> bool {
        self.applied & 1 << seat != 0
    }
}

impl State {
    /// A write has changed the record.
    pub(crate) fn applied(&mut self, row: &Row, seat: usize, before: Option<&Stored>, wire: &Wire) {
        let now = store_time(self.tick);
        let Some(after) = self.store.record.clone() else { return };
        let is_acquiring = matches!(self.process(seat).phase, Phase::Acquiring(_));
        if is_acquiring && after.meta.is_pending_of(&owner(seat)) {
            // The caller acquires the key in its present life.
            self.ledger.removed &= !(1 << seat);
        }
        if let Some(before) = before {
            if before.meta.is_past_retention(now) && before.live_owner(now).is_none() {
                self.ledger.reset();
            } else {
                self.check_change(row, seat, before, &after);
            }
        }
        if let Wire::Write(write) = wire
            && write.0.form() == Form::Transaction
        {
            // After an operator has removed the record, only the client request token keeps DynamoDB from executing
            // the same transaction again.
            let is_new = !row.has_operator || self.store.note_transaction(&write.0);
            if is_new && self.ledger.was_applied(seat) {
                self.violate("the effect of one call was applied twice");
            }
            self.effect(seat);
            let completed_at = write.0.record.completed_at;
            if self.process(seat).was_refused(completed_at) {
                self.violate("a commit was reported as rejected, and is applied");
            }
        }
        let denies = matches!(wire, Wire::Write(write) if write.0.kind == Kind::AnswerWithoutItems);
        if denies && self.ledger.was_applied(seat) {
            self.violate("an answer without the items was stored, and they were applied");
        }
        // With a retention of seconds, a delayed acquisition may lock the key: see "Not promised".
        let has_given_back = self.process(seat).fate().is_some_and(|fate| fate.holds_nothing);
        if has_given_back && self.is_locked_by(seat) && !row.expires() {
            self.violate("a key that was released is locked again");
        }
        let lock = after.meta.state.lease_expires_at().map(|ends| ends.since(now).as_millis());
        // Not promised: a clock jumps forward, and the process ends before it corrects the lease.
        let has_jumped = matches!(wire, Wire::Write(write) if write.1);
        if lock.is_some_and(|lock| lock > most_locked(row)) && !has_jumped {
            self.violate("a key is locked for longer than a lease");
        }
    }

    fn is_locked_by(&self, seat: usize) -> bool {
        let record = self.store.record.as_ref();
        record.and_then(|record| record.live_owner(store_time(self.tick))) == Some(owner(seat))
    }

    fn effect(&mut self, seat: usize) {
        self.ledger.effects += 1;
        self.ledger.applied |= 1 << seat;
        if self.ledger.effects > 1 {
            self.violate("two effects were applied");
        }
        if self.process(seat).fate().is_some_and(|fate| fate.nothing_completed) {
            self.violate("reported that nothing was written, and it is applied");
        }
    }

    /// Checks that the sender of a write was allowed to change this record.
    fn check_change(&mut self, row: &Row, seat: usize, before: &Stored, after: &Stored) {
        let (now, sender) = (store_time(self.tick), sender(row, seat));
        let is_same = is_same_completion(before, after);
        if before.is_completed() && !is_same {
            self.violate("a completed answer has changed");
        }
        let means_the_same = means_the_same(before, after);
        let is_anothers = before.live_owner(now).is_some_and(|owner| owner != sender.owner);
        if is_anothers && !means_the_same {
            self.violate("a record that another owner holds has changed");
        }
        let is_of_another = before.request != sender.request;
        if is_of_another && before.meta.state != Stands::Released && !means_the_same {
            self.violate("another request's record has changed");
        }
    }

    /// A handler begins.
    pub(crate) fn begins(
        &mut self,
        seat: usize,
        acquiring: &Acquiring,
        grant: &Grant,
        window: Option<Window>,
        clock: &Clock,
    ) {
        let Some(window) = window else {
            self.ledger.excused = true;
            if acquiring.shown.must_not_run {
                self.violate("runs without a record while another owner runs");
            }
            return;
        };
        if self.ledger.was_removed(seat) {
            return;
        }
        let own = self.store.record.as_ref().filter(|record| record.meta.owner == owner(seat));
        let known = grant.knowledge.own().and_then(|own| own.steps);
        let is_held = own.is_some_and(|own| own.meta.state.lease_expires_at().is_some());
        let is_wrong = own.is_some_and(|own| own.meta.attempt != grant.attempts.number);
        let taken = if grant.taken_over.is_some() { acquiring.taken_steps } else { 0 };
        let is_unknown = |own: &Stored| own.meta.steps != known || own.done != taken;
        let forgets = is_held && own.is_some_and(is_unknown);
        let is_over = store_time(self.tick) > window.lease_expires_at;
        if !is_held && !is_over && !clock.is_blind {
            self.violate("runs without a record");
        }
        if is_wrong || grant.attempts.number <= self.ledger.attempt {
            self.violate("the attempt has not grown");
        }
        if forgets {
            self.violate("a stored step would be done again");
        }
        self.ledger.attempt = grant.attempts.number;
    }

    /// The work of a step runs.
    pub(crate) fn step_runs(&mut self, seat: usize, number: u8) {
        let is_stored = self.store.done() & 1 << number != 0;
        if is_stored && !self.ledger.was_removed(seat) {
            self.violate("a stored step runs again");
        }
    }

    /// A request that is sent at most once is sent.
    pub(crate) fn sends(&mut self, seat: usize) {
        if self.ledger.was_removed(seat) {
            return;
        }
        if self.ledger.is_sent {
            self.violate("a request was sent twice");
        }
        self.ledger.is_sent = true;
    }

    /// A step was reported as stored.
    pub(crate) fn step_was_stored(&mut self, seat: usize, number: u8) {
        let is_pending =
            |stored: &Stored| matches!(stored.meta.state, Stands::Pending { .. } | Stands::Failed);
        let is_missing = self.store.record.as_ref().is_some_and(is_pending)
            && self.store.done() & 1 << number == 0;
        if is_missing && !self.ledger.was_removed(seat) {
            self.violate("a step was reported as stored, and is not in the record");
        }
    }

    /// A handler is polled.
    pub(crate) fn polled(&mut self, seat: usize, execution: &Execution) {
        let clock = self.process(seat).clock;
        if !execution.is_protected || execution.tenure.is_over() {
            return;
        }
        let Some(window) = execution.tenure.window() else {
            return self.violate("polled without a lease");
        };
        let local = clock.local(self.tick);
        let is_over = local.wall > window.end.wall || local.uptime > window.end.uptime;
        if is_over {
            self.violate("polled after its window");
        }
        if store_time(self.tick) > window.lease_expires_at && !clock.is_blind {
            self.violate("polled after its lease");
        }
    }

    /// The end of a call that has run no handler.
    pub(crate) fn returned(
        &mut self,
        row: &Row,
        seat: usize,
        acquiring: &Acquiring,
        result: CallResult,
        reply: Option<&Reply>,
    ) -> Fate {
        let holds_nothing = reply.is_some_and(|reply| is_definite(&reply.outcome));
        match result {
            CallResult::Replay => self.check_replay(row, acquiring, reply),
            CallResult::Executed => self.check_stored(row, seat),
            CallResult::Nothing(reason, _) => {
                self.check_reason(row, acquiring, reason);
                if self.ledger.was_applied(seat) {
                    self.violate("reported that nothing was written, and it was applied");
                }
                // With a retention of seconds, a delayed acquisition may lock the key: see "Not promised".
                if holds_nothing && self.is_locked_by(seat) && !row.expires() {
                    self.violate("a call that runs nothing leaves its key locked");
                }
                let is_last = seat == SEATS - 1;
                let is_locked_out = is_last && matches!(reason, Reason::InProgress { .. });
                return Fate { nothing_completed: true, holds_nothing, is_locked_out };
            }
            // Few records prove that a transaction in doubt was not applied.
            CallResult::Unknown
                if acquiring.shown.unheard < MAX_UNHEARD
                    && !acquiring.shown.transaction_in_doubt =>
            {
                self.violate("reported an unknown outcome without having read the record");
            }
            CallResult::Reconciled
                if acquiring.shown.hook_commits && !self.ledger.was_applied(seat) =>
            {
                self.violate("reported a hook's commit that was not applied");
            }
            CallResult::Reconciled | CallResult::Unknown => {}
        }
        Fate::default()
    }

    /// Checks the reason with which a call is rejected.
    fn check_reason(&mut self, row: &Row, acquiring: &Acquiring, reason: Reason) {
        let shown = acquiring.shown;
        match reason {
            Reason::Mismatch if row.has_equal_requests() => {
                self.violate("a mismatch among equal requests");
            }
            // Allowed: after a fault, the call has given up a key whose record other calls kept changing.
            Reason::InProgress { lease_left }
                if !shown.another_at_work && lease_left.is_zero() && self.faults < row.faults => {}
            Reason::InProgress { .. } if !shown.another_at_work => {
                self.violate("reported another owner that was never seen");
            }
            Reason::InProgress { .. } | Reason::Mismatch | Reason::Failed | Reason::Abandoned
                if shown.stale =>
            {
                self.violate("rejected because of a stale read");
            }
            _ => {}
        }
    }

    /// Checks that a replayed answer is the stored one.
    fn check_replay(&mut self, row: &Row, acquiring: &Acquiring, reply: Option<&Reply>) {
        let stale = reply.and_then(|reply| match &reply.outcome {
            Outcome::Read(ReadResult::Stale(record)) => record.as_ref(),
            _ => None,
        });
        let knowledge = acquiring.machine.grant().knowledge;
        let shown = stale.or(knowledge.seen().record());
        let Some(shown) = shown.filter(|shown| shown.state == Stands::Completed) else {
            return self.violate("replayed what is not completed");
        };
        if !shown.is_same_request {
            self.violate("replayed another request's answer");
        }
        let is_there = |stored: &Stored| {
            stored.is_completed()
                && stored.meta.owner == shown.owner
                && stored.meta.completed_at == shown.completed_at
        };
        let was_removed =
            (0..SEATS).any(|seat| shown.owner == owner(seat) && self.ledger.was_removed(seat));
        let is_kept = !row.expires() && !was_removed;
        if is_kept && !self.store.record.as_ref().is_some_and(is_there) {
            self.violate("replayed what is not stored");
        }
    }

    fn check_stored(&mut self, row: &Row, seat: usize) {
        let is_own = |stored: &Stored| stored.is_completed() && stored.meta.owner == owner(seat);
        let is_kept = !row.expires() && !self.ledger.was_removed(seat);
        let own = self.store.record.as_ref().filter(|stored| is_own(stored));
        let (is_missing, kept_until) =
            (own.is_none(), own.map(|stored| stored.meta.expires_at.saturating_mul(1000)));
        if is_kept && is_missing {
            self.violate("reported an answer that is not stored");
        }
        let least = store_time(0).plus(row.roles[0].rules.retention).shifted(-2_100).millis();
        if kept_until.is_some_and(|until| until < least) && !row.expires() {
            self.violate("an answer expires before its retention is over");
        }
    }

    /// The end of a call whose handler has run.
    pub(crate) fn ended(
        &mut self,
        row: &Row,
        seat: usize,
        execution: &Execution,
        end: TenureEnd,
        reply: Option<&Reply>,
    ) -> Fate {
        let was_applied = self.ledger.was_applied(seat);
        let has_failed = self.faults != row.faults;
        let is_unharmed = !has_failed && execution.is_protected && !execution.is_cut_short;
        match end {
            TenureEnd::Completion(CompletionEnd::Stored) => self.check_stored(row, seat),
            TenureEnd::Completion(CompletionEnd::Committed)
            | TenureEnd::Over(Over::Committed | Over::CommittedEarlier)
            | TenureEnd::Failure(FailureEnd::Committed) => {
                self.check_stored(row, seat);
                if !was_applied {
                    self.violate("reported a commit that was not applied");
                }
            }
            TenureEnd::Completion(CompletionEnd::LeaseLost)
            | TenureEnd::Failure(FailureEnd::Written(_) | FailureEnd::LeaseLost)
            | TenureEnd::Over(Over::NotCommitted(_) | Over::LeaseLost) => {
                let found = reply.and_then(|reply| shown(&reply.outcome));
                // A completion accepts a released record.
                let turns_away = execution.completes && execution.commits.is_empty();
                let is_free = found.is_some_and(|record| record == Stands::Released);
                if was_applied {
                    self.violate("reported that nothing was written, and it was applied");
                }
                if is_free && turns_away {
                    self.violate("rejected because of a released record");
                }
                return Fate { nothing_completed: true, ..Fate::default() };
            }
            TenureEnd::Completion(CompletionEnd::Unknown | CompletionEnd::Unconfirmed)
            | TenureEnd::Failure(FailureEnd::Unconfirmed | FailureEnd::Unknown)
            | TenureEnd::Over(Over::Unknown) => {
                self.ledger.excused = true;
                if is_unharmed {
                    self.violate("reported an unknown outcome, and nothing has failed");
                }
            }
            TenureEnd::Commit(_) => {
                self.violate("the handler continues after it has returned");
            }
        }
        Fate::default()
    }

    /// Checks that a handler runs under the lease of its record. Another call with a transaction in doubt may
    /// have moved the end by some milliseconds. A renewal moves it by more, so rows with renewals are exempt.
    fn check_leases(&mut self, row: &Row) {
        let Some(Stored { meta, .. }) = &self.store.record else { return };
        let (owner, ends) = (meta.owner, meta.state.lease_expires_at());
        let Some(ends) = ends else { return };
        let Some(seat) = (0..self.slots.len()).find(|seat| owner == crate::model::owner(*seat))
        else {
            return;
        };
        if self.ledger.was_removed(seat) {
            return;
        }
        let slot = &self.slots[seat];
        let Phase::Executing(execution) = &slot.process.phase else { return };
        let is_renewed = |role: &Role| matches!(role.rules.lease, Lease::Renewed(_));
        if !execution.runs() || row.roles().iter().any(is_renewed) {
            return;
        }
        let Some(window) = execution.tenure.window() else { return };
        if store_time(self.tick) > window.lease_expires_at {
            return;
        }
        let moved = ends.since(window.lease_expires_at).max(window.lease_expires_at.since(ends));
        if moved.as_millis() > MAX_CLOSED_OFF {
            self.violate("a lease has changed under its handler");
        }
    }

    /// Checks what holds in every state.
    pub(crate) fn check(&mut self, row: &Row) {
        let now = store_time(self.tick);
        self.check_leases(row);
        if self.store.misses_item() {
            self.violate("the record notes a step whose item is missing");
        }
        self.drop_dead_copies(row);
        let mut live = 0;
        let mut outlived = false;
        for (seat, slot) in self.slots.iter().enumerate() {
            if self.ledger.was_removed(seat) {
                continue;
            }
            let Phase::Executing(execution) = &slot.process.phase else { continue };
            let Some(window) = execution.tenure.window() else { continue };
            outlived |= now > window.lease_expires_at;
            let is_live = execution.runs() && now <= window.lease_expires_at;
            live += u8::from(is_live && !slot.process.clock.is_blind);
        }
        self.ledger.excused |= outlived;
        if live > 1 {
            self.violate("two live owners");
        }
        if self.ledger.successes > 1 && !self.ledger.excused {
            self.violate("two executions have succeeded, without an excuse");
        }
    }
}

/// After how many consecutive replies, none of them definite, a call is allowed to report an unknown outcome.
pub(crate) const MAX_UNHEARD: u8 = 2;

pub(crate) fn is_definite(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Read(ReadResult::Found(_))
            | Outcome::Write(WriteResult::Applied | WriteResult::Rejected(_))
    )
}

fn shown(outcome: &Outcome) -> Option<Stands> {
    outcome.record().map(|record| record.state)
}

fn is_same_completion(before: &Stored, after: &Stored) -> bool {
    after.is_completed()
        && before.meta.owner == after.meta.owner
        && before.meta.completed_at == after.meta.completed_at
        && before.request == after.request
}

/// Whether `after` has the same meaning as `before`. A call can write such a version to make DynamoDB reject
/// its delayed transaction.
fn means_the_same(before: &Stored, after: &Stored) -> bool {
    let (old, new) = (&before.meta, &after.meta);
    let is_alike = before.request == after.request
        && old.attempt == new.attempt
        && old.steps.unwrap_or(0) == new.steps.unwrap_or(0)
        && old.completed_at == new.completed_at;
    is_alike
        && match (old.state, new.state) {
            (
                Stands::Pending { lease_expires_at: was },
                Stands::Pending { lease_expires_at: is },
            ) => {
                old.owner == new.owner
                    && was.since(is).max(is.since(was)).as_millis() <= MAX_CLOSED_OFF
            }
            (Stands::Completed, Stands::Completed) => old.owner == new.owner,
            (Stands::Failed, Stands::Failed) => true,
            _ => false,
        }
}

/// How far transactions in doubt may move the end of a lease, in ms.
const MAX_CLOSED_OFF: u128 = 8;

/// How long a write may lock the key, in ms.
fn most_locked(row: &Row) -> u128 {
    let of = |lease: Lease| lease.chosen_length().map_or(7_000, |length| length.as_millis());
    let longest = row.roles().iter().map(|role| of(role.rules.lease)).max().unwrap_or(0);
    longest + 2_100
}
