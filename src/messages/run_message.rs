//! Decides whether one message runs, and runs it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::consumer::Consumer;
use super::error::Rejected;
use super::message::Message;
use super::response::ItemIdentifier;
use super::settings::{FailureAction, MissingKey};
use super::source::Parsed;
use crate::answer::AnswerRules;
use crate::call::context::CallContext;
use crate::call::execution::Execution;
use crate::call::user_code;
use crate::clock::{Clock, Deadline};
use crate::error::{Error, ErrorKind, RunError};
use crate::fingerprint::Fingerprint;
use crate::operation::CallNeedsPayload;

/// A message and its fingerprint, which is missing if the message runs without a record.
pub(super) type Prepared<R> = Result<(Message<R>, Option<Fingerprint>), Rejected>;

/// Finds the key of a message, and decides whether it runs.
pub(super) fn prepare<R>(consumer: &Consumer<R>, parsed: Parsed<R>) -> Prepared<R> {
    let (record, mut body) = parsed?;
    if let Some(envelope) = consumer.envelope {
        body = envelope.open(&body)?;
    }
    let payload = std::mem::take(&mut body.payload);
    let mut message = Message { record, payload, key: None };
    // The user's closures. A panic affects only this message.
    let identified = user_code::call(|| {
        let key = consumer.key.find(&message, &body)?;
        let fingerprint = consumer.fingerprint.as_ref();
        Ok((key, fingerprint.map_or(body.fingerprint, |of| of(&message))))
    });
    // The panic's message is on stderr. It is not logged, because it could quote the message.
    let panicked = Rejected::Panicked("looking for its key or fingerprint panicked");
    match identified.unwrap_or(Err(panicked)) {
        Ok((key, fingerprint)) => {
            message.key = Some(key);
            Ok((message, Some(fingerprint)))
        }
        // While idempotency is switched off, no message is rejected because of its key.
        Err(_) if consumer.calls.core().is_disabled => Ok((message, Some(body.fingerprint))),
        Err(Rejected::NoKey(_)) if consumer.missing_key == MissingKey::RunUnprotected => {
            Ok((message, None))
        }
        Err(rejected) => Err(rejected),
    }
}

/// The time that is reserved for sending the response. A handler that runs at that point is
/// dropped: after the end of the invocation Lambda accepts no response, and the results of all
/// other messages would be lost.
const RESPONSE_MARGIN: Duration = Duration::from_millis(250);

/// The times at which a batch must stop.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// The end of the invocation.
    deadline: Deadline,
    /// No handler starts after this time.
    pub(super) last_start: Deadline,
    /// Handlers that run at this time are dropped.
    pub(super) cut_off: Deadline,
}

impl Times {
    pub(super) fn new(clock: &Clock, deadline: Deadline, margin: Duration) -> Self {
        // With a margin longer than the invocation, no message would run.
        let margin = margin.min(clock.left(deadline) / 2);
        let (last_start, cut_off) = (deadline.minus(margin), deadline.minus(RESPONSE_MARGIN));
        Self { deadline, last_start, cut_off }
    }
}

/// Handles the message. Returns whether it is done and need not be delivered again.
pub(super) async fn perform<R, F, Fut, E>(
    consumer: &Consumer<R>,
    handler: &F,
    item: Option<&ItemIdentifier>,
    prepared: Prepared<R>,
    times: Option<Times>,
) -> bool
where
    F: Fn(Message<R>, Execution) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: fmt::Display + 'static,
{
    let deadline = times.map(|times| times.deadline);
    let log = Log { consumer, item };
    let running = async {
        match prepared {
            Err(rejected) => log.rejected(rejected),
            Ok((message, None)) => match without_record(consumer, deadline) {
                Ok(execution) => {
                    log.unprotected();
                    let done = handler(message, execution.clone()).await;
                    execution.succeeded();
                    execution.report();
                    log.ended(done.map_err(|error| RunError::Handler(user_code::text(error))))
                }
                Err(error) => log.ended(Err(error.into())),
            },
            Ok((message, Some(fingerprint))) => {
                let key = message.key.clone().unwrap_or_default();
                let call = CallNeedsPayload::new(consumer.calls.clone(), key);
                let call = call.fingerprint(fingerprint).ends(deadline);
                let clock = &consumer.calls.core().table.clock;
                let run = call.run(async |execution| {
                    // Another owner may have run until now, or DynamoDB may have been slow.
                    if times.is_some_and(|times| clock.is_over(times.last_start)) {
                        execution.discard();
                        return Err("its key became free too late: nothing ran".to_owned());
                    }
                    let done = handler(message, execution).await;
                    // A repeat accepts any JSON: whatever an earlier version stored, the message is done.
                    done.map(|()| Value::Null).map_err(user_code::text)
                });
                log.ended(run.await.map(drop))
            }
        }
    };
    match user_code::run(running).await {
        Ok(is_done) => is_done,
        Err(panic) => log.failed(&format!("the handler panicked: {}", panic.text())),
    }
}

