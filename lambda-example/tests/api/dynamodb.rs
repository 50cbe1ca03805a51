//! The engine under test.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use tokio::net::TcpListener;

/// `DYNAMODB_ENDPOINT`, or an embedded engine that lives as long as the test.
pub async fn endpoint() -> String {
    if let Ok(endpoint) = std::env::var("DYNAMODB_ENDPOINT") {
        return endpoint;
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("its address"));
    let database = dynoxide::Database::memory().expect("an embedded engine");
    tokio::spawn(dynoxide::server::serve_on(listener, database));
    endpoint
}

pub fn client(endpoint: &str) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .endpoint_url(endpoint)
        .build();
    Client::from_conf(config)
}

/// A text that no other test has: engines are shared between tests, and between runs.
pub fn unique(prefix: &str) -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("entropy");
    format!("{prefix}-{:016x}", u64::from_be_bytes(bytes))
}
