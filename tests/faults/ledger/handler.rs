//! Checks when handlers and their steps run, and which of them may run.

use dynamodb_idempotency::Execution;

use super::item::{attempt, owner, status};
use super::{Call, Ledger, Work, caller_name};
use crate::guarantee::Guarantee;
use crate::store::Item;
use crate::world::HandlerEnd;

/// By how much a lease may be short: the clock tolerance and the one-second precision of a `Date` header.
const STAMP_TOLERANCE: i64 = 2_000;

impl Ledger {
    /// A call starts; `record` is the record at that time. An owner that left in the same millisecond
    /// counts as present, because the call cannot tell the order.
    pub(crate) fn call_started(&mut self, me: usize, now: i64, record: Option<&Item>) {
        let has_just_left = self.owner_left == Some(now);
        let call = &mut self.calls[me];
        call.started = now;
        call.met_owner = has_just_left || record.is_some_and(|record| status(record) == "PENDING");
    }

    pub(crate) fn handler_started(
        &mut self,
        me: usize,
        now: i64,
        execution: &Execution,
        record: Option<&Item>,
    ) {
        let caller = caller_name(me);
        let call = &mut self.calls[me];
        let has_started = call.work != Work::NotStarted;
        call.work = Work::Running;
        call.is_protected = execution.is_protected();
        let Call { lease, saw_owner, .. } = *call;
        let detail = format!("{caller} runs twice in one call");
        self.check(!has_started, Guarantee::OutcomeFits, detail);
        if !execution.is_protected() {
            let detail = format!("{caller} runs without a record after seeing another owner");
            self.check(!saw_owner, Guarantee::OneLiveOwner, detail);
            self.may_repeat = true;
            return;
        }
        let holds = lease.is_some_and(|lease| lease + STAMP_TOLERANCE >= now);
        let detail = format!("{caller} starts at {now}, its lease is {lease:?}");
        self.check(holds, Guarantee::LeaseHoldsAtStart, detail);
        let received = i64::from(execution.attempt());
        let detail = format!("{caller} receives attempt {received} after {}", self.attempts);
        self.check(received > self.attempts, Guarantee::AttemptsAreCounted, detail);
        self.attempts = received;
        self.executions += 1;
        let is_allowed = self.max_attempts.is_none_or(|most| self.executions <= most);
        let detail = format!("{caller} is execution {}", self.executions);
        self.check(is_allowed, Guarantee::AttemptsAreCounted, detail);
        if let Some(record) = record.filter(|record| owner(record) == me) {
            let stored = attempt(record);
            let detail = format!("{caller} receives attempt {received}, the record has {stored}");
            self.check(received == stored, Guarantee::AttemptsAreCounted, detail);
        }
        self.check_only_owner(me, now);
    }

    pub(super) fn check_only_owner(&mut self, me: usize, now: i64) {
        let other = (0..self.calls.len()).find(|&i| i != me && self.calls[i].is_live(now));
        if let Some(other) = other {
            let detail = format!("{} and {} at {now}", caller_name(me), caller_name(other));
            self.check(false, Guarantee::OneLiveOwner, detail);
        }
    }

    /// A caller's clock was set or frozen.
    pub(crate) fn clock_changed(&mut self, me: usize) {
        self.calls[me].clock_faults += 1;
    }

    /// A running handler is polled.
    pub(crate) fn handler_polled(&mut self, me: usize, now: i64) {
        let Call { is_protected, clock_faults, faults_until, lease, .. } = self.calls[me];
        let earlier = faults_until.filter(|(at, _)| *at == now).map_or(0, |(_, faults)| faults);
        // A call without a lease has given its record up.
        let is_expired = lease.is_some_and(|lease| lease < now);
        let is_in_time = !is_protected || clock_faults.max(earlier) > 1 || !is_expired;
        let detail = format!("{} is polled at {now}, its lease is {lease:?}", caller_name(me));
        self.check(is_in_time, Guarantee::NotPastTheLease, detail);
    }

    /// An owner runs a step. Its record must not have the result of an earlier attempt. Under a live lease
    /// no record of this operation may ever have had it.
    pub(crate) fn step_started(&mut self, me: usize, now: i64, step: &str, record: Option<&Item>) {
        let own = record.filter(|record| owner(record) == me);
        let stored = own.and_then(|record| record.get("steps")?["M"].get(step));
        let was_stored = self.steps.contains(step) && self.calls[me].is_live(now);
        let detail = format!("{} runs step {step}, which is stored: {stored:?}", caller_name(me));
        self.check(stored.is_none() && !was_stored, Guarantee::StoredStepsStay, detail);
    }

    pub(crate) fn handler_ended(&mut self, me: usize, end: HandlerEnd) {
        let call = &mut self.calls[me];
        call.work = if end == HandlerEnd::Succeed { Work::Succeeded } else { Work::Failed };
        self.successes += u32::from(end == HandlerEnd::Succeed && call.is_protected);
        let executed_nothing = end == HandlerEnd::Decline && call.is_protected;
        self.executions = self.executions.saturating_sub(u32::from(executed_nothing));
    }

    /// The commit of a handler failed, so the handler does not count as successful.
    pub(crate) fn commit_failed(&mut self, me: usize) {
        let call = &mut self.calls[me];
        if call.work == Work::Succeeded {
            call.work = Work::Failed;
            self.successes -= u32::from(call.is_protected);
        }
    }

    /// Time has passed. The work of an owner whose lease has expired may be repeated.
    pub(crate) fn time_passed(&mut self, now: i64) {
        self.may_repeat |= self.calls.iter().any(|call| {
            matches!(call.work, Work::Running | Work::Succeeded)
                && !call.has_completed
                && call.lease.is_some_and(|lease| lease < now)
        });
    }
}
