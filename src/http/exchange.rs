//! Handles one request with the protocol, for every kind of server.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;
use tracing::Instrument;

use super::answer;
use super::problem::{self, Problem, ProblemKind};
use super::statuses::is_rejection;
use super::{AnsweredBy, HookAnswer, Http, ReconcileHook, StoredUntil};
use crate::answer::reason::http as reason;
use crate::answer::{Answer, Body};
use crate::call::acquiring::{acquire, acquire_with_hook};
use crate::call::context::{CallContext, End};
use crate::call::errors::{answer_unavailable, failed, too_late};
use crate::call::execution::Execution;
use crate::call::handler::{self, Conclusion, Encoding, RunOutcome};
use crate::call::hook::Abandoned;
use crate::call::transaction::{
    Transaction, TransactionEncoding, not_serializable, run_transaction,
};
use crate::call::user_code::{self, Panic};
use crate::error::{Details, Error, ErrorKind};
use crate::policy::Takeover;

/// The body of a handler's response.
pub(crate) enum HandlerBody<B> {
    Whole(Body),
    /// A body that is too long to be stored and is sent as it arrives.
    Streaming(B),
    /// The response cannot be sent, because reading its body failed or because it is too large.
    Unsendable(Cow<'static, str>),
}

impl<B: From<Body>> HandlerBody<B> {
    /// Creates the body of a response whose body failed or panicked.
    pub(crate) fn broken(error: &str) -> Self {
        tracing::error!(error, "the body of a handler's response failed");
        Self::Unsendable(reason::BODY_FAILED.into())
    }

    /// Adds that the transaction of this response was not applied, if the response cannot be sent.
    pub(crate) fn nothing_written(self) -> Self {
        match self {
            Self::Unsendable(reason) => {
                Self::Unsendable(format!("{reason}, and nothing was written").into())
            }
            sendable => sendable,
        }
    }

    /// Returns what can be stored of the response, or why nothing can.
    fn answer(response: &Response<Self>) -> Result<Answer, Cow<'static, str>> {
        match response.body() {
            Self::Whole(body) => Ok(Answer::Http(answer::stored(response, body.clone())?)),
            Self::Streaming(_) => Err(reason::STREAMED.into()),
            Self::Unsendable(reason) => Err(reason.clone()),
        }
    }

    /// Returns what the client gets.
    fn sent(config: &Http, response: Response<Self>) -> Response<B> {
        let (head, body) = response.into_parts();
        let body = match body {
            Self::Whole(body) => body.into(),
            Self::Streaming(body) => body,
            Self::Unsendable(reason) => return cannot_be_sent(config, &reason),
        };
        AnsweredBy::Handler.mark(Response::from_parts(head, body))
    }
}

/// Reads the body of a handler's response. Because the handler has run, a body that panics is treated
/// like one that failed. The error is the text of the failure or panic.
pub(crate) async fn read_of_handler<T, E: fmt::Display>(
    reading: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match user_code::run(reading).await {
        Ok(read) => read.map_err(user_code::text),
        Err(panic) => Err(panic.text().to_owned()),
    }
}

/// Calls a service when it is ready. It waits only right before the call. A request that waits for
/// another request's answer, or for its own body, therefore occupies no slot of the service.
pub(crate) async fn oneshot<R, S: Service<R>>(
    mut service: S,
    request: R,
) -> Result<S::Response, S::Error> {
    poll_fn(|context| service.poll_ready(context)).await?;
    service.call(request).await
}

/// Why a service has no response.
enum NoResponse<E> {
    /// It was ready too late, and was not called.
    TooLate,
    /// Its own error.
    Failed(E),
}

/// Calls a service for `execution` when it is ready, and drops the service. If its destructor panics,
/// the answer does not change.
async fn call_service<R, S: Service<R>>(
    mut service: S,
    request: R,
    execution: &Execution,
) -> Result<S::Response, NoResponse<S::Error>> {
    if let Err(error) = poll_fn(|context| service.poll_ready(context)).await {
        execution.discard();
        return Err(NoResponse::Failed(error));
    }
    if execution.is_too_late() {
        execution.discard();
        return Err(NoResponse::TooLate);
    }
    let answered = user_code::run_or_resume(service.call(request)).await;
    user_code::discard(|| drop(service));
    answered.map_err(NoResponse::Failed)
}

