//! What a call does before a handler runs: it acquires its key, looks up the stored answer, or writes the
//! whole operation as one transaction.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::TransactWriteItem;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::answer::{Answer, Replay, Stored, Unstorable};
use crate::call::context::{CallContext, End};
use crate::call::core::Core;
use crate::call::errors::{abandoned, in_progress, mismatch, too_late};
use crate::call::execution::{Execution, Storage};
use crate::call::handler::RunOutcome;
use crate::call::hook::{Abandoned, HookResult, Reconciled, Resolved, name_of};
use crate::call::session::{Session, SessionKind};
use crate::call::transaction::items;
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fault_injection::observe;
use crate::policy::{Completed, FirstRequest};
use crate::protocol::{
    Acquisition, CallResult, Command, Goal, Grant, MIN_LIMIT, Next, Reason, Resolution, State,
    Window,
};
use crate::signals::{self, Ending};
use crate::store::record::{Record, completed_meta, random_owner};

/// What a call that has not [ended](End) does next.
#[derive(Debug)]
#[must_use]
pub(crate) enum Progress {
    /// The call owns its key: run the handler.
    Acquired(Execution),
    /// Run the hook, then continue with [`Action::Resolve`].
    Abandoned(Box<Abandoned>),
    /// Nothing was written, for this reason. Continue with [`Action::Instead`].
    ItemsRejected(Error),
    /// The answer of the hook or of the transaction is stored.
    Written,
    /// The record has no answer, and nothing was written.
    NothingWritten,
}

/// What a call does next.
pub(crate) enum Action {
    /// Acquires the key, or looks the answer up.
    Start,
    /// Writes what the hook has resolved.
    Resolve(Resolved),
    /// Writes the items and the completed record, unless the operation is completed already.
    Transact(Answer, Vec<TransactWriteItem>),
    /// Writes an answer without items, on the condition of the transaction. So DynamoDB applies at most
    /// one of this write and the earlier tries of the transaction. Without an answer, the action ends once
    /// no earlier try can be applied.
    Instead(Option<Answer>),
}

/// Acquires the key of a call that has no hook. Under `Outage::Open` the result may be an
/// execution without a record. The future is boxed, so that the futures of callers stay small, and so that
/// its body is compiled once and not again in each crate that awaits it.
pub(crate) fn acquire(
    core: &Arc<Core>,
    call: Arc<CallContext>,
) -> BoxFuture<'_, Result<Execution, End>> {
    let acquiring = async move {
        let mut acquiring = Acquiring::new(core, &call, Goal::Own, false)?;
        let Progress::Acquired(execution) = acquiring.perform(Action::Start).await? else {
            return Err(abandoned().into());
        };
        Ok(execution)
    };
    acquiring.boxed()
}

/// A call until it owns its key or has a result.
pub(crate) struct Acquiring<'a> {
    core: &'a Arc<Core>,
    call: &'a Arc<CallContext>,
    goal: Goal,
    machine: Acquisition,
    session: Session<'a>,
}

impl<'a> Acquiring<'a> {
    /// An error if the deadline is over, except under `Goal::Own`, where the machine checks the deadline.
    pub(crate) fn new(
        core: &'a Arc<Core>,
        call: &'a Arc<CallContext>,
        goal: Goal,
        has_hook: bool,
    ) -> Result<Self, Error> {
        let (owner, now) = (random_owner()?, core.table.clock.moment());
        let machine = Acquisition::new(owner, goal, call.rules(core, has_hook), now);
        if goal != Goal::Own && machine.is_too_late(now) {
            return Err(too_late());
        }
        let session = Session::new(core, call, owner, SessionKind::Acquisition);
        Ok(Self { core, call, goal, machine, session })
    }

    /// Until when the answer that was written is stored, in epoch seconds.
    pub(crate) fn stored_until(&self) -> Option<i64> {
        self.session.stored_until()
    }

