//! One runner for every adapter: it calls the handler under its lease, finishes the record according to
//! what the handler returned, and returns the outcome. An adapter defines how its answers are stored.

use std::future::Future;
use std::pin::pin;

use crate::answer::Answer;
use crate::error::Error;
use crate::run::caller::Progress;
use crate::run::completion::{Overruled, Storage};
use crate::run::errors::{abandoned, lease_expired, lease_lost};
use crate::run::execution::Execution;
use crate::run::transaction::nothing_committed;
use crate::run::user_code::{self, Panic};
use crate::signals::{Ending, Stopwatch};

/// How an adapter's answers are stored.
pub(crate) trait Encoding {
    /// What a handler returns on success.
    type Value;
    type Error;

    /// What an answer does to the record.
    fn conclude(&self, execution: &Execution, value: &Self::Value) -> Conclusion;

    /// The answer that repeats get for an error, if the policy keeps failures.
    fn failure(&self, error: &Self::Error) -> Option<Answer>;

    /// Called if the handler has panicked.
    fn panicked(&self, _: &Panic) {}
}

/// What an answer does to the record.
pub(crate) enum Conclusion {
    /// The operation is done, and this is stored.
    Completed(Answer),
    /// The policy for failures decides. Contains what repeats get if it keeps the failure.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only a response can be that"))]
    Failed(Option<Answer>),
    /// The previous record is restored.
    NothingExecuted,
}

/// What a call ends with.
pub(crate) enum RunOutcome<V, E> {
    /// The handler's own answer.
    Returned(V, Storage),
    /// The handler's own error.
    Failed(E),
    /// The answer that the handler has committed.
    Committed(Answer),
    /// The hook's answer, which is stored.
    Reconciled(V),
    /// The answer of another execution.
    Replayed(Answer),
    /// The failure of an earlier execution, if it is available.
    FailureReplayed(Option<Answer>),
    /// No answer, for this reason.
    NoAnswer(Error),
}

/// A handler's panic.
pub(crate) struct Panicked<V, E> {
    pub(crate) panic: Panic,
    /// The outcome of the call, for adapters that return an answer after a panic.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "a function's panic goes on"))]
    pub(crate) instead: Option<RunOutcome<V, E>>,
}

pub(crate) type Ran<V, E> = Result<RunOutcome<V, E>, Panicked<V, E>>;

impl<V, E> RunOutcome<V, E> {
    /// The execution of an acquired key, or the outcome of a call that runs nothing.
    pub(crate) fn of(progress: Result<Progress, Error>) -> Result<Execution, Self> {
        Err(match progress {
            Ok(Progress::Acquired(execution)) => return Ok(execution),
            Ok(Progress::Replay(answer)) => Self::Replayed(answer),
            Ok(Progress::ReplayFailure(failure)) => Self::FailureReplayed(failure),
            Err(error) => Self::NoAnswer(error),
            // Only of calls with a hook or a transaction, which continue.
            Ok(
                Progress::Abandoned(_)
                | Progress::ItemsRejected(_)
                | Progress::Written
                | Progress::NothingWritten,
            ) => Self::NoAnswer(abandoned()),
        })
    }
}

impl<V, E> From<Overruled> for RunOutcome<V, E> {
    fn from(end: Overruled) -> Self {
        match end {
            Overruled::Committed(answer) => Self::Committed(answer),
            Overruled::LeaseLost(Some(answer)) => Self::Replayed(answer),
            Overruled::LeaseLost(None) => Self::NoAnswer(lease_lost()),
            Overruled::NothingCommitted => Self::NoAnswer(nothing_committed()),
            Overruled::Unknown(error) => Self::NoAnswer(error),
        }
    }
}

impl<V, E> From<Error> for RunOutcome<V, E> {
    fn from(error: Error) -> Self {
        Self::NoAnswer(error)
    }
}

impl<V, E> From<Panic> for Panicked<V, E> {
    fn from(panic: Panic) -> Self {
        Self { panic, instead: None }
    }
}

/// Runs the handler of an acquired key.
pub(crate) async fn run<A, F, Fut>(
    encoding: &A,
    execution: Execution,
    handler: F,
) -> Ran<A::Value, A::Error>
where
    A: Encoding,
    F: FnOnce(Execution) -> Fut,
    Fut: Future<Output = Result<A::Value, A::Error>>,
{
    let guard = EarlyDrop(&execution);
    // Pinned here, because a future that is passed by value takes its size twice in the caller's future.
    let work = pin!(handle(encoding, &execution, handler));
    let ran = execution.run_with_renewals(work).await;
    std::mem::forget(guard);
    execution.report();
    ran
}

