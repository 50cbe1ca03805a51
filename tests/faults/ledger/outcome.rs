//! Checks that the outcome of each call fits what happened.

use dynamodb_idempotency::ErrorKind;

use super::item::json;
use super::{Call, Ledger, TransactionState, Work, caller_name};
use crate::guarantee::{CallOutcome, Guarantee};

/// After this many writes to a contended key, a call gives up.
const CONTENDED: u32 = 8;

impl Ledger {
    /// The future of a call was dropped.
    pub(crate) fn call_dropped(&mut self, me: usize) {
        let call = &mut self.calls[me];
        if matches!(call.work, Work::Running | Work::Succeeded) {
            self.may_repeat |= !call.has_completed;
            call.work = Work::Unconfirmed;
        } else {
            call.work = call.work.ended();
        }
        call.forget();
    }

    /// A call has returned.
    pub(crate) fn call_ended(&mut self, me: usize, now: i64, outcome: &CallOutcome) {
        let call = &mut self.calls[me];
        let (work, completed) = (call.work, call.has_completed);
        call.work = work.ended();
        if call.transaction == TransactionState::Sent && excludes_effect(outcome) {
            call.transaction = TransactionState::ReportedRejected;
        }
        match outcome {
            CallOutcome::Executed(answer) => {
                let stored = completed && self.answers.contains_key(&json(answer));
                self.check(stored, Guarantee::AnswersAreStored, format!("{outcome:?}"));
                let committed = self.calls[me].transaction == TransactionState::Sent;
                self.fits(work == Work::Succeeded || committed, me, outcome);
            }
            CallOutcome::Reconciled(answer) => {
                let stored = completed && self.answers.contains_key(&json(answer));
                self.check(stored, Guarantee::AnswersAreStored, format!("{outcome:?}"));
                self.fits(work == Work::NotStarted, me, outcome);
            }
            CallOutcome::Replayed(answer) => {
                // A `Date` header has a precision of one second.
                let until = self.answers.get(&json(answer)).map(|until| (until + 1) * 1000);
                let stored = until.is_some_and(|until| self.calls[me].started < until);
                self.check(stored, Guarantee::AnswersAreStored, format!("{outcome:?}"));
                if work == Work::NotStarted {
                    self.rejected(me, now);
                }
            }
            CallOutcome::HandlerError(error) => {
                let stored = work == Work::Failed || self.failures.contains(&json(error));
                self.check(stored, Guarantee::AnswersAreStored, format!("{outcome:?}"));
            }
            CallOutcome::NothingExecuted(_) => self.fits(work == Work::Failed, me, outcome),
            CallOutcome::Unprotected(_) => self.fits(work == Work::Succeeded, me, outcome),
            CallOutcome::Unconfirmed(_) => self.unconfirmed(me, work, outcome),
            CallOutcome::Error(kind) => self.failed(me, now, *kind, work, outcome),
            CallOutcome::Dropped => {}
        }
        self.calls[me].forget();
    }

    fn unconfirmed(&mut self, me: usize, work: Work, outcome: &CallOutcome) {
        self.calls[me].work =
            if work == Work::NotStarted { work.ended() } else { Work::Unconfirmed };
        self.may_repeat = true;
        let is_in_doubt = self.calls[me].transaction == TransactionState::Sent;
        self.fits(work == Work::Succeeded || is_in_doubt, me, outcome);
    }

    fn failed(&mut self, me: usize, now: i64, kind: ErrorKind, work: Work, outcome: &CallOutcome) {
        match kind {
            ErrorKind::OutcomeUnknown => {
                let Call {
                    is_write_answered, has_unanswered_try, transaction, written_lease, ..
                } = self.calls[me];
                // A call without a lease has no doubt as long as the store answers.
                let has_no_lease = transaction == TransactionState::Sent
                    && written_lease.is_none()
                    && !has_unanswered_try;
                let detail =
                    format!("{} got a response and reports an unknown outcome", caller_name(me));
                let fits = !(has_no_lease && is_write_answered);
                self.check(fits, Guarantee::OutcomeFits, detail);
                self.unconfirmed(me, work, outcome);
            }
            ErrorKind::LeaseLost => self.lease_lost(me, work, outcome),
            // The call stopped before its answer or during its commit, so its work may be repeated.
            ErrorKind::LeaseExpired => {
                let transaction = self.calls[me].transaction;
                self.calls[me].work = Work::Unconfirmed;
                self.may_repeat |= work == Work::Succeeded;
                // Its commit may have been given up by then.
                let is_given_up = work == Work::Failed && transaction != TransactionState::None;
                let fits = matches!(work, Work::Running | Work::Succeeded) || is_given_up;
                self.fits(fits, me, outcome);
            }
            ErrorKind::Unavailable | ErrorKind::NothingCommitted => {
                let call = &self.calls[me];
                let is_undone =
                    call.transaction == TransactionState::ReportedRejected && !call.has_completed;
                self.may_repeat |= is_undone;
                let was_committing = kind == ErrorKind::NothingCommitted;
                let fits = if was_committing { is_undone } else { work == Work::NotStarted };
                self.fits(fits, me, outcome);
            }
            // The commit was applied, and the call could not read the answer.
            ErrorKind::AnswerUnavailable => {
                let Call { transaction, has_completed, .. } = self.calls[me];
                self.fits(transaction == TransactionState::Sent && has_completed, me, outcome);
            }
            ErrorKind::InProgress { .. }
            | ErrorKind::Mismatch
            | ErrorKind::Abandoned
            | ErrorKind::Failed => self.duplicate_rejected(me, now, kind, work, outcome),
            _ => self.fits(false, me, outcome),
        }
    }

