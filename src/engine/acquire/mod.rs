//! Becoming the owner of a key, or learning why not: a call, driven through the machine.

mod carried;
mod reconcile;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use self::carried::Carried;
use crate::answer::{Answer, Stored};
use crate::clock::End;
use crate::engine::call::CallContext;
use crate::engine::core::Core;
use crate::engine::driver::{Unreadable, Wire};
use crate::engine::execution::Execution;
use crate::engine::hook::Abandoned;
use crate::error::{Error, ErrorKind};
use crate::protocol::{self, Acquire, Command, Goal, MIN_LIMIT, Reason, State, Stop, Told, Window};
use crate::record::{Record, random_owner};
use crate::signals::{self, Ending};

/// What an attempt to become the owner came to. Only the first variant may run the handler.
#[derive(Debug)]
#[must_use]
pub(crate) enum Acquisition {
    Acquired(Execution),
    Replay(Answer),
    ReplayFailure(Option<Answer>),
    Mismatch,
    InProgress {
        retry_after: Duration,
    },
    Abandoned,
    /// A hook has to judge: [`Acquirer::resume`] with its resolution. Only where it was asked for.
    Reconcile(Box<Abandoned>),
    /// The hook's resolution is in the record.
    Reconciled,
}

impl Acquisition {
    /// Of a call that ran nothing; `None` if the acquisition is not its end.
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
    /// Passes on what the call has come to; tells it, if that is its end.
    pub(crate) fn told(&self, acquired: Result<Acquisition, Error>) -> Result<Acquisition, Error> {
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

/// Tries until the call owns its key or has an answer; where the policy wants that of an outage,
/// the call may own its key without a record. Boxed: the callers' own futures stay small, and are
/// compiled without what is in this one. The compiler makes the body of an `async fn` anew for each crate
/// that awaits it; a function that boxes it is made once.
pub(crate) fn acquire(
    core: &Arc<Core>,
    call: CallContext,
) -> BoxFuture<'_, Result<Acquisition, Error>> {
    let acquiring = async move {
        let mut acquirer = Acquirer::new(core, &call, false)?;
        call.told(acquirer.acquire().await)
    };
    acquiring.boxed()
}

/// A call on its way to its key.
pub(crate) struct Acquirer<'a> {
    core: &'a Arc<Core>,
    call: &'a CallContext,
    machine: Acquire,
    wire: Wire<'a>,
    carried: Carried<'a>,
}

impl<'a> Acquirer<'a> {
    pub(crate) fn new(
        core: &'a Arc<Core>,
        call: &'a CallContext,
        reconciles: bool,
    ) -> Result<Self, Error> {
        let owner = random_owner()?;
        let rules = call.rules(core, reconciles);
        let machine = Acquire::new(owner, Goal::Own, rules, core.table.clock.moment());
        let of = (&call.key, &call.fingerprint);
        let wire = Wire::new(core, of, owner, Unreadable::IsAnError);
        let carried = Carried { core, call, owner, resolved: None };
        Ok(Self { core, call, machine, wire, carried })
    }