/// Creates an execution without a record.
fn without_record<R>(
    consumer: &Consumer<R>,
    deadline: Option<Deadline>,
) -> Result<Execution, Error> {
    let core = consumer.calls.core();
    let key = core.random_key(&consumer.calls.scope)?;
    let (policy, answers) = (Arc::clone(&consumer.calls.policy), AnswerRules::FUNCTION);
    let call = CallContext::without_record(core, key, policy, deadline, answers);
    Execution::unprotected(core, Arc::new(call))
}

/// Logs the results of a message, without its key and payload.
struct Log<'a, R> {
    consumer: &'a Consumer<R>,
    item: Option<&'a ItemIdentifier>,
}

impl<R> Log<'_, R> {
    /// Logs how a run ended. Returns whether the message is done.
    fn ended(&self, result: Result<(), RunError<String>>) -> bool {
        let error = match result {
            Ok(()) => return true,
            Err(RunError::Handler(error)) => return self.failed(&error),
            Err(RunError::Idempotency(error)) => error,
        };
        match error.kind() {
            // The operation completed; only its answer is not available.
            ErrorKind::AnswerUnavailable | ErrorKind::AnswerUnreadable => true,
            ErrorKind::Mismatch => self.disposed(self.consumer.mismatched, &error),
            ErrorKind::Failed | ErrorKind::Abandoned => {
                self.disposed(self.consumer.exhausted, &error)
            }
            ErrorKind::InvalidInput => self.disposed(self.consumer.malformed, &error),
            ErrorKind::InProgress { .. } => self.in_progress(),
            // Another delivery may succeed, and it is safe whatever happened.
            _ => self.failed(&format!("{error:?}")),
        }
    }

    /// Logs why a message did not run.
    fn rejected(&self, rejected: Rejected) -> bool {
        match rejected {
            Rejected::Malformed(reason) => self.disposed(self.consumer.malformed, &reason),
            Rejected::NoKey(reason) if self.consumer.missing_key == MissingKey::Acknowledge => {
                self.disposed(FailureAction::Acknowledge, &reason)
            }
            Rejected::NoKey(reason) => self.disposed(FailureAction::Report, &reason),
            Rejected::Panicked(reason) => self.failed(reason),
        }
    }

    fn failed(&self, error: &str) -> bool {
        tracing::error!(
            operation = self.consumer.calls.scope.operation(),
            source = self.consumer.source.name,
            message_id = self.id(),
            error,
            "a message failed"
        );
        false
    }

    fn in_progress(&self) -> bool {
        tracing::warn!(
            operation = self.consumer.calls.scope.operation(),
            source = self.consumer.source.name,
            message_id = self.id(),
            "a message is being handled elsewhere: it will be delivered again"
        );
        false
    }

    /// Logs a message that no further delivery can fix.
    fn disposed(&self, action: FailureAction, reason: &(dyn fmt::Display + Sync)) -> bool {
        let (message_id, is_done) = (self.id(), action == FailureAction::Acknowledge);
        tracing::error!(
            operation = self.consumer.calls.scope.operation(),
            source = self.consumer.source.name,
            message_id,
            reason = reason.to_string(),
            acknowledged = is_done,
            "a message is refused, and no further delivery would fix it"
        );
        is_done
    }

    fn unprotected(&self) {
        tracing::warn!(
            operation = self.consumer.calls.scope.operation(),
            source = self.consumer.source.name,
            message_id = self.id(),
            "a message without a key runs WITHOUT idempotency (MissingKey::RunUnprotected)"
        );
    }

    fn id(&self) -> String {
        self.item.map_or_else(|| "none".to_owned(), ToString::to_string)
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
