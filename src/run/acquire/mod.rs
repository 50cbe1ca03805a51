//! Acquires a key for a call, or finds out why it cannot.

mod hook_body;
mod reconcile;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use self::hook_body::HookBody;
use crate::answer::{Answer, Stored};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind};
use crate::protocol::{
    self, Acquisition, CallResult, Command, Goal, MIN_LIMIT, Next, Reason, State, Window,
};
use crate::run::call::CallContext;
use crate::run::core::Core;
use crate::run::driver::{Session, Unreadable};
use crate::run::execution::Execution;
use crate::run::hook::Abandoned;
use crate::signals::{self, Ending};
use crate::store::record::{Record, random_owner};

/// The result of an acquisition. Only the first variant may run the handler.
#[derive(Debug)]
#[must_use]
pub(crate) enum AcquireResult {
    Acquired(Execution),
    Replay(Answer),
    ReplayFailure(Option<Answer>),
    Mismatch,
    InProgress {
        retry_after: Duration,
    },
    Abandoned,
    /// A hook decides: continue with [`Acquirer::resume`]. Only for calls with a hook.
    Reconcile(Box<Abandoned>),
    /// The record has the hook's resolution.
    Reconciled,
}

impl AcquireResult {
    /// The ending of a call that ran nothing. `None` if the call continues.
    pub(crate) const fn ending(&self) -> Option<Ending> {
        Some(match self {
            Self::Acquired(_) | Self::Reconcile(_) => return None,
            Self::Replay(_) => Ending::Replay,
            Self::ReplayFailure(_) => Ending::ReplayFailure,
            Self::Mismatch => Ending::Mismatch,
            Self::InProgress { .. } => Ending::InProgress,
            Self::Abandoned => Ending::Abandoned,
            Self::Reconciled => Ending::Reconciled,
        })
    }
}

impl CallContext {
    /// Signals the ending of a call that the acquisition has ended.
    pub(crate) fn signal(
        &self,
        acquired: Result<AcquireResult, Error>,
    ) -> Result<AcquireResult, Error> {
        let ending = match &acquired {
            Ok(acquisition) => acquisition.ending(),
            Err(error) => Some(Ending::of_error(error)),
        };
        if let Some(ending) = ending {
            self.ended(ending);
        }
        acquired
    }
}

/// Tries until the call owns its key or has an answer. Under `Outage::Open` the result may be an execution
/// without a record.
///
/// The future is boxed, so that the futures of callers stay small, and so that its body is compiled once
/// and not again in each crate that awaits it.
pub(crate) fn acquire(
    core: &Arc<Core>,
    call: CallContext,
) -> BoxFuture<'_, Result<AcquireResult, Error>> {
    let acquiring = async move {
        let mut acquirer = Acquirer::new(core, &call, false)?;
        call.signal(acquirer.acquire().await)
    };
    acquiring.boxed()
}

/// A call that acquires its key.
pub(crate) struct Acquirer<'a> {
    core: &'a Arc<Core>,
    call: &'a CallContext,
    machine: Acquisition,
    session: Session<'a>,
    body: HookBody<'a>,
}

impl<'a> Acquirer<'a> {
    pub(crate) fn new(
        core: &'a Arc<Core>,
        call: &'a CallContext,
        reconciles: bool,
    ) -> Result<Self, Error> {
        let owner = random_owner()?;
        let rules = call.rules(core, reconciles);
        let machine = Acquisition::new(owner, Goal::Own, rules, core.table.clock.moment());
        let of = (&call.key, &call.fingerprint);
        let session = Session::new(core, of, owner, Unreadable::IsAnError);
        let body = HookBody { core, call, owner, resolved: None };
        Ok(Self { core, call, machine, session, body })
    }

