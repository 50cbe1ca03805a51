//! The write of a step's result.

use super::{EndWrite, Tenure};
use crate::condition::Term;
use crate::fault_point::FaultPoint;
use crate::machine::{Command, Outcome, ReadResult, Reply, WriteResult};
use crate::record::{RecordMeta, State};
use crate::time::{Deadline, Now};
use crate::tries::Tries;
use crate::write::{Kind, Write};

/// Stores the result of one step. Several steps of an execution can be written at the same time.
///
/// The caller sends the commands, passes each result to [`replied`](Self::replied), and calls
/// [`woke`](Self::woke) after a pause. The name and the value of the step stay outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepWrite {
    tries: Tries,
    is_reading: bool,
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
}

impl StepWrite {
    /// Begins to write, and tries until `until`.
    pub fn start(tenure: &mut Tenure, now: Now, until: Deadline) -> (Self, Command<StepResult>) {
        let this = Self { tries: Tries::until(until), is_reading: false };
        let command = this.send(tenure, now);
        (this, command)
    }

    pub fn woke(&mut self, tenure: &mut Tenure, now: Now) -> Command<StepResult> {
        self.send(tenure, now)
    }

    /// Continues with the result of the last request. `has_step` says whether the record in the response has
    /// this step with this value, so that an earlier try was applied.
    pub fn replied(
        &mut self,
        tenure: &mut Tenure,
        now: Now,
        reply: &Reply,
        has_step: bool,
    ) -> Command<StepResult> {
        tenure.heard(reply.time);
        let was_reading = std::mem::replace(&mut self.is_reading, false);
        match &reply.outcome {
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
                self.is_reading = true;
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
        let is_new = record.steps.is_some() && !tenure.steps.have_map;
        tenure.steps.have_map |= record.steps.is_some();
        if has_step {
            return Command::Return(StepResult::Stored);
        }
        // Another step has created the map of steps meanwhile: this one is added to it.
        if is_new { self.send(tenure, now) } else { self.pause(now) }
    }

    fn lost(tenure: &mut Tenure) -> Command<StepResult> {
        tenure.is_lost = true;
        Command::Return(StepResult::Lost)
    }

    /// The first step of a record creates the map of steps. Once the step is stored, a delayed copy of the
    /// request changes nothing: the member already has this value, and a new map is rejected.
    fn send(&self, tenure: &mut Tenure, now: Now) -> Command<StepResult> {
        tenure.steps.were_sent = true;
        let held = tenure.held().unless(FaultPoint::StepUnfenced);
        let condition = if tenure.steps.have_map { held } else { held.and(Term::NoSteps) };
        let stamp = tenure.lease_expires_at();
        let state = State::Pending { lease_expires_at: stamp };
        let record = tenure.attempts.meta(tenure.knowledge.me(), stamp, state, None, 0);
        // Only the step is written.
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
