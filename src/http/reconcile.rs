//! What became of a request whose handler vanished, as the business knows it.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use http::Response;

use super::answer_body::BoxError;
use super::exchange::{panicked, render};
use super::problem::{Problem, ProblemKind, SOON};
use super::{AnsweredBy, HookAnswer, Http, ReconcileHook, answer};
use crate::engine::acquire::Acquisition;
use crate::engine::call::Call;
use crate::engine::hook::{Abandoned, Reconciled};
use crate::engine::reconcile::{self, Acquired, Codec};
use crate::engine::runner::panic_text;
use crate::error::{Error, RunError};

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

/// How a hook may end but with an answer.
enum Ended {
    Failed(Response<Bytes>),
    Error(BoxError),
    Panic(Box<dyn Any + Send>),
}

/// Acquires the key of a request, and asks the hook where its handler vanished. The outer error is
/// the response that settles the request.
pub(super) async fn acquire(
    config: &Http,
    call: Call,
    hook: &ReconcileHook,
) -> Result<Result<Acquisition, Error>, Response<Bytes>> {
    let codec = Codec {
        completed: answer::stored::<Bytes>,
        failed: |ended: &Ended| match ended {
            Ended::Failed(response) => Some(answer::stored(response)),
            Ended::Error(_) | Ended::Panic(_) => None,
        },
    };
    let core = &config.idempotency.core;
    match reconcile::acquire(core, call, |abandoned| ask(hook, abandoned), codec).await {
        Ok(Acquired::Unsettled(acquisition)) => Ok(Ok(acquisition)),
        Ok(Acquired::Completed(response)) => Err(AnsweredBy::Hook.mark(response)),
        Ok(Acquired::Failed(ended)) | Err(RunError::Handler(ended)) => Err(explain(config, ended)),
        Err(RunError::Idempotency(error)) => Ok(Err(error)),
    }
}

async fn ask(
    hook: &ReconcileHook,
    abandoned: Abandoned,
) -> Result<Reconciled<Response<Bytes>, Ended>, Ended> {
    let asked = AssertUnwindSafe(async { hook(abandoned).await }).catch_unwind().await;
    match asked.map_err(Ended::Panic)?.map_err(Ended::Error)? {
        Reconciled::Completed(response) => Ok(Reconciled::Completed(response)),
        Reconciled::Failed(response) => Ok(Reconciled::Failed(Ended::Failed(response))),
        Reconciled::Execute => Ok(Reconciled::Execute),
        Reconciled::Refuse => Ok(Reconciled::Refuse),
    }
}

fn explain(config: &Http, ended: Ended) -> Response<Bytes> {
    let operation = config.scope.operation();
    let problem = match ended {
        Ended::Failed(response) => return AnsweredBy::Hook.mark(response),
        Ended::Error(error) => {
            tracing::error!(operation, %error, "a reconcile hook failed: nothing was written");
            let detail = "The reason is in the server's log.";
            Problem::new(ProblemKind::ReconcileFailed, detail).retry_after(SOON)
        }
        Ended::Panic(panic) => {
            let panic = panic_text(panic.as_ref());
            tracing::error!(operation, panic, "a reconcile hook panicked: nothing was written");
            panicked()
        }
    };
    render(config, &problem)
}
