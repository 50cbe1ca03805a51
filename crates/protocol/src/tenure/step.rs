//! The write of a step's result: in the record, or in an item of its own that the record notes.

use std::time::Duration;

use super::{EndWrite, Tenure};
use crate::condition::Term;
use crate::fault_point::{FaultPoint, is_broken};
use crate::machine::{Cause, Command, Outcome, ReadResult, Reply, WriteResult};
use crate::record::{RecordMeta, State};
use crate::time::{Deadline, Now};
use crate::tries::Tries;
use crate::write::{Kind, Write};

/// How much longer than its record the item of a step is kept. The library moves the ends of the items first if a
/// write of the record moves its end past theirs.
pub const STEP_ITEM_MARGIN: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Stores the result of one step. Several steps of an execution can be written at the same time.
///
/// A result can have an item of its own. The item is confirmed before the record notes it. Its key identifies its
/// content, so its write needs no condition on the record: a delayed copy of it changes nothing. The write of the
/// note requires that the execution holds the key.
///
/// The caller sends the commands, passes each result to [`replied`](Self::replied), and calls
/// [`woke`](Self::woke) after a pause. The name and the value of the step stay outside, and a name has only one value.
/// `I` is the caller's reference to the item.
///
/// If the caller drops it, its request may still be applied while the execution holds the key. The execution counts as
/// one that has sent a step: a failure of it is kept, not released or undone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepWrite<I> {
    tries: Tries,
    /// Whether the last request required a record without a map of steps.
    creates_map: bool,
    stage: Stage<I>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage<I> {
    /// The item is not confirmed yet.
    Item(ItemWrite<I>),
    Writing,
    /// A read finds the record that has rejected the write.
    Reading,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ItemWrite<I> {
    item: I,
    /// These end earlier than the tries of the record.
    tries: Tries,
    expires_at: i64,
}

/// What the caller of a [`StepWrite`] does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum StepCommand<I> {
    /// Put the item, unless it is in the table until `expires_at` (in epoch seconds) or longer. Its reply is that
    /// of a write: [`WriteResult::Applied`] if the table has the item, whichever write has put it.
    PutItem { item: I, expires_at: i64, limit: Duration },
    /// A request of the record, a pause, or the result.
    Record(Command<StepResult>),
}

/// How the write of a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum StepResult {
    Stored,
    /// DynamoDB does not accept the value.
    Invalid,
    /// Another owner has the record, or it was removed.
    Lost,
    /// The operation has ended.
    Over,
    /// DynamoDB did not confirm the write in time.
    Unconfirmed,
    /// The item was not confirmed in time, or cannot be stored. The record does not note it, and another
    /// `StepWrite` can store the result in the record.
    ItemUnconfirmed,
}

impl<I: Copy> StepWrite<I> {
    /// Begins to write, and tries until `until`.
    pub fn start(
        tenure: &mut Tenure,
        now: Now,
        until: Deadline,
        item: Option<I>,
    ) -> (Self, StepCommand<I>) {
        let stage = item.map_or(Stage::Writing, |item| {
            let tries = Tries::until(tenure.step_item_until(now, until));
            Stage::Item(ItemWrite { item, tries, expires_at: tenure.step_item_expires_at() })
        });
        let mut this = Self { tries: Tries::until(until), creates_map: false, stage };
        let command = this.woke(tenure, now);
        (this, command)
    }

    pub fn woke(&mut self, tenure: &mut Tenure, now: Now) -> StepCommand<I> {
        // The work of the step has run, even if the record shows nothing of it yet.
        tenure.steps.were_sent = true;
        match &self.stage {
            Stage::Item(ItemWrite { item, tries, expires_at }) => {
                let (item, expires_at) = (*item, *expires_at);
                StepCommand::PutItem { item, expires_at, limit: tries.limit(now) }
            }
            Stage::Writing | Stage::Reading => StepCommand::Record(self.send(tenure, now)),
        }
    }

    /// Continues with the result of the last request. `has_step` says whether the record in the response has
    /// this step with this value, so that an earlier try was applied.
    pub fn replied(
        &mut self,
        tenure: &mut Tenure,
        now: Now,
        reply: &Reply,
        has_step: bool,
    ) -> StepCommand<I> {
        tenure.heard(reply.time);
        let was_reading = match std::mem::replace(&mut self.stage, Stage::Writing) {
            Stage::Item(item) => {
                return StepCommand::Record(self.after_item(tenure, now, &reply.outcome, item));
            }
            Stage::Writing => false,
            Stage::Reading => true,
        };
        StepCommand::Record(match &reply.outcome {
            Outcome::Write(WriteResult::Applied) => {
                tenure.steps.have_map = true;
                Command::Return(StepResult::Stored)
            }
            Outcome::Write(WriteResult::Invalid(_)) => Command::Return(StepResult::Invalid),
            Outcome::Write(WriteResult::Rejected(Some(record)))
            | Outcome::Read(ReadResult::Found(Some(record))) => {
                self.after_record(tenure, now, record, has_step)
            }
            Outcome::Write(WriteResult::Rejected(None)) if !was_reading => {
                self.stage = Stage::Reading;
                Command::Read { is_consistent: true, limit: self.tries.limit(now) }
            }
            Outcome::Read(ReadResult::Found(None)) => Self::lost(tenure),
            Outcome::Write(
                WriteResult::Rejected(None)
                | WriteResult::ItemsRejected(())
                | WriteResult::Conflict(_)
                | WriteResult::TokenUsed(_)
                | WriteResult::NotApplied(_)
                | WriteResult::Unknown(_),
            )
            | Outcome::Read(ReadResult::Stale(_) | ReadResult::Failed(_)) => self.pause(now),
        })
    }

