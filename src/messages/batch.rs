//! Runs one batch, driven by its [`Schedule`].

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::consumer::Consumer;
use super::message::Message;
use super::response::ItemIdentifier;
use super::run_message::{Times, perform, prepare};
use super::schedule::{Constraints, Schedule, Verdict};
use super::source::Incoming;
use crate::clock::Deadline;
use crate::run::execution::Execution;

/// Runs the messages and returns those that are not done, in order. `None` is a message without an
/// identifier.
pub(super) async fn run<R, F, Fut, E>(
    consumer: &Consumer<R>,
    handler: &F,
    messages: Vec<Incoming<R>>,
    deadline: Option<Deadline>,
) -> Vec<Option<ItemIdentifier>>
where
    F: Fn(Message<R>, Execution) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: fmt::Display + 'static,
{
    let clock = &consumer.calls.core().table.clock;
    // While idempotency is switched off, messages with the same key all run.
    let is_disabled = consumer.calls.core().is_disabled;
    let times = deadline.map(|deadline| Times::new(clock, deadline, consumer.deadline_margin));
    let (mut items, mut prepared, mut constraints) = (Vec::new(), Vec::new(), Vec::new());
    for Incoming { item, group, parsed } in messages {
        let message = prepare(consumer, parsed);
        let key = message.as_ref().ok().filter(|_| !is_disabled);
        let identity = key.and_then(|(message, of)| message.key.clone().zip(*of));
        constraints.push(Constraints { group, identity });
        prepared.push(Some(message));
        items.push(item);
    }
    let mut schedule = Schedule::new(constraints);
    let mut running = FuturesUnordered::new();
    loop {
        if times.is_some_and(|times| clock.is_over(times.last_start)) {
            schedule.stop();
        }
        while running.len() < consumer.concurrency {
            let Some(index) = schedule.next() else { break };
            // The schedule returns each message once.
            let Some(message) = prepared[index].take() else { continue };
            let performing = perform(consumer, handler, items[index].as_ref(), message, times);
            running.push(performing.map(move |is_done| (index, is_done)));
        }
        let left = times.map_or(Duration::MAX, |times| clock.left(times.cut_off));
        match clock.within(left, running.next()).await {
            Some(Some((index, is_done))) => schedule.ended(index, is_done),
            Some(None) | None => break,
        }
    }
    drop(running);
    let verdicts: Vec<_> = schedule.verdicts().collect();
    log_unfinished(consumer, &verdicts);
    let failed = items.into_iter().zip(verdicts);
    failed.filter(|(_, verdict)| *verdict != Verdict::Done).map(|(item, _)| item).collect()
}

/// Logs the messages that did not finish, because they log nothing themselves.
fn log_unfinished<R>(consumer: &Consumer<R>, verdicts: &[Verdict]) {
    let count = |of: Verdict| verdicts.iter().filter(|verdict| **verdict == of).count();
    let [held, no_turn, cut_off] = [Verdict::Held, Verdict::NoTurn, Verdict::CutOff].map(count);
    if held + no_turn + cut_off > 0 {
        tracing::warn!(
            operation = consumer.calls.scope.operation(),
            source = consumer.source.name,
            held,
            no_turn,
            cut_off,
            "messages of a batch did not run to their end: behind a failed one of their group, \
             without time for their turn, or cut off by the invocation's end; they will be \
             delivered again"
        );
    }
}