/// Runs the service once for the call's key, or returns the stored answer. The service's own error is
/// returned unchanged. `read` takes the response at once, because the response need not be `Send`.
pub(crate) async fn exchange<R, S, B, Fut>(
    config: &Http,
    call: Arc<CallContext>,
    mut request: Request<R>,
    service: S,
    read: impl FnOnce(S::Response) -> Fut,
) -> Result<Response<B>, S::Error>
where
    S: Service<Request<R>>,
    B: From<Body> + Sync,
    Fut: Future<Output = Response<HandlerBody<B>>>,
{
    let span = call.signals.span();
    async {
        let acquiring = async {
            match &config.reconcile {
                None => acquire(config.calls.core(), call).await.map_err(RunOutcome::Ended),
                // Boxed, because requests without a hook need no room for its state.
                Some(hook) => Box::pin(acquire_or_reconcile(config, call, hook)).await,
            }
        };
        // Not kept in a variable, which would take its size while the handler runs.
        let execution = match acquiring.await {
            Ok(execution) => execution,
            Err(outcome) => {
                let whole =
                    |response: Response<Bytes>| response.map(|body| Body::from(body).into());
                return Ok(render_outcome(config, outcome, whole).unwrap_or_else(whole));
            }
        };
        let handler = |execution: Execution| {
            request.extensions_mut().insert(execution.clone());
            async move {
                let reading = call_service(service, request, &execution).await.map(read)?;
                Ok(reading.await)
            }
        };
        let outcome = handler::run(&Responses(config), execution, handler).await;
        match render_outcome(config, outcome, |response| HandlerBody::sent(config, response)) {
            Ok(response) => Ok(response),
            Err(NoResponse::TooLate) => Ok(explain(config, &too_late())),
            Err(NoResponse::Failed(error)) => Err(error),
        }
    }
    .instrument(span)
    .await
}

/// Acquires the key of a request, and runs the hook if an earlier request was abandoned.
async fn acquire_or_reconcile(
    config: &Http,
    call: Arc<CallContext>,
    hook: &ReconcileHook,
) -> Result<Execution, RunOutcome<Response<Bytes>, Response<Bytes>>> {
    let resolved =
        |answer: &HookAnswer| answer.resolved(to_store, |response| Some(to_store(response)));
    let run_hook = |abandoned| run_hook(config, hook, abandoned);
    acquire_with_hook(config.calls.core(), call, run_hook, resolved).await
}

fn to_store(response: &Response<Bytes>) -> Answer {
    match answer::stored(response, response.body().clone().into()) {
        Ok(answer) => Answer::Http(answer),
        Err(reason) => Answer::Unavailable(reason.into()),
    }
}

/// Runs the hook. If it fails, the error is the response for the client.
async fn run_hook(
    config: &Http,
    hook: &ReconcileHook,
    abandoned: Abandoned,
) -> Result<HookAnswer, Response<Bytes>> {
    let operation = config.calls.scope.operation();
    let problem = match user_code::run(async { hook(abandoned).await }).await {
        Ok(Ok(resolution)) => return Ok(resolution),
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

/// Encodes responses for the record.
struct Responses<'a>(&'a Http);

impl Responses<'_> {
    fn report(&self, panic: &Panic) {
        let operation = self.0.calls.scope.operation();
        tracing::error!(operation, panic = panic.text(), "the handler panicked");
    }
}

