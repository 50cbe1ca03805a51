//! The engine under test.

#[path = "../support/dynamodb.rs"]
mod support;

use tokio::net::TcpListener;

pub use support::{client, unique};

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
