//! One request through the protocol, whatever server it came from.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use http::{Response, StatusCode};
use tower_service::Service;
use tracing::Instrument;

use super::answer::{self, BodyBefore, WholeBody};
use super::grpc::{self, Trailers};
use super::problem::{self, Problem, ProblemKind};
use super::statuses::Verdict;
use super::{AnsweredBy, Config, reconcile};
use crate::acquire::{Acquisition, Call, acquire};
use crate::completion::Completion;
use crate::error::{Error, ErrorKind};
use crate::execution::Execution;
use crate::policy::{Failure, Takeover, Unconfirmed};
use crate::refusal::{answer_unavailable, lease_expired, lease_lost, outcome_unknown, refusal};
use crate::response::{Answer, Draft, HttpAnswer};
use crate::runner::{call_handler, fail, panic_text, report_failed_after_commit, see_through};
use crate::transaction::{
    ConditionFailed, Fate, Instead, Once, Transaction, commit_unknown, given_up, look_up, once,
};

/// What a handler has come to.
pub(crate) enum Handled<B> {
    Response(Response<B>),
    /// A response whose body is too long to be stored, and goes out as it comes.
    Flowing(Response<B>),
    /// The body of its response ended with an error. Its status, where that is known.
    Broken(Option<StatusCode>),
}

impl<B: WholeBody> Handled<B> {
    fn verdict(&self, config: &Config) -> Verdict {
        match self {
            Self::Response(response) if config.grpc => {
                config.statuses.judge(grpc::status(response))
            }
            // How a gRPC answer ends is not known while it flows: what it did must not happen again.
            Self::Response(response) | Self::Flowing(response) => {
                config.statuses.judge(response.status())
            }
            Self::Broken(Some(status)) => config.statuses.judge(*status),
            // It has answered, and what it did must not happen again.
            Self::Broken(None) => Verdict::Stored,
        }
    }

    /// What can be stored of it, or why nothing can.
    fn draft(&self) -> Result<Draft<'_>, &'static str> {
        match self {
            Self::Response(response) => Ok(answer::draft(response)),
            Self::Flowing(_) => {
                Err("it is longer than Policy::max_answer_bytes, and went out as it came")
            }
            Self::Broken(_) => Err("the body of the handler's response ended with an error"),
        }
    }

    /// What the client gets.
    fn into_response(self, config: &Config) -> Response<B> {
        match self {
            Self::Response(response) | Self::Flowing(response) => {
                AnsweredBy::Handler.mark(response)
            }
            Self::Broken(_) => {
                let detail = "The response could not be produced.";
                render(config, &Problem::new(ProblemKind::BodyBroken, detail))
            }
        }
    }
}

/// Waits until a service can be called. It is asked for that when it is called: whoever waits for
/// another's answer, or for a request's body, holds no place in it.
pub(crate) async fn ready<R, S: Service<R>>(service: &mut S) -> Result<(), S::Error> {
    poll_fn(|context| service.poll_ready(context)).await
}

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
    Fut: Future<Output = Result<Handled<B>, E>>,
{
    let span = call.signals.span();
    run(config, call, handler).instrument(span).await
}

async fn run<B, E, F, Fut>(config: &Config, call: Call, handler: F) -> Result<Response<B>, E>
where
    B: WholeBody + Sync,
    F: FnOnce(Execution) -> Fut,
    Fut: Future<Output = Result<Handled<B>, E>>,
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
        Ok(Acquisition::Replay(answer)) => {
            return Ok(replay(config, Arc::unwrap_or_clone(answer)));
        }
        Ok(Acquisition::ReplayFailure(Some(failure))) => return Ok(replay(config, failure)),
        Ok(refused) => return Ok(explain(config, &refusal(&refused))),
        Err(error) => return Ok(explain(config, &error)),
    };
    let work = async {
        let Some(returned) = call_handler(&execution, handler).await else {
            return Ok(match execution.expire().await {
                Some(fate) => settled(config, fate),
                None => explain(config, &lease_expired()),
            });
        };
        if let Err(panic) = &returned {
            report_panic(execution.operation(), panic.as_ref());
        }
        if let Some(fate) = execution.close().await {
            return overrule(config, &execution, fate, returned);
        }
        match &returned {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => fail(&execution, None).await,
            Err(_) => execution.fail(None).await,
        }
        let answer = match returned {
            Ok(Ok(came_to)) => Ok(conclude(config, &execution, came_to).await),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(render(config, &panicked())),
        };
        match execution.close().await {
            // A commit that was refused has landed late, or may have.
            Some(fate) => overrule(config, &execution, fate, Ok(answer)),
            None => answer,
        }
    };
    see_through(&execution, pin!(work)).await
}

