//! An HTTP client for the SDK whose requests wait for the schedule.

use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::retry::{RetryConfig, RetryPartition, TokenBucket};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Region, RuntimeComponents, SharedHttpClient, StalledStreamProtectionConfig,
};
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use serde_json::{Value, json};
use std::time::Duration;

use crate::store::Operation;
use crate::world::{self, LocalClock};

/// The DynamoDB client of one caller, or of a process that all callers share (`None`). Without credentials
/// the SDK does not sign: signing would take half of the SDK's time, and is not tested here.
pub(crate) fn client(caller: Option<usize>, tries: u32) -> Client {
    // No jitter, and no retry budget shared across the process.
    let bucket = RetryPartition::custom("faults").token_bucket(TokenBucket::unlimited()).build();
    let retries = RetryConfig::standard()
        .with_max_attempts(tries)
        .with_initial_backoff(Duration::ZERO)
        .with_max_backoff(Duration::ZERO);
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .endpoint_url("http://store")
        .allow_no_auth()
        .retry_config(if tries == 1 { RetryConfig::disabled() } else { retries })
        .retry_partition(bucket)
        .timeout_config(TimeoutConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .time_source(LocalClock(caller.unwrap_or(0)))
        .http_client(SharedHttpClient::new(SimulatedClient { caller }))
        .build();
    Client::from_conf(config)
}

#[derive(Clone, Copy, Debug)]
struct SimulatedClient {
    /// `None` in a shared process: the caller that is being polled sends the request.
    caller: Option<usize>,
}

impl HttpClient for SimulatedClient {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(*self)
    }
}

impl HttpConnector for SimulatedClient {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let operation = Operation::of(request.headers().get("x-amz-target").unwrap_or_default());
        let body = request.body().bytes().expect("the SDK sends a body in memory");
        let body = serde_json::from_slice(body).expect("the SDK sends JSON");
        let delivery = world::with(|world| {
            let caller = self.caller.unwrap_or(world.current);
            world.send(caller, operation, body)
        });
        HttpConnectorFuture::new(async { delivery.await.unwrap_or_else(|_| Err(broken())) })
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

/// A response of the store, with a `Date` by its clock.
pub(crate) fn response(status: u16, body: &Value, now: i64) -> HttpResponse {
    let mut response =
        HttpResponse::new(status.try_into().expect("the status is valid"), body.to_string().into());
    let date = DateTime::from_secs(now.div_euclid(1000)).fmt(DateTimeFormat::HttpDate);
    response.headers_mut().insert("date", date.expect("the date is valid"));
    response
}

/// The body of an error response that is not about a condition.
pub(crate) fn error(code: &str) -> Value {
    json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "simulated" })
}
