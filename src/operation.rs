//! An operation of one's own code: a function that runs once a key.

mod answer;
mod errors;
mod outcome;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument;

#[cfg(feature = "http")]
pub(crate) use self::answer::answer_unavailable;
use self::answer::{NOT_SERIALISABLE, encode_error, encode_value, serialise};
pub(crate) use self::answer::{
    decode, lease_expired, lease_lost, outcome_unknown, refusal, stored_error,
};
pub use self::errors::{ErrorReplay, ForgetErrors, ReplayErrors};
pub use self::outcome::Outcome;
use crate::acquire::{Acquisition, Call, acquire};
use crate::clock::End;
use crate::completion::Completion;
use crate::error::{Error, RunError};
use crate::execution::Execution;
use crate::fault_injection::{Mutant, mutant};
use crate::fingerprint::Fingerprint;
use crate::idempotency::{Core, Idempotency};
use crate::key::{KeyForm, RecordKey, Scope};
use crate::policy::{Failure, Policy, Unconfirmed};
use crate::reconcile::{
    self, Abandoned, Acquired, Codec, NoReconcile, Reconcile, ReconcileWith, Reconciled,
};
use crate::record::Owner;
use crate::response::{Answer, Answers, Draft};
use crate::signals::{Ending, Stopwatch};
use crate::transaction::{Fate, commit_unknown, given_up};

/// One operation, about to run: made by [`Idempotency::operation`].
///
/// It needs a [`key`](Self::key). Give it the request's [`payload`](Self::payload) too, so that the
/// same key with another request is an error and not somebody else's answer.
///
/// ```
/// # async fn example(idempotency: &dynamodb_idempotency::Idempotency) -> Result<(), Box<dyn std::error::Error>> {
/// let receipt = idempotency
///     .operation("charge")
///     .key("order-42")
///     .payload(&("order-42", 1200))
///     .run(async |execution| Ok::<_, std::io::Error>(execution.derive_key("card").uuid()))
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing happens before run()"]
pub struct Operation<'a, Errors = ForgetErrors, Hook = NoReconcile> {
    idempotency: &'a Idempotency,
    scope: Scope,
    key: Unshown,
    fingerprint: Result<Fingerprint, Error>,
    policy: Policy,
    deadline: Option<End>,
    errors: PhantomData<Errors>,
    hook: Option<Hook>,
}

/// A client's key: no log shows it.
#[derive(Clone, Default)]
struct Unshown(String);

impl fmt::Debug for Unshown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl<'a> Operation<'a> {
    pub(crate) fn new(idempotency: &'a Idempotency, scope: Scope) -> Self {
        Self {
            idempotency,
            scope,
            key: Unshown::default(),
            fingerprint: Ok(Fingerprint::EMPTY),
            policy: idempotency.core.policy.clone(),
            deadline: None,
            errors: PhantomData,
            hook: None,
        }
    }
}

impl<'a, Hook> Operation<'a, ForgetErrors, Hook> {
    /// Keeps a failure of the handler and gives the error itself to repeats; its type must be
    /// serialisable. The policy becomes [`Failure::Replay`], unless it is [`Failure::Retain`]: then
    /// the attempts that it allows run first.
    ///
    /// ```
    /// # async fn example(idempotency: &dynamodb_idempotency::Idempotency) -> Result<(), Box<dyn std::error::Error>> {
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Debug, Serialize, Deserialize)]
    /// struct Declined { code: String }
    ///
    /// let paid = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
    ///     .replay_errors()
    ///     .run(async |_| Err::<(), _>(Declined { code: "stolen_card".to_owned() }))
    ///     .await;
    /// // Every repeat gets `RunError::Handler(Declined { .. })`, and the handler does not run again.
    /// # Ok(())
    /// # }
    /// ```
    pub fn replay_errors(self) -> Operation<'a, ReplayErrors, Hook> {
        let Self { idempotency, scope, key, fingerprint, policy, deadline, errors: _, hook } = self;
        let failure = match policy.failure {
            Failure::Release => Failure::Replay,
            kept @ (Failure::Retain { .. } | Failure::Replay) => kept,
        };
        let policy = policy.failure(failure);
        let errors = PhantomData;
        Operation { idempotency, scope, key, fingerprint, policy, deadline, errors, hook }
    }
}

