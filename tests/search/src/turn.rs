//! One move of a process, as the library's driver takes it. It passes a result to the machine, and keeps
//! the machine's next command.

use crate::clock::store_time;
use crate::model::{State, owner};
use crate::oracle::{MAX_UNHEARD, is_definite};
use crate::process::{
    Acquiring, Answer, Does, Execution, Fate, Phase, Place, Process, Renewing, Request, Send,
    Shown, Slot, Task, Writing,
};
use crate::rows::{MAX_CALLERS, Role, Row, Work};
use crate::store::{Item, Wire};
use dynamodb_idempotency_protocol::time::{Now, Timestamp};
use dynamodb_idempotency_protocol::{
    Acquisition, Command, CommitEnd, Goal, Kind, Machine, Next, Outcome, ReadResult, Renewal,
    Renewals, Reply, Resolution, StepCommand, StepResult, StepWrite, Tenure, TenureEnd, Window,
    WriteResult,
};

pub(crate) struct Turn<'a> {
    pub(crate) row: &'a Row,
    pub(crate) seat: usize,
    pub(crate) state: State,
    pub(crate) process: Process,
}

impl<'a> Turn<'a> {
    pub(crate) fn of(row: &'a Row, state: State, seat: usize) -> Self {
        let process = state.process(seat).clone();
        Self { row, seat, state, process }
    }

    pub(crate) fn done(mut self) -> State {
        self.process.is_stalled = false;
        self.state.slots[self.seat] = Slot::of(self.process);
        self.state
    }

