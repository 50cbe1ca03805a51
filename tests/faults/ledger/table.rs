//! Checks what each request did to the table, and what its response showed to the caller.

use super::item::{attempt, is_held, lease, owner, status};
use super::{Ledger, TransactionState, Work, caller_name};
use crate::expression::number;
use crate::guarantee::Guarantee;
use crate::store::{Executed, Item, Operation, is_expired};
use crate::world::Request;

impl Ledger {
    /// The store has executed a request.
    pub(crate) fn applied(
        &mut self,
        now: i64,
        request: &Request,
        executed: &Executed,
        is_answered: bool,
        answer: Option<String>,
    ) {
        if executed.is_rejected || request.operation == Operation::Get || request.concerns_part() {
            return;
        }
        let (me, before) = (request.caller, executed.before.as_ref());
        let after = executed.after.as_ref().expect("the crate deletes nothing");
        // An acquisition without a response may lock a key for a lease; no guarantee excludes that.
        self.calls[me].changes += u32::from(before != Some(after) && is_answered);
        if let Some(before) = before {
            if status(before) == "PENDING" && status(after) != "PENDING" {
                self.owner_left = Some(now);
            }
            self.overwritten(now, me, before, after, request.operation);
            let detail =
                format!("{} leaves {} after {}", caller_name(me), attempt(after), self.attempts);
            let is_counted = attempt(after) >= self.attempts;
            self.check(is_counted, Guarantee::AttemptsAreCounted, detail);
        }
        if request.operation == Operation::Transact {
            self.transaction_applied(me);
        }
        self.follow_state(me, after);
        let steps = after.get("steps").and_then(|steps| steps["M"].as_object());
        self.steps.extend(steps.into_iter().flat_map(|steps| steps.keys().cloned()));
        match status(after) {
            "COMPLETED" => {
                self.calls[me].has_completed |= owner(after) == me;
                self.completed(me, after, answer);
            }
            "FAILED" => self.failures.extend(answer),
            _ => {}
        }
    }

    /// Updates what the ledger knows of each call after a write by `me`.
    fn follow_state(&mut self, me: usize, after: &Item) {
        let is_own = status(after) == "PENDING" && owner(after) == me;
        if is_own && self.calls[me].work == Work::Unconfirmed {
            // The write corrects a lease that was computed with a wrong clock. The call no longer runs, so
            // nothing depends on the old lease.
            self.calls[me].lease = lease(after);
        }
        let is_given_up = matches!(status(after), "FAILED" | "RELEASED");
        if is_given_up && self.calls[me].transaction != TransactionState::None {
            // After this write its transaction cannot be applied, even if the call does not know it.
            self.calls[me].lease = None;
            self.commit_failed(me);
        }
        if status(after) == "PENDING" {
            let others = self.calls.iter_mut().enumerate().filter(|(i, _)| *i != owner(after));
            others.for_each(|(_, call)| call.met_owner = true);
        }
        if status(after) == "RELEASED" {
            let is_forgotten = self.max_attempts.is_some() && self.executions > 0;
            let detail =
                format!("{} releases after {} executions", caller_name(me), self.executions);
            self.check(!is_forgotten, Guarantee::AttemptsAreCounted, detail);
            // A call that released its own record has left no change behind.
            self.calls[me].changes = 0;
        }
        if owner(after) == me {
            self.calls[me].written_lease = lease(after).or(self.calls[me].written_lease);
        }
    }