impl<'a, Errors> Operation<'a, Errors> {
    /// Asks `hook` about an operation whose owner let its lease end without an answer, in the place
    /// of [`Policy::takeover`]: the business looks whether the effect exists, and answers for the
    /// operation or says that it may run.
    ///
    /// ```no_run
    /// use dynamodb_idempotency::{Abandoned, Idempotency, Reconciled, RunError};
    /// # async fn charge(_: String) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # async fn find_charge(_: String) -> Result<Option<String>, std::io::Error> { Ok(None) }
    ///
    /// async fn pay(idempotency: &Idempotency) -> Result<String, RunError<std::io::Error>> {
    ///     idempotency
    ///         .operation("charge")
    ///         .key("order-42")
    ///         .reconcile(|abandoned: Abandoned| async move {
    ///             let key = abandoned.derive_key("charge").uuid();
    ///             Ok(match find_charge(key).await? {
    ///                 Some(receipt) => Reconciled::Completed(receipt),
    ///                 None => Reconciled::Execute,
    ///             })
    ///         })
    ///         .run(|execution| charge(execution.derive_key("charge").uuid()))
    ///         .await
    /// }
    /// ```
    ///
    /// The hook runs before anything is written, so several calls may ask theirs at once; one
    /// answer is written, on the condition that the record is still the one that was judged, and
    /// each of the others looks again. An `Err` of the hook's is the call's
    /// [`RunError::Handler`], and a panic goes on; nothing is written then. At the
    /// [deadline](Self::deadline) it is dropped, with
    /// [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded); without one it has to bound its own time. A
    /// record that is gone, released or past its retention is not
    /// abandoned: the operation runs as if it were new.
    pub fn reconcile<T, E, H, Fut>(self, hook: H) -> Operation<'a, Errors, ReconcileWith<H>>
    where
        H: FnMut(Abandoned) -> Fut,
        Fut: Future<Output = Result<Reconciled<T, E>, E>>,
    {
        let Self { idempotency, scope, key, fingerprint, policy, deadline, errors, hook: _ } = self;
        let hook = Some(ReconcileWith(hook));
        Operation { idempotency, scope, key, fingerprint, policy, deadline, errors, hook }
    }
}

