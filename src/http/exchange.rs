//! Handles one request with the protocol, for every kind of server.

use std::borrow::Cow;
use std::future::{Future, poll_fn};

use bytes::Bytes;
use http::{Response, StatusCode};
use tower_service::Service;
use tracing::Instrument;

use super::answer;
use super::problem::{self, Problem, ProblemKind};
use super::statuses::StatusClass;
use super::{AnsweredBy, Http, reconcile};
use crate::answer::reason::http as reason;
use crate::answer::{Answer, Body, HttpAnswer};
use crate::error::{Error, ErrorKind};
use crate::policy::{Failure, Takeover};
use crate::run::call::{CallContext, End};
use crate::run::caller::acquire;
use crate::run::errors::{answer_unavailable, failed};
use crate::run::execution::Execution;
use crate::run::runner::{self, Conclusion, Encoding, RunOutcome};
use crate::run::transaction::{self, Transaction, TransactionEncoding};
use crate::run::user_code::{self, Panic};

/// The outcome of a handler.
pub(crate) enum Handled<B> {
    Response(Response<Body>),
    /// A response whose body is too long to be stored and is sent as it arrives.
    Streaming(Response<B>),
    /// A response that cannot be sent, because reading its body failed or because it is too large.
    Unsendable {
        status: StatusCode,
        reason: Cow<'static, str>,
    },
}

impl<B> Handled<B> {
    /// Creates the outcome of a response whose body failed or panicked.
    pub(crate) fn broken(status: StatusCode, error: &str) -> Self {
        tracing::error!(error, "the body of a handler's response failed");
        Self::Unsendable { status, reason: reason::BODY_FAILED.into() }
    }
}

impl<B: From<Body>> Handled<B> {
    fn status_class(&self, config: &Http) -> StatusClass {
        config.statuses.classify(match self {
            Self::Response(response) => response.status(),
            Self::Streaming(response) => response.status(),
            Self::Unsendable { status, .. } => *status,
        })
    }

    /// Returns what can be stored of the response, or why nothing can.
    fn answer(&self) -> Result<Answer, Cow<'static, str>> {
        match self {
            Self::Response(response) => {
                Ok(Answer::Http(answer::stored(response, response.body().clone())))
            }
            Self::Streaming(_) => Err(reason::STREAMED.into()),
            Self::Unsendable { reason, .. } => Err(reason.clone()),
        }
    }

    /// Returns what the client gets.
    fn into_response(self, config: &Http) -> Response<B> {
        match self {
            Self::Response(response) => AnsweredBy::Handler.mark(response.map(B::from)),
            Self::Streaming(response) => AnsweredBy::Handler.mark(response),
            Self::Unsendable { reason, .. } => cannot_be_sent(config, &reason),
        }
    }
}

/// Waits until the service is ready. Called only right before the service, so that a request that
/// waits for another request's answer, or for its own body, does not occupy a slot in it.
async fn ready<R, S: Service<R>>(service: &mut S) -> Result<(), S::Error> {
    poll_fn(|context| service.poll_ready(context)).await
}

/// Calls a service when it is ready.
pub(crate) async fn oneshot<R, S: Service<R>>(
    mut service: S,
    request: R,
) -> Result<S::Response, S::Error> {
    ready(&mut service).await?;
    service.call(request).await
}

/// Calls a service for `execution` when it is ready, and drops it. A destructor that panics after the
/// answer does not change the answer.
pub(crate) async fn call_service<R, S: Service<R>>(
    mut service: S,
    request: R,
    execution: &Execution,
) -> Result<S::Response, S::Error> {
    if let Err(error) = ready(&mut service).await {
        execution.discard();
        return Err(error);
    }
    let answered = user_code::run_or_resume(service.call(request)).await;
    user_code::discard(|| drop(service));
    answered
}

/// Runs the handler once for the call's key, or returns the stored answer. The handler's own error
/// is returned unchanged.
pub(crate) async fn exchange<B, E, F, Fut>(
    config: &Http,
    call: CallContext,
    handler: F,
) -> Result<Response<B>, E>
where
    B: From<Body> + Sync,
    F: FnOnce(Execution) -> Fut,
    Fut: Future<Output = Result<Handled<B>, E>>,
{
    let span = call.signals.span();
    async {
        let acquired = match &config.reconcile {
            None => acquire(config.calls.core(), call).await.map_err(RunOutcome::Ended),
            // Boxed, because requests without a hook need no room for its state.
            Some(hook) => Box::pin(reconcile::acquire(config, call, hook)).await,
        };
        let execution = match acquired {
            Ok(execution) => execution,
            Err(outcome) => {
                let whole =
                    |response: Response<Bytes>| response.map(|body| Body::from(body).into());
                return Ok(render_outcome(config, outcome, whole).unwrap_or_else(whole));
            }
        };
        let responses = Responses { config };
        let outcome = runner::run(&responses, execution, handler).await;
        render_outcome(config, outcome, |handled: Handled<B>| handled.into_response(config))
    }
    .instrument(span)
    .await
}

/// Encodes responses for the record.
struct Responses<'a> {
    config: &'a Http,
}

impl Responses<'_> {
    fn report(&self, panic: &Panic) {
        let operation = self.config.calls.scope.operation();
        tracing::error!(operation, panic = panic.text(), "the handler panicked");
    }
}

