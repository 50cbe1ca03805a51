//! Runs a handler, the same for every adapter: the lease is renewed meanwhile, the handler is stopped at the end of
//! its [window](crate::protocol::Window), and the record is ended according to what the handler returned. An
//! adapter defines how its answers are stored.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::answer::Answer;
use crate::call::context::End;
use crate::call::errors::{lease_expired, too_late};
use crate::call::execution::{Execution, Storage};
use crate::call::user_code::{self, Panic};
use crate::error::{Error, ErrorKind};
use crate::fault_injection::{FaultPoint, is_broken};
use crate::policy::LeaseExpired;
use crate::protocol::time::Now;
use crate::protocol::{Command, Machine, Renewal, Renewals, Reply, Tenure};
use crate::signals::{Ending, Stopwatch};

/// How an adapter's answers are stored.
pub(crate) trait Encoding<V, E> {
    /// What an answer does to the record.
    fn conclude(&self, execution: &Execution, value: &V) -> Conclusion;

    /// The answer that repeats get for an error, if the policy keeps failures.
    fn failure(&self, error: &E) -> Option<Answer>;

    /// Called if the handler has panicked.
    fn panicked(&self, _: &Panic) {}
}

/// What an answer does to the record.
pub(crate) enum Conclusion {
    /// The operation is done, and this is stored.
    Completed(Answer),
    /// The operation is done, and nothing is stored: the key is released
    /// ([`Completed::Release`](crate::policy::Completed::Release)).
    Succeeded,
    /// The policy for failures decides. Contains what repeats get if it keeps the failure.
    Failed(Option<Answer>),
    /// Nothing was executed, so the previous record is put back.
    NothingExecuted,
}

/// What a call ends with.
pub(crate) enum RunOutcome<V, E> {
    /// The answer of the handler or of the hook.
    Returned(V, Storage),
    /// The error of the handler or of the hook.
    Failed(E),
    /// The handler's panic, and the outcome of the call, for adapters that answer after a panic.
    Panicked(
        Panic,
        #[cfg_attr(
            not(feature = "http"),
            expect(dead_code, reason = "a function's panic goes on")
        )]
        Option<Box<Self>>,
    ),
    Ended(End),
}

impl<V, E> RunOutcome<V, E> {
    /// Replaces what the handler returned. A panic stays a panic.
    pub(crate) fn replaced(self, end: End) -> Self {
        match self {
            Self::Panicked(panic, _) => Self::Panicked(panic, Some(Box::new(end.into()))),
            Self::Returned(..) | Self::Failed(_) | Self::Ended(_) => end.into(),
        }
    }
}

impl<V, E> From<End> for RunOutcome<V, E> {
    fn from(end: End) -> Self {
        Self::Ended(end)
    }
}

impl<V, E> From<Error> for RunOutcome<V, E> {
    fn from(error: Error) -> Self {
        Self::Ended(error.into())
    }
}

/// Runs the handler of an acquired key.
pub(crate) async fn run<V, E, F, Fut>(
    encoding: &impl Encoding<V, E>,
    execution: Execution,
    handler: F,
) -> RunOutcome<V, E>
where
    F: FnOnce(Execution) -> Fut,
    Fut: Future<Output = Result<V, E>>,
{
    let guard = EarlyDrop(&execution);
    // Pinned here, because a future that is passed by value takes its size twice in the caller's future.
    let work = pin!(handle(encoding, &execution, handler));
    let outcome = execution.run_with_renewals(work).await;
    std::mem::forget(guard);
    execution.report();
    outcome
}

