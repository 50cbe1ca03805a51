//! The moves of a handler and of its driver.

use std::time::Duration;

use crate::model::State;
use crate::process::{Committed, Does, Execution, Phase, Place, Send, Task, Writing};
use crate::rows::{Row, Work};
use crate::store::Item;
use crate::turn::Turn;
use dynamodb_idempotency_protocol::fault_point::{FaultPoint, is_broken};
use dynamodb_idempotency_protocol::policy::{Completed, Failure};
use dynamodb_idempotency_protocol::{Command, StepWrite, Verdict};

/// How many commits a handler begins at most.
const MOST: usize = 2;

/// How many steps an operation has.
const MOST_STEPS: u8 = 2;

/// The result of a request that is sent at most once. The numbers above it are those of the attempts' notes.
const RESULT: u8 = 1;

type Put<'p, 'a> = &'p mut dyn FnMut(&'static str, Turn<'a>);

pub(crate) fn moves<'a>(
    state: &State,
    execution: &Execution,
    seat: usize,
    row: &'a Row,
    put: Put<'_, 'a>,
) {
    let is_finishing = matches!(execution.does, Does::Finish(_));
    if !is_finishing && must_stop(state, execution, seat) {
        return put("stop", Turn::of(row, state.clone(), seat).stop());
    }
    match &execution.does {
        Does::Handle => handle(state, execution, seat, row, put),
        Does::Commit(task) | Does::Finish(task) => {
            match task {
                Task::Request(_) => state.request_moves(seat, Place::Main, row, put),
                Task::Pause | Task::AskHook | Task::AskInstead => {
                    put("wake", Turn::of(row, state.clone(), seat).wake());
                }
            }
            if !is_finishing && state.faults > 0 {
                put("drop-commit", Turn::of(row, state.faulty(), seat).returns(true, false));
                put("abandon-commit", Turn::of(row, state.faulty(), seat).abandons_commit());
            }
        }
    }
    for (index, writing) in execution.writing.iter().enumerate() {
        match writing.task {
            Task::Request(_) => state.request_moves(seat, Place::Step(index), row, put),
            Task::Pause | Task::AskHook | Task::AskInstead => {
                put("wake-step", Turn::of(row, state.clone(), seat).wakes_step(index));
            }
        }
        if state.faults > 0 {
            put("drop-step", Turn::of(row, state.faulty(), seat).drops_step(index));
        }
    }
    match execution.renewing.as_ref().map(|renewing| &renewing.task) {
        None => {}
        Some(Task::Request(_)) => state.request_moves(seat, Place::Renewal, row, put),
        Some(Task::Pause | Task::AskHook | Task::AskInstead) => {
            if let Some(turn) = Turn::of(row, state.clone(), seat).begins_renewal() {
                put("renew", turn);
            }
        }
    }
}

/// Whether the driver drops the handler instead of polling it.
fn must_stop(state: &State, execution: &Execution, seat: usize) -> bool {
    let now = state.process(seat).clock.now(state.tick);
    let is_over = execution.tenure.runs_until().is_none_or(|end| now.is_over(end));
    execution.is_protected && is_over && !is_broken(FaultPoint::PollAfterTheLease)
}

/// The handler is polled.
fn handle<'a>(state: &State, execution: &Execution, seat: usize, row: &'a Row, put: Put<'_, 'a>) {
    let mut polled = state.clone();
    polled.polled(seat, execution);
    if polled.violation.is_some() {
        return put("poll", Turn::of(row, polled, seat));
    }
    let turn = || Turn::of(row, state.clone(), seat);
    let role = turn().role();
    if execution.tenure.is_over() {
        return put("succeed", turn().returns(true, true));
    }
    match role.work {
        Work::Commit if execution.commits.len() < MOST && execution.tenure.may_commit().is_ok() => {
            put("commit", turn().commits());
        }
        Work::Steps | Work::StepItems | Work::StepsAtOnce => {
            let is_new = |number: &u8| execution.used & 1 << number == 0;
            let is_free = execution.writing.is_empty() || role.work == Work::StepsAtOnce;
            if let Some(number) = (1..=MOST_STEPS).find(is_new).filter(|_| is_free) {
                put("step", turn().begins_step(number));
            }
        }
        Work::SendOnce => send_once(execution, &turn, put),
        Work::Commit | Work::Run | Work::Transact | Work::LookUp => {}
    }
    // A handler that waits for a step returns nothing. One that drops it has been explored above.
    if !execution.writing.is_empty() {
        return;
    }
    put("succeed", turn().returns(true, true));
    put("fail", turn().returns(false, true));
    if role.rules.failure != Failure::Release {
        put("decline", turn().declines());
    }
}