impl<Errors, Hook> Operation<'_, Errors, Hook> {
    /// What tells this operation from others of its scope: an order's number, a message's id, a
    /// client's `Idempotency-Key`. Required, not empty.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// let operation = idempotency.operation("charge").key("order-42");
    /// # }
    /// ```
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Unshown(key.into());
        self
    }

    /// Adds a segment to the scope: a version, a region. For a customer see [`Scope::tenant`].
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// let operation = idempotency.operation("charge").segment("v2").key("order-42");
    /// # }
    /// ```
    pub fn segment(mut self, segment: &str) -> Self {
        self.scope = self.scope.segment(segment);
        self
    }

    /// The request; a repeat with the same key must bring the same one. Compared by its JSON value,
    /// in which the order of a map's members does not matter; that of a sequence does, so leave
    /// out a `HashSet`, whose order changes with every process.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// let operation = idempotency.operation("charge").key("order-42").payload(&("order-42", 1200));
    /// # }
    /// ```
    pub fn payload<P: Serialize + ?Sized>(mut self, payload: &P) -> Self {
        self.fingerprint = Fingerprint::of(payload);
        self
    }

    /// The request as bytes, compared as they are.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// let operation = idempotency.operation("charge").key("order-42").payload_bytes(b"order-42:1200");
    /// # }
    /// ```
    pub fn payload_bytes(self, payload: &[u8]) -> Self {
        self.fingerprint(Fingerprint::builder().bytes(payload).finish())
    }

    /// The request's fingerprint, made of whatever parts count.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::Fingerprint;
    ///
    /// let fingerprint = Fingerprint::builder().bytes(b"eur").json(b"1200").finish();
    /// let operation = idempotency.operation("charge").key("order-42").fingerprint(fingerprint);
    /// # }
    /// ```
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = Ok(fingerprint);
        self
    }

    /// Changes the inherited policy for this operation.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::Takeover;
    ///
    /// let operation = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
    ///     .policy(|policy| policy.takeover(Takeover::Reject));
    /// # }
    /// ```
    pub fn policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.policy = change(self.policy);
        self
    }

    /// When the caller's time is over: in Lambda the deadline of the **current** invocation's
    /// `Context`. It bounds [`Lease::Invocation`](crate::Lease::Invocation) and every wait.
    ///
    /// ```
    /// use dynamodb_idempotency::Idempotency;
    /// use lambda_runtime::{Error, LambdaEvent};
    ///
    /// async fn handler(idempotency: &Idempotency, event: LambdaEvent<String>) -> Result<u32, Error> {
    ///     let rows = idempotency
    ///         .operation("import")
    ///         .key(&event.payload)
    ///         .deadline(event.context.deadline())
    ///         .run(async |_| Ok::<_, std::io::Error>(3))
    ///         .await?;
    ///     Ok(rows)
    /// }
    /// ```
    pub fn deadline(mut self, deadline: SystemTime) -> Self {
        self.deadline = Some(self.idempotency.core.table.clock.at(deadline));
        self
    }

    /// As [`deadline`](Self::deadline), if there is one.
    #[cfg_attr(not(feature = "messages"), expect(dead_code, reason = "messages come with one"))]
    pub(crate) fn ends(mut self, deadline: Option<End>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs `handler` unless this operation has run before; the answer is the same either way.
    ///
    /// The future must be driven to its end: dropped before its answer is stored (by a time-out
    /// around it, say), it leaves the key locked until the lease is over, and then the operation
    /// runs again. Spawn it where that can happen. A panic of the handler's counts as a failure,
    /// and goes on.
    ///
    /// ```
    /// # async fn example(idempotency: &dynamodb_idempotency::Idempotency) -> Result<(), Box<dyn std::error::Error>> {
    /// let receipt: String = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
    ///     .run(async |_| Ok::<_, std::io::Error>("paid".to_owned()))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RunError::Handler`] with the handler's own error, [`RunError::Idempotency`] with one of
    /// [`ErrorKind`](crate::ErrorKind).
    pub async fn run<T, E, F, Fut>(self, handler: F) -> Result<T, RunError<E>>
    where
        F: FnOnce(Execution) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        Errors: ErrorReplay<E>,
        Hook: Reconcile<T, E>,
    {
        self.run_with_outcome(handler).await.map(Outcome::into_inner)
    }

    /// As [`run`](Self::run), and tells how the answer came.
    ///
    /// ```
    /// # async fn example(idempotency: &dynamodb_idempotency::Idempotency) -> Result<(), Box<dyn std::error::Error>> {
    /// let outcome = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
    ///     .run_with_outcome(async |_| Ok::<_, std::io::Error>("paid".to_owned()))
    ///     .await?;
    /// println!("a replay: {}", outcome.is_replayed());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As `run`.
    pub async fn run_with_outcome<T, E, F, Fut>(self, handler: F) -> Result<Outcome<T>, RunError<E>>
    where
        F: FnOnce(Execution) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        Errors: ErrorReplay<E>,
        Hook: Reconcile<T, E>,
    {
        let (core, call, hook) = self.into_call()?;
        let span = call.signals.span();
        execute::<T, E, F, Fut, Errors, Hook>(core, call, hook, handler).instrument(span).await
    }
}

async fn execute<T, E, F, Fut, Errors, Hook>(
    core: &Arc<Core>,
    call: Call,
    hook: Option<Hook>,
    handler: F,
) -> Result<Outcome<T>, RunError<E>>
where
    F: FnOnce(Execution) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    T: Serialize + DeserializeOwned,
    Errors: ErrorReplay<E>,
    Hook: Reconcile<T, E>,
{
    let acquisition = match hook {
        None => acquire(core, call).await?,
        Some(mut hook) => {
            let codec = Codec { completed: encode_value::<T>, failed: encode_error::<E, Errors> };
            match reconcile::acquire(core, call, &mut hook, codec).await? {
                Acquired::Unsettled(acquisition) => acquisition,
                Acquired::Completed(value) => return Ok(Outcome::Reconciled(value)),
                Acquired::Failed(error) => return Err(RunError::Handler(error)),
            }
        }
    };
    let execution = match acquisition {
        Acquisition::Acquired(execution) => execution,
        Acquisition::Replay(answer) => return Ok(Outcome::Replayed(decode(&answer)?)),
        Acquisition::ReplayFailure(answer) => {
            return Err(stored_error::<E, Errors>(answer.as_ref()));
        }
        refused => return Err(refusal(&refused).into()),
    };
    let work = async {
        let Some(returned) = call_handler(&execution, handler).await else {
            return Ok(match execution.expire().await {
                Some(fate) => settled(fate).map_err(Into::into),
                None => Err(lease_expired().into()),
            });
        };
        if let Some(fate) = execution.close().await {
            return returned.map(|returned| overrule(&execution, fate, returned));
        }
        match returned {
            Ok(Ok(value)) => Ok(finish(&execution, value).await.map_err(Into::into)),
            Ok(Err(error)) => {
                let failure = encode_error::<E, Errors>(&error);
                fail(&execution, failure.as_ref().map(Answer::draft)).await;
                match execution.close().await {
                    Some(fate) => Ok(overrule(&execution, fate, Err(error))),
                    None => Ok(Err(RunError::Handler(error))),
                }
            }
            Err(panic) => {
                execution.fail(None).await;
                Err(panic)
            }
        }
    };
    see_through(&execution, pin!(work)).await.unwrap_or_else(|panic| resume_unwind(panic))
}

