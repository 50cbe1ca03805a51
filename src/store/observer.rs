//! Observes what the SDK's result does not contain: DynamoDB's clock, and whether an earlier try of
//! the same call may have been executed.

use std::cell::RefCell;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
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
use crate::clock::{Clock, Local, LocalClocks, StoreTime, Timestamp};

tokio::task_local! {
    /// The observer of the request that is being sent.
    static OBSERVER: Observer;
}

/// What the interceptor has observed of one request.
struct Observer {
    local: LocalClocks,
    seen: RefCell<Observed>,
}

/// The interceptor. It belongs to the client: for an interceptor of a single request the SDK would
/// build its configuration again.
#[derive(Debug)]
struct ObserverInterceptor {
    snapshot: Arc<Snapshot>,
    endpoint: Arc<Endpoint>,
}

/// Whether a snapshot of the machine is about to be taken. Connections that are open at that time do not
/// survive.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// Requests carry `connection: close`, so that the pool keeps no connection.
    pub(crate) is_ahead: AtomicBool,
    /// `before_snapshot` has run.
    pub(crate) is_prepared: AtomicBool,
}

/// Where the client sends its requests, such as `http://127.0.0.1:8000`. Only a request shows it: the SDK
/// resolves it from the region, the environment, the profile and the client's settings.
#[derive(Debug, Default)]
pub(crate) struct Endpoint(OnceLock<String>);

impl Endpoint {
    /// The endpoint of the first request; `None` if none was sent.
    pub(super) fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    fn note(&self, uri: &str) {
        self.0.get_or_init(|| origin(uri));
    }
}

/// The scheme and the host of a URI, without a user name and a password.
fn origin(uri: &str) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

/// Returns the same client, with its connections and credentials, whose requests [`observe`] can
/// send.
///
/// Between two tries this client waits at most an eighth of `request_timeout`. The first request of a call
/// may take half of that timeout, so four tries of the SDK fit even if DynamoDB throttles each of them.
pub(crate) fn observable(
    client: &Client,
    snapshot: Arc<Snapshot>,
    endpoint: Arc<Endpoint>,
    request_timeout: Duration,
) -> Client {
    let mut config = components::named(client);
    let retries = client.config().retry_config().cloned().unwrap_or_else(RetryConfig::standard);
    let longest = retries.max_backoff().min(request_timeout / 8);
    config.set_retry_config(Some(retries.with_max_backoff(longest)));
    // A permanent interceptor cannot be disabled, so the SDK does not check before each of its
    // twenty hooks whether it is disabled.
    let interceptor = ObserverInterceptor { snapshot, endpoint };
    config.push_interceptor(SharedInterceptor::permanent(interceptor));
    Client::from_conf(config.build())
}

#[derive(Debug, Default)]
pub(super) struct Observed {
    /// DynamoDB's time in the last response.
    pub(super) time: Option<StoreTime>,
    /// A try was sent, and did not end with a 4xx response.
    pub(super) in_doubt: bool,
    /// DynamoDB executed the request.
    pub(super) was_answered: bool,
    /// At least one try was sent to the network.
    pub(super) was_sent: bool,
    sent: Option<Local>,
}

/// Sends a request of an [`observable`] client, and stops waiting after `limit`. The SDK runs its
/// interceptors within this future.
pub(super) async fn observe<F: Future>(
    clock: &Clock,
    limit: Duration,
    request: F,
) -> (Option<F::Output>, Observed) {
    let observer = Observer { local: clock.local.clone(), seen: RefCell::default() };
    let mut sending = pin!(OBSERVER.scope(observer, request));
    let answer = clock.within(limit, sending.as_mut()).await;
    let observer = sending.take_value();
    (answer, observer.map(|observer| observer.seen.into_inner()).unwrap_or_default())
}

/// Updates the observer of the request that is being sent.
fn with_observer(f: impl FnOnce(&mut Observed, Local)) {
    // Requests without an observer are not observed, for example those that create the table.
    let _ = OBSERVER.try_with(|Observer { local, seen }| {
        let now = local.now();
        f(&mut seen.borrow_mut(), now);
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
        if self.snapshot.is_ahead.load(Ordering::Relaxed) {
            context.request_mut().headers_mut().insert("connection", "close");
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.endpoint.note(context.request().uri());
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
        // A 4xx response proves that the request was not executed. Other errors prove nothing.
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

    #[test]
    fn an_endpoint_is_kept_without_its_path_and_its_password() {
        for (uri, expected) in [
            ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
            (
                "https://dynamodb.eu-west-3.amazonaws.com",
                "https://dynamodb.eu-west-3.amazonaws.com",
            ),
            ("http://user:secret@db:8000/path?query", "http://db:8000"),
        ] {
            assert_eq!(origin(uri), expected);
        }
    }
}
