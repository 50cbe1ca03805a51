//! One request through the protocol, whatever server it came from.

use std::any::Any;
use std::future::Future;

use http::{Response, StatusCode};

use super::answer::{self, WholeBody};
use super::problem::{Problem, ProblemKind};
use super::{Config, problem, reconcile};
use crate::acquire::{Acquisition, Call, acquire};
use crate::completion::Completion;
use crate::error::{Error, ErrorKind};
use crate::execution::Execution;
use crate::operation::{self, call_handler, refusal, see_through};
use crate::policy::{Failure, Unconfirmed};
use crate::response::Answer;

/// Runs the handler once for the call's key, or answers in its place. The handler's own error
/// passes through.
pub(crate) async fn exchange<B, E, F, Fut>(
    config: &Config,
    call: Call,
    handler: F,
) -> Result<Response<B>, E>
where
    B: WholeBody + Sync,
    F: FnOnce(Execution) -> Fut,
    Fut: Future<Output = Result<Response<B>, E>>,
{
    let acquired = match &config.reconcile {
        None => acquire(&config.idempotency.core, call).await,
        Some(hook) => match reconcile::acquire(config, call, hook).await {
            Ok(acquired) => acquired,
            Err(response) => return Ok(response.map(B::from_text)),
        },
    };
    let execution = match acquired {
        Ok(Acquisition::Acquired(execution)) => execution,
        Ok(Acquisition::Replay(answer) | Acquisition::ReplayFailure(Some(answer))) => {
            return Ok(replay(config, answer));
        }
        Ok(refused) => return Ok(explain(config, &refusal(&refused))),
        Err(error) => return Ok(explain(config, &error)),
    };
    let work = async {
        match call_handler(&execution, handler).await {
            Ok(Ok(response)) => Ok(conclude(config, &execution, response).await),
            Ok(Err(error)) => {
                operation::fail(&execution, None).await;
                Err(error)
            }
            Err(panic) => {
                report_panic(&execution, panic.as_ref());
                execution.fail(None).await;
                Ok(render(config, &panicked()))
            }
        }
    };
    see_through(&execution, work).await
}

/// What the handler's response does to the record, and what the client gets.
async fn conclude<B: WholeBody + Sync>(
    config: &Config,
    execution: &Execution,
    response: Response<B>,
) -> Response<B> {
    if execution.said_nothing_executed() {
        execution.release().await;
        return response;
    }
    if !(config.stored)(response.status()) {
        let kept = execution.policy().failure != Failure::Release;
        execution.fail(kept.then(|| answer::encode(&response))).await;
        return response;
    }
    match execution.complete(&|| answer::encode(&response)).await {
        Completion::Stored | Completion::Unprotected => response,
        Completion::LeaseLost(Some(theirs)) => replay(config, theirs),
        Completion::LeaseLost(None) => explain(config, &operation::lease_lost()),
        Completion::Unconfirmed(error) => match execution.policy().unconfirmed {
            Unconfirmed::Answer => response,
            Unconfirmed::Error => explain(config, &operation::outcome_unknown(error)),
        },
    }
}

fn replay<B: WholeBody>(config: &Config, answer: Answer) -> Response<B> {
    let unreadable = |message| Error::new(ErrorKind::AnswerUnreadable, message);
    let error = match answer {
        Answer::Http(answer) => match answer::replay(answer) {
            Some(response) => return response,
            None => unreadable("the stored answer is not a response that HTTP can carry"),
        },
        Answer::Unavailable(reason) => operation::answer_unavailable(&reason),
        Answer::Json(_) => unreadable(
            "the stored answer is a function's result: this scope is used by a function too",
        ),
    };
    explain(config, &error)
}

/// Answers an error with its problem; what the client is not told goes to the log.
fn explain<B: WholeBody>(config: &Config, error: &Error) -> Response<B> {
    let problem = Problem::from(error);
    if problem.status().is_server_error() {
        let operation = config.scope.operation();
        let source = std::error::Error::source(error);
        tracing::error!(operation, kind = ?error.kind(), %error, source, "no answer for a request");
    }
    render(config, &problem)
}

pub(crate) fn render<B: WholeBody>(config: &Config, problem: &Problem) -> Response<B> {
    let response = match &config.renderer {
        Some(renderer) => renderer(problem),
        None => problem::Problem::to_response(problem),
    };
    response.map(B::from_text)
}

pub(super) fn panicked() -> Problem {
    Problem::new(ProblemKind::HandlerPanicked, "The request failed.")
}

/// What a panic said.
pub(super) fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let message = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    message.unwrap_or("a value that is no text")
}

fn report_panic(execution: &Execution, panic: &(dyn Any + Send)) {
    tracing::error!(
        operation = execution.operation(),
        attempt = execution.attempt(),
        panic = message_of(panic),
        "the handler panicked"
    );
}

/// Which answers are stored by default: successes, redirects and refusals, but not those that ask
/// the client to send the same again later.
pub(super) fn stored_by_default(status: StatusCode) -> bool {
    let try_again = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::CONFLICT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    (200..500).contains(&status.as_u16()) && !try_again.contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_may_be_replayed_are_stored() {
        let stored = |status| stored_by_default(StatusCode::from_u16(status).unwrap());
        for status in [200, 201, 204, 301, 304, 400, 402, 404, 410, 422, 451] {
            assert!(stored(status), "{status}");
        }
        for status in [101, 408, 409, 425, 429, 500, 502, 503, 599] {
            assert!(!stored(status), "{status}");
        }
    }
}
