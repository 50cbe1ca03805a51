//! A call of an operation, for one key.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument;

use super::answer::{decode, encode, json, report_unstorable};
use super::config::OperationConfig;
use super::outcome::Outcome;
use super::typed::{KeptErrors, ReconcileHook, Unset};
use crate::answer::{Answer, AnswerRules, Replay};
use crate::call::acquiring::{acquire, acquire_with_hook};
use crate::call::context::{CallContext, End};
use crate::call::core::Core;
use crate::call::errors::failed;
use crate::call::execution::Execution;
use crate::call::execution::Storage;
use crate::call::handler::{Conclusion, Encoding, RunOutcome, run};
use crate::call::hook::{Abandoned, Reconciled};
use crate::clock::{Deadline, Timestamp};
use crate::error::{Error, RunError};
use crate::fingerprint::{self, Fingerprint};
use crate::idempotency::Idempotency;
use crate::policy::Failure;

/// A call of an operation, before it runs. [`CallNeedsPayload::payload`](crate::CallNeedsPayload::payload) and
/// [`no_payload`](crate::CallNeedsPayload::no_payload) create it.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// let receipt = idempotency
///     .operation("charge")
///     .key("order-42")
///     .payload(&("order-42", 1200))
///     .run(async |execution| Ok::<_, std::io::Error>(execution.derive_key("card").uuid()))
///     .await?;
/// # Ok(()) });
/// ```
///
/// `Hook` is the type of its [hook](Self::reconcile), and `Errors` the type of the errors that it
/// [keeps](Self::replay_errors). [`Unset`] means that the call has no hook, or keeps no errors.
#[derive(derive_more::Debug)]
// Without the key, which may be personal data.
#[debug("Call {{ config: {config:?}, .. }}")]
#[must_use = "nothing happens before run()"]
pub struct Call<Hook = Unset, Errors = Unset> {
    config: OperationConfig,
    key: String,
    // Shared, because a clone reports the same error.
    fingerprint: Result<Fingerprint, Arc<serde_json::Error>>,
    deadline: Option<Deadline>,
    hook: Hook,
    errors: PhantomData<fn() -> Errors>,
}

impl Call {
    pub(super) fn new(
        config: OperationConfig,
        key: String,
        fingerprint: Result<Fingerprint, Arc<serde_json::Error>>,
    ) -> Self {
        Self { config, key, fingerprint, deadline: None, hook: Unset, errors: PhantomData }
    }
}

impl<Hook> Call<Hook> {
    /// Stores a failure of the handler and returns the same error to repeats.
    ///
    /// `E` is the type of the handler's error. The failure policy becomes [`Failure::Replay`], unless it
    /// is [`Failure::Retain`]. Under `Retain`, the operation runs again while attempts are left. Once no
    /// attempt is left, repeats get the error.
    ///
    /// A call whose handler has errors of another type does not compile:
    ///
    /// ```compile_fail,E0308
    /// # doc_examples::run(async |_, idempotency| {
    /// let call = idempotency.operation("charge").key("order-42").payload(&1200).replay_errors::<String>();
    /// call.run(async |_| Ok::<_, std::io::Error>(1200)).await?;
    /// # Ok(()) });
    /// ```
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Debug, Serialize, Deserialize)]
    /// struct Declined { code: String }
    ///
    /// let paid = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
    ///     .payload(&1200)
    ///     .replay_errors::<Declined>()
    ///     .run(async |_| Err::<(), _>(Declined { code: "stolen_card".to_owned() }))
    ///     .await;
    /// // Every repeat gets `RunError::Handler(Declined { .. })`, and the handler does not run again.
    /// # Ok(()) });
    /// ```
    ///
    /// In a handler that uses `?`, the compiler needs the type of the error:
    ///
    /// ```
    /// use dynamodb_idempotency::{Idempotency, RunError};
    /// # async fn post() -> Result<u32, String> { Ok(7) }
    ///
    /// async fn pay(idempotency: &Idempotency) -> Result<u32, RunError<String>> {
    ///     let call = idempotency.operation("charge").key("order-42").payload(&1200).replay_errors::<String>();
    ///     call.run(async |_| Ok::<_, String>(post().await? + 1)).await
    /// }
    /// ```
    pub fn replay_errors<E: Serialize + DeserializeOwned>(mut self) -> Call<Hook, E> {
        if !self.config.policy.failure.is_kept() {
            Arc::make_mut(&mut self.config.policy).failure = Failure::Replay;
        }
        let Self { config, key, fingerprint, deadline, hook, .. } = self;
        Call { config, key, fingerprint, deadline, hook, errors: PhantomData }
    }
}

