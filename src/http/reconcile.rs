//! The hook that decides about abandoned requests.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;

use super::answer_body::BoxError;
use super::exchange::{panicked, render};
use super::problem::{Problem, ProblemKind};
use super::{AnsweredBy, HookAnswer, Http, ReconcileHook, answer};
use crate::answer::{Answer, Body};
use crate::run::call::CallContext;
use crate::run::caller::acquire_with_hook;
use crate::run::execution::Execution;
use crate::run::hook::{Abandoned, Reconciled};
use crate::run::runner::RunOutcome;
use crate::run::user_code;

impl Http {
    /// Sets the hook that decides about an abandoned request.
    ///
    /// A request is abandoned if its handler's lease expired without an answer. The hook replaces
    /// [`Policy::takeover`](crate::Policy::takeover); see
    /// [`Call::reconcile`](crate::Call::reconcile). Its answers are responses, which are
    /// stored whatever their status. It can use [`Abandoned::derive_key`] and the
    /// [steps](Abandoned::step) of the earlier request. If the hook fails, the client gets
    /// [`ProblemKind::ReconcileFailed`], and if it panics, [`ProblemKind::HandlerPanicked`].
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::{Abandoned, Reconciled};
    /// use http::Response;
    /// # async fn find_charge(_: &str) -> Result<Option<String>, std::io::Error> { Ok(None) }
    ///
    /// let http = idempotency.http("charges").reconcile(|abandoned: Abandoned| async move {
    ///     let found = find_charge(&abandoned.derive_key("charge").uuid()).await?;
    ///     Ok::<_, std::io::Error>(match found {
    ///         Some(charge) => Reconciled::Completed(Response::new(charge.into())),
    ///         None => Reconciled::Execute,
    ///     })
    /// });
    /// # }
    /// ```
    pub fn reconcile<H, Fut, E>(mut self, hook: H) -> Self
    where
        H: Fn(Abandoned) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HookAnswer, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.reconcile = Some(Arc::new(move |abandoned| {
            let resolution = hook(abandoned);
            Box::pin(async move { resolution.await.map_err(Into::into) })
        }));
        self
    }
}

/// Acquires the key of a request, and runs the hook if an earlier request was abandoned.
pub(super) async fn acquire(
    config: &Http,
    call: CallContext,
    hook: &ReconcileHook,
) -> Result<Execution, RunOutcome<Response<Bytes>, Response<Bytes>>> {
    let resolved = |answer: &HookAnswer| answer.resolved(stored, |response| Some(stored(response)));
    let run_hook = |abandoned| run_hook(config, hook, abandoned);
    acquire_with_hook(config.calls.core(), call, run_hook, resolved).await
}

fn stored(response: &Response<Bytes>) -> Answer {
    Answer::Http(answer::stored(response, response.body().clone().into()))
}

/// Runs the hook. If it fails, the error is the response for the client.
async fn run_hook(
    config: &Http,
    hook: &ReconcileHook,
    abandoned: Abandoned,
) -> Result<HookAnswer, Response<Bytes>> {
    let operation = config.calls.scope.operation();
    let mark = |response| AnsweredBy::Hook.mark(response);
    let problem = match user_code::run(async { hook(abandoned).await }).await {
        Ok(Ok(Reconciled::Completed(response))) => {
            return Ok(Reconciled::Completed(mark(response)));
        }
        Ok(Ok(Reconciled::Failed(response))) => return Ok(Reconciled::Failed(mark(response))),
        Ok(Ok(undecided)) => return Ok(undecided),
        Ok(Err(error)) => {
            let error = user_code::text(error);
            tracing::error!(operation, error, "a reconcile hook failed: no write was applied");
            Problem::new(ProblemKind::ReconcileFailed, "The reason is in the server's log.")
        }
        Err(panic) => {
            let panic = panic.text();
            tracing::error!(operation, panic, "a reconcile hook panicked: no write was applied");
            panicked()
        }
    };
    Err(render::<Body>(config, &problem).map(|body| body.bytes))
}
