//! The way of a call to its key: it acquires the key, looks its answer up, or writes the whole operation as one
//! transaction.

mod body;
mod reconcile;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use self::body::CallBody;
use crate::answer::{Answer, Stored};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind};
use crate::policy::FirstRequest;
use crate::protocol::{
    Acquisition, CallResult, Command, Goal, Grant, MIN_LIMIT, Next, Reason, State, Window,
};
use crate::run::call::CallContext;
use crate::run::core::Core;
use crate::run::driver::{Session, SessionKind};
use crate::run::errors::{abandoned, in_progress, mismatch};
use crate::run::execution::Execution;
use crate::run::hook::Abandoned;
use crate::signals::{self, Ending};
use crate::store::record::{Record, random_owner};

pub(crate) use self::reconcile::acquire_with_hook;

/// What a call does next, or how it has ended without running its handler. A call that is rejected ends with an
/// error.
#[derive(Debug)]
#[must_use]
pub(crate) enum Progress {
    /// The call owns its key: run the handler.
    Acquired(Execution),
    /// Run the hook, then continue with [`Caller::resolve`].
    Abandoned(Box<Abandoned>),
    /// Nothing was written, for this reason. Continue with [`Caller::answer_without_items`] or
    /// [`Caller::no_answer`].
    ItemsRejected(Error),
    /// The answer of the hook or of the transaction is stored.
    Written,
    /// The record has no answer, and nothing was written.
    NothingWritten,
    /// The answer of an earlier call.
    Replay(Answer),
    /// The failure of an earlier call, if it is available.
    ReplayFailure(Option<Answer>),
}

/// Acquires the key of a call that has no hook. Under `Outage::Open` the result may be an
/// execution without a record.
pub(crate) fn acquire(
    core: &Arc<Core>,
    call: CallContext,
) -> BoxFuture<'_, Result<Progress, Error>> {
    start(core, call, Goal::Own)
}

/// Looks up the answer of an earlier call, or why this call is rejected. Nothing is written.
pub(crate) fn look_up(
    core: &Arc<Core>,
    call: CallContext,
) -> BoxFuture<'_, Result<Progress, Error>> {
    start(core, call, Goal::LookUp)
}

/// The future is boxed, so that the futures of callers stay small, and so that its body is compiled once
/// and not again in each crate that awaits it.
fn start(
    core: &Arc<Core>,
    call: CallContext,
    goal: Goal,
) -> BoxFuture<'_, Result<Progress, Error>> {
    let starting = async move {
        let mut caller = Caller::new(core, &call, goal, false)?;
        let progress = caller.start().await;
        caller.signaled(progress)
    };
    starting.boxed()
}

/// A call on the way to its key.
pub(crate) struct Caller<'a> {
    core: &'a Arc<Core>,
    call: &'a CallContext,
    goal: Goal,
    machine: Acquisition,
    session: Session<'a>,
    body: CallBody<'a>,
}

impl<'a> Caller<'a> {
    /// Without a lease, a call whose deadline is over ends here.
    fn new(
        core: &'a Arc<Core>,
        call: &'a CallContext,
        goal: Goal,
        has_hook: bool,
    ) -> Result<Self, Error> {
        let (owner, now) = (random_owner()?, core.table.clock.moment());
        let machine = Acquisition::new(owner, goal, call.rules(core, has_hook), now);
        if goal != Goal::Own && machine.is_too_late(now) {
            return Err(too_late());
        }
        let of = (&call.key, &call.fingerprint);
        let session = Session::new(core, of, owner, SessionKind::Acquisition);
        let body = CallBody::new(core, call, owner);
        Ok(Self { core, call, goal, machine, session, body })
    }

    async fn start(&mut self) -> Result<Progress, Error> {
        if !self.call.has_record {
            let execution = Execution::unprotected(self.core, self.call.clone())?;
            return Ok(Progress::Acquired(execution));
        }
        if let Some(answer) = self.call.cached(self.core) {
            return Ok(Progress::Replay(answer));
        }
        self.send().await
    }

    async fn send(&mut self) -> Result<Progress, Error> {
        let first = match self.goal {
            Goal::LookUp => FirstRequest::ConsistentRead,
            Goal::Own | Goal::Transact { .. } => self.call.policy.first_request,
        };
        let command = self.machine.start(self.core.table.clock.moment(), first);
        self.proceed(command).await
    }

    async fn proceed(&mut self, command: Command<Next>) -> Result<Progress, Error> {
        let next = self.session.drive(&mut self.machine, command, &mut self.body).await;
        let progress = self.progress(next).await;
        if let Ok(Progress::Acquired(_) | Progress::Written) = progress {
            self.core.invalidate_cached(&self.call.key);
        }
        progress
    }

