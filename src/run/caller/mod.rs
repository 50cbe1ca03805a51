//! What a call does before a handler runs: it acquires its key, looks up the stored answer, or writes the
//! whole operation as one transaction.

mod reconcile;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::TransactWriteItem;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::answer::{Answer, Stored};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind};
use crate::policy::FirstRequest;
use crate::protocol::{
    Acquisition, CallResult, Command, Goal, Grant, MIN_LIMIT, Next, Reason, State, Window,
};
use crate::run::call::{CallContext, End, Replay};
use crate::run::core::Core;
use crate::run::driver::{Session, SessionKind};
use crate::run::errors::{abandoned, in_progress, mismatch, too_late};
use crate::run::execution::Execution;
use crate::run::hook::{Abandoned, Resolved};
use crate::signals::{self, Ending};
use crate::store::record::{Record, random_owner};

pub(crate) use self::reconcile::acquire_with_hook;
#[cfg(feature = "http")]
pub(crate) use self::reconcile::hook_without_answers;

/// What a call that has not [ended](End) does next.
#[derive(Debug)]
#[must_use]
pub(crate) enum Progress {
    /// The call owns its key: run the handler.
    Acquired(Execution),
    /// Run the hook, then continue with [`Step::Resolve`].
    Abandoned(Box<Abandoned>),
    /// Nothing was written, for this reason. Continue with [`Step::Instead`].
    ItemsRejected(Error),
    /// The answer of the hook or of the transaction is stored.
    Written,
    /// The record has no answer, and nothing was written.
    NothingWritten,
}

/// The next step of a call.
pub(crate) enum Step {
    /// Acquires the key, or looks the answer up.
    Start,
    /// Writes what the hook has resolved.
    Resolve(Resolved),
    /// Writes the items and the completed record, unless the operation is completed already.
    Transact(Answer, Vec<TransactWriteItem>),
    /// Writes an answer without items, on the condition of the transaction. So DynamoDB applies at most
    /// one of this write and the earlier tries of the transaction. Without an answer, the step ends once
    /// no earlier try can be applied.
    Instead(Option<Answer>),
}

/// Acquires the key of a call that has no hook. Under `Outage::Open` the result may be an
/// execution without a record. The future is boxed, so that the futures of callers stay small, and so that
/// its body is compiled once and not again in each crate that awaits it.
pub(crate) fn acquire(
    core: &Arc<Core>,
    call: CallContext,
) -> BoxFuture<'_, Result<Execution, End>> {
    let acquiring = async move {
        let mut caller = Caller::new(core, &call, Goal::Own, false)?;
        let Progress::Acquired(execution) = caller.perform(Step::Start).await? else {
            return Err(abandoned().into());
        };
        Ok(execution)
    };
    acquiring.boxed()
}

/// A call until it owns its key or has a result.
pub(crate) struct Caller<'a> {
    core: &'a Arc<Core>,
    call: &'a CallContext,
    goal: Goal,
    machine: Acquisition,
    session: Session<'a>,
}

impl<'a> Caller<'a> {
    /// An error if the deadline is over, except under `Goal::Own`, where the machine checks the deadline.
    pub(crate) fn new(
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
        let session = Session::new(core, call, owner, SessionKind::Acquisition);
        Ok(Self { core, call, goal, machine, session })
    }

    /// Until when the answer that was written is stored, in epoch seconds.
    pub(crate) fn stored_until(&self) -> Option<i64> {
        self.session.stored_until()
    }

    /// Boxed, as [`acquire`] is.
    pub(crate) fn advance(&mut self, step: Step) -> BoxFuture<'_, Result<Progress, End>> {
        self.perform(step).boxed()
    }

    /// Takes a step, and signals the end of the call, unless the call continues. Every call that runs no
    /// handler ends here.
    async fn perform(&mut self, step: Step) -> Result<Progress, End> {
        let progress = match step {
            Step::Start => self.start().await,
            Step::Resolve(resolved) => self.resolve(resolved).await,
            Step::Transact(answer, items) => self.transact(answer, items).await,
            Step::Instead(Some(answer)) => self.answer_without_items(answer).await,
            Step::Instead(None) => {
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
            let execution = Execution::unprotected(self.core, self.call.clone())?;
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
                let Some(record) = self.session.last.clone() else {
                    return Err(self.session.take_error().into());
                };
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
        Execution::new(self.core, self.call.clone(), grant, window, taken_over, success)
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
        let Some(Record { header, answer: Some(stored), .. }) = self.session.last.take() else {
            return Err(self.session.take_error());
        };
        let answer = self.read_answer(stored).await?;
        self.session.cache(header.expires_at, answer.clone());
        Ok(Replay { answer, expires_at: header.expires_at })
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
                let Some(Record { header, answer: Some(stored), .. }) = self.session.last.take()
                else {
                    return Err(End::FailureReplayed(None));
                };
                // Even if the failure cannot be read, nothing runs.
                let failure = self.read_answer(stored).await?.available();
                let expires_at = header.expires_at;
                let replay = failure.map(|answer| Replay { answer, expires_at });
                return Err(End::FailureReplayed(replay));
            }
            Reason::InProgress { lease_left } => in_progress(lease_left),
            Reason::Mismatch => mismatch(self.session.last.as_ref().map(|record| &record.header)),
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
        let budget = self.machine.budget();
        let until = self.call.answer_by().map_or(budget, |by| by.min(budget));
        self.core.open(stored, &self.call.key, &self.call.policy, Some(until)).await
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
