//! Observes what the SDK's result does not contain: DynamoDB's clock, and whether an earlier try of
//! the same call may have been executed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextMut,
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents, SharedInterceptor};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};

use super::components;
use crate::clock::{Local, LocalClocks, StoreTime, Timestamp};

tokio::task_local! {
    /// The observer of the request that is being sent.
    static OBSERVER: Observer;
}

/// What the interceptor has observed of one request.
#[derive(Clone)]
pub(super) struct Observer {
    local: LocalClocks,
    seen: Arc<Mutex<Observed>>,
}

/// The interceptor. It belongs to the client: for an interceptor of a single request the SDK would
/// build its configuration again.
#[derive(Debug)]
struct ObserverInterceptor(Arc<Snapshot>);

/// Whether a snapshot of the machine is about to be taken. Connections that are open then do not survive
/// it.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// Requests carry `connection: close`, so that the pool keeps no connection.
    pub(crate) is_ahead: AtomicBool,
    /// The hook before the snapshot has run.
    pub(crate) is_prepared: AtomicBool,
}

/// Returns the same client, with its connections and credentials, whose requests an [`Observer`] can
/// observe.
///
/// Between two tries it waits at most an eighth of `request_timeout`. The first request of a call
/// may take half of that timeout, so the SDK's four tries fit even if each of them is throttled.
pub(crate) fn observable(
    client: &Client,
    snapshot: Arc<Snapshot>,
    request_timeout: Duration,
) -> Client {
    let mut config = components::named(client);
    let retries = client.config().retry_config().cloned().unwrap_or_else(RetryConfig::standard);
    let longest = retries.max_backoff().min(request_timeout / 8);
    config.set_retry_config(Some(retries.with_max_backoff(longest)));
    // A permanent interceptor cannot be disabled, so the SDK does not check that before each of its
    // twenty hooks.
    config.push_interceptor(SharedInterceptor::permanent(ObserverInterceptor(snapshot)));
    Client::from_conf(config.build())
}

#[derive(Debug, Default)]
pub(super) struct Observed {
    /// DynamoDB's time in the last response.
    pub(super) time: Option<StoreTime>,
    /// A try was sent, and its outcome is unknown.
    pub(super) in_doubt: bool,
    /// DynamoDB executed the request.
    pub(super) was_answered: bool,
    /// At least one try was sent to the network.
    pub(super) was_sent: bool,
    sent: Option<Local>,
}

impl Observer {
    pub(super) fn new(local: &LocalClocks) -> Self {
        Self { local: local.clone(), seen: Arc::default() }
    }

    /// Sends a request of an [`observable`] client. The SDK runs its interceptors within this future.
    pub(super) fn observe<F: Future>(&self, request: F) -> impl Future<Output = F::Output> {
        OBSERVER.scope(self.clone(), request)
    }

    pub(super) fn seen(&self) -> Observed {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Updates the observer of the request that is being sent.
fn with_observer(f: impl FnOnce(&mut Observed, Local)) {
    // Requests without an observer are not observed, for example those that create the table.
    let _ = OBSERVER.try_with(|Observer { local, seen }| {
        let now = local.now();
        f(&mut seen.lock().unwrap_or_else(PoisonError::into_inner), now);
    });
}

impl Intercept for ObserverInterceptor {
    fn name(&self) -> &'static str {
        "IdempotencyObserver"
    }

    /// Runs after the request is signed, because the signature must not cover this header.
    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if self.0.is_ahead.load(Ordering::Relaxed) {
            context.request_mut().headers_mut().insert("connection", "close");
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        with_observer(|seen, now| {
            seen.sent = Some(now);
            seen.was_sent = true;
        });
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date").and_then(parse_date);
        let is_success = context.response().status().is_success();
        with_observer(|seen, received| {
            seen.was_answered = is_success;
            seen.time = match (date, seen.sent) {
                (Some(date), Some(sent)) => Some(StoreTime { date, sent, received }),
                _ => None,
            };
        });
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // A 4xx response proves that the request was rejected. Other errors prove nothing.
        let rejected =
            context.response().is_some_and(|response| response.status().is_client_error());
        with_observer(|seen, _| {
            let was_sent = seen.sent.take().is_some();
            seen.in_doubt |= was_sent && !rejected;
        });
        Ok(())
    }
}

fn parse_date(date: &str) -> Option<Timestamp> {
    let date = DateTime::from_str(date, DateTimeFormat::HttpDate).ok()?;
    date.to_millis().ok().map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_dates_are_parsed() {
        let read = parse_date("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(read, Some(Timestamp::from_millis(784_111_777_000)));
        assert_eq!(parse_date("yesterday"), None);
    }
}