    pub(crate) fn call(&self) -> &'a CallContext {
        self.call
    }

    /// Boxed, as [`acquire`] is.
    pub(crate) fn begin(&mut self) -> BoxFuture<'_, Result<AcquireResult, Error>> {
        self.acquire().boxed()
    }

    async fn acquire(&mut self) -> Result<AcquireResult, Error> {
        if !self.call.has_record {
            let execution = Execution::unprotected(self.core, self.call.clone())?;
            return Ok(AcquireResult::Acquired(execution));
        }
        if let Some(answer) = self.call.cached(self.core) {
            return Ok(AcquireResult::Replay(answer));
        }
        let first = self.call.policy.first_request;
        let command = self.machine.start(self.core.table.clock.moment(), first);
        self.proceed(command).await
    }

    async fn proceed(&mut self, command: Command<Next>) -> Result<AcquireResult, Error> {
        let next = self.session.drive(&mut self.machine, command, &mut self.body).await;
        let acquisition = self.finished(next).await;
        if let Ok(AcquireResult::Acquired(_) | AcquireResult::Reconciled) = acquisition {
            self.core.forget(&self.call.key);
        }
        acquisition
    }

    async fn finished(&mut self, next: Next) -> Result<AcquireResult, Error> {
        let result = match next {
            Next::Run(window) => return Ok(AcquireResult::Acquired(self.execution(Some(window)))),
            Next::RunUnprotected => {
                let error = self.session.error.take().unwrap_or_else(timed_out);
                tracing::error!(
                    operation = self.call.key.operation(), %error,
                    "DynamoDB is out of reach: the handler runs WITHOUT idempotency (Outage::Open)"
                );
                return Ok(AcquireResult::Acquired(self.execution(None)));
            }
            Next::RunHook | Next::AnswerForFailedCondition => return self.hook_call(),
            Next::Done(result) => result,
        };
        if let Some(error) = self.session.undo_error.take() {
            tracing::warn!(
                operation = self.call.key.operation(), %error,
                "an unused lease could not be released: the key is free when it ends"
            );
        }
        match result {
            CallResult::Replay => replay(self.call, &mut self.session, self.machine.budget()).await,
            CallResult::Reconciled | CallResult::Executed => Ok(AcquireResult::Reconciled),
            CallResult::Nothing(reason, _) => {
                nothing(self.call, &mut self.session, self.machine.budget(), reason).await
            }
            CallResult::Unknown => Err(self.session.take_error()),
        }
    }

    fn execution(&mut self, window: Option<Window>) -> Execution {
        let granted = self.machine.granted();
        // The record has the steps of earlier attempts.
        let replaced = self.session.replaced.take().filter(|_| granted.replaced.is_some());
        let start = match window {
            None => Ending::FailOpen,
            Some(_) => self.start(&granted),
        };
        Execution::new(self.core, self.call.clone(), granted, window, replaced, start)
    }

    /// The ending of the execution if it succeeds.
    fn start(&self, granted: &protocol::Granted) -> Ending {
        let is_first = granted.attempts.number.saturating_sub(granted.attempts.released) <= 1;
        match granted.replaced.as_ref().map(|replaced| replaced.state) {
            Some(State::Pending { .. }) => {
                let (operation, attempt) = (self.call.key.operation(), granted.attempts.number);
                tracing::warn!(operation, attempt, "an abandoned operation is taken over");
                signals::takeover(operation);
                Ending::Takeover
            }
            None if is_first => Ending::First,
            None | Some(State::Completed | State::Failed | State::Released) => Ending::Retry,
        }
    }
}

/// The answer in the record that was seen last, read within `budget`.
pub(crate) async fn replay(
    call: &CallContext,
    session: &mut Session<'_>,
    budget: Deadline,
) -> Result<AcquireResult, Error> {
    let Some(Record { answer: Some(stored), expires_at, .. }) = session.last.take() else {
        return Err(session.take_error());
    };
    let asked = session.asked;
    let answer = session.core.open_by(stored, call, budget).await?;
    let request = (&call.key, &call.fingerprint);
    session.core.remember(asked, request, &call.policy, expires_at, answer.clone());
    Ok(AcquireResult::Replay(answer))
}

/// The result of a call that ran nothing and wrote nothing, for this reason.
pub(crate) async fn nothing(
    call: &CallContext,
    session: &mut Session<'_>,
    budget: Deadline,
    reason: Reason,
) -> Result<AcquireResult, Error> {
    match reason {
        Reason::InProgress { lease_left } => Ok(in_progress(lease_left)),
        Reason::Mismatch => Ok(AcquireResult::Mismatch),
        Reason::Abandoned => Ok(AcquireResult::Abandoned),
        Reason::Failed => {
            let failure = match session.last.take().and_then(|record| record.answer) {
                None => None,
                // Even if the failure cannot be read, nothing runs.
                Some(stored) => session.core.open_by(stored, call, budget).await?.available(),
            };
            Ok(AcquireResult::ReplayFailure(failure))
        }
        Reason::DeadlineOver => Err(too_late()),
        Reason::TimedOut => {
            let error = session.error.take().filter(|error| error.kind() == ErrorKind::Unavailable);
            Err(error.unwrap_or_else(timed_out))
        }
        Reason::NoLease => {
            let message = "no lease could be confirmed: other calls kept writing to the key, or each \
                           request took as long as the lease. Try again; if it persists, use a longer lease";
            Err(Error::new(ErrorKind::Unavailable, message))
        }
        Reason::Error | Reason::ItemsRejected | Reason::Free => Err(session.take_error()),
    }
}

pub(crate) fn too_late() -> Error {
    let message = "the deadline of the operation is over: nothing was run";
    Error::new(ErrorKind::DeadlineExceeded, message)
}

fn timed_out() -> Error {
    Error::new(ErrorKind::Unavailable, "DynamoDB did not answer within request_timeout")
}

/// A retry makes sense when the lease expires at the latest. Most owners finish much earlier.
pub(crate) fn in_progress(lease_left: Duration) -> AcquireResult {
    let retry_after = lease_left.clamp(Duration::from_secs(1), Duration::from_secs(5));
    AcquireResult::InProgress { retry_after }
}

impl Core {
    /// The time that is left until `until`.
    pub(crate) fn time_until(&self, until: Option<Deadline>) -> Duration {
        until.map_or(Duration::MAX, |until| self.table.clock.left(until).max(MIN_LIMIT))
    }

    /// Reads a stored answer within the call's time.
    pub(crate) async fn open_by(
        &self,
        stored: Stored,
        call: &CallContext,
        budget: Deadline,
    ) -> Result<Answer, Error> {
        let until = call.answer_by().map_or(budget, |by| by.or(budget));
        self.open(stored, &call.key, &call.policy, Some(until)).await
    }
}
