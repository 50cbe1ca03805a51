//! One batch through the protocol: the driver of its [`Schedule`].

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::consumer::Config;
use super::message::Message;
use super::response::ItemIdentifier;
use super::schedule::{Schedule, Slot, Verdict};
use super::source::Incoming;
use super::work::{Time, Work, perform, prepare};
use crate::clock::{Clock, End};
use crate::engine::execution::Execution;

/// What is kept of the invocation for the answer's way out. A handler that runs then is dropped:
/// after the invocation's end Lambda takes no answer, and those of all the others would be lost with
/// it, whether it stops the process or lets it go on.
const ANSWER_MARGIN: Duration = Duration::from_millis(250);

/// When a batch has to be brought to its end.
struct Times {
    last_start: End,
    cut_off: End,
}

impl Times {
    fn new(clock: &Clock, deadline: End, margin: Duration) -> Self {
        // Or else a margin that is longer than the invocation would let nothing run at all.
        let margin = margin.min(clock.left(deadline) / 2);
        Self { last_start: deadline.minus(margin), cut_off: deadline.minus(ANSWER_MARGIN) }
    }
}

/// Runs each message by its turn; gives those that are not done, in order. `None` is one that has no
/// identifier.
pub(super) async fn run<R, F, Fut, E>(
    config: &Config<R>,
    handler: &F,
    messages: Vec<Incoming<R>>,
    deadline: Option<End>,
) -> Vec<Option<ItemIdentifier>>
where
    F: Fn(Message<R>, Execution) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: fmt::Display + 'static,
{
    let clock = &config.idempotency.core.table.clock;
    // Then twins know nothing of each other either.
    let is_disabled = config.idempotency.core.table.is_disabled;
    let times = deadline.map(|deadline| Times::new(clock, deadline, config.deadline_margin));
    let (mut items, mut works, mut slots) = (Vec::new(), Vec::new(), Vec::new());
    for Incoming { item, group, content } in messages {
        let work = prepare(config, content);
        let identity = work.identity().filter(|_| !is_disabled);
        slots.push(Slot { group, identity });
        works.push(Some(work));
        items.push(item);
    }
    let time = Time { deadline, last_start: times.as_ref().map(|times| times.last_start) };
    let mut schedule = Schedule::new(slots);
    let mut running = FuturesUnordered::new();
    loop {
        if times.as_ref().is_some_and(|times| clock.is_over(times.last_start)) {
            schedule.stop();
        }
        while running.len() < config.concurrency {
            let Some(index) = schedule.next() else { break };
            let (work, item) = (works[index].take(), items[index].as_ref());
            running.push(async move {
                let is_done = match work {
                    Some(work) => perform(config, handler, item, work, time).await,
                    // It has run: the schedule gives each message once.
                    None => false,
                };
                (index, is_done)
            });
        }
        let left = times.as_ref().map_or(Duration::MAX, |times| clock.left(times.cut_off));
        match clock.within(left, running.next()).await {
            Some(Some((index, is_done))) => schedule.ended(index, is_done),
            Some(None) => break,
            None => {
                schedule.cut_off();
                break;
            }
        }
    }
    drop(running);
    let verdicts: Vec<_> = schedule.verdicts().collect();
    log_unfinished(config, &verdicts);
    let failed = items.into_iter().zip(verdicts);
    failed.filter(|(_, verdict)| *verdict != Verdict::Done).map(|(item, _)| item).collect()
}

/// What did not run to its end has said nothing of itself.
fn log_unfinished<R>(config: &Config<R>, verdicts: &[Verdict]) {
    let count = |of: Verdict| verdicts.iter().filter(|verdict| **verdict == of).count();
    let (held, no_turn, cut_off) =
        (count(Verdict::Held), count(Verdict::NoTurn), count(Verdict::CutOff));
    if held + no_turn + cut_off > 0 {
        tracing::warn!(
            operation = config.scope.operation(),
            source = config.source.name,
            held,
            no_turn,
            cut_off,
            "messages of a batch did not run to their end: behind a failed one of their group, \
             without time for their turn, or cut off by the invocation's end; they will be \
             delivered again"
        );
    }
}

/// A message's place among the others.
impl<R> Work<R> {
    fn identity(&self) -> Option<(String, crate::fingerprint::Fingerprint)> {
        match self {
            Self::Run { message, fingerprint } => {
                message.key.clone().map(|key| (key, *fingerprint))
            }
            Self::RunUnprotected { .. } | Self::Refuse { .. } | Self::Panicked { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_async::time::SharedTimeSource;

    use super::*;
    use crate::fault_injection::ClockShift;

    #[test]
    fn a_margin_leaves_half_of_the_invocation_for_starting() {
        let seconds = Duration::from_secs;
        let clock = Clock::new(SharedTimeSource::default(), ClockShift::default());
        let deadline = clock.now().plus(seconds(600));
        let times = Times::new(&clock, deadline, seconds(10));
        assert_eq!(times.last_start, deadline.minus(seconds(10)));
        assert_eq!(times.cut_off, deadline.minus(Duration::from_millis(250)));
        let times = Times::new(&clock, deadline, seconds(3_600));
        let starting = clock.left(times.last_start);
        assert!(starting > seconds(200) && starting <= seconds(301), "{starting:?}");
    }
}