impl<Errors> Call<Unset, Errors> {
    /// Sets the hook that decides about an abandoned operation.
    ///
    /// An operation is abandoned if its owner's lease expired without an answer. The hook replaces
    /// [`Policy::takeover`](crate::Policy::takeover). It checks whether the effect exists. It then returns
    /// the answer or the failure, lets the operation run, or refuses.
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
    ///         .payload(&1200)
    ///         .reconcile(|abandoned: Abandoned| async move {
    ///             let key = abandoned.derive_key("charge").uuid();
    ///             Ok::<_, std::io::Error>(match find_charge(key).await? {
    ///                 Some(receipt) => Reconciled::Completed(receipt),
    ///                 None => Reconciled::Execute,
    ///             })
    ///         })
    ///         .run(|execution| charge(execution.derive_key("charge").uuid()))
    ///         .await
    /// }
    /// ```
    ///
    /// The hook runs before anything is written, so several calls may run their hooks at the same time. The
    /// crate writes the first answer, on the condition that the record has not changed. The other calls then
    /// read the record again. If a hook returns `Err`, its call returns [`RunError::Handler`] and writes
    /// nothing. A panic is resumed, and nothing is written either.
    ///
    /// At the [deadline](Self::deadline) the hook is dropped, and the call ends with
    /// [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded). Without a deadline the hook must
    /// limit its own time. A record that is missing, released or past its retention is not
    /// abandoned: the operation runs as if it were new.
    ///
    /// A hook with other types than the handler's does not compile:
    ///
    /// ```compile_fail,E0308
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::{Abandoned, Reconciled};
    ///
    /// let call = idempotency.operation("charge").key("order-42").payload(&1200).reconcile(
    ///     async |_: Abandoned| Ok::<_, std::io::Error>(Reconciled::Completed("a receipt")),
    /// );
    /// call.run(async |_| Ok::<u32, std::io::Error>(1200)).await?;
    /// # Ok(()) });
    /// ```
    ///
    /// [`run_transaction`](Self::run_transaction) on a call with a hook does not compile either, because
    /// a transaction cannot run a hook.
    pub fn reconcile<T, E, H, Fut>(self, hook: H) -> Call<H, Errors>
    where
        H: Fn(Abandoned) -> Fut,
        Fut: Future<Output = Result<Reconciled<T, E>, E>>,
    {
        let Self { config, key, fingerprint, deadline, errors, .. } = self;
        Call { config, key, fingerprint, deadline, hook, errors }
    }
}

impl<Hook, Errors> Call<Hook, Errors> {
    /// Sets the time at which the call must end.
    ///
    /// In Lambda this is the deadline of the **current** invocation's `Context`. It limits
    /// [`Lease::Invocation`](crate::policy::Lease::Invocation) and every wait.
    ///
    /// If the deadline has passed, the call ends with
    /// [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded). A deadline more than an hour in
    /// the past, such as the time in 1970 that `cargo lambda watch` passes, counts as no deadline. The
    /// crate then warns once per process.
    ///
    /// ```
    /// use dynamodb_idempotency::Idempotency;
    /// use lambda_runtime::{Error, LambdaEvent};
    ///
    /// async fn handler(idempotency: &Idempotency, event: LambdaEvent<String>) -> Result<u32, Error> {
    ///     let rows = idempotency
    ///         .operation("import")
    ///         .key(&event.payload)
    ///         .no_payload()
    ///         .deadline(event.context.deadline())
    ///         .run(async |_| Ok::<_, std::io::Error>(3))
    ///         .await?;
    ///     Ok(rows)
    /// }
    /// ```
    pub fn deadline(self, deadline: SystemTime) -> Self {
        let deadline = self.config.core().table.clock.deadline(deadline);
        self.ends(deadline)
    }

