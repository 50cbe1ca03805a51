//! An operation of your own code: a function that runs once for each key.

mod answer;
mod errors;
mod outcome;
mod transaction;

use std::any::{Any, type_name};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument;

pub(crate) use self::answer::decode;
use self::answer::encode_value;
pub(crate) use self::errors::ErrorCodec;
pub use self::outcome::Outcome;
use crate::answer::{Answer, Answers, reason, to_json};
use crate::clock::End;
use crate::engine::acquire::acquire;
use crate::engine::call::Call;
use crate::engine::core::Core;
use crate::engine::execution::Execution;
use crate::engine::hook::{Abandoned, Hook, HookResult, Reconciled};
use crate::engine::reconcile::{self, Acquired, Codec};
use crate::engine::runner::{Conclusion, Encoding, RunOutcome, Storage, run};
use crate::error::{Error, ErrorKind, RunError};
use crate::fingerprint::{self, Fingerprint};
use crate::idempotency::Idempotency;
use crate::key::Scope;
use crate::policy::{Failure, Policy};

/// One operation that has not run yet. [`Idempotency::operation`] creates it.
///
/// It needs a [`key`](Self::key). Set the request's [`payload`](Self::payload) too: then a
/// different request with the same key is an error, instead of getting the answer to another
/// request.
///
/// ```
/// # dynamodb_idempotency::testing::example(async |_, idempotency| {
/// let receipt = idempotency
///     .operation("charge")
///     .key("order-42")
///     .payload(&("order-42", 1200))
///     .run(async |execution| Ok::<_, std::io::Error>(execution.derive_key("card").uuid()))
///     .await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens before run()"]
pub struct Operation<'a> {
    idempotency: &'a Idempotency,
    scope: Scope,
    key: Unshown,
    // Shared, because a clone reports the same error.
    fingerprint: Result<Fingerprint, Arc<serde_json::Error>>,
    policy: Policy,
    deadline: Option<End>,
    /// The [`ErrorCodec`] of the handler's errors, if they are stored.
    errors: Option<&'static (dyn Any + Send + Sync)>,
    hook: Option<Hook<'a>>,
}

/// A client's key. Its `Debug` output hides it from logs.
#[derive(Clone, Default)]
struct Unshown(String);

impl fmt::Debug for Unshown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl Idempotency {
    /// Starts an operation under `scope`. Give it a key and [`run`](Operation::run) it.
    ///
    /// A string is one segment; [`Scope`] builds longer scopes. Operations with different scopes
    /// share no record, whatever their keys.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::Scope;
    ///
    /// let charge = idempotency.operation("charge").key("order-42");
    /// let other = idempotency.operation(Scope::new("charge").segment("v2")).key("order-42");
    /// # }
    /// ```
    pub fn operation(&self, scope: impl Into<Scope>) -> Operation<'_> {
        Operation::new(self, scope.into())
    }
}

impl<'a> Operation<'a> {
    fn new(idempotency: &'a Idempotency, scope: Scope) -> Self {
        Self {
            idempotency,
            scope,
            key: Unshown::default(),
            fingerprint: Ok(Fingerprint::EMPTY),
            policy: idempotency.core.policy.clone(),
            deadline: None,
            errors: None,
            hook: None,
        }
    }