    pub(crate) fn role(&self) -> &'a Role {
        &self.row.roles[self.seat.min(MAX_CALLERS - 1)]
    }

    pub(crate) fn now(&self) -> Now {
        self.process.clock.now(self.state.tick)
    }

    pub(crate) fn start(self) -> Self {
        let (now, role) = (self.now(), self.role());
        let deadline = role.deadline.map(|length| now.local.plus(length));
        let rules = dynamodb_idempotency_protocol::Rules { deadline, ..role.rules };
        let goal = match role.work {
            Work::Run
            | Work::Commit
            | Work::Steps
            | Work::StepItems
            | Work::StepsAtOnce
            | Work::SendOnce => Goal::Own,
            Work::Transact => Goal::Transact,
            Work::LookUp => Goal::LookUp,
        };
        let first = match role.work {
            Work::LookUp => dynamodb_idempotency_protocol::policy::FirstRequest::ConsistentRead,
            _ => role.first,
        };
        let mut machine = Acquisition::new(owner(self.seat), goal, rules, now);
        let command = machine.start(now, first);
        let acquiring = Acquiring {
            machine,
            rules,
            task: Task::Pause,
            shown: Shown::default(),
            seen_steps: None,
            taken_steps: 0,
        };
        self.acquires(acquiring, command, None)
    }

    pub(crate) fn wake(mut self) -> Self {
        let now = self.now();
        match std::mem::replace(&mut self.process.phase, Phase::Ready) {
            Phase::Acquiring(mut acquiring) => {
                let command = acquiring.machine.woke(now);
                self.acquires(acquiring, command, None)
            }
            Phase::Executing(mut execution) => {
                let command = execution.tenure.woke(now);
                self.converses(execution, command, None)
            }
            phase => Self { process: Process { phase, ..self.process }, ..self },
        }
    }

    pub(crate) fn resolved(self, resolution: Resolution) -> Self {
        self.asks(|machine, now| machine.resolved(now, resolution))
    }

    /// The reply to [`Next::AnswerForFailedCondition`]: whether an answer without the items exists.
    pub(crate) fn instead(self, there_is: bool) -> Self {
        self.asks(|machine, now| {
            if !there_is {
                return machine.no_answer(now);
            }
            machine.answer_without_items(now)
        })
    }

    fn asks(mut self, answer: impl FnOnce(&mut Acquisition, Now) -> Command<Next>) -> Self {
        let now = self.now();
        match std::mem::replace(&mut self.process.phase, Phase::Ready) {
            Phase::Acquiring(mut acquiring) => {
                let command = answer(&mut acquiring.machine, now);
                self.acquires(acquiring, command, None)
            }
            phase => Self { process: Process { phase, ..self.process }, ..self },
        }
    }

    /// DynamoDB has sent the response.
    pub(crate) fn answered(mut self, place: Place, answer: Answer) -> Self {
        if let Some(request) = self.process.request_mut(place) {
            request.answer = Some(answer);
        }
        self
    }

    /// The response has arrived.
    pub(crate) fn hear(mut self, place: Place, answer: Answer) -> Self {
        let Some(request) = self.process.request(place) else { return self };
        let (sent, wire, tick) = (request.sent, request.wire.clone(), self.state.tick);
        let time = answer.date.map(|date| self.process.clock.observe(date, sent, tick));
        let Answer { outcome, is_in_doubt, done, .. } = answer;
        let reply = Reply { outcome, is_in_doubt, time };
        let now = self.now();
        match std::mem::replace(&mut self.process.phase, Phase::Ready) {
            Phase::Acquiring(mut acquiring) => {
                acquiring.shown.note(&wire, &reply, owner(self.seat), store_time(tick));
                if shows_record(&reply.outcome) {
                    acquiring.seen_steps = Some(done);
                }
                let command = acquiring.machine.replied(now, &reply);
                self.acquires(acquiring, command, Some(&reply))
            }
            Phase::Executing(mut execution) => {
                let Execution { tenure, writing, renewing, .. } = &mut execution;
                match (place, renewing) {
                    (Place::Renewal, Some(Renewing { machine, .. })) => {
                        let command = machine.replied(tenure, now, &reply);
                        return self.renews(execution, command);
                    }
                    (Place::Step(index), _) => {
                        let Writing { number, machine, .. } = &mut writing[index];
                        let has_step = done & 1 << *number != 0;
                        let command = machine.replied(tenure, now, &reply, has_step);
                        return self.writes_step(execution, index, command);
                    }
                    (Place::Main | Place::Renewal, _) => {}
                }
                let command = execution.tenure.replied(now, &reply);
                self.converses(execution, command, Some(&reply))
            }
            phase => Self { process: Process { phase, ..self.process }, ..self },
        }
    }

    /// A request that is sent now.
    pub(crate) fn request(&self, wire: Wire) -> Request {
        Request { wire, sent: self.process.clock.local(self.state.tick), answer: None }
    }

    /// Continues an acquisition.
    fn acquires(
        mut self,
        mut acquiring: Acquiring,
        command: Command<Next>,
        reply: Option<&Reply>,
    ) -> Self {
        if let Command::Send { write, .. } = &command
            && write.kind == Kind::TakeOver
            && let Some(seen) = acquiring.seen_steps.take()
        {
            acquiring.taken_steps = seen;
        }
        let task = match self.task(command) {
            Ok(task) => task,
            Err(Next::RunHook) => Task::AskHook,
            Err(Next::AnswerForFailedCondition) => Task::AskInstead,
            Err(Next::Run(window)) => return self.begins(&acquiring, Some(window)),
            Err(Next::RunUnprotected) => return self.begins(&acquiring, None),
            Err(Next::Done(result)) => {
                let fate = self.state.returned(self.row, self.seat, &acquiring, result, reply);
                self.process = Process::finished(fate);
                return self;
            }
        };
        acquiring.task = task;
        self.process.phase = Phase::Acquiring(acquiring);
        self
    }

    fn begins(mut self, acquiring: &Acquiring, window: Option<Window>) -> Self {
        let grant = acquiring.machine.grant();
        self.state.begins(self.seat, acquiring, &grant, window, &self.process.clock);
        let used = if grant.taken_over.is_some() { acquiring.taken_steps } else { 0 };
        let now = self.now();
        let tenure = Tenure::new(grant, acquiring.rules, window, now);
        let renewals = Renewals::new(&tenure, now);
        let renewing = renewals.map(|(machine, _)| Renewing { machine, task: Task::Pause });
        self.process.phase = Phase::Executing(Execution {
            tenure,
            does: Does::Handle,
            renewing,
            is_protected: window.is_some(),
            used,
            send: Send::Unsent,
            writing: Vec::new(),
            commits: Vec::new(),
            completes: false,
            is_cut_short: false,
        });
        self
    }

    /// Continues a commit, or the end of an execution.
    pub(crate) fn converses(
        mut self,
        mut execution: Execution,
        command: Command<TenureEnd>,
        reply: Option<&Reply>,
    ) -> Self {
        let commits = matches!(execution.does, Does::Commit(_));
        match (self.task(command), commits) {
            (Ok(task), true) => execution.does = Does::Commit(task),
            (Ok(task), false) => execution.does = Does::Finish(task),
            (Err(TenureEnd::Commit(end)), true) => {
                if let (CommitEnd::NotApplied(_), Some(commit)) =
                    (end, execution.commits.last_mut())
                {
                    commit.is_refused = true;
                }
                execution.does = Does::Handle;
            }
            (Err(_), true) => self.state.violate("a commit ended as something else"),
            (Err(end), false) => {
                self.give_up_renewal(&mut execution);
                let fate = self.state.ended(self.row, self.seat, &execution, end, reply);
                self.process = Process::finished(fate);
                return self;
            }
        }
        self.process.phase = Phase::Executing(execution);
        self
    }

    /// Continues a renewal, or ends it.
    pub(crate) fn renews(mut self, mut execution: Execution, command: Command<Renewal>) -> Self {
        let task = match command {
            Command::Send { write, .. } => Some(Task::Request(self.request(Wire::renewal(write)))),
            Command::Return(Renewal::Next(_)) => Some(Task::Pause),
            Command::Return(Renewal::Ended | Renewal::Lost) => None,
            Command::Read { .. } | Command::Pause { .. } => {
                self.state.violate("a renewal reads or waits");
                None
            }
        };
        let renewing = execution.renewing.take().zip(task);
        execution.renewing = renewing.map(|(renewing, task)| Renewing { task, ..renewing });
        self.process.phase = Phase::Executing(execution);
        self
    }

    /// Continues the write of a step, or ends it.
    pub(crate) fn writes_step(
        mut self,
        mut execution: Execution,
        index: usize,
        command: StepCommand<Item>,
    ) -> Self {
        let Writing { number, item, until, .. } = execution.writing[index];
        let command = match command {
            StepCommand::PutItem { item, .. } => {
                execution.writing[index].task = Task::Request(self.request(Wire::Item(item)));
                self.process.phase = Phase::Executing(execution);
                return self;
            }
            StepCommand::Record(command) => command,
        };
        let task = match command {
            Command::Send { write, .. } => {
                Task::Request(self.request(Wire::step(write, number, item)))
            }
            // The result goes into the record.
            Command::Return(StepResult::ItemUnconfirmed) => {
                let now = self.now();
                let (machine, command) = StepWrite::start(&mut execution.tenure, now, until, None);
                execution.writing[index].machine = machine;
                execution.writing[index].item = None;
                return self.writes_step(execution, index, command);
            }
            Command::Read { is_consistent, .. } => {
                Task::Request(self.request(Wire::Read { is_consistent }))
            }
            Command::Pause { .. } => Task::Pause,
            Command::Return(result) => {
                execution.writing.remove(index);
                if result == StepResult::Stored {
                    self.state.step_was_stored(self.seat, number);
                    if execution.send == Send::Noting {
                        execution.send = Send::Noted;
                    }
                }
                self.process.phase = Phase::Executing(execution);
                return self;
            }
        };
        execution.writing[index].task = task;
        self.process.phase = Phase::Executing(execution);
        self
    }

    /// A request whose sender has given up may still arrive.
    pub(crate) fn drop_request(&mut self, request: Option<Request>) {
        if let Some(Request { wire, answer: None, .. }) = request {
            self.state.store.add_late(u8::try_from(self.seat).unwrap_or(u8::MAX), wire);
        }
    }

    pub(crate) fn give_up_renewal(&mut self, execution: &mut Execution) {
        if let Some(Renewing { task: Task::Request(request), .. }) = execution.renewing.take() {
            self.drop_request(Some(request));
        }
    }

    /// The handler was stopped, and no commit has stored an answer.
    pub(crate) fn leaves_as_it_is(mut self, mut execution: Execution) -> Self {
        self.give_up_renewal(&mut execution);
        self.state.ledger.excused = true;
        self.process = Process::finished(Fate::default());
        self
    }

    /// What a machine waits for, or its output.
    fn task<S>(&mut self, command: Command<S>) -> Result<Task, S> {
        let (wire, limit) = match command {
            Command::Read { is_consistent, limit } => (Wire::Read { is_consistent }, limit),
            Command::Send { write, limit } => (Wire::write(write, &self.process.clock), limit),
            Command::Pause { .. } => return Ok(Task::Pause),
            Command::Return(stop) => return Err(stop),
        };
        if limit.is_zero() {
            self.state.violate("a request has no time");
        }
        Ok(Task::Request(self.request(wire)))
    }
}

