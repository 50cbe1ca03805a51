//! What `POST /transfers` promises, over a local port.

use serde_json::json;

use crate::dynamodb::unique;
use crate::http::{self, Reply};
use crate::server::Server;

struct Client {
    server: Server,
    api_key: String,
}

impl Client {
    async fn start() -> Self {
        Self { server: Server::start().await, api_key: unique("tenant") }
    }

    async fn transfer(&self, key: &str, amount: u64) -> Reply {
        let body = json!({"from": "alice", "to": "bob", "amount": amount}).to_string();
        self.post(key, &body).await
    }

    async fn post(&self, key: &str, body: &str) -> Reply {
        let json = ("content-type", "application/json");
        let headers = [json, ("idempotency-key", key), ("x-api-key", self.api_key.as_str())];
        http::send(&self.server.address, "POST", "/prod/transfers", &headers, body).await
    }

    /// Of alice and of bob.
    async fn balances(&self) -> [u64; 2] {
        let mut balances = [0; 2];
        for (account, balance) in ["alice", "bob"].into_iter().zip(&mut balances) {
            let path = format!("/accounts/{account}");
            let headers = [("x-api-key", self.api_key.as_str())];
            let reply = http::send(&self.server.address, "GET", &path, &headers, "").await;
            *balance = reply.json()["balance"].as_u64().expect("a balance");
        }
        balances
    }
}

#[tokio::test]
async fn a_transfer_happens_once() {
    let client = Client::start().await;
    let first = client.transfer("k", 400).await;
    assert_eq!((first.status, first.is_replayed()), (201, false));
    let again = client.transfer("k", 400).await;
    assert!(again.is_replayed());
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(client.transfer("k", 500).await.status, 422);
    assert_eq!(client.balances().await, [9_600, 10_400]);
}

#[tokio::test]
async fn a_transfer_without_funds_is_a_402_that_stays_one() {
    let client = Client::start().await;
    let poor = client.transfer("poor", 10_001).await;
    assert_eq!((poor.status, poor.is_replayed()), (402, false));
    assert_eq!(poor.json()["error"]["code"], "insufficient_funds");
    assert_eq!(client.transfer("all", 10_000).await.status, 201);
    assert_eq!(client.transfer("one", 1).await.status, 402);
    let back = json!({"from": "bob", "to": "alice", "amount": 20_000}).to_string();
    assert_eq!(client.post("back", &back).await.status, 201);
    let poor = client.transfer("poor", 10_001).await;
    assert_eq!((poor.status, poor.is_replayed()), (402, true));
    assert_eq!(client.balances().await, [20_000, 0]);
}

#[tokio::test]
async fn forty_transfers_at_once_under_one_key_are_one() {
    let client = std::sync::Arc::new(Client::start().await);
    let clicks: Vec<_> = (0..40)
        .map(|_| {
            let client = std::sync::Arc::clone(&client);
            tokio::spawn(async move { client.transfer("k", 1).await })
        })
        .collect();
    let mut first = 0;
    for click in clicks {
        let reply = click.await.expect("a reply");
        assert_eq!(reply.status, 201, "{}", reply.body);
        first += usize::from(!reply.is_replayed());
    }
    assert_eq!(first, 1);
    assert_eq!(client.balances().await, [9_999, 10_001]);
}

#[tokio::test]
async fn bad_input_stores_nothing() {
    let client = Client::start().await;
    for body in ["{", "{}", r#"{"from":"alice","to":"alice","amount":1}"#] {
        let refused = client.post("k", body).await;
        assert_eq!((refused.status, refused.is_replayed()), (422, false), "{body}");
    }
    assert_eq!(client.transfer("k", 1).await.status, 201);
}
