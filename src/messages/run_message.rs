//! One message: whether it runs, and running it.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::consumer::Config;
use super::key::NoKey;
use super::message::Message;
use super::response::ItemIdentifier;
use super::settings::{FailureAction, MissingKey};
use super::source::{Body, Parsed, Unreadable};
use crate::answer::AnswerRules;
use crate::clock::{Clock, Deadline};
use crate::error::{Error, ErrorKind, RunError};
use crate::fingerprint::Fingerprint;
use crate::operation::Call;
use crate::run::call::CallContext;
use crate::run::execution::Execution;
use crate::run::user_code::{self, Panic};

/// A message that was read, by how it is handled.
pub(super) enum Prepared<R> {
    /// Run it once; the message contains its key.
    Run { message: Message<R>, fingerprint: Fingerprint },
    /// Run it without a record, because it has no key and [`MissingKey::RunUnprotected`] is set.
    RunUnprotected { message: Message<R> },
    /// Do not run it: no further delivery can fix it.
    Reject { reason: String, action: FailureAction },
    /// Do not run it: code that read it panicked, so nothing is known about the message.
    Panicked { reason: &'static str },
}

/// Finds the key of a message, or the reason why it must not run.
pub(super) fn prepare<R>(config: &Config<R>, parsed: Parsed<R>) -> Prepared<R> {
    let reject = |reason| Prepared::Reject { reason, action: config.malformed };
    let (mut message, body) = match parsed.and_then(|parsed| open(config, parsed)) {
        Ok(opened) => opened,
        Err(Unreadable::Malformed(reason)) => return reject(reason),
        Err(Unreadable::Panicked) => {
            return Prepared::Panicked { reason: "reading the record panicked" };
        }
    };
    // The user's closures. A panic affects only this message.
    let identified = user_code::call(|| identify(config, &message, &body));
    match identified {
        Ok(Ok((key, fingerprint))) => {
            message.key = Some(key);
            Prepared::Run { message, fingerprint }
        }
        Ok(Err(_)) | Err(_) if config.calls.core().is_disabled => {
            // While idempotency is switched off, no message is rejected because of its key.
            Prepared::Run { message, fingerprint: body.fingerprint }
        }
        Ok(Err(NoKey::Invalid(reason))) => reject(reason),
        Ok(Err(NoKey::Missing(reason))) => match config.missing_key {
            MissingKey::Fail => Prepared::Reject { reason, action: FailureAction::Report },
            MissingKey::Acknowledge => {
                Prepared::Reject { reason, action: FailureAction::Acknowledge }
            }
            MissingKey::RunUnprotected => Prepared::RunUnprotected { message },
        },
        // The panic's message is on stderr. It is not logged, because it could quote the message.
        Err(_) => Prepared::Panicked { reason: "looking for its key or fingerprint panicked" },
    }
}

fn open<R>(
    config: &Config<R>,
    (record, mut body): (R, Body),
) -> Result<(Message<R>, Body), Unreadable> {
    if let Some(envelope) = config.envelope {
        body = envelope.open(&body)?;
    }
    let payload = std::mem::take(&mut body.payload);
    Ok((Message { record, payload, key: None }, body))
}

fn identify<R>(
    config: &Config<R>,
    message: &Message<R>,
    body: &Body,
) -> Result<(String, Fingerprint), NoKey> {
    let key = config.key.find(message, body)?;
    let fingerprint = match &config.fingerprint {
        Some(fingerprint) => fingerprint(message),
        None => body.fingerprint,
    };
    Ok((key, fingerprint))
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

/// Why a handler did not complete its message.
enum NotDone<E> {
    /// The key was acquired too late.
    NoTurn,
    Failed(E),
}

impl<E: fmt::Display> fmt::Display for NotDone<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTurn => f.write_str("its key became free too late: nothing ran"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// Handles the message. Returns whether it is done and need not be delivered again.
pub(super) async fn perform<R, F, Fut, E>(
    config: &Config<R>,
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
    let log = Log { operation: config.calls.scope.operation(), service: config.source.name, item };
    let running = async {
        match prepared {
            Prepared::Reject { reason, action } => log.disposed(action, &reason),
            Prepared::Panicked { reason } => log.failed(reason),
            Prepared::RunUnprotected { message } => match without_record(config, deadline) {
                Ok(execution) => {
                    log.unprotected();
                    let done = handler(message, execution.clone()).await;
                    execution.succeeded();
                    execution.report();
                    log.ended(config, done.map_err(RunError::Handler))
                }
                Err(error) => log.ended::<R, E>(config, Err(error.into())),
            },
            Prepared::Run { message, fingerprint } => {
                let key = message.key.clone().unwrap_or_default();
                let call =
                    Call::new(config.calls.clone(), key).fingerprint(fingerprint).ends(deadline);
                let clock = &config.calls.core().table.clock;
                let run = call.run(async |execution| {
                    // Another owner may have run until now, or DynamoDB may have been slow.
                    if times.is_some_and(|times| clock.is_over(times.last_start)) {
                        execution.discard();
                        return Err(NotDone::NoTurn);
                    }
                    handler(message, execution).await.map(|()| Done).map_err(NotDone::Failed)
                });
                log.ended(config, run.await.map(|Done| ()))
            }
        }
    };
    match user_code::run(running).await {
        Ok(is_done) => is_done,
        Err(panic) => log.panicked(&panic),
    }
}

/// The answer to a message: it is done. Deserialized from any stored JSON, because the answers of
/// earlier versions mean the same.
struct Done;

impl Serialize for Done {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Done {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// Creates an execution without a record.
fn without_record<R>(config: &Config<R>, deadline: Option<Deadline>) -> Result<Execution, Error> {
    let core = config.calls.core();
    let key = core.random_key(&config.calls.scope)?;
    let (policy, answers) = (config.calls.policy.clone(), AnswerRules::FUNCTION);
    Execution::unprotected(core, CallContext::without_record(core, key, policy, deadline, answers))
}

/// Logs the results of a message, without its key and payload.
struct Log<'a> {
    operation: &'a str,
    service: &'static str,
    item: Option<&'a ItemIdentifier>,
}

impl Log<'_> {
    /// Logs how a run ended. Returns whether the message is done.
    fn ended<R, E: fmt::Display>(
        &self,
        config: &Config<R>,
        result: Result<(), RunError<E>>,
    ) -> bool {
        let error = match result {
            Ok(()) => return true,
            Err(RunError::Handler(error)) => return self.failed(&format!("{error:#}")),
            Err(RunError::Idempotency(error)) => error,
        };
        match error.kind() {
            // The operation completed; only its answer is not available.
            ErrorKind::AnswerUnavailable | ErrorKind::AnswerUnreadable => true,
            ErrorKind::Mismatch => self.disposed(config.mismatched, &error),
            ErrorKind::Failed | ErrorKind::Abandoned => self.disposed(config.exhausted, &error),
            ErrorKind::InvalidInput => self.disposed(config.malformed, &error),
            ErrorKind::InProgress { .. } => self.in_progress(),
            ErrorKind::LeaseLost
            | ErrorKind::LeaseExpired
            | ErrorKind::DeadlineExceeded
            | ErrorKind::Configuration
            | ErrorKind::Unavailable
            | ErrorKind::InvalidUse
            | ErrorKind::ConditionFailed
            | ErrorKind::InvalidTransaction
            | ErrorKind::AlreadyCommitted
            | ErrorKind::NothingCommitted
            | ErrorKind::OutcomeUnknown
            | ErrorKind::StepsUnreadable
            | ErrorKind::NewerRecord
            | ErrorKind::UnknownRecord => self.failed(&format!("{error:?}")),
        }
    }

    fn failed(&self, error: &str) -> bool {
        tracing::error!(
            operation = self.operation,
            source = self.service,
            message_id = self.id(),
            error,
            "a message failed"
        );
        false
    }

    fn panicked(&self, panic: &Panic) -> bool {
        self.failed(&format!("the handler panicked: {}", panic.text()))
    }

    fn in_progress(&self) -> bool {
        tracing::warn!(
            operation = self.operation,
            source = self.service,
            message_id = self.id(),
            "a message is being handled elsewhere: it will be delivered again"
        );
        false
    }

    /// Logs a message that no further delivery can fix.
    fn disposed(&self, action: FailureAction, reason: &(dyn fmt::Display + Sync)) -> bool {
        let (message_id, is_done) = (self.id(), action == FailureAction::Acknowledge);
        tracing::error!(
            operation = self.operation, source = self.service, message_id, %reason, acknowledged = is_done,
            "a message is refused, and no further delivery would fix it"
        );
        is_done
    }

    fn unprotected(&self) {
        tracing::warn!(
            operation = self.operation,
            source = self.service,
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