    fn after_item(
        &mut self,
        tenure: &mut Tenure,
        now: Now,
        outcome: &Outcome,
        mut item: ItemWrite<I>,
    ) -> Command<StepResult> {
        let is_confirmed = matches!(outcome, Outcome::Write(WriteResult::Applied));
        if is_confirmed || is_broken(FaultPoint::NoteBeforeItem) {
            return self.send(tenure, now);
        }
        // After any other error the item is given up, because the record can store the result.
        let may_retry = !matches!(
            outcome,
            Outcome::Write(WriteResult::Invalid(_) | WriteResult::NotApplied(Cause::Other))
        );
        match item.tries.pause(now) {
            Some(bound) if may_retry => {
                self.stage = Stage::Item(item);
                Command::Pause { bound, max: bound }
            }
            _ => Command::Return(StepResult::ItemUnconfirmed),
        }
    }

    fn after_record(
        &mut self,
        tenure: &mut Tenure,
        now: Now,
        record: &RecordMeta,
        has_step: bool,
    ) -> Command<StepResult> {
        if record.owner != *tenure.knowledge.me() {
            return Self::lost(tenure);
        }
        let State::Pending { .. } = record.state else { return Command::Return(StepResult::Over) };
        tenure.steps.have_map |= record.steps.is_some();
        if has_step {
            return Command::Return(StepResult::Stored);
        }
        // Another step has created the map of steps meanwhile: this one is added to it.
        let is_beside_another = self.creates_map && record.steps.is_some();
        if is_beside_another { self.send(tenure, now) } else { self.pause(now) }
    }

    fn lost(tenure: &mut Tenure) -> Command<StepResult> {
        tenure.is_lost = true;
        Command::Return(StepResult::Lost)
    }

    /// The first step of a record creates the map of steps. Once the step is stored, a delayed copy of the
    /// request changes nothing: the member already has this value, and a new map is rejected.
    fn send(&mut self, tenure: &mut Tenure, now: Now) -> Command<StepResult> {
        let held = tenure.held().unless(FaultPoint::StepUnfenced);
        self.creates_map = !tenure.steps.have_map;
        let condition = if self.creates_map { held.and(Term::NoSteps) } else { held };
        // Only the step is written.
        let lease_expires_at = tenure.lease_expires_at();
        let state = State::Pending { lease_expires_at };
        let record = tenure.attempts.meta(tenure.knowledge.me(), lease_expires_at, state, None, 0);
        let record = RecordMeta { steps: Some(1), ..record };
        let write = Write { kind: Kind::Step, condition, record };
        Command::Send { write, limit: self.tries.limit(now) }
    }

    fn pause(&mut self, now: Now) -> Command<StepResult> {
        match self.tries.pause(now) {
            Some(bound) => Command::Pause { bound, max: bound },
            None => Command::Return(StepResult::Unconfirmed),
        }
    }
}

impl Tenure {
    /// Until when the item of a step may be tried: half of the time that is left, or of an unrenewed lease that
    /// ends sooner. The other half is for the record.
    fn step_item_until(&self, now: Now, until: Deadline) -> Deadline {
        let is_renewed = self.rules.lease.renewed(self.rules.deadline).is_some();
        let of_lease = self.window.filter(|_| !is_renewed).map(|window| now.left(window.end));
        let time = now.left(until);
        now.lasting(of_lease.map_or(time, |of_lease| time.min(of_lease)) / 2)
    }

    /// When the item of a step expires, in epoch seconds: a week after the record, even if the lease is renewed
    /// while the item is written.
    fn step_item_expires_at(&self) -> i64 {
        let renewed = self.rules.lease.renewed(self.rules.deadline).unwrap_or_default();
        let lease_expires_at = self.lease_expires_at().max(self.recorded_lease).plus(renewed);
        lease_expires_at.plus(self.rules.retention).plus(STEP_ITEM_MARGIN).seconds_up()
    }

    /// The write of a failed execution. A record that may have steps is always kept.
    pub(super) const fn failure_write(&self) -> EndWrite {
        let may_have_steps = self.steps.have_map || self.steps.were_sent;
        let is_kept = self.rules.failure.is_kept() || may_have_steps;
        if is_kept { EndWrite::Keep } else { EndWrite::Release }
    }

    /// The write of an execution that has executed nothing. One that has sent a step has executed something.
    pub(super) const fn undo_write(&self) -> EndWrite {
        if self.steps.were_sent { EndWrite::Keep } else { EndWrite::Undo }
    }
}