    /// Sets a deadline that the crate has already converted.
    pub(crate) fn ends(mut self, deadline: Option<Deadline>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs `handler` unless this operation has completed before, and returns the answer.
    ///
    /// The answer is stored as JSON by `serde_json`, so it must be a value that JSON can represent. A repeat
    /// gets `None` for `Some(None)` and `Some(())`. If the answer contains an infinite number or a NaN, repeats
    /// get [`AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable).
    ///
    /// Poll the future to completion. If it is dropped before its answer is stored, for example by a timeout
    /// around it, the key stays locked until the lease expires. After that, a repeat runs the operation again.
    /// Spawn a future that can be dropped early. A panic of the handler counts as a failure and is resumed.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let receipt: String = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
    ///     .payload(&1200)
    ///     .run(async |_| Ok::<_, std::io::Error>("paid".to_owned()))
    ///     .await?;
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`RunError::Handler`] with the handler's own error, or [`RunError::Idempotency`] with the
    /// crate's error; see [`ErrorKind`](crate::ErrorKind).
    pub async fn run<T, E, F, Fut>(self, handler: F) -> Result<T, RunError<E>>
    where
        F: FnOnce(Execution) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        Hook: ReconcileHook<T, E>,
        Errors: KeptErrors<E>,
    {
        self.run_with_expiry(handler).await.map(|(outcome, _)| outcome.into_inner())
    }

    /// Like [`run`](Self::run), but also returns whether the answer is new, replayed or reconciled.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let outcome = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
    ///     .payload(&1200)
    ///     .run_with_outcome(async |_| Ok::<_, std::io::Error>("paid".to_owned()))
    ///     .await?;
    /// println!("a replay: {}", outcome.is_replayed());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`run`](Self::run).
    pub async fn run_with_outcome<T, E, F, Fut>(self, handler: F) -> Result<Outcome<T>, RunError<E>>
    where
        F: FnOnce(Execution) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        Hook: ReconcileHook<T, E>,
        Errors: KeptErrors<E>,
    {
        self.run_with_expiry(handler).await.map(|(outcome, _)| outcome)
    }

    /// Like [`run_with_outcome`](Self::run_with_outcome), but also returns until when the answer is stored, by
    /// DynamoDB's clock.
    ///
    /// The time is the `expires_at` of the record. After it, a call with the same key runs the handler. It is `None`
    /// if the answer is not stored ([`NothingExecuted`](Outcome::NothingExecuted),
    /// [`Unprotected`](Outcome::Unprotected),
    /// [`Completed::Release`](crate::policy::Completed::Release), or an answer that cannot be stored), and if it is
    /// unknown whether or until when it is ([`Unconfirmed`](Outcome::Unconfirmed)).
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// let charge = idempotency.operation("charge").key("order-42").no_payload();
    /// let (outcome, stored_until) = charge
    ///     .run_with_expiry(async |_| Ok::<_, std::io::Error>("paid".to_owned()))
    ///     .await?;
    /// let record = sandbox.record("charge", "order-42").read().await?.expect("a record");
    /// assert_eq!(stored_until, Some(record.expires_at));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`run`](Self::run).
    pub async fn run_with_expiry<T, E, F, Fut>(
        self,
        handler: F,
    ) -> Result<(Outcome<T>, Option<SystemTime>), RunError<E>>
    where
        F: FnOnce(Execution) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        Hook: ReconcileHook<T, E>,
        Errors: KeptErrors<E>,
    {
        let (core, call, hook) = self.ready()?;
        let core = &core;
        let span = call.signals.span();
        async {
            let encoding = Json::<Errors>(PhantomData);
            let acquiring = async {
                let Some(hook) = hook.hook() else {
                    return acquire(core, call).await.map_err(RunOutcome::Ended);
                };
                let resolved = |answer: &Reconciled<T, E>| {
                    let encoded = |value: &T| encode(value, report_unstorable);
                    answer.resolved(encoded, |error| Errors::encode(error).map(json))
                };
                // Boxed, because calls without a hook need no room for its state.
                Box::pin(acquire_with_hook(core, call, hook, resolved)).await
            };
            // Not kept in a variable, which would take its size while the handler runs.
            let execution = match acquiring.await {
                Ok(execution) => execution,
                Err(outcome) => return outcome_of::<T, E, Errors>(outcome),
            };
            outcome_of::<T, E, Errors>(run(&encoding, execution, handler).await)
        }
        .instrument(span)
        .await
    }

