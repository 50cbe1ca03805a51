//! What became of a request whose handler vanished, as the business knows it.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;

use super::answer_body::BoxError;
use super::exchange::{explain, panicked, render};
use super::problem::{Problem, ProblemKind, SOON};
use super::{AnsweredBy, HookAnswer, Http, ReconcileHook, answer};
use crate::engine::acquire::Acquisition;
use crate::engine::call::Call;
use crate::engine::hook::Abandoned;
use crate::engine::reconcile::{self, Acquired, Codec};
use crate::error::RunError;
use crate::user_code;

impl Http {
    /// Asks `hook` about a request whose handler let its lease end without an answer, instead of
    /// [`Policy::takeover`](crate::Policy::takeover); see
    /// [`Operation::reconcile`](crate::Operation::reconcile). Its answers are responses, stored
    /// whatever their status. To make one, it can use [`Abandoned::derive_key`] and the
    /// [steps](Abandoned::step). If it fails, the client gets [`ProblemKind::ReconcileFailed`], and
    /// if it panics, [`ProblemKind::HandlerPanicked`].
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
            let asked = hook(abandoned);
            Box::pin(async move { asked.await.map_err(Into::into) })
        }));
        self
    }
}

/// Acquires the key of a request, and asks the hook where its handler vanished. The error is the
/// response that settles the request.
pub(super) async fn acquire(
    config: &Http,
    call: Call,
    hook: &ReconcileHook,
) -> Result<Acquisition, Response<Bytes>> {
    let codec = Codec {
        completed: answer::stored::<Bytes>,
        failed: |response: &Response<Bytes>| Some(answer::stored(response)),
    };
    let core = &config.idempotency.core;
    match reconcile::acquire(core, call, |abandoned| ask(config, hook, abandoned), codec).await {
        Ok(Acquired::Unsettled(acquisition)) => Ok(acquisition),
        Ok(Acquired::Completed(response) | Acquired::Failed(response)) => {
            Err(AnsweredBy::Hook.mark(response))
        }
        Err(RunError::Handler(response)) => Err(response),
        Err(RunError::Idempotency(error)) => Err(explain(config, &error)),
    }
}

/// The error is the response of a hook that has failed.
async fn ask(
    config: &Http,
    hook: &ReconcileHook,
    abandoned: Abandoned,
) -> Result<HookAnswer, Response<Bytes>> {
    let operation = config.scope.operation();
    let asked = user_code::run(async { hook(abandoned).await }).await;
    let problem = match asked {
        Ok(Ok(said)) => return Ok(said),
        Ok(Err(error)) => {
            let error = user_code::text(&error);
            tracing::error!(operation, error, "a reconcile hook failed: nothing was written");
            let detail = "The reason is in the server's log.";
            Problem::new(ProblemKind::ReconcileFailed, detail).retry_after(SOON)
        }
        Err(panic) => {
            tracing::error!(
                operation,
                panic = panic.text(),
                "a reconcile hook panicked: nothing was written"
            );
            panicked()
        }
    };
    Err(render(config, &problem))
}