/// The next step of `Execution::step_at_most_once`.
fn send_once<'a>(execution: &Execution, turn: &dyn Fn() -> Turn<'a>, put: Put<'_, 'a>) {
    let is_used = |number: u8| execution.used & 1 << number != 0;
    if !execution.writing.is_empty() || is_used(RESULT) {
        return;
    }
    let is_noted = execution.used != 0;
    match execution.send {
        // The look-up does not know what became of the earlier request.
        Send::Unsent if is_noted => put("decline", turn().declines()),
        Send::Unsent if is_broken(FaultPoint::SendBeforeNote) => put("send", turn().sends()),
        Send::Unsent => put("note", turn().notes()),
        Send::Noting => {}
        Send::Noted => put("send", turn().sends()),
        Send::Sent => put("step", turn().begins_step(RESULT)),
    }
}

impl Turn<'_> {
    /// Takes the execution out of the process. The caller of this function replaces it.
    fn execution(&mut self) -> Option<Execution> {
        match std::mem::replace(&mut self.process.phase, Phase::Ready) {
            Phase::Executing(execution) => Some(execution),
            phase => {
                self.process.phase = phase;
                None
            }
        }
    }

    /// The handler returns. Unless `is_plain`, the handler has dropped its commit first.
    pub(crate) fn returns(mut self, is_success: bool, is_plain: bool) -> Self {
        let Some(mut execution) = self.execution() else { return self };
        execution.is_cut_short |= !is_plain;
        if is_success && execution.commits.is_empty() {
            self.state.ledger.succeeded(self.seat, self.role().completed);
            self.state.ledger.excused |= !execution.is_protected;
        }
        self.closes(execution, if is_success { None } else { Some(Verdict::Failed) })
    }

    /// The handler has dropped its commit, and continues.
    fn abandons_commit(mut self) -> Self {
        let Some(mut execution) = self.execution() else { return self };
        execution.is_cut_short = true;
        self.drop_main(&mut execution);
        self.process.phase = Phase::Executing(execution);
        self
    }

    /// The handler reports that it has executed nothing.
    fn declines(mut self) -> Self {
        let Some(execution) = self.execution() else { return self };
        self.closes(execution, Some(Verdict::NothingExecuted))
    }

    /// `None` means that the handler has succeeded.
    fn closes(mut self, mut execution: Execution, verdict: Option<Verdict>) -> Self {
        self.drop_main(&mut execution);
        let (now, releases) = (self.now(), self.role().completed == Completed::Release);
        let tenure = &mut execution.tenure;
        let command = tenure.close(now).unwrap_or_else(|| match verdict {
            Some(verdict) => tenure.end(now, verdict),
            None if releases => tenure.end(now, Verdict::Succeeded),
            None => {
                execution.completes = true;
                let until = tenure.tries_until(now);
                tenure.complete(now, 0, until)
            }
        });
        self.converses(execution, command, None)
    }

    /// The driver drops the handler, because its lease has expired or is lost.
    fn stop(mut self) -> Self {
        let Some(mut execution) = self.execution() else { return self };
        self.drop_main(&mut execution);
        self.give_up_renewal(&mut execution);
        execution.is_cut_short = true;
        execution.tenure.stop();
        self.state.ledger.excused = true;
        match execution.tenure.expire(self.now()) {
            Some(command) => self.converses(execution, command, None),
            None => self.leaves_as_it_is(execution),
        }
    }

    /// Drops the commit or the step that the handler waits for. Its request may still arrive.
    fn drop_main(&mut self, execution: &mut Execution) {
        match std::mem::replace(&mut execution.does, Does::Handle) {
            Does::Commit(Task::Request(request)) => self.drop_request(Some(request)),
            Does::Commit(_) | Does::Handle | Does::Finish(_) => {}
        }
        for writing in std::mem::take(&mut execution.writing) {
            if let Task::Request(request) = writing.task {
                self.drop_request(Some(request));
            }
        }
    }

    fn commits(mut self) -> Self {
        let Some(mut execution) = self.execution() else { return self };
        let now = self.now();
        let tenure = &mut execution.tenure;
        let until = tenure.tries_until(now);
        let command = tenure.commit(now, until);
        let completed_at = tenure.completed_at();
        execution.commits.push(Committed { completed_at, is_refused: false });
        execution.does = Does::Commit(Task::Pause);
        self.converses(execution, command, None)
    }

    /// The work of a step has run, and its result is written.
    fn begins_step(mut self, number: u8) -> Self {
        let Some(mut execution) = self.execution() else { return self };
        self.state.step_runs(self.seat, number);
        execution.used |= 1 << number;
        if !execution.is_protected {
            self.process.phase = Phase::Executing(execution);
            return self;
        }
        let now = self.now();
        let until = execution.tenure.tries_until(now);
        let has_item = self.role().work == Work::StepItems;
        let seat = u8::try_from(self.seat).unwrap_or(u8::MAX);
        let item = has_item.then_some(Item { seat, number });
        let (machine, command) = StepWrite::start(&mut execution.tenure, now, until, item);
        execution.writing.push(Writing { number, machine, item, until, task: Task::Pause });
        let index = execution.writing.len() - 1;
        self.writes_step(execution, index, command)
    }

    /// The note that this attempt is about to send its request is written.
    fn notes(mut self) -> Self {
        let Some(mut execution) = self.execution() else { return self };
        let note = RESULT + u8::try_from(execution.tenure.attempt()).unwrap_or(u8::MAX);
        execution.send = Send::Noting;
        self.process.phase = Phase::Executing(execution);
        self.begins_step(note)
    }

    fn sends(mut self) -> Self {
        let Some(mut execution) = self.execution() else { return self };
        self.state.sends(self.seat);
        execution.send = Send::Sent;
        self.process.phase = Phase::Executing(execution);
        self
    }

    fn wakes_step(mut self, index: usize) -> Self {
        let Some(mut execution) = self.execution() else { return self };
        let now = self.now();
        let Execution { tenure, writing, .. } = &mut execution;
        let command = writing[index].machine.woke(tenure, now);
        self.writes_step(execution, index, command)
    }

    /// The handler drops the future of a step, and continues. Its request may still arrive.
    fn drops_step(mut self, index: usize) -> Self {
        let Some(mut execution) = self.execution() else { return self };
        if let Task::Request(request) = execution.writing.remove(index).task {
            self.drop_request(Some(request));
        }
        self.process.phase = Phase::Executing(execution);
        self
    }

    /// The pause before a renewal is over. `None` if the renewal would not extend the lease by a second.
    fn begins_renewal(mut self) -> Option<Self> {
        let now = self.now();
        let mut execution = self.execution()?;
        let window = execution.tenure.window();
        let command = execution.renewing.as_mut()?.machine.begin(&mut execution.tenure, now);
        // A renewal does not stamp an end that a commit required, but one a millisecond later. Any number of
        // these could follow without time passing, so a renewal by less than a second is left out.
        if let (Command::Send { write, .. }, Some(window)) = (&command, window)
            && let Some(renewed) = write.record.state.lease_expires_at()
            && renewed.since(window.lease_expires_at) < Duration::from_secs(1)
        {
            return None;
        }
        Some(self.renews(execution, command))
    }
}
