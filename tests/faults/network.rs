//! A network for the SDK whose requests wait for the schedule.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::retry::{RetryConfig, RetryPartition, TokenBucket};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_smithy_runtime_api::client::result::ConnectorError;
use dynamodb_idempotency::testing::transport::{self, Network, Request};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::time::Duration;

use crate::store::Operation;
use crate::world::{self, LocalClock};

/// The DynamoDB client of one caller, or of a process that all callers share (`None`).
pub(crate) fn client(caller: Option<usize>, tries: u32) -> Client {
    // No jitter, and no retry budget shared across the process.
    let bucket = RetryPartition::custom("faults").token_bucket(TokenBucket::unlimited()).build();
    let retries = RetryConfig::standard()
        .with_max_attempts(tries)
        .with_initial_backoff(Duration::ZERO)
        .with_max_backoff(Duration::ZERO);
    let config = transport::config(Scheduled { caller }, LocalClock(caller.unwrap_or(0)))
        .retry_config(if tries == 1 { RetryConfig::disabled() } else { retries })
        .retry_partition(bucket)
        .timeout_config(TimeoutConfig::disabled());
    Client::from_conf(config.build())
}

#[derive(Clone, Copy, Debug)]
struct Scheduled {
    /// `None` in a shared process: the caller that is being polled sends the request.
    caller: Option<usize>,
}

impl Network for Scheduled {
    fn carry(&self, request: Request) -> BoxFuture<'static, Result<HttpResponse, ConnectorError>> {
        let operation = Operation::of(&request.operation);
        let delivery = world::with(|world| {
            let caller = self.caller.unwrap_or(world.current);
            world.send(caller, operation, request.body)
        });
        async { delivery.await.unwrap_or_else(|_| Err(broken())) }.boxed()
    }
}

/// The error of a broken connection.
pub(crate) fn broken() -> ConnectorError {
    ConnectorError::io("the connection broke".into())
}

/// The error of a request timeout.
pub(crate) fn timed_out() -> ConnectorError {
    ConnectorError::timeout("no response arrived".into())
}
