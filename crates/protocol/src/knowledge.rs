//! What one call knows of its key: the writes that may still be applied, and the record as it was seen last. Renewals,
//! their corrections, steps and extensions are not noted: no delayed one of them acquires the key or ends the
//! operation.

use crate::condition::{Condition, Prospect};
use crate::fault_point::{FaultPoint, is_broken};
use crate::machine::{Outcome, ReadResult, Reply, WriteResult};
use crate::owner::OwnerId;
use crate::record::{RecordMeta, State};
use crate::write::{Form, Kind, Write};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Knowledge {
    me: OwnerId,
    /// The writes of this call that DynamoDB may still apply. A write stays here until DynamoDB has said that it did
    /// not execute it, or until a delayed copy of it would certainly be rejected.
    possible: Vec<Write>,
    /// The commits, transactions and answers without items ([`Kind::AnswerWithoutItems`]) of this call whose outcome is
    /// unknown. An absent record proves nothing about them: it may have been deleted since.
    doubtful: Vec<Write>,
    seen: Seen,
}

/// The record that DynamoDB returned last, or that the last applied write has made of it. Renewals and steps since then
/// are not in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    Nothing,
    Absent,
    Record(RecordMeta),
}

impl Seen {
    pub const fn record(&self) -> Option<&RecordMeta> {
        match self {
            Self::Record(record) => Some(record),
            Self::Nothing | Self::Absent => None,
        }
    }
}

/// Proof that no answer of this call's handler, commit or transaction was stored, or can still be stored. The handler
/// may have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoCompletion(());

impl NoCompletion {
    /// For a broken rule.
    pub(crate) const fn unproved() -> Self {
        Self(())
    }

    /// For a call that sends no transaction and runs no handler.
    pub(crate) const fn without_completions() -> Self {
        Self(())
    }
}

impl Knowledge {
    pub const fn new(me: OwnerId) -> Self {
        Self { me, possible: Vec::new(), doubtful: Vec::new(), seen: Seen::Nothing }
    }

    pub const fn me(&self) -> &OwnerId {
        &self.me
    }

    pub const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The record that was seen last, if this call owns it.
    pub fn own(&self) -> Option<&RecordMeta> {
        self.seen.record().filter(|record| record.owner == self.me)
    }

    /// The record that this reply has shown, if this call has stamped its `expires_at`. Usually this is the
    /// call's own record. After a put (`was_put`) it can also be a RELEASED record under an id that no call
    /// has: the call puts it when its transaction on an absent record, or an acquisition that it undoes, is
    /// in doubt.
    pub(crate) fn shown_by(&self, reply: &Reply, was_put: bool) -> Option<&RecordMeta> {
        match &reply.outcome {
            Outcome::Write(WriteResult::Applied) if was_put => self.seen.record(),
            Outcome::Write(WriteResult::Applied) => self.own(),
            outcome => outcome.record().and_then(|_| self.own()),
        }
    }

    /// Whether the record that was seen last is PENDING and this call owns it.
    pub fn holds_key(&self) -> bool {
        self.seen.record().is_some_and(|record| record.is_pending_of(&self.me))
    }

    /// Notes a write that is about to be sent.
    pub fn send(&mut self, write: &Write) {
        self.possible.push(write.clone());
    }

    /// Notes the reply to a read, or to this write.
    pub fn learn(&mut self, reply: &Reply, write: Option<&Write>) {
        match (&reply.outcome, write) {
            (Outcome::Read(ReadResult::Found(record)), _) => self.see(record.clone()),
            (Outcome::Write(result), Some(write)) => {
                self.learn_result(result, reply.is_in_doubt, write);
            }
            (Outcome::Read(ReadResult::Stale(_) | ReadResult::Failed(_)), _)
            | (Outcome::Write(_), None) => {}
        }
    }

    fn learn_result(&mut self, result: &WriteResult<RecordMeta>, is_in_doubt: bool, write: &Write) {
        let is_unknown = is_in_doubt || matches!(result, WriteResult::Unknown(_));
        if is_unknown && !is_broken(FaultPoint::ForgetDoubt) {
            self.mark_unknown(write);
        }
        match result {
            WriteResult::Applied => {
                self.rule_out(&write.condition);
                self.see(Some(write.applied_to(self.seen.record())));
            }
            WriteResult::Rejected(record) => {
                // The reply to a transaction says whether an earlier try is in doubt. Replies to other
                // writes do not, so these writes stay in `possible` until a record rules them out.
                if write.form() == Form::Transaction && !is_in_doubt {
                    self.was_not_applied(write);
                }
                if let Some(record) = record {
                    self.see(Some(record.clone()));
                }
            }
            WriteResult::Conflict(_)
            | WriteResult::TokenUsed(_)
            | WriteResult::Invalid(_)
            | WriteResult::NotApplied(_)
            | WriteResult::ItemsRejected(())
                if !is_in_doubt =>
            {
                self.was_not_applied(write);
            }
            WriteResult::Unknown(_) if is_broken(FaultPoint::ForgetDoubt) => {
                self.was_not_applied(write);
            }
            _ => {}
        }
    }