    /// Stores a failure of the handler and returns the same error to repeats.
    ///
    /// `E` is the type of the handler's error; it must be serializable. The failure policy becomes
    /// [`Failure::Replay`], unless it is [`Failure::Retain`]: then it stays, and its attempts run
    /// first.
    ///
    /// If the handler's error has another type, nothing runs, and the call ends with
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration).
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Debug, Serialize, Deserialize)]
    /// struct Declined { code: String }
    ///
    /// let paid = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
    ///     .replay_errors::<Declined>()
    ///     .run(async |_| Err::<(), _>(Declined { code: "stolen_card".to_owned() }))
    ///     .await;
    /// // Every repeat gets `RunError::Handler(Declined { .. })`, and the handler does not run again.
    /// # Ok(()) });
    /// ```
    pub fn replay_errors<E: Serialize + DeserializeOwned + 'static>(mut self) -> Self {
        if !self.policy.failure.is_kept() {
            self.policy.failure = Failure::Replay;
        }
        self.errors = Some(&ErrorCodec::<E>::JSON);
        self
    }

    /// Sets the hook that decides about an abandoned operation.
    ///
    /// An operation is abandoned if its owner's lease expired without an answer. The hook replaces
    /// [`Policy::takeover`]: it checks whether the effect exists, and either returns the answer or
    /// lets the operation run.
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
    /// The hook runs before anything is written, so several calls may run their hooks at the same
    /// time. The first answer is written, on the condition that the record has not changed. The
    /// other calls then read the record again. An `Err` of the hook becomes the call's
    /// [`RunError::Handler`], and a panic is resumed; nothing is written in either case.
    ///
    /// At the [deadline](Self::deadline) the hook is dropped, and the call ends with
    /// [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded). Without a deadline the hook must
    /// limit its own time. A record that is missing, released or past its retention is not
    /// abandoned: the operation runs as if it were new.
    ///
    /// The hook must have the handler's result and error types. Otherwise nothing runs, and the
    /// call ends with [`ErrorKind::Configuration`](crate::ErrorKind::Configuration). So does
    /// [`run_transaction`](Self::run_transaction) with a hook, because it cannot run one.
    pub fn reconcile<T, E, H, Fut>(mut self, hook: H) -> Self
    where
        H: Fn(Abandoned) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<Reconciled<T, E>, E>> + Send + 'a,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.hook = Some(Hook::new(hook));
        self
    }

    /// Sets the key, which identifies the operation within its scope. Required, not empty.
    ///
    /// For example the number of an order, the id of a message, or a client's `Idempotency-Key`.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// let operation = idempotency.operation("charge").key("order-42");
    /// # Ok(()) });
    /// ```
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Unshown(key.into());
        self
    }

    /// Adds a segment to the scope, such as a version or a region. For a customer use
    /// [`Scope::tenant`].
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// let operation = idempotency.operation("charge").segment("v2").key("order-42");
    /// # Ok(()) });
    /// ```
    pub fn segment(mut self, segment: &str) -> Self {
        self.scope = self.scope.segment(segment);
        self
    }

    /// Sets the request, compared by its JSON value. A repeat must have the same request.
    ///
    /// The order of a map's members does not matter, but the order of a sequence does. Leave out a
    /// `HashSet`: its order changes with every process.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// let operation = idempotency.operation("charge").key("order-42").payload(&("order-42", 1200));
    /// # Ok(()) });
    /// ```
    pub fn payload<P: Serialize + ?Sized>(mut self, payload: &P) -> Self {
        self.fingerprint = Fingerprint::by_value(payload).map_err(Arc::new);
        self
    }

    /// Sets the request as bytes, which are compared unchanged.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// let operation = idempotency.operation("charge").key("order-42").payload_bytes(b"order-42:1200");
    /// # Ok(()) });
    /// ```
    pub fn payload_bytes(self, payload: &[u8]) -> Self {
        self.fingerprint(Fingerprint::builder().bytes(payload).finish())
    }

    /// Sets a fingerprint of the request that you built from chosen parts.
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
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// use dynamodb_idempotency::Takeover;
    ///
    /// let operation = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
    ///     .policy(|policy| policy.takeover(Takeover::Reject));
    /// # Ok(()) });
    /// ```
    pub fn policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.policy = change(self.policy);
        self
    }

    /// Sets the time at which the call must end.
    ///
    /// In Lambda this is the deadline of the **current** invocation's `Context`. It limits
    /// [`Lease::Invocation`](crate::Lease::Invocation) and every wait.
    ///
    /// If the deadline has passed, the call ends with
    /// [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded). A deadline more than an hour in
    /// the past counts as no deadline, and the crate warns once per process: `cargo lambda watch`,
    /// for example, passes a time in 1970.
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
    pub fn deadline(self, deadline: SystemTime) -> Self {
        let deadline = self.idempotency.core.table.clock.deadline(deadline);
        self.ends(deadline)
    }

    /// Sets a deadline that the crate has already converted.
    pub(crate) fn ends(mut self, deadline: Option<End>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs `handler` unless this operation has completed before, and returns the answer.
    ///
    /// The answer is stored as JSON by `serde_json`, so it must be a value that JSON can represent.
    /// A repeat gets `None` for `Some(None)` and `Some(())`. JSON stores an infinity or a NaN as
    /// `null`, which a repeat gets as [`AnswerUnreadable`](crate::ErrorKind::AnswerUnreadable) or,
    /// in an `Option`, as `None`.
    ///
    /// Poll the future to completion. If it is dropped before its answer is stored (for example by
    /// a timeout around it), the key stays locked until the lease expires, and then the operation
    /// runs again. Spawn the future if that can happen. A panic of the handler counts as a failure
    /// and is resumed.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// let receipt: String = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
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
        T: Serialize + DeserializeOwned + 'static,
        E: 'static,
    {
        self.run_with_outcome(handler).await.map(Outcome::into_inner)
    }

    /// Like [`run`](Self::run), but also returns whether the answer is new, replayed or reconciled.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// let outcome = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
    ///     .run_with_outcome(async |_| Ok::<_, std::io::Error>("paid".to_owned()))
    ///     .await?;
    /// println!("a replay: {}", outcome.is_replayed());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for `run`.
    pub async fn run_with_outcome<T, E, F, Fut>(self, handler: F) -> Result<Outcome<T>, RunError<E>>
    where
        F: FnOnce(Execution) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned + 'static,
        E: 'static,
    {
        let Ready { core, call, errors, hook } = self.ready()?;
        if hook.as_ref().is_some_and(|hook| !hook.says::<HookResult<T, E>>()) {
            return Err(mistyped("reconcile", type_name::<HookResult<T, E>>()).into());
        }
        let span = call.signals.span();
        async {
            let acquisition = match hook {
                None => acquire(core, call).await?,
                Some(hook) => {
                    let codec = Codec {
                        completed: encode_value::<T>,
                        failed: |error: &E| errors.encode(error),
                    };
                    let ask = |abandoned| hook.ask(abandoned);
                    // Boxed, because calls without a hook need no room for its state.
                    match Box::pin(reconcile::acquire(core, call, ask, codec)).await? {
                        Acquired::Unsettled(acquisition) => acquisition,
                        Acquired::Completed(value) => return Ok(Outcome::Reconciled(value)),
                        Acquired::Failed(error) => return Err(RunError::Handler(error)),
                    }
                }
            };
            match run(&Json { errors, value: PhantomData }, acquisition, handler).await {
                Ok(outcome) => outcome_of(errors, outcome),
                Err(panicked) => panicked.panic.resume(),
            }
        }
        .instrument(span)
        .await
    }

    /// Validates the operation and prepares its call. `E` is the handler's error type.
    pub(crate) fn ready<E: 'static>(self) -> Result<Ready<'a, E>, Error> {
        let core = &self.idempotency.core;
        let key = core.record_key(&self.scope, &self.key.0, self.policy.key_form);
        let fingerprint = self.fingerprint.map_err(fingerprint::unserialisable);
        let identity = key.and_then(|key| Ok((key, fingerprint?)));
        let errors = match self.errors.map(|errors| errors.downcast_ref()) {
            None => &ErrorCodec::FORGETS,
            Some(Some(errors)) => errors,
            Some(None) => return Err(mistyped("replay_errors", type_name::<E>())),
        };
        let (policy, deadline) = (self.policy, self.deadline);
        let call = Call::new(core, &self.scope, identity, policy, deadline, Answers::FUNCTION)?;
        Ok(Ready { core, call, errors, hook: self.hook })
    }
}