async fn handle<A, F, Fut>(
    encoding: &A,
    execution: &Execution,
    handler: F,
) -> Ran<A::Value, A::Error>
where
    A: Encoding,
    F: FnOnce(Execution) -> Fut,
    Fut: Future<Output = Result<A::Value, A::Error>>,
{
    let Some(returned) = call_handler(execution, handler).await else {
        // Boxed, because it is rare, and the future of every call would contain it.
        let end = Box::pin(execution.expire()).await;
        return Ok(end.map_or_else(|| RunOutcome::NoAnswer(lease_expired()), RunOutcome::from));
    };
    if let Err(panic) = &returned {
        encoding.panicked(panic);
    }
    if let Some(end) = execution.close().await {
        return overrule(execution, end, ran(returned, Storage::NotStored));
    }
    if !execution.has_record() {
        execution.succeeded();
        return ran(returned, Storage::Unprotected);
    }
    let ended = match returned {
        Ok(Ok(value)) => Ok(conclude(encoding, execution, value).await),
        Ok(Err(error)) => {
            if execution.is_discarded() {
                execution.undo().await;
            } else {
                execution.fail(encoding.failure(&error)).await;
            }
            Ok(RunOutcome::Failed(error))
        }
        Err(panic) => {
            execution.fail(None).await;
            Err(panic.into())
        }
    };
    match execution.close().await {
        // The write of the failure was rejected, because a commit of this execution was applied.
        Some(end) => overrule(execution, end, ended),
        None => ended,
    }
}

/// The handler's own result.
fn ran<V, E>(returned: Result<Result<V, E>, Panic>, storage: Storage) -> Ran<V, E> {
    Ok(match returned? {
        Ok(value) => RunOutcome::Returned(value, storage),
        Err(error) => RunOutcome::Failed(error),
    })
}

/// Calls the handler until its result or its panic; a panic in the closure itself counts too. `None` if
/// its lease ended first.
async fn call_handler<F, Fut>(
    execution: &Execution,
    handler: F,
) -> Option<Result<Fut::Output, Panic>>
where
    F: FnOnce(Execution) -> Fut,
    Fut: Future,
{
    let running = async {
        let running = user_code::call(|| handler(execution.clone()))?;
        user_code::run(running).await
    };
    let stopwatch = Stopwatch::start();
    let returned = execution.run_until_lease_ends(running).await;
    stopwatch.handler(execution.operation());
    returned
}

/// Replaces what the handler returned.
fn overrule<V, E>(execution: &Execution, end: Overruled, ran: Ran<V, E>) -> Ran<V, E> {
    let has_failed = matches!(ran, Ok(RunOutcome::Failed(_)) | Err(_));
    match end {
        // Nothing was committed, which the handler's failure already tells the caller.
        Overruled::NothingCommitted if has_failed => return ran,
        Overruled::Committed(_) if has_failed => tracing::error!(
            operation = execution.operation(),
            attempt = execution.attempt(),
            "the handler failed after its commit: the committed answer stands"
        ),
        Overruled::Committed(_)
        | Overruled::LeaseLost(_)
        | Overruled::NothingCommitted
        | Overruled::Unknown(_) => {}
    }
    match ran {
        Ok(_) => Ok(end.into()),
        Err(panicked) => Err(Panicked { instead: Some(end.into()), ..panicked }),
    }
}

/// Writes what the handler's answer does to the record.
async fn conclude<A: Encoding>(
    encoding: &A,
    execution: &Execution,
    value: A::Value,
) -> RunOutcome<A::Value, A::Error> {
    let conclusion = if execution.is_discarded() {
        Conclusion::NothingExecuted
    } else {
        encoding.conclude(execution, &value)
    };
    match conclusion {
        Conclusion::Completed(answer) => match execution.complete(answer).await {
            Ok(storage) => RunOutcome::Returned(value, storage),
            Err(end) => end.into(),
        },
        Conclusion::Failed(failure) => {
            execution.fail(failure).await;
            RunOutcome::Returned(value, Storage::NotStored)
        }
        Conclusion::NothingExecuted => {
            execution.undo().await;
            RunOutcome::Returned(value, Storage::NotStored)
        }
    }
}

/// Warns that a running handler was dropped. Its record stays PENDING until the lease expires.
struct EarlyDrop<'a>(&'a Execution);

impl Drop for EarlyDrop<'_> {
    fn drop(&mut self) {
        tracing::warn!(
            operation = self.0.operation(),
            attempt = self.0.attempt(),
            "the future of a running operation was dropped before its answer was stored: its key is \
             locked until the lease ends"
        );
        self.0.ended_as(Ending::Dropped);
        self.0.report();
    }
}