/// Puts what a handler's commit has come to in the place of what the handler returned.
fn overrule<B: WholeBody, T, E>(
    config: &Config,
    execution: &Execution,
    fate: Fate,
    returned: Result<Result<T, E>, Box<dyn Any + Send>>,
) -> Result<Response<B>, E> {
    match (fate, returned) {
        // Nothing has happened: an error of the handler's says as much.
        (Fate::GivenUp, Ok(Err(error))) => Err(error),
        (Fate::GivenUp, Err(_)) => Ok(render(config, &panicked())),
        (fate, returned) => {
            if matches!(fate, Fate::Committed(_)) && !matches!(returned, Ok(Ok(_))) {
                report_failed_after_commit(execution);
            }
            Ok(settled(config, fate))
        }
    }
}

/// What a commit has come to that has ended its operation.
fn settled<B: WholeBody>(config: &Config, fate: Fate) -> Response<B> {
    match fate {
        Fate::Committed(answer) => committed(config, answer),
        Fate::LeaseLost(Some(theirs)) => replay(config, theirs),
        Fate::LeaseLost(None) => explain(config, &lease_lost()),
        Fate::GivenUp => explain(config, &given_up()),
        Fate::Unknown => explain(config, &commit_unknown()),
    }
}

/// The response that this very request has committed.
fn committed<B: WholeBody>(config: &Config, answer: Answer) -> Response<B> {
    match answer {
        Answer::Http(answer) => {
            let restored =
                answer::restore(answer).map(|response| AnsweredBy::Handler.mark(response));
            restored.unwrap_or_else(|| {
                let message = "the committed answer is not a response that HTTP can carry";
                explain(config, &Error::new(ErrorKind::AnswerUnreadable, message))
            })
        }
        other @ (Answer::Json(_) | Answer::Unavailable(_)) => replay(config, other),
    }
}

/// Takes a request whose whole effect is one transaction through the protocol. The handler runs
/// before DynamoDB is asked.
pub(crate) async fn exchange_transaction<B, E, F>(
    config: &Config,
    call: Call,
    handler: F,
) -> Result<Response<B>, E>
where
    B: WholeBody + Send,
    F: Future<Output = Result<Transaction<Response<B>>, E>>,
{
    let span = call.signals.span();
    run_transaction(config, call, handler).instrument(span).await
}

async fn run_transaction<B, E, F>(
    config: &Config,
    mut call: Call,
    handler: F,
) -> Result<Response<B>, E>
where
    B: WholeBody + Send,
    F: Future<Output = Result<Transaction<Response<B>>, E>>,
{
    if let Err(error) = call.policy.validate(config.idempotency.core.clock_tolerance) {
        return Ok(explain(config, &error));
    }
    if config.reconcile.is_some() {
        // The hook is for handlers that run; what one of these left, no transaction may repeat.
        call.policy.takeover = Takeover::Reject;
    }
    let core = &config.idempotency.core;
    let is_stored =
        |response: &Response<B>| config.statuses.judge(response.status()) == Verdict::Stored;
    let writes = |transaction: &Transaction<Response<B>>| {
        transaction.writes() && (!transaction.items.is_empty() || is_stored(&transaction.response))
    };
    let returning = AssertUnwindSafe(handler).catch_unwind();
    let returned = match call.prepare(&core.table.clock, returning).await {
        Ok(returned) => returned,
        Err(error) => return Ok(explain(config, &error)),
    };
    let Transaction { response, items, on_condition_failed, .. } = match returned {
        Ok(Ok(transaction)) if writes(&transaction) => transaction,
        // Whoever repeats a completed request gets its answer, whatever the handler makes of it.
        unstored => {
            if let Err(panic) = &unstored {
                report_panic(config.scope.operation(), panic.as_ref());
            }
            return match (look_up(core, call).await, unstored) {
                (Ok(Some(found)), _) => Ok(given(config, found)),
                (Err(error), _) => Ok(explain(config, &error)),
                (Ok(None), Ok(Ok(transaction))) => {
                    Ok(AnsweredBy::Handler.mark(transaction.response))
                }
                (Ok(None), Ok(Err(error))) => Err(error),
                (Ok(None), Err(_)) => Ok(render(config, &panicked())),
            };
        }
    };
    let instead = |failed: &ConditionFailed| {
        let answer = on_condition_failed.and_then(|answer| answer(failed))?;
        if !is_stored(&answer) {
            return Some(Instead::Unstored(answer));
        }
        let stored = answer::stored(&answer);
        Some(Instead::Stored(answer, stored))
    };
    let done = Box::pin(once(core, call, answer::draft(&response), items, instead)).await;
    Ok(match done {
        Ok(Once::Executed) => AnsweredBy::Handler.mark(response),
        Ok(Once::Instead(answer)) => AnsweredBy::Handler.mark(answer),
        Ok(Once::Found(found)) => given(config, found),
        Ok(Once::ConditionFailed(failed)) => {
            tracing::info!(operation = config.scope.operation(), %failed, "nothing was written");
            let detail = "A condition of the request's effect does not hold: nothing was done.";
            render(config, &Problem::new(ProblemKind::ConditionFailed, detail))
        }
        Ok(Once::Invalid(invalid)) => {
            let message = "the handler's transaction cannot be executed";
            explain(config, &Error::new(ErrorKind::Configuration, message).with_source(invalid))
        }
        Err(error) => explain(config, &error),
    })
}