    /// Checks the key and the payload, and prepares the call for the engine.
    pub(super) fn ready(self) -> Result<(Arc<Core>, Arc<CallContext>, Hook), Error> {
        let Self { config, key, fingerprint, deadline, hook, .. } = self;
        let OperationConfig { idempotency: Idempotency { core }, scope, policy } = config;
        let key = core.record_key(&scope, &key, policy.key_form);
        let fingerprint = fingerprint.map_err(fingerprint::unserializable);
        let identity = key.and_then(|key| Ok((key, fingerprint?)));
        let answers = AnswerRules::FUNCTION;
        let call = CallContext::new(&core, &scope, identity, policy, deadline, answers)?;
        Ok((core, call, hook))
    }
}

impl<Hook: Clone, Errors> Clone for Call<Hook, Errors> {
    fn clone(&self) -> Self {
        Self {
            config: self.config.clone(),
            key: self.key.clone(),
            fingerprint: self.fingerprint.clone(),
            deadline: self.deadline,
            hook: self.hook.clone(),
            errors: PhantomData,
        }
    }
}

/// Converts the outcome of a call into the types of its handler, and returns until when the answer is stored.
pub(super) fn outcome_of<T: DeserializeOwned, E, Errors: KeptErrors<E>>(
    outcome: RunOutcome<T, E>,
) -> Result<(Outcome<T>, Option<SystemTime>), RunError<E>> {
    let (outcome, stored_until) = match outcome {
        RunOutcome::Returned(value, Storage::Stored(until)) => (Outcome::Executed(value), until),
        RunOutcome::Returned(value, Storage::Released) => (Outcome::Executed(value), None),
        RunOutcome::Returned(value, Storage::NotStored) => (Outcome::NothingExecuted(value), None),
        RunOutcome::Returned(value, Storage::Unprotected) => (Outcome::Unprotected(value), None),
        RunOutcome::Returned(value, Storage::Unconfirmed) => (Outcome::Unconfirmed(value), None),
        RunOutcome::Returned(value, Storage::Reconciled(until)) => {
            (Outcome::Reconciled(value), until)
        }
        RunOutcome::Failed(error) => return Err(RunError::Handler(error)),
        RunOutcome::Panicked(panic, _) => panic.resume(),
        RunOutcome::Ended(End::Committed(answer, until)) => {
            (Outcome::Executed(decode(&answer)?), until)
        }
        RunOutcome::Ended(End::Replayed(Replay { answer, expires_at })) => {
            (Outcome::Replayed(decode(&answer)?), Some(expires_at))
        }
        RunOutcome::Ended(End::FailureReplayed(replay)) => {
            let error = match replay.as_ref().map(|replay| &replay.answer) {
                Some(Answer::Json(json)) => Errors::decode(json),
                Some(Answer::Http(_) | Answer::Unavailable(_)) | None => None,
            };
            return Err(error.map_or_else(|| failed().into(), RunError::Handler));
        }
        RunOutcome::Ended(End::NoAnswer(error)) => return Err(error.into()),
    };
    let time = |seconds| Timestamp::from_seconds(seconds).to_system();
    Ok((outcome, stored_until.map(time)))
}

/// Encodes a function's answer and its errors as JSON.
pub(super) struct Json<Errors>(pub(super) PhantomData<fn() -> Errors>);

impl<T: Serialize, E, Errors: KeptErrors<E>> Encoding<T, E> for Json<Errors> {
    fn conclude(&self, execution: &Execution, value: &T) -> Conclusion {
        if execution.releases_success() {
            return Conclusion::Succeeded;
        }
        Conclusion::Completed(encode(value, |reason| execution.report_unstorable(reason)))
    }

    fn failure(&self, error: &E) -> Option<Answer> {
        Errors::encode(error).map(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idempotency() -> Idempotency {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .build();
        Idempotency::new(aws_sdk_dynamodb::Client::from_conf(config), "t")
    }

    #[test]
    fn a_call_is_shown_without_its_key() {
        let idempotency = idempotency();
        let shown = format!("{:?}", idempotency.operation("charge").key("canary").no_payload());
        assert!(shown.contains("charge") && !shown.contains("canary"), "{shown}");
    }

    /// Each call whose handler runs holds both, and a process may have ten thousand such calls.
    #[test]
    fn the_future_and_the_execution_of_a_call_are_small() {
        let idempotency = idempotency();
        let call = idempotency.operation("o").key("k").no_payload();
        let future = std::mem::size_of_val(&call.run(async |_| Ok::<_, Error>(1_u8)));
        let execution = std::mem::size_of::<crate::call::execution::Inner>();
        assert!(future <= 1408 && execution <= 896, "{future} and {execution} bytes");
    }
}