    /// A completed record has its whole answer, in the record or in its parts. All answers here are small.
    fn completed(&mut self, me: usize, record: &Item, answer: Option<String>) {
        let detail = format!("{} completed with {}", caller_name(me), record["response"]);
        self.check(answer.is_some(), Guarantee::AnswersAreStored, detail);
        let until = record.get("expires_at").map_or(0, number);
        self.answers.extend(answer.map(|answer| (answer, until)));
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
            self.record_expired(before);
        }
        if status(before) == "COMPLETED" && !is_over {
            let same =
                status(after) == "COMPLETED" && after.get("response") == before.get("response");
            let detail = format!(
                "{} overwrote the answer of {}",
                caller_name(me),
                caller_name(owner(before))
            );
            return self.check(same, Guarantee::CompletedAnswerStays, detail);
        }
        if owner(before) == me {
            return;
        }
        let detail =
            format!("{} over {}'s {}", caller_name(me), caller_name(owner(before)), status(before));
        let own = Some(after).filter(|after| owner(after) == me);
        let taken = own.filter(|own| status(own) == "PENDING");
        // A whole operation in one transaction, or the answer of a hook: no handler ran before this write.
        let is_without_handler =
            own.is_some() && matches!(self.calls[me].work, Work::NotStarted | Work::EndedUnstarted);
        let by_hook = is_without_handler
            && operation == Operation::Put
            && own.is_some_and(|own| status(own) == "COMPLETED");
        self.successes += u32::from(by_hook);
        // The answer of an effect that has happened may replace a record that has no owner.
        let completed = own.is_some_and(|own| status(own) == "COMPLETED");
        // Moving an expired lease by a millisecond changes the version, so that a delayed write of its
        // owner is rejected.
        let is_fenced = owner(after) == owner(before)
            && lease(after).zip(lease(before)).is_some_and(|(after, before)| after == before + 1);
        let is_allowed = taken.is_some()
            || is_without_handler
            || (status(before) == "RELEASED" && completed)
            || (status(after) == "PENDING" && is_fenced);
        self.check(is_allowed, Guarantee::ForeignRecordStays, detail.clone());
        let live = format!("{detail}, lease live");
        self.check(!is_held(before, now), Guarantee::OneLiveOwner, live);
        if let Some(taken) = taken.filter(|_| !is_over) {
            let counts = attempt(taken) > attempt(before);
            self.check(counts, Guarantee::AttemptsAreCounted, detail);
        }
    }

    /// TTL has deleted the record, or a call has overwritten it after its retention.
    pub(crate) fn record_expired(&mut self, item: &Item) {
        self.steps.clear();
        (self.attempts, self.executions) = (0, 0);
        if status(item) == "COMPLETED" {
            (self.successes, self.effects) = (0, 0);
        }
    }

    fn transaction_applied(&mut self, me: usize) {
        self.effects += 1;
        let detail = format!("{} is number {}", caller_name(me), self.effects);
        self.check(self.effects == 1, Guarantee::EffectsOnce, detail);
        let is_denied = self.calls[me].transaction == TransactionState::ReportedRejected;
        let detail = format!("{} had reported that nothing was applied", caller_name(me));
        self.check(!is_denied, Guarantee::EffectsOnce, detail);
        if self.calls[me].work == Work::NotStarted {
            self.calls[me].work = Work::Succeeded;
        }
    }

    /// A call sends a write.
    pub(crate) fn write_sent(&mut self, me: usize) {
        self.calls[me].writes += 1;
    }

    /// A call sends a transaction.
    pub(crate) fn transaction_sent(&mut self, me: usize) {
        self.calls[me].transaction = TransactionState::Sent;
    }

    /// A call received a response of the store.
    pub(crate) fn answered(&mut self, now: i64, request: &Request, executed: &Executed) {
        if request.concerns_part() {
            return;
        }
        let me = request.caller;
        self.calls[me].saw_stale = false;
        self.calls[me].is_write_answered |= request.operation != Operation::Get;
        let shows_record = executed.is_rejected || request.operation == Operation::Get;
        let shown = executed.before.as_ref().filter(|_| shows_record);
        let own = |item: &&Item| owner(item) == me;
        let call = &mut self.calls[me];
        call.saw_owner = shown.is_some_and(|item| !own(&item) && is_held(item, now));
        if shows_record {
            call.saw_itself = shown.is_some_and(|item| own(&item));
            call.saw_released = shown.is_some_and(|item| status(item) == "RELEASED");
        }
        let record = if shows_record { shown } else { executed.after.as_ref() };
        let confirmed = record.filter(own).and_then(lease);
        let has_started = call.work != Work::NotStarted;
        // A read by a running owner serves another purpose. A rejected renewal shows the owner its lease.
        let is_read = request.operation == Operation::Get;
        if let Some(lease) = confirmed.filter(|_| !(has_started && is_read)) {
            call.lease = Some(lease);
            call.faults_until = Some((now, std::mem::take(&mut call.clock_faults)));
            if matches!(call.work, Work::Running | Work::Succeeded) {
                self.check_only_owner(me, now);
            }
        }
    }

    /// The last response showed a record that was not the latest.
    pub(crate) fn answered_stale(&mut self, request: &Request) {
        self.calls[request.caller].saw_stale = !request.concerns_part();
    }

    /// A call gets no response to a request.
    pub(crate) fn unanswered(&mut self, request: &Request) {
        // After an unanswered request the call does not rely on the earlier stale read alone.
        self.calls[request.caller].saw_stale &= request.concerns_part();
        self.calls[request.caller].is_write_answered &= request.operation == Operation::Get;
        self.calls[request.caller].has_unanswered_try |= request.operation == Operation::Transact;
    }
}
