//! The service around a handler of events.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lambda_runtime::{Diagnostic, LambdaEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower_service::Service;

use crate::call::execution::Execution;
use crate::error::{Error, ErrorKind, RunError, json_fault};
use crate::fingerprint::Fingerprint;
use crate::invocation::{MAX_RESPONSE_BYTES, check_concurrency};
use crate::json_event::JsonEvent;
use crate::operation::{CallNeedsPayload, OperationConfig};
use crate::policy::Policy;

/// An idempotent handler of events.
///
/// [`Idempotency::event`](crate::Idempotency::event) creates it.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use std::time::Duration;
///
/// use dynamodb_idempotency::Fingerprint;
/// use dynamodb_idempotency::event::JsonEvent;
/// use lambda_runtime::{Context, Error, LambdaEvent, Service};
///
/// let key_of = |import: &(String, u32)| import.0.clone();
/// let mut service = idempotency
///     .event("import", key_of, async |event: LambdaEvent<(String, u32)>, _| {
///         Ok::<_, Error>(event.payload.1) // your business here
///     })
///     .policy(|policy| policy.retention(Duration::from_secs(72 * 3600)))?
///     // The key identifies the event: another event with the same key is a repeat too.
///     .fingerprint(|_: &JsonEvent| Fingerprint::builder().finish());
///
/// for event in [r#"["a.csv", 1]"#, r#"["a.csv", 2]"#] {
///     let event = LambdaEvent::new(event.parse::<JsonEvent>()?, Context::default());
///     assert_eq!(service.call(event).await?, 1);
/// }
/// # Ok(()) });
/// ```
#[derive(derive_more::Debug)]
#[debug("Event {{ scope: {:?}, policy: {:?}, .. }}", calls.scope, calls.policy)]
pub struct Event<P, F> {
    pub(super) calls: OperationConfig,
    pub(super) fingerprint: Option<EventFingerprint>,
    pub(super) key_of: KeyOf<P>,
    pub(super) handler: Arc<F>,
}

pub(super) type KeyOf<P> = Arc<dyn Fn(&P, &JsonEvent) -> Result<String, Error> + Send + Sync>;
type EventFingerprint = Arc<dyn Fn(&JsonEvent) -> Fingerprint + Send + Sync>;

impl<P, F> Event<P, F> {
    /// Changes the policy for these events.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use std::time::Duration;
    ///
    /// use lambda_runtime::LambdaEvent;
    ///
    /// let service = idempotency
    ///     .event("import", |file: &String| file.clone(), async |event: LambdaEvent<String>, _| {
    ///         Ok::<_, std::io::Error>(event.payload.len()) // your business here
    ///     })
    ///     .policy(|policy| policy.retention(Duration::from_secs(72 * 3600)))?;
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`Operation::policy`](crate::Operation::policy).
    pub fn policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Result<Self, Error> {
        self.calls = self.calls.change_policy(change).checked()?;
        Ok(self)
    }

    /// Sets which part of an event must be the same in a repeat. Default: the JSON value of the event.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::Fingerprint;
    /// use dynamodb_idempotency::event::JsonEvent;
    /// use lambda_runtime::{Context, LambdaEvent, Service};
    ///
    /// let key_of = |import: &(String, u32)| import.0.clone();
    /// let mut service = idempotency
    ///     .event("import", key_of, async |event: LambdaEvent<(String, u32)>, _| {
    ///         Ok::<_, std::io::Error>(event.payload.1)
    ///     })
    ///     // The key identifies the event: another event with the same key is a repeat too.
    ///     .fingerprint(|_| Fingerprint::builder().finish());
    /// for event in [("a.csv", 1), ("a.csv", 2)] {
    ///     let event = LambdaEvent::new(JsonEvent::of(&event)?, Context::default());
    ///     assert_eq!(service.call(event).await?, 1);
    /// }
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn fingerprint(
        mut self,
        fingerprint: impl Fn(&JsonEvent) -> Fingerprint + Send + Sync + 'static,
    ) -> Self {
        self.fingerprint = Some(Arc::new(fingerprint));
        self
    }
}

