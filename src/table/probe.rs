//! Sees what the SDK's answer does not tell: the store's clock, and whether an earlier try of the
//! same call may have been executed.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents, SharedInterceptor};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};

use crate::clock::{StoreTime, Timestamp};

tokio::task_local! {
    /// Who looks on at the request that is being sent.
    static PROBE: Probe;
}

/// What one request's interceptor has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Probe(Arc<Mutex<Seen>>);

/// The interceptor. It belongs to the client: one of a single request would have the SDK put its
/// configuration together anew each time.
#[derive(Debug)]
struct Lookout;

/// The same client, whose requests a [`Probe`] can watch. It has connections of its own, unless the
/// configuration of the one that was given names an HTTP client.
pub(crate) fn watchable(client: &Client) -> Client {
    // Nobody can switch a permanent interceptor off, so the SDK does not look up before each of its
    // twenty hooks whether it is.
    let mut config = client.config().to_builder();
    config.push_interceptor(SharedInterceptor::permanent(Lookout));
    Client::from_conf(config.build())
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The last response's word on the store's clock.
    pub(super) time: Option<StoreTime>,
    /// A try was sent and nobody knows what became of it.
    pub(super) in_doubt: bool,
    /// At least one try got as far as the network.
    pub(super) was_sent: bool,
    sent: Option<Timestamp>,
}

impl Probe {
    /// Sends a request of a [watchable] client. The SDK runs its interceptors within that future.
    pub(super) fn watch<F: Future>(&self, request: F) -> impl Future<Output = F::Output> {
        PROBE.scope(self.clone(), request)
    }

    pub(super) fn seen(&self) -> Seen {
        self.with(std::mem::take)
    }

    fn with<R>(&self, f: impl FnOnce(&mut Seen) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Lets the probe of the request that is being sent see something.
fn with_probe(f: impl FnOnce(&mut Seen)) {
    // Without one it is a request that nobody watches: one that makes the table, say.
    let _ = PROBE.try_with(|probe| probe.with(f));
}

fn local_now(components: &RuntimeComponents) -> Result<Timestamp, BoxError> {
    let source = components.time_source().ok_or("the DynamoDB client has no time source")?;
    Ok(Timestamp::from_system(source.now()))
}

impl Intercept for Lookout {
    fn name(&self) -> &'static str {
        "IdempotencyProbe"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        components: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let now = local_now(components)?;
        with_probe(|seen| {
            seen.sent = Some(now);
            seen.was_sent = true;
        });
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        components: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let received = local_now(components)?;
        let date = context.response().headers().get("date").and_then(parse_date);
        with_probe(|seen| {
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
        // A 4xx says that the store refused; anything else but a success says nothing.
        let refused =
            context.response().is_some_and(|response| response.status().is_client_error());
        with_probe(|seen| {
            let was_sent = seen.sent.take().is_some();
            seen.in_doubt |= was_sent && !refused;
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
    fn dates_are_read_as_http_writes_them() {
        let read = parse_date("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(read, Some(Timestamp::from_millis(784_111_777_000)));
        assert_eq!(parse_date("yesterday"), None);
    }
}