impl<B: From<Body>, E> Encoding<Response<HandlerBody<B>>, E> for Responses<'_> {
    fn conclude(&self, execution: &Execution, response: &Response<HandlerBody<B>>) -> Conclusion {
        let status = response.status();
        let answer = match self.0.is_stored(status) {
            Ok(true) if execution.releases_success() => return Conclusion::Succeeded,
            Ok(true) => HandlerBody::answer(response),
            // The request was rejected before anything was done.
            Ok(false) if is_rejection(status) => return Conclusion::NothingExecuted,
            Ok(false) => {
                let is_kept = execution.policy().failure.is_kept();
                let failure = is_kept.then(|| HandlerBody::answer(response).ok());
                return Conclusion::Failed(failure.flatten());
            }
            Err(reason) => Err(reason.into()),
        };
        Conclusion::Completed(answer.unwrap_or_else(|reason| {
            execution.report_unstorable(&reason);
            Answer::Unavailable(reason)
        }))
    }

    /// The server that receives the error decides which response it becomes, so nothing is stored.
    fn failure(&self, _: &E) -> Option<Answer> {
        None
    }

    fn panicked(&self, panic: &Panic) {
        self.report(panic);
    }
}

impl<B: From<Body>> TransactionEncoding<Response<HandlerBody<B>>> for Responses<'_> {
    fn panicked(&self, panic: &Panic) -> bool {
        self.report(panic);
        true
    }

    fn is_stored(&self, response: &Response<HandlerBody<B>>) -> bool {
        self.0.is_stored(response.status()) == Ok(true)
    }

    fn answer(&self, response: &Response<HandlerBody<B>>) -> Result<Answer, Error> {
        HandlerBody::answer(response).map_err(|reason| not_serializable(&reason))
    }
}

/// Returns what the client gets. The handler's own error is returned unchanged.
fn render_outcome<B: From<Body>, V, E>(
    config: &Http,
    outcome: RunOutcome<V, E>,
    render_value: impl FnOnce(V) -> Response<B>,
) -> Result<Response<B>, E> {
    Ok(match outcome {
        RunOutcome::Returned(value, _) => render_value(value),
        RunOutcome::Failed(error) => return Err(error),
        RunOutcome::Panicked(_, Some(instead)) => {
            return render_outcome(config, *instead, render_value);
        }
        RunOutcome::Panicked(_, None) => render(config, &panicked()),
        RunOutcome::Ended(End::Committed(answer, _)) => stored(config, answer, None),
        RunOutcome::Ended(End::Replayed(replay) | End::FailureReplayed(Some(replay))) => {
            stored(config, replay.answer, Some(StoredUntil::of(replay.expires_at)))
        }
        RunOutcome::Ended(End::FailureReplayed(None)) => explain(config, &failed()),
        RunOutcome::Ended(End::NoAnswer(error)) => explain(config, &error),
    })
}

/// Handles a request whose whole effect is one transaction. The handler runs before the first
/// request to DynamoDB. If its response cannot be sent, the transaction writes nothing.
pub(crate) async fn exchange_transaction<B, E, F>(
    config: &Http,
    mut call: Arc<CallContext>,
    handler: F,
) -> Result<Response<B>, E>
where
    B: From<Body> + Send + Sync,
    F: Future<Output = Result<Transaction<Response<HandlerBody<B>>>, E>>,
{
    let span = call.signals.span();
    async {
        if config.reconcile.is_some() {
            // The hook applies to handlers that run. A transaction must not repeat an abandoned operation
            // of such a handler.
            let policy = &mut Arc::make_mut(&mut call).policy;
            Arc::make_mut(policy).takeover = Takeover::Reject;
        }
        let core = config.calls.core();
        let outcome = run_transaction(&Responses(config), core, call, handler).await;
        if let RunOutcome::Ended(End::NoAnswer(error)) = &outcome
            && let Some(failed) = error.condition_failed()
        {
            tracing::info!(operation = config.calls.scope.operation(), %failed, "nothing was written");
        }
        render_outcome(config, outcome, |response| HandlerBody::sent(config, response))
    }
    .instrument(span)
    .await
}

/// Returns the response to a request that passes through. If the transaction has items, they are not
/// written, because they would be unprotected, and the client gets an error.
pub(crate) fn pass_transaction<B: From<Body>>(
    config: &Http,
    transaction: Transaction<Response<B>>,
) -> Response<B> {
    if transaction.items.is_empty() {
        return transaction.response;
    }
    let message = "a request that passes through unprotected needs a transaction: nothing was \
                   written; add its method to Http::methods, and require a key";
    explain(config, &Error::new(ErrorKind::Configuration, message))
}

