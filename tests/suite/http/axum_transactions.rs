//! Transactions of axum's handlers: their own errors, their bodies, and routes without the layer.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use axum::{Json, Router};
use bytes::Bytes;
use dynamodb_idempotency::Transaction;
use futures::stream;
use serde::Deserialize;

use super::client;
use super::message::{is_replay, post, problem, to};
use super::site::listen;
use crate::support::effects::{count, debit};
use crate::support::{Link, Runs, Store};

#[derive(Deserialize)]
struct Order {
    act: String,
}

type Shared = (String, Runs);

/// Takes 5 of `alice`; or what the body says.
async fn transfer(
    State((table, runs)): State<Shared>,
    Json(order): Json<Order>,
) -> Result<Transaction<Response>, StatusCode> {
    let done = (StatusCode::CREATED, format!("run {}", runs.add())).into_response();
    let writes = [count(&table, "effect"), debit(&table, "alice", 5)];
    let transaction = Transaction::new(done).items(writes);
    Ok(match order.act.as_str() {
        "bare" => transaction,
        "slow" => transaction.on_condition_failed(move |_| {
            let never = stream::pending::<Result<Bytes, std::io::Error>>();
            Some(Body::from_stream(never).into_response())
        }),
        "broken" => {
            let pieces = stream::iter([Ok("half of "), Err(std::io::Error::other("gone"))]);
            Transaction::new(Body::from_stream(pieces).into_response())
                .items([count(&table, "effect")])
        }
        "plain" => return Err(StatusCode::OK),
        "fail" => return Err(StatusCode::SERVICE_UNAVAILABLE),
        "panic" => panic!("before anything happens"),
        other => panic!("{other} is no case"),
    })
}

struct Api {
    store: Store,
    link: Link,
    server: SocketAddr,
}

impl Api {
    /// `/transfers` under the transaction layer, `/plain` under the other one, `/bare` under none.
    async fn open() -> Self {
        let (store, link) = (Store::open_in_real_time().await, Link::default());
        let http = store.over(&link).http("transfers");
        let router = Router::new()
            .route(
                "/transfers",
                on_post(transfer)
                    .put(transfer)
                    .route_layer(http.clone().transaction_layer().unwrap()),
            )
            .route("/plain", on_post(transfer).put(transfer).route_layer(http.layer().unwrap()))
            .route("/bare", on_post(transfer).put(transfer))
            .with_state((store.table().to_owned(), Runs::default()));
        Self { server: listen(router).await, store, link }
    }

    async fn send(&self, request: http::Request<Bytes>) -> http::Response<Bytes> {
        self.link.wire.forget();
        client::send(self.server, &request).await
    }

    async fn effects(&self) -> (i64, i64) {
        (self.store.counted("effect").await, self.store.counted("alice").await)
    }
}

fn order(key: &str, act: &str) -> http::Request<Bytes> {
    to(post(key, format!(r#"{{"act":"{act}"}}"#)), "/transfers")
}

/// Its body is not there when it is needed.
#[tokio::test]
async fn an_answer_to_a_failed_condition_is_there_at_once_or_not_sent() {
    let api = Api::open().await;
    problem(&api.send(order("slow", "slow")).await, 409, "ConditionFailed");
    api.store.deposit("alice", 5).await;
    assert_eq!(api.send(order("slow", "slow")).await.status(), 201);
}

#[tokio::test]
async fn what_wants_nothing_written_leaves_nothing() {
    let api = Api::open().await;
    api.store.deposit("alice", 5).await;
    assert_eq!(api.send(order("k", "fail")).await.status(), 503);
    for _ in 0..2 {
        let plain = api.send(order("k", "plain")).await;
        assert_eq!((plain.status().as_u16(), is_replay(&plain)), (200, false));
    }
    let no_json = to(post("k", "{"), "/transfers");
    assert_eq!(api.send(no_json).await.status(), 400);
    // Whether there is an answer already.
    assert_eq!(api.link.wire.requests(), ["GetItem"]);
    problem(&api.send(order("k", "panic")).await, 500, "HandlerPanicked");
    problem(&api.send(order("k", "broken")).await, 500, "BodyBroken");
    assert_eq!(api.send(order("k", "bare")).await.status(), 201);
    assert!(is_replay(&api.send(order("k", "bare")).await));
    assert_eq!(api.effects().await, (1, 0));
}

#[tokio::test]
async fn a_transaction_that_no_layer_takes_is_no_success() {
    let api = Api::open().await;
    api.store.deposit("alice", 5).await;
    for path in ["/plain", "/bare"] {
        for _ in 0..2 {
            let body = problem(&api.send(to(order("k", "bare"), path)).await, 500, "Misconfigured");
            assert!(body["detail"].as_str().is_some_and(|detail| detail.contains("transaction")));
        }
    }
    assert_eq!(api.effects().await, (0, 5));
}
