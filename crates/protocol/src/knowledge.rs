//! What one call knows of its key: the writes that may still be applied, and the record that DynamoDB
//! returned last.

use crate::condition::Prospect;
use crate::fault_point::{FaultPoint, is_broken};
use crate::machine::{Outcome, ReadResult, Reply, WriteResult};
use crate::owner::OwnerId;
use crate::record::Header;
use crate::write::{Form, Write};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Knowledge {
    me: OwnerId,
    /// The writes of this call that DynamoDB may still apply. A write stays here until a delayed copy of
    /// it would certainly be rejected.
    possible: Vec<Write>,
    seen: Seen,
    /// The outcome of a transaction, or of a hook's resolution as COMPLETED, is unknown.
    has_lost_completion: bool,
}

/// What DynamoDB returned last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    Nothing,
    Absent,
    Record(Header),
}

impl Seen {
    pub const fn record(&self) -> Option<&Header> {
        match self {
            Self::Record(record) => Some(record),
            Self::Nothing | Self::Absent => None,
        }
    }
}

/// Proof that no answer of this call's handler or transaction was stored, or can still be stored. The
/// handler may have run.
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
        let possible = Vec::new();
        Self { me, possible, seen: Seen::Nothing, has_lost_completion: false }
    }

    pub const fn me(&self) -> &OwnerId {
        &self.me
    }

    pub const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The record that was seen last, if this call owns it.
    pub fn own(&self) -> Option<&Header> {
        self.seen.record().filter(|record| record.owner == self.me)
    }

    /// The record that this reply has shown, if this call has stamped its `expires_at`. Usually this is the
    /// call's own record. After a put (`was_put`) it can also be a RELEASED record under an id that no call
    /// has: the call puts it when its transaction on an absent record, or an acquisition that it undoes, is
    /// in doubt.
    pub(crate) fn shown_by(&self, reply: &Reply, was_put: bool) -> Option<&Header> {
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

    fn learn_result(&mut self, result: &WriteResult<Header>, is_in_doubt: bool, write: &Write) {
        if is_in_doubt || matches!(result, WriteResult::Unknown(_)) {
            self.mark_unknown(write);
        }
        match result {
            WriteResult::Applied => self.see(Some(write.applied_to(self.seen.record()))),
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
                self.was_not_applied(write)
            }
            _ => {}
        }
    }

    /// Learns that DynamoDB returned this record.
    pub fn see(&mut self, record: Option<Header>) {
        self.seen = record.map_or(Seen::Absent, Seen::Record);
        self.forget_impossible();
    }

    /// Notes that the outcome of this write stays unknown.
    pub fn mark_unknown(&mut self, write: &Write) {
        let replaces_version = !write.condition.accepts_holder(&self.me);
        let completes = write.record.is_completed() && replaces_version;
        self.has_lost_completion |= write.form() == Form::Transaction || completes;
    }

    /// Notes that the completion in doubt was not applied and never will be, because this call has replaced
    /// the version that the completion requires.
    pub const fn rule_out_completion(&mut self) {
        self.has_lost_completion = false;
    }

    /// Whether a completion of this call may have been applied and then replaced by another owner's record.
    /// Only possible under [`Completed::Execute`](crate::policy::Completed::Execute).
    pub fn may_have_been_replaced(&self) -> bool {
        let is_others = self.seen.record().is_some_and(|record| record.owner != self.me);
        self.has_lost_completion && is_others
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

    /// Proof that no completion of this call can still be applied. The caller must first have checked that
    /// this call has not completed the record seen last.
    pub fn no_effect(&self) -> Option<NoCompletion> {
        let has_effect = |write: &Write| write.record.is_completed();
        (!self.possible.iter().any(has_effect)).then_some(NoCompletion(()))
    }

    /// Whether a transaction of this call may still be applied.
    pub fn may_transact(&self) -> bool {
        self.possible.iter().any(|write| write.form() == Form::Transaction)
    }

    /// Whether this call holds the key, or a write of it may still acquire the key.
    pub fn may_hold_key(&self) -> bool {
        self.holds_key() || self.possible.iter().any(|write| write.record.is_pending_of(&self.me))
    }
}