/// Returns the response of a stored answer: a replay, which is stored until then, or the answer that this
/// request committed. A replay is changed by [`Http::on_replay`].
fn stored<B: From<Body>>(
    config: &Http,
    answer: Answer,
    replayed: Option<StoredUntil>,
) -> Response<B> {
    let unreadable = |message| Error::new(ErrorKind::AnswerUnreadable, message);
    let invalid = || unreadable("the stored answer is not a response that HTTP can carry");
    let restored = match (answer, replayed) {
        (Answer::Http(answer), Some(until)) => {
            answer::replay(answer).ok_or_else(invalid).and_then(|mut replay| {
                let Some(hook) = &config.on_replay else { return Ok(replay) };
                replay.extensions_mut().insert(until);
                // The record still holds the answer.
                let panicked = |_| answer_unavailable("Http::on_replay panicked");
                answer::change(replay, &**hook).map_err(panicked)
            })
        }
        (Answer::Http(answer), None) => answer::restore(answer).ok_or_else(invalid),
        (Answer::Unavailable(reason), _) => Err(answer_unavailable(&reason)),
        (Answer::Json(_), _) => Err(unreadable(
            "the stored answer is a function's result: this scope is used by a function too",
        )),
    };
    let response = match restored {
        Ok(response) => response.map(B::from),
        Err(error) => return explain(config, &error),
    };
    let Some(until) = replayed else { return AnsweredBy::Handler.mark(response) };
    let mut replay = AnsweredBy::Replay.mark(response);
    // The hook may have returned another response.
    replay.extensions_mut().insert(until);
    replay
}

/// Renders an error as its problem.
pub(crate) fn explain<B: From<Body>>(config: &Http, error: &Error) -> Response<B> {
    explain_details(config, error.details())
}

fn explain_details<B: From<Body>>(config: &Http, error: &Details) -> Response<B> {
    render(config, &problem::explain(Some(config.calls.scope.operation()), error))
}

/// Responds to a handler's error that is the crate's, as the layer for axum does. The handler has failed,
/// whatever the response.
///
/// # Errors
/// An error that is not the crate's.
#[cfg(feature = "lambda")]
pub(crate) fn explain_own<B: From<Body>, E: 'static>(
    config: &Http,
    error: E,
) -> Result<Response<B>, E> {
    match Details::of(&error) {
        Some(details) => Ok(explain_details(config, details)),
        None => Err(error),
    }
}

pub(crate) fn render<B: From<Body>>(config: &Http, problem: &Problem) -> Response<B> {
    let rendered = user_code::call(|| (config.renderer)(problem));
    let response = rendered.unwrap_or_else(|panic| {
        tracing::error!(
            operation = config.calls.scope.operation(),
            panic = panic.text(),
            "Http::render_problem panicked: the default problem is sent"
        );
        problem.to_response()
    });
    AnsweredBy::Problem(problem.kind).mark(response.map(|body| Body::from(body).into()))
}

/// Calls a function of the configuration before the handler runs, so a panic has no effect. The
/// panic's message is not logged, because it may quote the request.
pub(super) fn call_configured<T>(
    config: &Http,
    function: &'static str,
    code: impl FnOnce() -> T,
) -> Result<T, Problem> {
    user_code::call(code).map_err(|_| {
        let operation = config.calls.scope.operation();
        tracing::error!(operation, function, "a function of the configuration panicked");
        panicked()
    })
}

/// Returns the problem for a handler's response that cannot be sent.
pub(crate) fn cannot_be_sent<B: From<Body>>(config: &Http, reason: &str) -> Response<B> {
    let detail = format!("The response cannot be sent: {reason}.");
    render(config, &Problem::new(ProblemKind::BodyBroken, detail))
}

pub(super) fn panicked() -> Problem {
    Problem::new(ProblemKind::HandlerPanicked, "The request failed.")
}
