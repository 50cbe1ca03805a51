//! What the test targets share: a client of an emulator, and texts that do not meet.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};

pub fn client(endpoint: &str) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    Client::from_conf(config)
}

/// A text that no other test has: engines are shared between tests, and between runs.
pub fn unique(prefix: &str) -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("entropy");
    format!("{prefix}-{:016x}", u64::from_be_bytes(bytes))
}