    pub(crate) fn call(&self) -> &'a CallContext {
        self.call
    }

    /// Boxed, as [`acquire`] is.
    pub(crate) fn begin(&mut self) -> BoxFuture<'_, Result<Acquisition, Error>> {
        self.acquire().boxed()
    }

    async fn acquire(&mut self) -> Result<Acquisition, Error> {
        if !self.call.has_record {
            let execution = Execution::unprotected(self.core, self.call.clone())?;
            return Ok(Acquisition::Acquired(execution));
        }
        if let Some(answer) = self.call.cached(self.core) {
            return Ok(Acquisition::Replay(answer));
        }
        let first = self.call.policy.first_request.first();
        let command = self.machine.started(self.core.table.clock.moment(), first);
        self.go_on(command).await
    }

    async fn go_on(&mut self, command: Command<Stop>) -> Result<Acquisition, Error> {
        let stop = self.wire.drive(&mut self.machine, command, &mut self.carried).await;
        let acquisition = self.stopped(stop).await;
        if let Ok(Acquisition::Acquired(_) | Acquisition::Reconciled) = acquisition {
            self.core.forget(&self.call.key);
        }
        acquisition
    }

    async fn stopped(&mut self, stop: Stop) -> Result<Acquisition, Error> {
        let told = match stop {
            Stop::Run(window) => return Ok(Acquisition::Acquired(self.execution(Some(window)))),
            Stop::RunUnprotected => {
                let error = self.wire.error.take().unwrap_or_else(timed_out);
                tracing::error!(
                    operation = self.call.key.operation(), %error,
                    "DynamoDB is out of reach: the handler runs WITHOUT idempotency (Outage::Open)"
                );
                return Ok(Acquisition::Acquired(self.execution(None)));
            }
            Stop::Ask | Stop::AskInstead => return self.put_to_hook(),
            Stop::Tell(told) => told,
        };
        if let Some(error) = self.wire.not_given_back.take() {
            tracing::warn!(
                operation = self.call.key.operation(), %error,
                "an unused lease could not be released: the key is free when it ends"
            );
        }
        match told {
            Told::Replay => replay(self.call, &mut self.wire, self.machine.budget()).await,
            Told::Reconciled | Told::Executed => Ok(Acquisition::Reconciled),
            Told::Nothing(reason, _) => {
                nothing(self.call, &mut self.wire, self.machine.budget(), reason).await
            }
            Told::Unknown => Err(self.wire.take_error()),
        }
    }

    fn execution(&mut self, window: Option<Window>) -> Execution {
        let granted = self.machine.granted();
        // What the record that we own has of earlier attempts' steps.
        let taken = self.wire.taken.take().filter(|_| granted.taken.is_some());
        let start = match window {
            None => Ending::FailOpen,
            Some(_) => self.start(&granted),
        };
        Execution::new(self.core, self.call.clone(), granted, window, taken, start)
    }

    /// What the execution that starts now comes to if all goes well.
    fn start(&self, granted: &protocol::Granted) -> Ending {
        let is_first = granted.attempt.saturating_sub(granted.released_attempts) <= 1;
        match granted.taken.as_ref().map(|taken| taken.state) {
            Some(State::Pending { .. }) => {
                let (operation, attempt) = (self.call.key.operation(), granted.attempt);
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
    wire: &mut Wire<'_>,
    budget: End,
) -> Result<Acquisition, Error> {
    let Some(Record { answer: Some(stored), expires_at, .. }) = wire.last.take() else {
        return Err(wire.take_error());
    };
    let asked = wire.asked;
    let answer = wire.core.open_by(stored, call, budget).await?;
    let request = (&call.key, &call.fingerprint);
    wire.core.remember(asked, request, &call.policy, expires_at, answer.clone());
    Ok(Acquisition::Replay(answer))
}

/// Nothing ran and nothing was written, for this reason.
pub(crate) async fn nothing(
    call: &CallContext,
    wire: &mut Wire<'_>,
    budget: End,
    reason: Reason,
) -> Result<Acquisition, Error> {
    match reason {
        Reason::InProgress { lease_left } => Ok(in_progress(lease_left)),
        Reason::Mismatch => Ok(Acquisition::Mismatch),
        Reason::Abandoned => Ok(Acquisition::Abandoned),
        Reason::Failed => {
            let failure = match wire.last.take().and_then(|record| record.answer) {
                None => None,
                // Whatever becomes of reading it, nothing runs.
                Some(stored) => wire.core.open_by(stored, call, budget).await?.available(),
            };
            Ok(Acquisition::ReplayFailure(failure))
        }
        Reason::TooLate => Err(too_late()),
        Reason::TimedOut => {
            let error = wire.error.take().filter(|error| error.kind() == ErrorKind::Unavailable);
            Err(error.unwrap_or_else(timed_out))
        }
        Reason::NoLease => {
            let message = "DynamoDB confirms no lease: try again";
            Err(Error::new(ErrorKind::Unavailable, message))
        }
        Reason::Error | Reason::ItemsRefused | Reason::Free => Err(wire.take_error()),
    }
}

pub(crate) fn too_late() -> Error {
    let message = "the deadline of the operation is over: nothing was run";
    Error::new(ErrorKind::DeadlineExceeded, message)
}

fn timed_out() -> Error {
    Error::new(ErrorKind::Unavailable, "DynamoDB did not answer within request_timeout")
}

/// A retry makes sense when the lease is over at the latest; owners mostly finish much earlier.
pub(crate) fn in_progress(lease_left: Duration) -> Acquisition {
    let retry_after = lease_left.clamp(Duration::from_secs(1), Duration::from_secs(5));
    Acquisition::InProgress { retry_after }
}

impl Core {
    /// How long a call may last that has to be back by `until`.
    pub(crate) fn time_until(&self, until: Option<End>) -> Duration {
        until.map_or(Duration::MAX, |until| self.table.clock.left(until).max(MIN_LIMIT))
    }

    /// Reads a stored answer in the time that a call has.
    pub(crate) async fn open_by(
        &self,
        stored: Stored,
        call: &CallContext,
        budget: End,
    ) -> Result<Answer, Error> {
        let until = call.answer_by().map_or(budget, |by| by.or(budget));
        self.open(stored, &call.key, &call.policy, Some(until)).await
    }
}
