//! An operation in one transaction: the write completes the record and contains the caller's items. And the
//! end of each call that has sent a transaction, also a hook's commit.

use super::{
    Acquisition, AfterPause, CallResult, Command, Intent, Next, Reason, Waiting, Work, done,
};
use crate::fault_point::{FaultPoint, is_broken};
use crate::knowledge::Seen;
use crate::machine::{Cause, WriteResult};
use crate::record::{RecordMeta, State};
use crate::rules::MIN_LIMIT;
use crate::time::{Now, Timestamp};
use crate::write::{Kind, Write};

/// The transaction of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Transact {
    /// `false` once the items were rejected, and an answer is stored without them.
    has_items: bool,
    /// The time of the transaction, or of the answer that is stored instead. No two completions of a call
    /// have the same time.
    pub(super) completed_at: Option<Timestamp>,
    /// `completed_at` of the transaction whose items were rejected.
    rejected_at: Option<Timestamp>,
    /// Epoch seconds.
    expires_at: i64,
}

impl Transact {
    pub(super) const fn new() -> Self {
        Self { has_items: true, completed_at: None, rejected_at: None, expires_at: 0 }
    }
}

impl Acquisition {
    /// Continues after [`Next::AnswerForFailedCondition`] with an answer that is stored without the items.
    /// Its `completed_at` differs from that of the transaction.
    pub fn answer_without_items(&mut self, now: Now) -> Command {
        if let Work::Transact(transact) = &mut self.work {
            transact.has_items = false;
            transact.rejected_at = transact.completed_at.take();
        }
        self.begin_tries(now);
        match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Retrying(_, intent) => self.transact(now, intent),
            _ => self.read(now),
        }
    }

    /// Continues after [`Next::AnswerForFailedCondition`] without an answer.
    pub fn no_answer(&mut self, now: Now) -> Command {
        self.end(now, Reason::ItemsRejected)
    }

    pub(super) fn transact(&mut self, now: Now, intent: Intent) -> Command {
        let Some(stamp) = now.stamp() else { return self.read(now) };
        let Work::Transact(transact) = &mut self.work else { return self.read(now) };
        self.retention.stamped(stamp);
        let unique = transact.rejected_at.map_or(stamp.at, |at| stamp.at.max(at.shifted(1)));
        let completed_at = *transact.completed_at.get_or_insert(unique);
        // The retention begins with this write, however long the call has waited.
        let retained = stamp.at.plus(self.rules.retention).seconds_up();
        transact.expires_at = transact.expires_at.max(retained);
        let (has_items, expires_at) = (transact.has_items, transact.expires_at);
        let record = self.meta(stamp, State::Completed, Some(completed_at), expires_at);
        let condition = self.unchanged();
        let (kind, condition) = if has_items {
            (Kind::Transact, condition.unless(FaultPoint::TransactUnfenced))
        } else {
            (Kind::AnswerWithoutItems, condition)
        };
        self.dispatch(now, Write { kind, condition, record }, intent)
    }

    pub(super) fn after_transaction(
        &mut self,
        now: Now,
        result: &WriteResult<RecordMeta>,
        write: Write,
        intent: Intent,
    ) -> Command {
        match result {
            WriteResult::Applied => done(CallResult::Executed),
            WriteResult::Rejected(Some(_)) => self.decide(now),
            WriteResult::Rejected(None) => self.read(now),
            // An earlier try may have been applied, and its record removed since. The stored answer would deny it.
            WriteResult::ItemsRejected(())
                if self.is_in_doubt()
                    && write.condition.holds(None)
                    && !is_broken(FaultPoint::AnswerInDoubt) =>
            {
                self.end(now, Reason::ItemsRejected)
            }
            WriteResult::ItemsRejected(()) => {
                self.waiting = Waiting::Retrying(write, intent);
                Command::Return(Next::AnswerForFailedCondition)
            }
            WriteResult::Invalid(_) | WriteResult::NotApplied(Cause::Other)
                if !self.is_in_doubt() =>
            {
                self.give_up(now, Reason::Error, Cause::Other)
            }
            WriteResult::Invalid(_)
            | WriteResult::NotApplied(_)
            | WriteResult::Conflict(_)
            | WriteResult::TokenUsed(_)
            | WriteResult::Unknown(_) => self.retry(now, write, intent),
        }
    }

    /// Sends the same transaction again, if there is time.
    fn retry(&mut self, now: Now, write: Write, intent: Intent) -> Command {
        let Some(bound) = self.tries.pause(now) else {
            return self.end(now, Reason::Error);
        };
        self.waiting = Waiting::Retrying(write, intent);
        Command::Pause { bound, max: bound }
    }

    /// Ends the call once no transaction of this call can still be applied. To achieve this, the call
    /// replaces the version that the transaction requires.
    pub(super) fn end_transaction(&mut self, now: Now) -> Command {
        let Some((reason, tries)) = self.ending else { return done(CallResult::Unknown) };
        if let Some(own) = self.knowledge.own().filter(|own| own.is_completed()) {
            return done(self.finished(own.completed_at));
        }
        if !self.is_in_doubt() {
            return self.report(reason);
        }
        if !self.knowledge.may_complete() {
            return done(CallResult::Unknown);
        }
        if is_broken(FaultPoint::DoubtLeftOpen) {
            return done(CallResult::Nothing(reason, crate::knowledge::NoCompletion::unproved()));
        }
        self.ending = Some((reason, tries + 1));
        if tries == 0 {
            return self.supersede(now);
        }
        let Some(bound) = self.tries.pause_before(now, self.budget) else {
            return done(CallResult::Unknown);
        };
        self.waiting = Waiting::Pausing(AfterPause::Supersede);
        Command::Pause { bound, max: bound }
    }

    pub(super) fn supersede(&mut self, now: Now) -> Command {
        let Some(write) = self.superseding_write(now) else { return done(CallResult::Unknown) };
        self.knowledge.send(&write);
        self.waiting = Waiting::Superseding(write.clone());
        Command::Send { write, limit: self.limit(now).max(MIN_LIMIT) }
    }

    pub(super) fn after_superseding(
        &mut self,
        now: Now,
        result: &WriteResult<RecordMeta>,
        write: &Write,
    ) -> Command {
        match result {
            // A rejection without a record does not show what rejected the write. The read does.
            WriteResult::Rejected(None) if now.is_over(self.budget) => done(CallResult::Unknown),
            WriteResult::Rejected(None) => self.read(now),
            // An earlier try of this write, or the same one of another call, was applied.
            WriteResult::Rejected(Some(seen)) if write.has_left(seen) => {
                self.knowledge.rule_out(&write.condition);
                self.end_transaction(now)
            }
            _ => self.end_transaction(now),
        }
    }

    /// The write that replaces the version that a delayed write of this call requires. The new version means
    /// the same, and an owner that is running keeps the record.
    pub(super) fn superseding_write(&mut self, now: Now) -> Option<Write> {
        let unowned = self.knowledge.me().alternate();
        let seen = match self.knowledge.seen() {
            // A COMPLETED record is only replaced once its retention is over, so nothing of it is kept.
            Seen::Record(seen) if seen.state != State::Completed => seen,
            Seen::Nothing | Seen::Absent | Seen::Record(_) => {
                let stamp = now.stamp()?;
                self.retention.stamped(stamp);
                let record = RecordMeta { owner: unowned, attempt: 0, ..self.released(stamp) };
                let condition = self.unchanged();
                return Some(Write { kind: Kind::SupersedeByRelease, condition, record });
            }
        };
        let record = match seen.state {
            // The owner stays, because it may be slow and still complete the record. The new end is later,
            // because a renewal only moves an end later: none restores the end that the transaction requires.
            State::Pending { lease_expires_at } => {
                let state = State::Pending { lease_expires_at: lease_expires_at.shifted(1) };
                RecordMeta { state, ..seen.clone() }
            }
            State::Completed | State::Failed | State::Released => {
                RecordMeta { owner: unowned, ..seen.clone() }
            }
        };
        Some(Write { kind: Kind::Supersede, condition: self.unchanged(), record })
    }
}