impl<'a, Errors, Hook> Operation<'a, Errors, Hook> {
    /// What it asks of the table, and the hook that it has.
    pub(crate) fn into_call(self) -> Result<(&'a Arc<Core>, Call, Option<Hook>), Error> {
        let core = &self.idempotency.core;
        let key = core.record_key(&self.scope, &self.key.0, self.policy.key_form)?;
        let deadline = self.deadline;
        let fingerprint = match self.fingerprint {
            Err(_) if core.table.is_disabled => Fingerprint::EMPTY,
            fingerprint => fingerprint?,
        };
        let answers = Answers::FUNCTION;
        let call = Call::new(core, key, fingerprint, self.policy, deadline, answers);
        Ok((core, call, self.hook))
    }
}

impl Core {
    /// The record's key. While idempotency is switched off no call is refused for its key: one that is
    /// none is drawn.
    pub(crate) fn record_key(
        &self,
        scope: &Scope,
        key: &str,
        form: KeyForm,
    ) -> Result<RecordKey, Error> {
        let limit = self.table.schema.max_key_bytes();
        match RecordKey::new(scope, key, form, limit) {
            Err(_) if self.table.is_disabled => self.drawn_key(scope),
            key => key,
        }
    }

    /// A key that meets no other one.
    pub(crate) fn drawn_key(&self, scope: &Scope) -> Result<RecordKey, Error> {
        let limit = self.table.schema.max_key_bytes();
        RecordKey::new(scope, Owner::random()?.as_str(), KeyForm::Verbatim, limit)
    }
}

/// Puts what a handler's commit has come to in the place of what the handler returned.
fn overrule<T: DeserializeOwned, E>(
    execution: &Execution,
    fate: Fate,
    returned: Result<T, E>,
) -> Result<Outcome<T>, RunError<E>> {
    match (fate, returned) {
        // Nothing has happened: an error of the handler's says as much.
        (Fate::GivenUp, Err(error)) => Err(RunError::Handler(error)),
        (fate, returned) => {
            if matches!(fate, Fate::Committed(_)) && returned.is_err() {
                report_failed_after_commit(execution);
            }
            Ok(settled(fate)?)
        }
    }
}

/// What a commit has come to that has ended its operation.
fn settled<T: DeserializeOwned>(fate: Fate) -> Result<Outcome<T>, Error> {
    match fate {
        Fate::Committed(answer) => decode(&answer).map(Outcome::Executed),
        Fate::LeaseLost(Some(theirs)) => decode(&theirs).map(Outcome::Replayed),
        Fate::LeaseLost(None) => Err(lease_lost()),
        Fate::GivenUp => Err(given_up()),
        Fate::Unknown => Err(commit_unknown()),
    }
}

/// A handler that fails after its effect has happened.
pub(crate) fn report_failed_after_commit(execution: &Execution) {
    tracing::error!(
        operation = execution.operation(),
        attempt = execution.attempt(),
        "the handler failed after its commit: the committed answer stands"
    );
}

/// Runs the handler to its result or its panic; a panic in the closure itself counts too. `None` if its
/// lease ended first.
pub(crate) async fn call_handler<F, Fut>(
    execution: &Execution,
    handler: F,
) -> Option<Result<Fut::Output, Box<dyn Any + Send>>>
where
    F: FnOnce(Execution) -> Fut,
    Fut: Future,
{
    let running = async { handler(execution.clone()).await };
    let stopwatch = Stopwatch::start();
    let returned = execution.guard(AssertUnwindSafe(running).catch_unwind()).await;
    stopwatch.handler(execution.operation());
    returned
}