async fn handle<V, E, F, Fut>(
    encoding: &impl Encoding<V, E>,
    execution: &Execution,
    handler: F,
) -> RunOutcome<V, E>
where
    F: FnOnce(Execution) -> Fut,
    Fut: Future<Output = Result<V, E>>,
{
    // Until here, another owner may have run, or DynamoDB may have been slow.
    if execution.is_too_late() {
        execution.undo().await;
        return too_late().into();
    }
    let outcome = match call_handler(execution, handler).await {
        None => {
            let end = execution.expire().await;
            return end.unwrap_or_else(|| lease_expired().into()).into();
        }
        Some(Ok(Ok(value))) if execution.has_record() => {
            RunOutcome::Returned(value, Storage::NotStored)
        }
        Some(Ok(Ok(value))) => RunOutcome::Returned(value, Storage::Unprotected),
        Some(Ok(Err(error))) => RunOutcome::Failed(error),
        Some(Err(panic)) => {
            encoding.panicked(&panic);
            RunOutcome::Panicked(panic, None)
        }
    };
    if let Some(end) = execution.close().await {
        return overrule(execution, end, outcome);
    }
    if !execution.has_record() {
        execution.succeeded();
        return outcome;
    }
    let outcome = finish(encoding, execution, outcome).await;
    match execution.close().await {
        // The write of the failure was rejected, because a commit of this execution was applied.
        Some(end) => overrule(execution, end, outcome),
        None => outcome,
    }
}

/// Calls the handler, and returns its result or its panic. A panic of the closure counts as the
/// handler's. `None` if the lease ended first.
async fn call_handler<F, Fut>(
    execution: &Execution,
    handler: F,
) -> Option<Result<Fut::Output, Panic>>
where
    F: FnOnce(Execution) -> Fut,
    Fut: Future,
{
    // Pinned here, as in `run`.
    let running = pin!(async {
        let running = user_code::call(|| handler(execution.clone()))?;
        user_code::run(running).await
    });
    let stopwatch = Stopwatch::start();
    let returned = execution.run_until_lease_ends(running).await;
    stopwatch.handler(execution.operation());
    returned
}

/// Replaces the handler's result with `end`, the outcome of its commits.
fn overrule<V, E>(execution: &Execution, end: End, outcome: RunOutcome<V, E>) -> RunOutcome<V, E> {
    let has_failed = matches!(outcome, RunOutcome::Failed(_) | RunOutcome::Panicked(..));
    match &end {
        // The caller gets the handler's failure, which also means that nothing was committed.
        End::NoAnswer(error) if has_failed && error.kind() == ErrorKind::NothingCommitted => {
            return outcome;
        }
        End::Committed(..) if has_failed => tracing::error!(
            operation = execution.operation(),
            attempt = execution.attempt(),
            "the handler failed after its commit: the committed answer stands"
        ),
        End::Committed(..) | End::Replayed(_) | End::FailureReplayed(_) | End::NoAnswer(_) => {}
    }
    outcome.replaced(end)
}

/// Changes the record according to the handler's result.
async fn finish<V, E>(
    encoding: &impl Encoding<V, E>,
    execution: &Execution,
    mut outcome: RunOutcome<V, E>,
) -> RunOutcome<V, E> {
    let conclusion = match &outcome {
        RunOutcome::Panicked(..) | RunOutcome::Ended(_) => Conclusion::Failed(None),
        _ if execution.is_discarded() => Conclusion::NothingExecuted,
        RunOutcome::Returned(value, _) => encoding.conclude(execution, value),
        RunOutcome::Failed(error) => Conclusion::Failed(encoding.failure(error)),
    };
    match conclusion {
        Conclusion::Failed(failure) => execution.fail(failure).await,
        Conclusion::NothingExecuted => execution.undo().await,
        Conclusion::Succeeded => {
            let released = execution.release_success().await;
            if let RunOutcome::Returned(_, storage) = &mut outcome {
                *storage = released;
            }
        }
        Conclusion::Completed(answer) => match (execution.complete(answer).await, &mut outcome) {
            (Ok(stored), RunOutcome::Returned(_, storage)) => *storage = stored,
            (Ok(_), _) => {}
            (Err(end), _) => return end.into(),
        },
    }
    outcome
}

/// Warns that a running handler was dropped. Its record stays PENDING, and the key is locked until the
/// lease expires.
struct EarlyDrop<'a>(&'a Execution);

impl Drop for EarlyDrop<'_> {
    fn drop(&mut self) {
        tracing::warn!(
            operation = self.0.operation(),
            attempt = self.0.attempt(),
            "the future of a running operation was dropped before its answer was stored: its key is \
             locked until the lease ends"
        );
        self.0.ended_as(Ending::DROPPED);
        self.0.report();
    }
}