    /// Boxed, as [`acquire`] is.
    pub(crate) fn advance(&mut self, action: Action) -> BoxFuture<'_, Result<Progress, End>> {
        self.perform(action).boxed()
    }

    /// Takes an action, and signals the end of the call, unless the call continues. Every call that runs no
    /// handler ends here.
    async fn perform(&mut self, action: Action) -> Result<Progress, End> {
        let progress = match action {
            Action::Start => self.start().await,
            // Boxed: most calls only start.
            Action::Resolve(resolved) => Box::pin(self.resolve(resolved)).await,
            Action::Transact(answer, items) => Box::pin(self.transact(answer, items)).await,
            Action::Instead(Some(answer)) => Box::pin(self.answer_without_items(answer)).await,
            Action::Instead(None) => {
                let command = self.machine.no_answer(self.core.table.clock.moment());
                self.proceed(command).await
            }
        };
        let (ending, attempt) = match &progress {
            Ok(Progress::Acquired(_) | Progress::Abandoned(_) | Progress::ItemsRejected(_)) => {
                return progress;
            }
            Ok(Progress::Written) if self.goal == Goal::Own => (Ending::RECONCILED, None),
            Ok(Progress::Written) => {
                let grant = self.machine.grant();
                (Self::success(&grant), Some(grant.attempts.number))
            }
            Ok(Progress::NothingWritten) => (Ending::NOT_WRITTEN, None),
            Err(End::Replayed(_) | End::Committed(..)) => (Ending::REPLAY, None),
            Err(End::FailureReplayed(_)) => (Ending::REPLAY_FAILURE, None),
            Err(End::NoAnswer(error)) => (Ending::of_error(error), None),
        };
        self.call.ended(ending, attempt);
        progress
    }

    async fn start(&mut self) -> Result<Progress, End> {
        if !self.call.has_record {
            let execution = Execution::unprotected(self.core, Arc::clone(self.call))?;
            return Ok(Progress::Acquired(execution));
        }
        if let Some(replay) = self.call.cached(self.core) {
            return Err(End::Replayed(replay));
        }
        self.send().await
    }

    async fn send(&mut self) -> Result<Progress, End> {
        let first = match self.goal {
            Goal::LookUp => FirstRequest::ConsistentRead,
            Goal::Own | Goal::Transact => self.call.policy.first_request,
        };
        let command = self.machine.start(self.core.table.clock.moment(), first);
        self.proceed(command).await
    }

    async fn proceed(&mut self, command: Command<Next>) -> Result<Progress, End> {
        let next = self.session.drive(&mut self.machine, command).await;
        let progress = self.progress(next).await;
        if let Ok(Progress::Acquired(_) | Progress::Written) = progress {
            self.core.invalidate_cached(&self.call.key);
        }
        progress
    }

    async fn progress(&mut self, next: Next) -> Result<Progress, End> {
        let result = match next {
            Next::Run(window) if self.goal == Goal::Own => {
                return Ok(Progress::Acquired(self.execution(Some(window))));
            }
            Next::Run(_) => return Err(unknown_record().into()),
            Next::RunUnprotected => {
                let error = self.session.error.take().unwrap_or_else(timed_out);
                tracing::error!(
                    operation = self.call.key.operation(), %error,
                    "DynamoDB is out of reach: the handler runs WITHOUT idempotency (Outage::Open)"
                );
                return Ok(Progress::Acquired(self.execution(None)));
            }
            Next::RunHook => {
                let Some(mut record) = self.session.last.take() else {
                    return Err(self.session.take_error().into());
                };
                // Boxed: few calls run a hook.
                let until = Some(self.read_by());
                Box::pin(self.session.read_step_items(&mut record, until)).await?;
                self.session.last = Some(record.clone());
                let (coding, key) = (self.core.coding.clone(), self.call.key.clone());
                return Ok(Progress::Abandoned(Box::new(Abandoned { coding, key, record })));
            }
            Next::AnswerForFailedCondition => {
                let items_error = self.session.items_error.take();
                return items_error
                    .map(Progress::ItemsRejected)
                    .ok_or_else(|| self.session.take_error().into());
            }
            Next::Done(result) => result,
        };
        if let Some(error) = self.session.undo_error.take() {
            tracing::warn!(
                operation = self.call.key.operation(), %error,
                "an unused lease could not be released: the key is free when it ends"
            );
        }
        match result {
            CallResult::Replay => Err(End::Replayed(self.replay().await?)),
            CallResult::Reconciled | CallResult::Executed => Ok(Progress::Written),
            CallResult::Nothing(reason, _) => self.nothing(reason).await,
            CallResult::Unknown => Err(self.unknown().into()),
        }
    }

    fn execution(&mut self, window: Option<Window>) -> Execution {
        let grant = self.machine.grant();
        // The record has the steps of earlier attempts.
        let taken_over = self.session.taken_over.take().filter(|_| grant.taken_over.is_some());
        let success = if window.is_some() { Self::success(&grant) } else { Ending::FAIL_OPEN };
        if success == Ending::TAKEOVER {
            let (operation, attempt) = (self.call.key.operation(), grant.attempts.number);
            tracing::warn!(operation, attempt, "an abandoned operation is taken over");
            signals::takeover(operation);
        }
        Execution::new(self.core, Arc::clone(self.call), grant, window, taken_over, success)
    }

    /// The ending of an attempt that succeeds.
    fn success(grant: &Grant) -> Ending {
        let is_first = grant.attempts.number.saturating_sub(grant.attempts.released) <= 1;
        match grant.taken_over.as_ref().map(|taken_over| taken_over.state) {
            Some(State::Pending { .. }) => Ending::TAKEOVER,
            None if is_first => Ending::FIRST,
            None | Some(State::Completed | State::Failed | State::Released) => Ending::RETRY,
        }
    }

    /// The answer in the record that was seen last.
    async fn replay(&mut self) -> Result<Replay, Error> {
        let Some(Record { meta, answer: Some(stored), .. }) = self.session.last.take() else {
            return Err(self.session.take_error());
        };
        let answer = self.read_answer(stored).await?;
        self.session.cache(meta.expires_at, answer.clone());
        Ok(Replay { answer, expires_at: meta.expires_at })
    }

    /// The end of a call that has run nothing and written nothing. `reason` says why.
    async fn nothing(&mut self, reason: Reason) -> Result<Progress, End> {
        let error = match reason {
            // The items of a hook's commit.
            Reason::ItemsRejected if self.goal == Goal::Own => {
                let items_error = self.session.items_error.take();
                items_error.unwrap_or_else(|| self.session.take_error())
            }
            Reason::Free | Reason::ItemsRejected => return Ok(Progress::NothingWritten),
            Reason::Failed => {
                let Some(Record { meta, answer: Some(stored), .. }) = self.session.last.take()
                else {
                    return Err(End::FailureReplayed(None));
                };
                // Even if the failure cannot be read, nothing runs.
                let failure = self.read_answer(stored).await?.available();
                let expires_at = meta.expires_at;
                let replay = failure.map(|answer| Replay { answer, expires_at });
                return Err(End::FailureReplayed(replay));
            }
            Reason::InProgress { lease_left } => in_progress(lease_left),
            Reason::Mismatch => mismatch(self.session.last.as_ref().map(|record| &record.meta)),
            Reason::Abandoned => abandoned(),
            Reason::DeadlineOver => too_late(),
            Reason::TimedOut => {
                let error = self.session.error.take();
                let error = error.filter(|error| error.kind() == ErrorKind::Unavailable);
                error.unwrap_or_else(timed_out)
            }
            Reason::NoLease => {
                let message = "no lease could be confirmed: other calls kept writing to the key, or each \
                               request took as long as the lease. Try again; if it persists, use a longer lease";
                Error::new(ErrorKind::Unavailable, message)
            }
            Reason::NoStoreTime => Error::no_store_time(),
            Reason::Error => self.session.take_error(),
        };
        Err(error.into())
    }

    /// Reads a stored answer within the call's time.
    async fn read_answer(&self, stored: Stored) -> Result<Answer, Error> {
        let until = Some(self.read_by());
        self.core.open(stored, &self.call.key, &self.call.policy, until).await
    }

    /// When the reads of a call must have ended.
    fn read_by(&self) -> Deadline {
        let budget = self.machine.budget();
        self.call.answer_by().map_or(budget, |by| by.min(budget))
    }

    /// The error of a call with a transaction in doubt.
    fn unknown(&mut self) -> Error {
        let error = self.session.take_error();
        tracing::error!(
            operation = self.call.key.operation(), %error,
            "a transaction was not confirmed in time: it has happened as a whole or not at all"
        );
        let message = "the transaction could not be confirmed: it has happened as a whole or not at \
                       all, ask again with the same key";
        Error::new(ErrorKind::OutcomeUnknown, message)
    }
}