    /// Learns that DynamoDB returned this record.
    pub fn see(&mut self, record: Option<RecordMeta>) {
        if record.is_none() && is_broken(FaultPoint::TrustAbsence) {
            self.doubtful.clear();
        }
        if let Some(record) = &record {
            let me = self.me;
            self.doubtful.retain(|write| !disproves(record, write, &me));
        }
        self.seen = record.map_or(Seen::Absent, Seen::Record);
        self.forget_impossible();
    }

    /// Notes that the outcome of this write is unknown.
    pub(crate) fn mark_unknown(&mut self, write: &Write) {
        let is_doubtful = match write.kind {
            Kind::ResolveByCommit => !is_broken(FaultPoint::ForgetHookCommit),
            Kind::Commit | Kind::Transact | Kind::AnswerWithoutItems => true,
            Kind::Acquire
            | Kind::Replace
            | Kind::TakeOver
            | Kind::StampAgain
            | Kind::Renew
            | Kind::CloseOff
            | Kind::Step
            | Kind::Complete
            | Kind::Keep
            | Kind::Release
            | Kind::ReleaseSucceeded
            | Kind::Undo
            | Kind::ResolveCompleted
            | Kind::ResolveFailed
            | Kind::Supersede
            | Kind::SupersedeByRelease
            | Kind::Extend => false,
        };
        if is_doubtful && !self.doubtful.contains(write) {
            self.doubtful.push(write.clone());
        }
    }

    /// Notes that a write of this call with this condition was applied. If the condition requires a record, that
    /// version was present until then. So no other write that requires the same version was applied before.
    pub(crate) fn rule_out(&mut self, required: &Condition) {
        if !required.holds(None) {
            self.doubtful.retain(|write| write.condition != *required);
        }
    }

    fn was_not_applied(&mut self, write: &Write) {
        if let Some(index) = self.possible.iter().rposition(|other| other == write) {
            self.possible.remove(index);
        }
    }

    /// Forgets the writes that can no longer be applied.
    fn forget_impossible(&mut self) {
        let (me, seen) = (&self.me, &self.seen);
        let prospect = |write: &Write| match seen {
            Seen::Nothing => write.condition.prospect_unseen(me),
            Seen::Absent => write.condition.prospect(me, None),
            Seen::Record(record) => write.condition.prospect(me, Some(record)),
        };
        let is_acquisition =
            |write: &Write| prospect(write) == Prospect::Possible && write.record.is_pending_of(me);
        let may_acquire = self.possible.iter().any(is_acquisition);
        self.possible.retain(|write| match prospect(write) {
            Prospect::Possible => true,
            Prospect::Impossible => false,
            Prospect::AfterAcquisition => may_acquire,
        });
    }

    /// Whether no write of this call can still be applied.
    pub fn is_settled(&self) -> bool {
        self.possible.is_empty()
    }

    /// Proof that no completion of this call was applied, or can still be applied. The caller must first have
    /// checked that this call has not completed the record seen last.
    pub fn no_completion(&self) -> Option<NoCompletion> {
        (self.doubtful.is_empty() && !self.may_complete()).then_some(NoCompletion(()))
    }

    /// Proof that no transaction of this call was applied, or can still be applied. This call has sent no other
    /// completion than a hook's.
    pub(crate) fn no_transaction(&self) -> Option<NoCompletion> {
        (!self.may_transact()).then_some(NoCompletion(()))
    }

    /// Whether a completion of this call can still be applied.
    pub fn may_complete(&self) -> bool {
        self.possible.iter().any(|write| write.record.is_completed())
    }

    /// Whether a transaction of this call may have been applied, or may still be applied.
    pub fn may_transact(&self) -> bool {
        !self.doubtful.is_empty()
            || self.possible.iter().any(|write| write.form() == Form::Transaction)
    }

    /// Whether this call holds the key, or a write of it may still acquire the key.
    pub fn may_hold_key(&self) -> bool {
        self.holds_key() || self.possible.iter().any(|write| write.record.is_pending_of(&self.me))
    }
}

/// Whether this record proves that `write`, a commit or transaction of `me`, was not applied before.
///
/// A COMPLETED record keeps its owner and its `created_at` until it is removed: it expires, or an operator deletes or
/// releases it. The record of a later request has another `created_at`, and a release by hand writes another owner.
fn disproves(record: &RecordMeta, write: &Write, me: &OwnerId) -> bool {
    if record.owner == *me {
        // The call's own write has left it, and it is not the completion.
        return record.state != State::Completed;
    }
    if is_broken(FaultPoint::TrustAnyOwner) {
        return true;
    }
    // Every owner since then has taken over from the one before. If no record was required, another call may
    // have created its record in the same millisecond.
    !write.condition.holds(None)
        && record.created_at == write.record.created_at
        && record.attempt > write.record.attempt
}