impl<P, F> Clone for Event<P, F> {
    fn clone(&self) -> Self {
        Self {
            calls: self.calls.clone(),
            fingerprint: self.fingerprint.clone(),
            key_of: Arc::clone(&self.key_of),
            handler: Arc::clone(&self.handler),
        }
    }
}

impl<P, F, Fut, T, E> Service<LambdaEvent<JsonEvent>> for Event<P, F>
where
    P: DeserializeOwned + Send + 'static,
    F: Fn(LambdaEvent<P>, Execution) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize + DeserializeOwned + Send + 'static,
    E: Send + 'static,
{
    type Response = T;
    type Error = RunError<E>;
    type Future = Pin<Box<dyn Future<Output = Result<T, RunError<E>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, event: LambdaEvent<JsonEvent>) -> Self::Future {
        let Self { mut calls, fingerprint, key_of, handler } = self.clone();
        Box::pin(async move {
            let (event, context) = (event.payload, event.context);
            let payload: P = serde_json::from_str(event.get()).map_err(|source| {
                let message = "the event is not of the type that the handler takes";
                Error::new(ErrorKind::InvalidInput, message).with_source(json_fault(&source))
            })?;
            let key = match key_of(&payload, &event) {
                // While idempotency is switched off, no event is rejected because of its key.
                Err(_) if calls.core().is_disabled => String::new(),
                found => found?,
            };
            let fingerprint = match &fingerprint {
                Some(fingerprint) => fingerprint(&event),
                None => Fingerprint::builder().json_text(event.get()).finish(),
            };
            // Frees memory that the handler does not need: an event may have some megabytes.
            drop(event);
            let most = &mut Arc::make_mut(&mut calls.policy).max_answer_bytes;
            *most = (*most).min(MAX_RESPONSE_BYTES);
            let deadline = calls.core().table.clock.deadline(context.deadline());
            let call = CallNeedsPayload::new(calls, key).fingerprint(fingerprint).ends(deadline);
            call.run(|execution| handler(LambdaEvent::new(payload, context), execution)).await
        })
    }
}

/// Runs a service of events on Lambda, with concurrent invocations if Lambda allows it.
///
/// Use it for services of [`Idempotency::event`](crate::Idempotency::event) and for consumers of
/// [`messages`](crate::messages). Lambda Managed Instances set the number of concurrent invocations in
/// `AWS_LAMBDA_MAX_CONCURRENCY`. If it is unset or 1, the function handles one invocation at a time,
/// like `lambda_runtime::run`. Each invocation has its own deadline.
///
/// Use a multi-thread runtime (`#[tokio::main]`). On a single thread, invocations wait for each other,
/// and the crate logs a warning.
///
/// ```no_run
/// use dynamodb_idempotency::{Execution, Idempotency, event};
/// use lambda_runtime::{Error, LambdaEvent};
///
/// async fn import(event: LambdaEvent<String>, _: Execution) -> Result<usize, Error> {
///     Ok(event.payload.len()) // your business here
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), Error> {
///     let idempotency = Idempotency::from_env().await?;
///     let key_of = |file: &String| file.clone();
///     event::run_concurrent(idempotency.event("import", key_of, import)).await
/// }
/// ```
///
/// # Errors
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if `AWS_LAMBDA_MAX_CONCURRENCY` is not
/// a number. Another error if the Lambda Runtime API cannot be reached.
///
/// # Panics
/// Outside Lambda, where the runtime's environment variables are missing.
pub async fn run_concurrent<S, P>(service: S) -> Result<(), lambda_runtime::Error>
where
    S: Service<LambdaEvent<P>> + Clone + Send + 'static,
    S::Response: Serialize + Send + 'static,
    S::Error: Into<Diagnostic> + Debug,
    S::Future: Send + 'static,
    P: DeserializeOwned + Send + 'static,
{
    check_concurrency()?;
    lambda_runtime::run_concurrent(service).await
}
