//! Everything that one call knows of its key. Nothing else decides what is sent and what is told.

use std::marker::PhantomData;

use super::condition::Prospect;
use super::record::Header;
use super::write::{Form, Outcome, Reply, Write};
use crate::owner::OwnerId;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Knowledge {
    me: OwnerId,
    /// Every write of ours that the store could still execute, answered or not: a copy of an answered
    /// one may come late as well.
    sent: Vec<Write>,
    seen: Seen,
    /// A transaction of ours, or an answer in its place, was not heard of, or may have been executed by an
    /// earlier try.
    has_lost_completion: bool,
}

/// What the store has shown last.
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

/// Proof that no write of this call's can land any more. It borrows what it was found in, so it does
/// not outlive the next write.
#[derive(Debug)]
pub struct Settled<'a>(PhantomData<&'a Knowledge>);

/// Proof that no write of this call's can land any more that has an effect. It borrows as
/// [`Settled`] does.
#[derive(Debug)]
pub struct NoEffect<'a>(PhantomData<&'a Knowledge>);

impl Knowledge {
    pub const fn new(me: OwnerId) -> Self {
        Self { me, sent: Vec::new(), seen: Seen::Nothing, has_lost_completion: false }
    }

    pub const fn me(&self) -> &OwnerId {
        &self.me
    }

    pub const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The record seen last, where it is this call's own.
    pub fn own(&self) -> Option<&Header> {
        self.seen.record().filter(|record| record.owner == self.me)
    }

    /// The record that this response has shown, where it is this call's own, or one that it has just put.
    pub fn shown_by(&self, reply: &Reply, was_put: bool) -> Option<&Header> {
        match reply.outcome {
            Outcome::Applied if was_put => self.seen.record(),
            Outcome::Applied | Outcome::Refused(Some(_)) | Outcome::Found(Some(_)) => self.own(),
            _ => None,
        }
    }

    /// Whether our own pending record is what was seen last.
    pub fn holds_key(&self) -> bool {
        self.seen.record().is_some_and(|record| record.is_pending_of(&self.me))
    }

    /// A write is about to be sent.
    pub fn send(&mut self, write: &Write) {
        self.sent.push(write.clone());
    }

    /// What became of `write`, or of a read.
    pub fn learn(&mut self, reply: &Reply, write: Option<&Write>) {
        if let Some(write) = write
            && (reply.is_in_doubt || reply.outcome == Outcome::Unknown)
        {
            self.lose(write);
        }
        match (&reply.outcome, write) {
            (Outcome::Applied, Some(write)) => {
                let record = write.applied_to(self.seen.record());
                self.see(Some(record));
            }
            (Outcome::Refused(record), write) => {
                // Of another write an earlier try may land: what was seen tells.
                if let Some(write) = write.filter(|write| write.form == Form::Transaction)
                    && !reply.is_in_doubt
                {
                    self.did_not_happen(write);
                }
                if let Some(record) = record {
                    self.see(Some(record.clone()));
                }
            }
            (Outcome::Found(record), _) => self.see(record.clone()),
            (
                Outcome::Conflict
                | Outcome::Invalid
                | Outcome::NotApplied(_)
                | Outcome::ItemsRefused,
                Some(write),
            ) if !reply.is_in_doubt => self.did_not_happen(write),
            _ => {}
        }
    }

    /// The record is this, or was when the store said so.
    pub fn see(&mut self, record: Option<Header>) {
        self.seen = record.map_or(Seen::Absent, Seen::Record);
        self.forget_impossible();
    }

    /// Nobody knows what becomes of it, or nobody waits for it.
    pub fn lose(&mut self, write: &Write) {
        let completes = write.record.is_completed() && !write.condition.accepts_holder(&self.me);
        self.has_lost_completion |= write.form == Form::Transaction || completes;
    }

    /// The version that a lost completion asked for was there until it was put out of its way: it never
    /// landed.
    pub const fn rule_out(&mut self) {
        self.has_lost_completion = false;
    }

    /// Whether a completion of ours may have landed and another owner begun anew after it: what it has
    /// left is not seen then. Only under [`Completed::Execute`](crate::policy::Completed::Execute).
    pub fn may_have_been_replaced(&self) -> bool {
        let is_anothers = self.seen.record().is_some_and(|record| record.owner != self.me);
        self.has_lost_completion && is_anothers
    }

    /// Of two that are alike, one.
    fn did_not_happen(&mut self, write: &Write) {
        if let Some(place) = self.sent.iter().rposition(|other| other == write) {
            self.sent.remove(place);
        }
    }

    /// Forgets writes whose condition can never be satisfied again. One that requires our own PENDING
    /// record can be applied only if an acquisition of ours still can.
    fn forget_impossible(&mut self) {
        let (me, seen) = (&self.me, &self.seen);
        let prospect = |write: &Write| match seen {
            Seen::Nothing => write.condition.prospect_unseen(me),
            Seen::Absent => write.condition.prospect(me, None),
            Seen::Record(record) => write.condition.prospect(me, Some(record)),
        };
        let is_acquisition =
            |write: &Write| prospect(write) == Prospect::Possible && write.record.is_pending_of(me);
        let may_acquire = self.sent.iter().any(is_acquisition);
        self.sent.retain(|write| match prospect(write) {
            Prospect::Possible => true,
            Prospect::Impossible => false,
            Prospect::AfterAcquisition => may_acquire,
        });
    }

    /// The proof that nothing of ours is under way.
    pub fn settled(&self) -> Option<Settled<'_>> {
        self.sent.is_empty().then_some(Settled(PhantomData))
    }

    /// The proof that nothing of ours is under way that has an effect: what completes the record.
    pub fn no_effect(&self) -> Option<NoEffect<'_>> {
        let has_effect = |write: &Write| write.record.is_completed();
        (!self.sent.iter().any(has_effect)).then_some(NoEffect(PhantomData))
    }

    /// Whether a transaction of ours may land.
    pub fn may_transact(&self) -> bool {
        self.sent.iter().any(|write| write.form == Form::Transaction)
    }

    /// Whether a write of ours is in the table, or may be, or may yet arrive there, that keeps others
    /// from the key.
    pub fn may_hold_key(&self) -> bool {
        self.holds_key() || self.sent.iter().any(|write| write.record.is_pending_of(&self.me))
    }
}
