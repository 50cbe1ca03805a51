//! Everything that one call knows of its key. Nothing else decides what is sent and what is told.

use std::marker::PhantomData;

use super::record::Header;
use super::write::{Form, Guard, Outcome, Reply, Write};
use crate::owner::OwnerId;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Knowledge {
    me: OwnerId,
    /// Every write of ours that the store could still execute, answered or not: a copy of an answered
    /// one may come late as well.
    may_land: Vec<Write>,
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

/// Whether a write may still land, by what was seen.
enum Outlook {
    Alive,
    Dead,
    /// It asks for our own pending record, which is there only if another write of ours lands first.
    AfterTaking,
}

impl Knowledge {
    pub const fn new(me: OwnerId) -> Self {
        Self { me, may_land: Vec::new(), seen: Seen::Nothing, has_lost_completion: false }
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
        self.may_land.push(write.clone());
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
        self.forget_what_cannot_land();
    }

    /// Nobody knows what becomes of it, or nobody waits for it.
    pub fn lose(&mut self, write: &Write) {
        let takes_a_place = matches!(write.guard, Guard::Absent | Guard::Unchanged(_));
        let completes = write.record.is_completed() && takes_a_place;
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
        if let Some(place) = self.may_land.iter().rposition(|sent| sent == write) {
            self.may_land.remove(place);
        }
    }

    /// No version of a record comes back once it is gone. So a write is dead for good when the record
    /// is seen past what its guard asks for; and one that asks for our own pending record only when
    /// what makes it so is dead as well.
    fn forget_what_cannot_land(&mut self) {
        let Self { me, may_land, seen, .. } = self;
        let is_taking = |write: &Write| {
            matches!(outlook(&write.guard, me, seen), Outlook::Alive)
                && write.record.is_pending_of(me)
        };
        let may_take = may_land.iter().any(is_taking);
        may_land.retain(|write| match outlook(&write.guard, me, seen) {
            Outlook::Alive => true,
            Outlook::Dead => false,
            Outlook::AfterTaking => may_take,
        });
    }

    /// The proof that nothing of ours is under way.
    pub fn settled(&self) -> Option<Settled<'_>> {
        self.may_land.is_empty().then_some(Settled(PhantomData))
    }

    /// The proof that nothing of ours is under way that has an effect: what completes the record.
    pub fn no_effect(&self) -> Option<NoEffect<'_>> {
        let has_effect = |write: &Write| write.record.is_completed();
        (!self.may_land.iter().any(has_effect)).then_some(NoEffect(PhantomData))
    }

    /// Whether a transaction of ours may land.
    pub fn may_transact(&self) -> bool {
        self.may_land.iter().any(|write| write.form == Form::Transaction)
    }

    /// Whether a write of ours is in the table, or may be, or may yet arrive there, that keeps others
    /// from the key.
    pub fn may_hold_key(&self) -> bool {
        self.holds_key() || self.may_land.iter().any(|write| write.record.is_pending_of(&self.me))
    }
}

fn outlook(guard: &Guard, me: &OwnerId, seen: &Seen) -> Outlook {
    let (record, is_unseen) = (seen.record(), matches!(seen, Seen::Nothing));
    let is_held = record.is_some_and(|record| record.is_pending_of(me));
    let alive = |is_alive| if is_alive { Outlook::Alive } else { Outlook::Dead };
    let held = |is_alive| if is_held { alive(is_alive) } else { Outlook::AfterTaking };
    match guard {
        Guard::Absent => alive(record.is_none()),
        Guard::Unchanged(_) => alive(is_unseen || guard.holds(me, record)),
        Guard::HeldUntil(end) => {
            let lease = record.and_then(|record| record.state.lease_expires_at());
            held(lease == Some(*end))
        }
        Guard::Held | Guard::HeldForLess(_) | Guard::HeldWithoutSteps => {
            held(guard.holds(me, record))
        }
        Guard::AbsentOrHeld => {
            if is_unseen || guard.holds(me, record) {
                Outlook::Alive
            } else {
                Outlook::AfterTaking
            }
        }
        // Whoever has it may release it; but what has completed stays.
        Guard::FreeOrHeld(_) => alive(record.is_none_or(|record| !record.is_completed())),
    }
}
