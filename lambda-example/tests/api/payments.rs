//! What `POST /payments` promises, over a local port.

use std::time::Duration;

use serde_json::{Value, json};

use crate::dynamodb::unique;
use crate::http::{self, Reply};
use crate::server::Server;

const JSON: (&str, &str) = ("content-type", "application/json");

struct Client {
    server: Server,
    /// A tenant of the test's own.
    api_key: String,
}

impl Client {
    async fn start() -> Self {
        Self { server: Server::start().await, api_key: unique("tenant") }
    }

    async fn post(&self, path: &str, key: &str, body: &str) -> Reply {
        let headers = [JSON, ("idempotency-key", key), ("x-api-key", &self.api_key)];
        http::send(&self.server.address, "POST", path, &headers, body).await
    }

    async fn pay(&self, key: &str, source: &str) -> Reply {
        self.post("/payments", key, &order(1200, source)).await
    }

    async fn payments(&self) -> Vec<Value> {
        let headers = [("x-api-key", self.api_key.as_str())];
        let reply = http::send(&self.server.address, "GET", "/payments", &headers, "").await;
        assert_eq!(reply.status, 200);
        reply.json()["data"].as_array().expect("a list").clone()
    }
}

fn order(amount: u64, source: &str) -> String {
    json!({"amount": amount, "currency": "eur", "source": source, "note": "☕"}).to_string()
}

#[tokio::test]
async fn a_payment_happens_once_and_its_replay_is_the_same_answer_without_the_cookie() {
    let client = Client::start().await;
    let first = client.pay("k", "tok_visa").await;
    assert_eq!(first.status, 201);
    assert!(!first.is_replayed());
    assert!(first.header("set-cookie").is_some_and(|cookie| cookie.starts_with("visits=1")));
    let payment = first.json();
    let id = payment["id"].as_str().expect("an id");
    assert!(id.starts_with("pay_"));
    assert_eq!(first.header("location"), Some(format!("/payments/{id}").as_str()));
    assert_eq!(payment["amount"], 1200);
    assert_eq!(payment["currency"], "eur");
    assert_eq!(payment["status"], "succeeded");
    assert_eq!(payment["note"], "☕");
    assert!(payment["created"].is_u64());

    let again = client.pay("\"k\"", "tok_visa").await;
    assert!(again.is_replayed());
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(again.header("set-cookie"), None);
    assert_eq!(client.payments().await, [payment]);
}

#[tokio::test]
async fn another_amount_under_the_same_key_is_refused() {
    let client = Client::start().await;
    client.pay("k", "tok_visa").await;
    let other = client.post("/payments", "k", &order(1300, "tok_visa")).await;
    assert_eq!(other.status, 422);
    assert_eq!(other.header("content-type"), Some("application/problem+json"));
    assert_eq!(client.payments().await.len(), 1);
}

#[tokio::test]
async fn a_declined_card_is_stored_and_a_processing_error_is_not() {
    let client = Client::start().await;
    let attempt = |reply: &Reply| reply.json()["error"]["attempt_id"].clone();

    let declined = client.pay("declined", "tok_declined").await;
    let again = client.pay("declined", "tok_declined").await;
    assert_eq!((declined.status, again.status), (402, 402));
    assert_eq!(declined.json()["error"]["code"], "card_declined");
    assert_eq!(attempt(&declined), attempt(&again));
    assert!(again.is_replayed());

    let failed = client.pay("failed", "tok_processing_error").await;
    let again = client.pay("failed", "tok_processing_error").await;
    assert_eq!((failed.status, again.status), (503, 503));
    assert_ne!(attempt(&failed), attempt(&again));
    assert!(!again.is_replayed());
    assert!(client.payments().await.is_empty());
}

#[tokio::test]
async fn a_crash_frees_the_key_and_the_server_stays_up() {
    let client = Client::start().await;
    for _ in 0..2 {
        let crashed = client.pay("k", "tok_crash").await;
        assert_eq!(crashed.status, 500);
        assert!(!crashed.is_replayed());
    }
    // Free for the next request, whatever it asks for.
    assert_eq!(client.pay("k", "tok_visa").await.status, 201);
}