/// What a panic said.
#[cfg_attr(
    not(any(feature = "http", feature = "messages")),
    expect(dead_code, reason = "a function's panic goes on by itself")
)]
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a value that is no text")
}

/// Drives a handler and what its answer does to the record, under a live lease. `work` is best a pinned
/// reference: a future that is handed on is in the caller's future twice.
pub(crate) async fn see_through<F: Future>(execution: &Execution, work: F) -> F::Output {
    let guard = EarlyDrop(execution);
    let output = execution.drive(work).await;
    std::mem::forget(guard);
    execution.report();
    output
}

/// Says aloud that a running handler was dropped: nobody completes its record any more.
struct EarlyDrop<'a>(&'a Execution);

impl Drop for EarlyDrop<'_> {
    fn drop(&mut self) {
        tracing::warn!(
            operation = self.0.operation(),
            attempt = self.0.attempt(),
            "the future of a running operation was dropped before its answer was stored: its key is \
             locked until the lease ends"
        );
        self.0.came_to(Ending::Dropped);
        self.0.report();
    }
}

/// A failure after which the handler may have said that it changed nothing.
pub(crate) async fn fail(execution: &Execution, response: Option<Draft<'_>>) {
    if execution.said_nothing_executed() {
        execution.release().await;
    } else {
        execution.fail(response).await;
    }
}

async fn finish<T>(execution: &Execution, value: T) -> Result<Outcome<T>, Error>
where
    T: Serialize + DeserializeOwned,
{
    if execution.said_nothing_executed() {
        execution.release().await;
        // A commit that was refused may have landed late.
        return match execution.close().await {
            Some(Fate::Committed(answer)) => decode(&answer).map(Outcome::Executed),
            Some(Fate::Unknown) => Err(commit_unknown()),
            Some(Fate::LeaseLost(_) | Fate::GivenUp) | None => Ok(Outcome::NothingExecuted(value)),
        };
    }
    // Once, and not once a try: its panic counts as one that cannot be stored.
    let draft = match serialise(&value) {
        Ok(json) => Draft::Json(json.into()),
        Err(reason) => {
            execution.report_unstorable(&reason);
            Draft::unavailable(NOT_SERIALISABLE)
        }
    };
    match execution.complete(draft).await {
        Completion::Stored => Ok(Outcome::Executed(value)),
        Completion::Landed(answer) => decode(&answer).map(Outcome::Executed),
        Completion::Unprotected if execution.has_commit_in_doubt() => Err(commit_unknown()),
        Completion::Unprotected => Ok(Outcome::Unprotected(value)),
        Completion::LeaseLost(Some(theirs)) => decode(&theirs).map(Outcome::Replayed),
        Completion::LeaseLost(None) => Err(lease_lost()),
        Completion::Unconfirmed(error) => {
            if mutant(Mutant::ReleaseAfterUnconfirmed) {
                execution.release().await;
            }
            match execution.policy().unconfirmed {
                // A commit that was refused may land yet, and then this is not the answer.
                _ if execution.has_commit_in_doubt() => Err(commit_unknown()),
                Unconfirmed::Answer => Ok(Outcome::Unconfirmed(value)),
                Unconfirmed::Error => Err(outcome_unknown(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller's task holds the whole future, ten thousand of them where many wait.
    #[test]
    fn an_operation_is_shown_without_its_key() {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .build();
        let client = aws_sdk_dynamodb::Client::from_conf(config);
        let idempotency = Idempotency::new(client, "t");
        let shown = format!("{:?}", idempotency.operation("charge").key("canary"));
        assert!(shown.contains("charge") && !shown.contains("canary"), "{shown}");
    }

    #[test]
    fn the_future_of_an_operation_is_small() {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .build();
        let client = aws_sdk_dynamodb::Client::from_conf(config);
        let idempotency = Idempotency::new(client, "t");
        let operation = idempotency.operation("o").key("k");
        let future = operation.run(async |_| Ok::<_, Error>(1_u8));
        let bytes = std::mem::size_of_val(&future);
        assert!(bytes <= 8192, "{bytes} bytes");
    }
}
