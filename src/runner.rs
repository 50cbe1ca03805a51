//! What every adapter does with a handler: calls it, drives it under its lease, and says how it ended.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use crate::execution::Execution;
use crate::response::Draft;
use crate::signals::{Ending, Stopwatch};

/// Runs the handler to its result or its panic; a panic in the closure itself counts too. `None` if its
/// lease ended first.
pub(crate) async fn call_handler<F, Fut>(
    execution: &Execution,
    handler: F,
) -> Option<Result<Fut::Output, Box<dyn Any + Send>>>
where
    F: FnOnce(Execution) -> Fut,
    Fut: Future,
{
    let running = async { handler(execution.clone()).await };
    let stopwatch = Stopwatch::start();
    let returned = execution.guard(AssertUnwindSafe(running).catch_unwind()).await;
    stopwatch.handler(execution.operation());
    returned
}

/// What a panic said.
#[cfg_attr(
    not(any(feature = "http", feature = "messages")),
    expect(dead_code, reason = "a function's panic goes on by itself")
)]
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a value that is no text")
}

/// Drives a handler and what its answer does to the record, under a live lease. `work` is best a pinned
/// reference: a future that is handed on is in the caller's future twice.
pub(crate) async fn see_through<F: Future>(execution: &Execution, work: F) -> F::Output {
    let guard = EarlyDrop(execution);
    let output = execution.drive(work).await;
    std::mem::forget(guard);
    execution.report();
    output
}

/// Says aloud that a running handler was dropped: nobody completes its record any more.
struct EarlyDrop<'a>(&'a Execution);

impl Drop for EarlyDrop<'_> {
    fn drop(&mut self) {
        tracing::warn!(
            operation = self.0.operation(),
            attempt = self.0.attempt(),
            "the future of a running operation was dropped before its answer was stored: its key is \
             locked until the lease ends"
        );
        self.0.came_to(Ending::Dropped);
        self.0.report();
    }
}

/// A failure after which the handler may have said that it changed nothing.
pub(crate) async fn fail(execution: &Execution, response: Option<Draft<'_>>) {
    if execution.said_nothing_executed() {
        execution.give_back().await;
    } else {
        execution.fail(response).await;
    }
}

/// A handler that fails after its effect has happened.
pub(crate) fn report_failed_after_commit(execution: &Execution) {
    tracing::error!(
        operation = execution.operation(),
        attempt = execution.attempt(),
        "the handler failed after its commit: the committed answer stands"
    );
}