/// A whole operation as one transaction. The record is never PENDING. DynamoDB cancels the transaction of a
/// duplicate, and returns the record with the stored answer.
impl Acquiring<'_> {
    async fn transact(
        &mut self,
        answer: Answer,
        mut items: Vec<TransactWriteItem>,
    ) -> Result<Progress, End> {
        if let Some(replay) = self.call.cached(self.core) {
            return Err(End::Replayed(replay));
        }
        let (stored, record_bytes) = match self.place(answer).await {
            Ok(placed) => placed,
            Err(unstorable) => {
                // The transaction is not sent, but an earlier call may have completed the operation.
                *self = Self::new(self.core, self.call, Goal::LookUp, false)?;
                return match self.send().await? {
                    Progress::NothingWritten => Ok(Progress::ItemsRejected(unstorable.into())),
                    found => Ok(found),
                };
            }
        };
        let (table, key) = (&self.core.table, &self.call.key);
        if let Err(invalid) = items::prepare(table, key, record_bytes, &mut items) {
            return Ok(Progress::ItemsRejected(invalid));
        }
        (self.session.answer, self.session.items) = (Some(stored), items);
        self.send().await
    }

    async fn answer_without_items(&mut self, answer: Answer) -> Result<Progress, End> {
        let stored = match self.place(answer).await {
            Ok((stored, _)) => stored,
            Err(unstorable) => return Ok(Progress::ItemsRejected(unstorable.into())),
        };
        (self.session.answer, self.session.items) = (Some(stored), Vec::new());
        let command = self.machine.answer_without_items(self.core.table.clock.moment());
        self.proceed(command).await
    }

    /// Chooses the form of an answer, which must lie in the record. Also returns the record's size.
    async fn place(&self, answer: Answer) -> Result<(Stored, usize), Unstorable> {
        let now = self.core.table.clock.guess();
        // An estimate of the record, to compute its size.
        let expires_at = now.plus(self.call.policy.retention).seconds_up();
        let record = completed_meta(self.session.me, 1, now, expires_at);
        let answer = self.call.answers.stored(answer);
        self.core.place_answer(answer, self.call, &record, None).await
    }
}