impl<B: From<Body>, E> Encoding<Handled<B>, E> for Responses<'_> {
    fn conclude(&self, execution: &Execution, handled: &Handled<B>) -> Conclusion {
        let answer = match handled.status_class(self.config) {
            StatusClass::Stored => handled.answer(),
            StatusClass::Unstorable(reason) => Err(reason.into()),
            StatusClass::Rejected => return Conclusion::NothingExecuted,
            StatusClass::Failed => {
                let is_kept = execution.policy().failure != Failure::Release;
                return Conclusion::Failed(handled.answer().ok().filter(|_| is_kept));
            }
        };
        Conclusion::Completed(answer.unwrap_or_else(|reason| {
            execution.report_unstorable(&reason);
            Answer::Unavailable(reason)
        }))
    }

    /// The server below decides which response the error becomes, so nothing is stored.
    fn failure(&self, _: &E) -> Option<Answer> {
        None
    }

    fn panicked(&self, panic: &Panic) {
        self.report(panic);
    }
}

impl TransactionEncoding<Response<Body>> for Responses<'_> {
    fn panicked(&self, panic: &Panic) -> bool {
        self.report(panic);
        true
    }

    fn is_stored(&self, response: &Response<Body>) -> bool {
        self.config.statuses.classify(response.status()) == StatusClass::Stored
    }

    fn answer(&self, response: &Response<Body>) -> Result<Answer, Error> {
        Ok(Answer::Http(answer::stored(response, response.body().clone())))
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
        RunOutcome::Ended(End::Committed(answer)) => committed(config, answer),
        RunOutcome::Ended(End::Replayed(answer) | End::FailureReplayed(Some(answer))) => {
            replay(config, answer)
        }
        RunOutcome::Ended(End::FailureReplayed(None)) => explain(config, &failed()),
        RunOutcome::Ended(End::NoAnswer(error)) => explain(config, &error),
    })
}

/// Returns the response that this request committed.
fn committed<B: From<Body>>(config: &Http, answer: Answer) -> Response<B> {
    match answer {
        Answer::Http(answer) => {
            let Some(response) = answer::restore(answer) else {
                let message = "the committed answer is not a response that HTTP can carry";
                return explain(config, &Error::new(ErrorKind::AnswerUnreadable, message));
            };
            AnsweredBy::Handler.mark(response.map(B::from))
        }
        other @ (Answer::Json(_) | Answer::Unavailable(_)) => replay(config, other),
    }
}

/// Handles a request whose whole effect is one transaction. The handler runs before the first
/// request to DynamoDB.
pub(crate) async fn exchange_transaction<B, E, F>(
    config: &Http,
    mut call: CallContext,
    handler: F,
) -> Result<Response<B>, E>
where
    B: From<Body> + Send,
    F: Future<Output = Result<Transaction<Response<Body>>, E>>,
{
    let span = call.signals.span();
    async {
        if config.reconcile.is_some() {
            // The hook applies to handlers that run. A transaction must not repeat an abandoned operation
            // of such a handler.
            call.policy.takeover = Takeover::Reject;
        }
        let responses = Responses { config };
        let core = config.calls.core();
        let outcome = transaction::run_transaction(&responses, core, call, handler).await;
        if let RunOutcome::Ended(End::NoAnswer(error)) = &outcome
            && let Some(failed) = error.condition_failed()
        {
            tracing::info!(operation = config.calls.scope.operation(), %failed, "nothing was written");
        }
        render_outcome(config, outcome, |response: Response<Body>| {
            AnsweredBy::Handler.mark(response.map(B::from))
        })
    }
    .instrument(span)
    .await
}

/// Returns the response to a request that passes through. Its items would be written without
/// protection, so they are not written, and the client gets an error.
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

fn replay<B: From<Body>>(config: &Http, answer: Answer) -> Response<B> {
    let unreadable = |message| Error::new(ErrorKind::AnswerUnreadable, message);
    let error = match answer {
        Answer::Http(answer) => match replayed(config, answer) {
            Ok(Some(response)) => return AnsweredBy::Replay.mark(response.map(B::from)),
            Ok(None) => unreadable("the stored answer is not a response that HTTP can carry"),
            // The record still holds the answer.
            Err(_) => answer_unavailable("Http::on_replay panicked"),
        },
        Answer::Unavailable(reason) => answer_unavailable(&reason),
        Answer::Json(_) => unreadable(
            "the stored answer is a function's result: this scope is used by a function too",
        ),
    };
    explain(config, &error)
}

/// Returns the response of a replay, changed by [`Http::on_replay`].
fn replayed(config: &Http, answer: HttpAnswer) -> Result<Option<Response<Body>>, Panic> {
    let replay = answer::replay(answer);
    match (&config.on_replay, replay) {
        (Some(hook), Some(replay)) => answer::change(replay, &**hook).map(Some),
        (_, replay) => Ok(replay),
    }
}

/// Renders an error as its problem. Details that are not for the client go to the log.
pub(super) fn explain<B: From<Body>>(config: &Http, error: &Error) -> Response<B> {
    render(config, &problem::explain(Some(config.calls.scope.operation()), error))
}

pub(crate) fn render<B: From<Body>>(config: &Http, problem: &Problem) -> Response<B> {
    let rendered = config.renderer.as_ref().map(|renderer| user_code::call(|| renderer(problem)));
    let response = match rendered {
        Some(Ok(response)) => response,
        Some(Err(panic)) => {
            let (operation, panic) = (config.calls.scope.operation(), panic.text());
            tracing::error!(
                operation,
                panic,
                "Http::render_problem panicked: the default problem is sent"
            );
            problem.to_response()
        }
        None => problem.to_response(),
    };
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

/// Returns the problem for a stored response that cannot be sent.
#[cfg(feature = "lambda")]
pub(crate) fn cannot_be_replayed<B: From<Body>>(config: &Http, reason: &str) -> Response<B> {
    explain(config, &answer_unavailable(reason))
}

pub(super) fn panicked() -> Problem {
    Problem::new(ProblemKind::HandlerPanicked, "The request failed.")
}