    fn lease_lost(&mut self, me: usize, work: Work, outcome: &CallOutcome) {
        let Call { saw_itself, saw_released, transaction, .. } = self.calls[me];
        self.check(!saw_itself, Guarantee::NotRejectedByItself, format!("{outcome:?}"));
        let committed = transaction != TransactionState::None;
        // A released record has no owner that could have taken the lease over.
        let has_no_owner = saw_released && !committed;
        let fits = (work == Work::Succeeded || committed) && !has_no_owner;
        self.fits(fits, me, outcome);
    }

    fn duplicate_rejected(
        &mut self,
        me: usize,
        now: i64,
        kind: ErrorKind,
        work: Work,
        outcome: &CallOutcome,
    ) {
        let Call { saw_itself, saw_stale, met_owner, .. } = self.calls[me];
        let is_contended = self.calls.iter().any(|call| call.writes >= CONTENDED);
        let is_in_progress = matches!(kind, ErrorKind::InProgress { .. });
        let has_reason = !is_in_progress || met_owner || is_contended;
        self.check(!saw_itself, Guarantee::NotRejectedByItself, format!("{outcome:?}"));
        let detail = format!("{}: no owner has run since the call started", caller_name(me));
        self.check(has_reason, Guarantee::OutcomeFits, detail);
        let detail = format!("{} was rejected because of a stale read", caller_name(me));
        self.check(!saw_stale, Guarantee::OutcomeFits, detail);
        self.fits(work == Work::NotStarted, me, outcome);
        self.rejected(me, now);
    }

    /// A rejected duplicate has changed nothing, unless it was the owner itself and its lease expired
    /// before its handler started.
    fn rejected(&mut self, me: usize, now: i64) {
        let call = &self.calls[me];
        let was_owner = call.written_lease.is_some_and(|lease| lease < now);
        let untouched = call.changes == 0 || was_owner;
        let detail = format!("{} changed the record", caller_name(me));
        self.check(untouched, Guarantee::RejectedChangesNothing, detail);
    }

    fn fits(&mut self, fits: bool, me: usize, outcome: &CallOutcome) {
        let detail = format!("{} ended with {outcome:?}", caller_name(me));
        self.check(fits, Guarantee::OutcomeFits, detail);
    }

    /// Checks the totals after the last caller, which calls without faults. `is_answered` if it got an
    /// answer.
    pub(crate) fn check_end(&mut self, is_answered: bool, commits: bool) {
        let detail = format!("answered, with {} effects", self.effects);
        let has_effect = !commits || !is_answered || self.effects == 1;
        self.check(has_effect, Guarantee::EffectsOnce, detail);
        let least = u32::from(is_answered);
        let successes = self.successes.max(self.effects);
        let once = self.may_repeat || (least..=1).contains(&successes);
        let detail = format!("the handler succeeded {successes} times");
        self.check(once, Guarantee::RunsOnce, detail);
    }
}

/// Whether a caller concludes from the outcome that its transaction was not applied and never will be.
fn excludes_effect(outcome: &CallOutcome) -> bool {
    match outcome {
        CallOutcome::Error(kind) => {
            let in_doubt =
                [ErrorKind::OutcomeUnknown, ErrorKind::LeaseExpired, ErrorKind::AnswerUnavailable];
            !in_doubt.contains(kind)
        }
        outcome => matches!(outcome, CallOutcome::HandlerError(_)),
    }
}