/// Whether the outcome shows a record, which the library then keeps.
const fn shows_record(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Read(ReadResult::Found(Some(_)) | ReadResult::Stale(Some(_)))
            | Outcome::Write(WriteResult::Rejected(Some(_)))
    )
}

impl Shown {
    /// `now` is the store's time. A response without a `Date` is heard as soon as it is sent.
    fn note(
        &mut self,
        wire: &Wire,
        reply: &Reply,
        me: dynamodb_idempotency_protocol::OwnerId,
        now: Timestamp,
    ) {
        // A rejection without a record does not show which version rejected the write.
        let shows_nothing = reply.outcome == Outcome::Write(WriteResult::Rejected(None));
        let is_in_doubt = reply.is_in_doubt || reply.outcome.is_unknown() || shows_nothing;
        self.transaction_in_doubt |=
            is_in_doubt && matches!(wire, Wire::Write(write) if write.0.record.is_completed());
        if let Wire::Write(write) = wire {
            match write.0.kind {
                Kind::ResolveByCommit => self.hook_commits = true,
                Kind::ResolveCompleted | Kind::ResolveFailed => self.hook_commits = false,
                _ => {}
            }
        }
        // Without a `Date`, the call may take the response for an earlier one.
        let (judging, earliest) = match reply.time {
            Some(time) => (time.date, time.date),
            None => (now, store_time(0)),
        };
        let is_at_work = |record: &dynamodb_idempotency_protocol::RecordMeta, at| {
            let ends = record.state.lease_expires_at();
            record.owner != me && ends.is_some_and(|ends| at <= ends)
        };
        self.stale = false;
        let unheard = (self.unheard + 1).min(MAX_UNHEARD);
        self.unheard = if is_definite(&reply.outcome) { 0 } else { unheard };
        match &reply.outcome {
            Outcome::Write(WriteResult::Rejected(Some(record)))
            | Outcome::Read(ReadResult::Found(Some(record))) => {
                self.must_not_run = is_at_work(record, judging);
                self.another_at_work |= is_at_work(record, earliest);
            }
            Outcome::Read(ReadResult::Stale(Some(record))) => {
                self.stale = true;
                self.must_not_run |= is_at_work(record, judging);
            }
            Outcome::Read(ReadResult::Found(None)) | Outcome::Write(WriteResult::Applied) => {
                self.must_not_run = false;
            }
            _ => {}
        }
    }
}