#[tokio::test]
async fn bad_input_stores_nothing_and_a_corrected_body_may_use_the_key_again() {
    let client = Client::start().await;
    let bad = [
        ("{", 400),
        ("[]", 400),
        (r#"{"currency":"eur","source":"tok_visa"}"#, 422),
        (r#"{"amount":-1,"currency":"eur","source":"tok_visa"}"#, 422),
        (r#"{"amount":12.5,"currency":"eur","source":"tok_visa"}"#, 422),
        (r#"{"amount":12,"currency":"eur","source":"tok_unknown"}"#, 422),
    ];
    for (body, status) in bad {
        let refused = client.post("/payments", "k", body).await;
        assert_eq!(refused.status, status, "{body}");
        assert!(refused.json()["error"]["code"].is_string());
    }
    assert_eq!(client.pay("k", "tok_visa").await.status, 201);
    assert_eq!(client.payments().await.len(), 1);
}

#[tokio::test]
async fn forty_clicks_at_once_make_one_payment() {
    let client = std::sync::Arc::new(Client::start().await);
    let clicks: Vec<_> = (0..40)
        .map(|_| {
            let client = std::sync::Arc::clone(&client);
            tokio::spawn(async move { client.pay("k", "tok_slow").await })
        })
        .collect();
    let mut created = 0;
    for click in clicks {
        let reply = click.await.expect("a reply");
        match reply.status {
            201 => created += usize::from(!reply.is_replayed()),
            409 => assert!(reply.header("retry-after").is_some()),
            other => panic!("{other}: {}", reply.body),
        }
    }
    assert_eq!(created, 1);
    assert_eq!(client.payments().await.len(), 1);
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_cancel_the_owner() {
    let client = Client::start().await;
    let body = order(1200, "tok_slow");
    // Until the request that will be hung up on is seen to own its key.
    let mut tries = 0;
    let key = loop {
        tries += 1;
        assert!(tries < 20, "the second request always came first");
        let key = format!("k{tries}");
        let headers = [JSON, ("idempotency-key", &key), ("x-api-key", &client.api_key)];
        let stream =
            http::begin(&client.server.address, "POST", "/payments", &headers, &body).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        if client.pay(&key, "tok_slow").await.status == 409 {
            drop(stream);
            break key;
        }
    };
    let mut reply = client.pay(&key, "tok_slow").await;
    while reply.status == 409 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        reply = client.pay(&key, "tok_slow").await;
    }
    assert_eq!(reply.status, 201);
    assert!(reply.is_replayed());
    assert_eq!(client.payments().await.len(), tries);
}

#[tokio::test]
async fn tenants_do_not_share_keys() {
    let mut client = Client::start().await;
    let first = client.pay("k", "tok_visa").await.json();
    let mine = std::mem::replace(&mut client.api_key, unique("tenant"));
    let second = client.pay("k", "tok_visa").await;
    assert!(!second.is_replayed());
    assert_eq!(client.payments().await, [second.json()]);
    client.api_key = mine;
    assert_eq!(client.payments().await, [first]);
}

#[tokio::test]
async fn routes_work_with_and_without_a_stage() {
    let client = Client::start().await;
    let address = &client.server.address;
    for path in ["/healthz", "/prod/healthz"] {
        assert_eq!(http::send(address, "GET", path, &[], "").await.status, 200);
    }
    let body = order(5, "tok_visa");
    assert_eq!(client.post("/prod/payments", "staged", &body).await.status, 201);
    assert_eq!(client.post("/nowhere", "lost", &body).await.status, 404);
    assert_eq!(http::send(address, "DELETE", "/payments", &[], "").await.status, 405);
}

#[tokio::test]
async fn a_payment_needs_a_key() {
    let client = Client::start().await;
    let address = &client.server.address;
    let reply = http::send(address, "POST", "/payments", &[JSON], &order(5, "tok_visa")).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
}