/// A hook resolves an abandoned operation.
impl Acquiring<'_> {
    async fn resolve(&mut self, resolved: Resolved) -> Result<Progress, End> {
        let resolution = match resolved {
            Reconciled::Completed(_) => Resolution::Completed,
            Reconciled::Commit { .. } => Resolution::Committed,
            Reconciled::Failed(_) => Resolution::Failed,
            Reconciled::Execute => Resolution::Execute,
            Reconciled::Refuse => Resolution::Refuse,
        };
        self.session.resolve(resolved);
        let command = self.machine.resolved(self.core.table.clock.moment(), resolution);
        self.proceed(command).await
    }
}

/// Acquires the key, as [`acquire`](acquire) does, and runs a hook if the operation is abandoned.
/// `resolved` converts the hook's resolution to its stored form. After an error of the hook, or the
/// deadline, the call ends and nothing is written.
pub(crate) async fn acquire_with_hook<T, E, Fut>(
    core: &Arc<Core>,
    call: Arc<CallContext>,
    hook: impl Fn(Abandoned) -> Fut,
    resolved: impl Fn(&Reconciled<T, E>) -> Resolved,
) -> Result<Execution, RunOutcome<T, E>>
where
    Fut: Future<Output = HookResult<T, E>>,
{
    if call.policy.completed == Completed::Release {
        return Err(hook_without_answers().into());
    }
    let mut acquiring = Acquiring::new(core, &call, Goal::Own, true)?;
    let (mut action, mut reconciled) = (Action::Start, None);
    loop {
        let abandoned = match (acquiring.advance(action).await?, reconciled) {
            (Progress::Acquired(execution), _) => return Ok(execution),
            (Progress::Abandoned(abandoned), _) => abandoned,
            (
                Progress::Written,
                Some(Reconciled::Completed(value) | Reconciled::Commit { answer: value, .. }),
            ) => {
                let stored = Storage::Reconciled(acquiring.stored_until());
                return Err(RunOutcome::Returned(value, stored));
            }
            (Progress::Written, Some(Reconciled::Failed(error))) => {
                return Err(RunOutcome::Failed(error));
            }
            (Progress::Written | Progress::ItemsRejected(_) | Progress::NothingWritten, _) => {
                return Err(abandoned().into());
            }
        };
        // The hook ends before the deadline, so that its answer still reaches the caller in time.
        let end = core.table.clock.now().plus(core.time_until(call.answer_by()));
        let returned = core.table.clock.until(|| Some(end), hook(*abandoned)).await;
        observe(|| format!("the hook answered {}", name_of(returned.as_ref())));
        let Some(Ok(resolution)) = returned else {
            call.ended(Ending::RECONCILE_FAILED, None);
            return Err(match returned {
                Some(Err(error)) => RunOutcome::Failed(error),
                Some(Ok(_)) | None => out_of_time().into(),
            });
        };
        action = Action::Resolve(resolved(&resolution));
        reconciled = Some(resolution);
    }
}

/// A hook finds the answer of an abandoned operation, and there is none.
pub(crate) fn hook_without_answers() -> Error {
    let message = "a reconcile hook and Completed::Release contradict each other: a hook's answer would be \
                   stored, and Completed::Release stores none. Remove one of them";
    Error::new(ErrorKind::Configuration, message)
}

fn out_of_time() -> Error {
    let message = "the deadline came before the reconcile hook had an answer: nothing was written";
    Error::new(ErrorKind::DeadlineExceeded, message)
}

fn unknown_record() -> Error {
    let message = "the record is one that this owner has never written";
    Error::new(ErrorKind::UnknownRecord, message)
}

fn timed_out() -> Error {
    Error::new(ErrorKind::Unavailable, "DynamoDB did not answer within request_timeout")
}

impl Core {
    /// The time that is left until `until`.
    pub(crate) fn time_until(&self, until: Option<Deadline>) -> Duration {
        until.map_or(Duration::MAX, |until| self.table.clock.left(until).max(MIN_LIMIT))
    }
}
