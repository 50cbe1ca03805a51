//! The local example's page at `/`, and its endpoints.

use serde_json::{Value, json};

use crate::dynamodb::unique;
use crate::http::{self, Reply};
use crate::server::Server;

const ORDER: &str = r#"{"amount":1200,"currency":"eur","source":"tok_slow"}"#;

async fn get(server: &Server, path: &str) -> Reply {
    http::send(&server.address, "GET", path, &[], "").await
}

async fn post(server: &Server, path: &str, key: &str, crash: bool) -> Reply {
    let mut headers = vec![("content-type", "application/json"), ("idempotency-key", key)];
    if crash {
        headers.push(("x-playground", "crash"));
    }
    http::send(&server.address, "POST", path, &headers, ORDER).await
}

/// The state, and in it the record of `key`.
async fn record(server: &Server, key: &str) -> (Value, Value) {
    let state = get(server, "/playground/state").await.json();
    let records = state["records"].as_array().expect("records");
    let record = records.iter().find(|record| record["key"] == key).cloned();
    (state, record.expect("the key's record"))
}

/// Retries while another owner runs the operation.
async fn retry(server: &Server, path: &str, key: &str) -> Reply {
    loop {
        let reply = post(server, path, key, false).await;
        if reply.status != 409 {
            return reply;
        }
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    }
}

#[tokio::test]
async fn the_page_is_served_with_a_policy_that_allows_nothing_from_elsewhere() {
    let server = Server::start().await;
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/playground/style.css", "text/css"),
        ("/playground/script.js", "text/javascript; charset=utf-8"),
        ("/playground/icon.svg", "image/svg+xml"),
    ] {
        let reply = get(&server, path).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, Some(content_type)));
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    }
}

#[tokio::test]
async fn the_page_names_no_other_host_and_writes_text_only() {
    let server = Server::start().await;
    for path in ["/", "/playground/style.css", "/playground/script.js"] {
        let file = get(&server, path).await.body;
        for forbidden in ["http://", "https://", "innerHTML", "insertAdjacent", "eval(", "style="] {
            assert!(!file.contains(forbidden), "{path} has {forbidden}");
        }
    }
}

#[tokio::test]
async fn the_state_tells_of_records_and_of_the_ledger() {
    let server = Server::start().await;
    let key = unique("order");
    let before = get(&server, "/playground/state").await;
    assert_eq!(before.header("cache-control"), Some("no-store"));
    let paid = post(&server, "/payments", &key, false).await;
    assert_eq!(paid.status, 201);

    let (state, record) = record(&server, &key).await;
    let now = state["now"].as_u64().expect("a time");
    assert_eq!(record["scope"], "payments");
    assert_eq!(record["status"], "COMPLETED");
    assert_eq!(record["attempt"], 1);
    assert_eq!(record["owner"].as_str().map(str::len), Some(8));
    assert_eq!(record["lease_expires_at"], Value::Null);
    assert_eq!(record["answer"], format!("201 {}", paid.body));
    assert!(record["expires_at"].as_u64().expect("seconds") * 1000 > now);
    let id = &paid.json()["id"];
    let ledger = state["ledger"].as_array().expect("a ledger");
    let booked: Vec<_> = ledger.iter().filter(|entry| entry["id"] == *id).collect();
    assert_eq!(booked, [&json!({"kind": "payment", "id": id, "amount": 1200, "currency": "eur"})]);
}

#[tokio::test]
async fn a_crash_leaves_a_lease_behind_and_its_retry_takes_over() {
    let server = Server::start().await;
    let key = unique("order");
    let crashed = post(&server, "/payments", &key, true).await;
    assert_eq!(crashed.status, 502);
    let (state, left) = record(&server, &key).await;
    assert_eq!(left["status"], "PENDING");
    assert!(left["lease_expires_at"].is_u64());
    assert!(state["lease_ms"].is_u64());

    let again = retry(&server, "/payments", &key).await;
    assert_eq!((again.status, again.is_replayed()), (201, false));
    let (_, taken_over) = record(&server, &key).await;
    assert_eq!((&taken_over["status"], &taken_over["attempt"]), (&json!("COMPLETED"), &json!(2)));
    assert_ne!(taken_over["owner"], left["owner"]);
}

#[tokio::test]
async fn a_crash_after_a_charge_does_not_charge_again() {
    let server = Server::start().await;
    let key = unique("order");
    assert_eq!(post(&server, "/charges", &key, true).await.status, 502);
    let charges = async || {
        let state = get(&server, "/playground/state").await.json();
        let ledger = state["ledger"].as_array().expect("a ledger").clone();
        ledger.into_iter().filter(|entry| entry["kind"] == "charge").collect::<Vec<_>>()
    };
    let made = charges().await;
    let found = retry(&server, "/charges", &key).await;
    assert_eq!(found.status, 201);
    let id = found.json()["id"].clone();
    assert!(made.iter().any(|charge| charge["id"] == id), "{id} was made by the retry");
}

#[tokio::test]
async fn what_is_done_already_cannot_crash() {
    let server = Server::start().await;
    let key = unique("order");
    assert_eq!(post(&server, "/payments", &key, false).await.status, 201);
    let again = post(&server, "/payments", &key, true).await;
    assert_eq!((again.status, again.is_replayed()), (201, true));
}