    async fn progress(&mut self, next: Next) -> Result<Progress, Error> {
        let result = match next {
            Next::Run(window) if self.goal == Goal::Own => {
                return Ok(Progress::Acquired(self.execution(Some(window))));
            }
            Next::Run(_) => return Err(unknown_record()),
            Next::RunUnprotected => {
                let error = self.session.error.take().unwrap_or_else(timed_out);
                tracing::error!(
                    operation = self.call.key.operation(), %error,
                    "DynamoDB is out of reach: the handler runs WITHOUT idempotency (Outage::Open)"
                );
                return Ok(Progress::Acquired(self.execution(None)));
            }
            Next::RunHook => {
                let Some(record) = &self.session.last else {
                    return Err(self.session.take_error());
                };
                let (coding, key) = (self.core.coding.clone(), self.call.key.clone());
                return Ok(Progress::Abandoned(Box::new(Abandoned::new(coding, key, record))));
            }
            Next::AnswerForFailedCondition => {
                let items_error = self.session.items_error.take();
                return items_error
                    .map(Progress::ItemsRejected)
                    .ok_or_else(|| self.session.take_error());
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
            CallResult::Replay => self.replay().await,
            CallResult::Reconciled | CallResult::Executed => Ok(Progress::Written),
            CallResult::Nothing(reason, _) => self.nothing(reason).await,
            CallResult::Unknown => Err(self.unknown()),
        }
    }

    fn execution(&mut self, window: Option<Window>) -> Execution {
        let grant = self.machine.grant();
        // The record has the steps of earlier attempts.
        let taken_over = self.session.taken_over.take().filter(|_| grant.taken_over.is_some());
        let success = match window {
            None => Ending::FailOpen,
            Some(_) => self.ending_of_handler(&grant),
        };
        Execution::new(self.core, self.call.clone(), grant, window, taken_over, success)
    }

    /// The ending of the execution if it succeeds.
    fn ending_of_handler(&self, grant: &Grant) -> Ending {
        let is_first = grant.attempts.number.saturating_sub(grant.attempts.released) <= 1;
        match grant.taken_over.as_ref().map(|taken_over| taken_over.state) {
            Some(State::Pending { .. }) => {
                let (operation, attempt) = (self.call.key.operation(), grant.attempts.number);
                tracing::warn!(operation, attempt, "an abandoned operation is taken over");
                signals::takeover(operation);
                Ending::Takeover
            }
            None if is_first => Ending::First,
            None | Some(State::Completed | State::Failed | State::Released) => Ending::Retry,
        }
    }

    /// The ending and the attempt of a call whose transaction was applied.
    fn ending_of_transaction(&self) -> (Ending, Option<u32>) {
        let grant = self.machine.grant();
        let attempt = grant.attempts.number;
        let ending = match grant.taken_over.map(|taken_over| taken_over.state) {
            Some(State::Pending { .. }) => Ending::Takeover,
            _ if attempt > 1 => Ending::Retry,
            _ => Ending::First,
        };
        (ending, Some(attempt))
    }

    /// The answer in the record that was seen last.
    async fn replay(&mut self) -> Result<Progress, Error> {
        let Some(Record { header, answer: Some(stored), .. }) = self.session.last.take() else {
            return Err(self.session.take_error());
        };
        let generation = self.session.generation;
        let answer = self.read_answer(stored).await?;
        let Self { core, call, .. } = self;
        let request = (&call.key, &call.fingerprint);
        core.cache_answer(generation, request, &call.policy, header.expires_at, answer.clone());
        Ok(Progress::Replay(answer))
    }

    /// The end of a call that has run nothing and written nothing, for this reason.
    async fn nothing(&mut self, reason: Reason) -> Result<Progress, Error> {
        Err(match reason {
            Reason::Free | Reason::ItemsRejected => return Ok(Progress::NothingWritten),
            Reason::Failed => {
                let failure = match self.session.last.take().and_then(|record| record.answer) {
                    None => None,
                    // Even if the failure cannot be read, nothing runs.
                    Some(stored) => self.read_answer(stored).await?.available(),
                };
                return Ok(Progress::ReplayFailure(failure));
            }
            Reason::InProgress { lease_left } => in_progress(lease_left),
            Reason::Mismatch => mismatch(),
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
            Reason::Error => self.session.take_error(),
        })
    }

    /// Reads a stored answer within the call's time.
    async fn read_answer(&self, stored: Stored) -> Result<Answer, Error> {
        let budget = self.machine.budget();
        let until = self.call.answer_by().map_or(budget, |by| by.min(budget));
        self.core.open(stored, &self.call.key, &self.call.policy, Some(until)).await
    }

    /// The error of a call of which a write may have been applied, or may still be.
    fn unknown(&mut self) -> Error {
        let error = self.session.take_error();
        let Goal::Transact { .. } = self.goal else { return error };
        tracing::error!(
            operation = self.call.key.operation(), %error,
            "a transaction was not confirmed in time: it has happened as a whole or not at all"
        );
        let message = "the transaction could not be confirmed: it has happened as a whole or not at \
                       all, ask again with the same key";
        Error::new(ErrorKind::OutcomeUnknown, message)
    }

    /// Signals the end of the call, unless it goes on. Every call that runs no handler ends here.
    fn signaled(&self, progress: Result<Progress, Error>) -> Result<Progress, Error> {
        let (ending, attempt) = match &progress {
            Ok(Progress::Acquired(_) | Progress::Abandoned(_) | Progress::ItemsRejected(_)) => {
                return progress;
            }
            Ok(Progress::Written) if self.goal == Goal::Own => (Ending::Reconciled, None),
            Ok(Progress::Written) => self.ending_of_transaction(),
            Ok(Progress::NothingWritten) => (Ending::NotWritten, None),
            Ok(Progress::Replay(_)) => (Ending::Replay, None),
            Ok(Progress::ReplayFailure(_)) => (Ending::ReplayFailure, None),
            Err(error) => (Ending::of_error(error), None),
        };
        self.call.signals.ended(self.call.key.operation(), ending, attempt);
        progress
    }
}

fn unknown_record() -> Error {
    let message = "the record is one that this owner has never written";
    Error::new(ErrorKind::UnknownRecord, message)
}

fn too_late() -> Error {
    let message = "the deadline of the operation is over: nothing was run";
    Error::new(ErrorKind::DeadlineExceeded, message)
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