/// What a request gets that has met a record.
fn given<B: WholeBody>(config: &Config, found: Acquisition) -> Response<B> {
    match found {
        Acquisition::Replay(answer) => replay(config, Arc::unwrap_or_clone(answer)),
        Acquisition::ReplayFailure(Some(failure)) => replay(config, failure),
        refused => explain(config, &refusal(&refused)),
    }
}

/// The response of a handler whose request passes through: what it wants written would be written
/// without any protection, and so is not written at all.
pub(crate) fn pass_transaction<B: WholeBody>(
    config: &Config,
    transaction: Transaction<Response<B>>,
) -> Response<B> {
    if transaction.items.is_empty() {
        return transaction.response;
    }
    let message = "a request that passes through unprotected wants a transaction: nothing was \
                   written; add its method to Http::methods, and require a key";
    explain(config, &Error::new(ErrorKind::Configuration, message))
}

/// What the handler's response does to the record, and what the client gets.
async fn conclude<B: WholeBody + Sync>(
    config: &Config,
    execution: &Execution,
    handled: Handled<B>,
) -> Response<B> {
    let said_nothing = execution.said_nothing_executed();
    let verdict = if said_nothing { Verdict::Refused } else { handled.verdict(config) };
    let draft = match verdict {
        Verdict::Stored => handled.draft(),
        Verdict::Unstorable(reason) => Err(reason),
        Verdict::Refused => {
            execution.give_back().await;
            return handled.into_response(config);
        }
        Verdict::Failed => {
            let kept = execution.policy().failure != Failure::Release;
            execution.fail(handled.draft().ok().filter(|_| kept)).await;
            return handled.into_response(config);
        }
    };
    let draft = draft.unwrap_or_else(|reason| {
        execution.report_unstorable(reason);
        Draft::unavailable(reason)
    });
    match execution.complete(draft).await {
        Completion::Stored | Completion::Unprotected => handled.into_response(config),
        Completion::Landed(answer) => committed(config, answer),
        Completion::LeaseLost(Some(theirs)) => replay(config, theirs),
        Completion::LeaseLost(None) => explain(config, &lease_lost()),
        Completion::Unconfirmed(_) if execution.has_commit_in_doubt() => {
            explain(config, &commit_unknown())
        }
        Completion::Unconfirmed(error) => match execution.policy().unconfirmed {
            Unconfirmed::Answer => handled.into_response(config),
            Unconfirmed::Error => explain(config, &outcome_unknown(error)),
        },
    }
}

fn replay<B: WholeBody>(config: &Config, answer: Answer) -> Response<B> {
    let unreadable = |message| Error::new(ErrorKind::AnswerUnreadable, message);
    let error = match answer {
        Answer::Http(answer) => match replayed(config, answer) {
            Some(response) if response.extensions().get::<Trailers>().is_some() && !config.grpc => {
                unreadable("the stored answer has trailers, and Http::grpc is not chosen here")
            }
            Some(response) => return AnsweredBy::Replay.mark(response),
            None => unreadable("the stored answer is not a response that HTTP can carry"),
        },
        Answer::Unavailable(reason) => answer_unavailable(&reason),
        Answer::Json(_) => unreadable(
            "the stored answer is a function's result: this scope is used by a function too",
        ),
    };
    explain(config, &error)
}

/// The response of a replay, as the user wants it.
fn replayed<B: WholeBody>(config: &Config, answer: HttpAnswer) -> Option<Response<B>> {
    let Some(change) = &config.on_replay else { return answer::replay(answer) };
    let before = BodyBefore::of(&answer.body);
    let changed = change(answer::replay(answer)?);
    Some(before.after(changed).map(B::from_stored))
}

/// Answers an error with its problem; what the client is not told goes to the log.
fn explain<B: WholeBody>(config: &Config, error: &Error) -> Response<B> {
    render(config, &problem::explain(Some(config.scope.operation()), error))
}

pub(crate) fn render<B: WholeBody>(config: &Config, problem: &Problem) -> Response<B> {
    let response = match &config.renderer {
        Some(renderer) => renderer(problem),
        None if config.grpc => grpc::problem(problem),
        None => problem::Problem::to_response(problem),
    };
    AnsweredBy::Problem(problem.kind).mark(response.map(B::from_text))
}

pub(super) fn panicked() -> Problem {
    Problem::new(ProblemKind::HandlerPanicked, "The request failed.")
}

fn report_panic(operation: &str, panic: &(dyn Any + Send)) {
    tracing::error!(operation, panic = panic_text(panic), "the handler panicked");
}