/// A validated [`Operation`] that is about to run.
pub(crate) struct Ready<'a, E: 'static> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) call: Call,
    pub(crate) errors: &'static ErrorCodec<E>,
    pub(crate) hook: Option<Hook<'a>>,
}

fn mistyped(method: &str, of_handler: &str) -> Error {
    let message = format!("`{method}` is of other types than the handler, which has {of_handler}");
    Error::new(ErrorKind::Configuration, message)
}

/// Converts the outcome of a call into the types of its handler.
fn outcome_of<T: DeserializeOwned, E: 'static>(
    errors: &'static ErrorCodec<E>,
    outcome: RunOutcome<T, E>,
) -> Result<Outcome<T>, RunError<E>> {
    Ok(match outcome {
        RunOutcome::Returned(value, Storage::Stored) => Outcome::Executed(value),
        RunOutcome::Returned(value, Storage::NotStored) => Outcome::NothingExecuted(value),
        RunOutcome::Returned(value, Storage::Unprotected) => Outcome::Unprotected(value),
        RunOutcome::Returned(value, Storage::Unconfirmed) => Outcome::Unconfirmed(value),
        RunOutcome::Committed(answer) => Outcome::Executed(decode(&answer)?),
        RunOutcome::Replayed(answer) => Outcome::Replayed(decode(&answer)?),
        RunOutcome::Failed(error) => return Err(RunError::Handler(error)),
        RunOutcome::FailureReplayed(answer) => return Err(errors.replay(answer.as_ref())),
        RunOutcome::Refused(error) => return Err(error.into()),
    })
}

/// Encodes a function's answer and its errors as JSON.
struct Json<T, E: 'static> {
    errors: &'static ErrorCodec<E>,
    value: PhantomData<fn() -> T>,
}

impl<T: Serialize, E: 'static> Encoding for Json<T, E> {
    type Value = T;
    type Error = E;

    fn conclude(&self, execution: &Execution, value: &T) -> Conclusion {
        Conclusion::Completed(match to_json(value) {
            Ok(json) => Answer::Json(json.into()),
            Err(reason) => {
                execution.report_unstorable(&reason);
                Answer::Unavailable(reason::NOT_SERIALIZABLE.into())
            }
        })
    }

    fn failure(&self, error: &E) -> Option<Answer> {
        self.errors.encode(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Each waiting caller's task holds the whole future, and a process may have ten thousand of
    /// them.
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