/// The lease of a running handler.
impl Execution {
    /// Runs `work` (the handler and the completion), and meanwhile renews the lease if the policy says
    /// so.
    pub(crate) async fn run_with_renewals<F: Future>(&self, work: F) -> F::Output {
        let renewals = Renewals::new(&self.tenure(), self.inner.core.table.clock.moment());
        let Some((renewals, first)) = renewals else { return work.await };
        tokio::select! {
            biased;
            // First, because a renewal that has lost the lease must stop the handler before its next poll.
            never = self.keep_alive(renewals, first) => match never {},
            output = work => output,
        }
    }

    /// Runs a handler until its lease expires or is lost. Then the handler is dropped, `None` is returned,
    /// and the record stays PENDING, because it is unknown what the handler has done.
    pub(crate) async fn run_until_lease_ends<F: Future>(
        &self,
        mut handler: Pin<&mut F>,
    ) -> Option<F::Output> {
        let continues = self.policy().lease_expired == LeaseExpired::Continue;
        if !self.is_protected() || continues || is_broken(FaultPoint::PollAfterTheLease) {
            return Some(handler.await);
        }
        let end = || self.lease_ends();
        let woken = poll_fn(|context| {
            self.inner.handler.register(context.waker());
            handler.as_mut().poll(context)
        });
        let returned = self.inner.core.table.clock.until(end, woken).await;
        if returned.is_none() {
            // The lease is not renewed any longer.
            let is_lost = self.is_lease_lost();
            self.tenure().stop();
            tracing::error!(
                operation = self.operation(),
                attempt = self.attempt(),
                is_lost,
                "the lease ended while the handler ran: the handler was stopped, and its effect may \
                 have happened in part"
            );
        }
        returned
    }

    /// Yields once, so that a handler that has found its lease expired is stopped here.
    pub(crate) async fn halt(&self) {
        tokio::task::yield_now().await;
    }

    async fn keep_alive(&self, mut renewals: Renewals, first: Duration) -> Infallible {
        let mut next = first;
        loop {
            self.inner.core.table.clock.sleep(next).await;
            next = match self.renew(&mut renewals).await {
                Renewal::Next(next) => next,
                Renewal::Ended => return std::future::pending().await,
                Renewal::Lost => {
                    self.inner.handler.wake();
                    tracing::error!(
                        operation = self.operation(),
                        attempt = self.attempt(),
                        "the lease is lost while the handler runs: another execution owns the key"
                    );
                    return std::future::pending().await;
                }
            }
        }
    }

    /// Boxed, as [`acquire`](crate::call::acquiring::acquire) is.
    fn renew<'a>(&'a self, renewals: &'a mut Renewals) -> BoxFuture<'a, Renewal> {
        let renewing = async move {
            let begun = renewals.begin(&mut self.tenure(), self.inner.core.table.clock.moment());
            let mut renewing = Renewing { tenure: &self.inner.tenure, renewals };
            self.session().drive(&mut renewing, begun).await
        };
        renewing.boxed()
    }
}

/// A renewal and the tenure that it belongs to.
struct Renewing<'a> {
    tenure: &'a Mutex<Tenure>,
    renewals: &'a mut Renewals,
}

impl Renewing<'_> {
    fn with<T>(&mut self, act: impl FnOnce(&mut Renewals, &mut Tenure) -> T) -> T {
        let mut tenure = self.tenure.lock().unwrap_or_else(PoisonError::into_inner);
        act(self.renewals, &mut tenure)
    }
}

impl Machine for Renewing<'_> {
    type Output = Renewal;

    fn replied(&mut self, now: Now, reply: &Reply) -> Command<Renewal> {
        self.with(|renewals, tenure| renewals.replied(tenure, now, reply))
    }

    /// A renewal has no pauses.
    fn woke(&mut self, now: Now) -> Command<Renewal> {
        self.with(|renewals, tenure| renewals.begin(tenure, now))
    }
}
