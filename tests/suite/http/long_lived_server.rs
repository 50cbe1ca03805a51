//! A layer on one route of a server with real connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::{get, post as on_post};
use bytes::Bytes;
use dynamodb_idempotency::http::IdempotencyLayer;
use dynamodb_idempotency::policy::Failure;
use futures::{StreamExt, stream};
use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client;
use super::message::{by, is_replay, keyless, post, to, with};
use super::site::listen;
use crate::support::gate::patiently;
use crate::support::{Gate, Link, Runs, Store};

/// `POST /payments` stops at the gate, and panics for the body `crash`; `GET /payments` counts.
async fn serve(layer: &IdempotencyLayer, gate: &Gate, runs: &Runs) -> SocketAddr {
    let (gate, counted) = (gate.clone(), runs.clone());
    let pay = on_post(move |body: Bytes| {
        let (gate, runs) = (gate.clone(), counted.clone());
        async move {
            let run = runs.add();
            gate.pass().await;
            assert_ne!(body, "crash");
            format!("run {run}")
        }
    });
    let runs = runs.clone();
    let count = get(move || std::future::ready(runs.count().to_string()));
    let pay = pay.route_layer(layer.clone());
    listen(Router::new().route("/payments", pay.merge(count))).await
}

/// Also one that panics: its key is released, or its failure kept.
#[tokio::test]
async fn a_client_that_hangs_up_does_not_stop_the_handler_and_who_drains_the_layer_waits_for_it() {
    for (body, failure, status) in [
        ("{}", Failure::Release, "COMPLETED"),
        ("crash", Failure::Release, "RELEASED"),
        ("crash", Failure::Replay, "FAILED"),
    ] {
        let (store, gate, runs) =
            (Store::open_in_real_time().await, Gate::default(), Runs::default());
        let http = store.idempotency().http("pay").policy(|policy| policy.failure(failure));
        let layer = http.layer().unwrap();
        let server = serve(&layer, &gate, &runs).await;
        let connection = client::begin(server, &post("k", body)).await;
        gate.reached().await;
        drop(connection);
        // Both directions are served by one task: an answered request shows that the server has had
        // the chance to see that the first client is gone.
        for _ in 0..20 {
            client::send(server, &by("GET", post("", ""))).await;
        }
        let mut draining = pin!(layer.drain());
        assert!(futures::poll!(draining.as_mut()).is_pending());
        gate.open();
        draining.await;
        assert_eq!(store.status("pay#k").await.as_deref(), Some(status), "{body}");
        assert_eq!(client::send(server, &by("GET", post("", ""))).await.body(), "1");
    }
}

/// One keep-alive client after the other, and many clients at the same time.
#[tokio::test]
async fn keys_do_not_hinder_each_other() {
    let (store, gate, runs) = (Store::open_in_real_time().await, Gate::default(), Runs::default());
    let server = serve(&store.idempotency().http("pay").layer().unwrap(), &gate, &runs).await;
    let first = client::begin(server, &post("held", "{}")).await;
    gate.reached().await;
    let clients =
        (0..10).map(|client| client::send_owned(server, post(&format!("k{client}"), "{}")));
    let (answers, ()) = tokio::join!(futures::future::join_all(clients), async {
        gate.reached_by(10).await;
        gate.open();
    });
    assert!(answers.iter().all(|answer| answer.status() == 200 && !is_replay(answer)));
    assert_eq!(client::receive(first).await.status(), 200);
    assert_eq!(runs.count(), 11);
}

#[tokio::test]
async fn bodies_that_pass_through_stream() {
    let (store, link) = (Store::open_in_real_time().await, Link::default());
    let layer = store.over(&link).http("pay").key_optional().layer().unwrap();
    let echo = on_post(|request: Request| async move {
        Response::new(Body::from_stream(request.into_body().into_data_stream()))
    });
    let server = listen(Router::new().route("/echo", echo.route_layer(layer))).await;
    let request = with(to(keyless(""), "/echo"), "transfer-encoding", "chunked");
    let mut connection = client::begin(server, &request).await;
    connection.write_all(b"4\r\nfour\r\n").await.unwrap();
    // The first part is back before the second is sent.
    let mut seen = Vec::new();
    while !seen.ends_with(b"4\r\nfour\r\n") {
        let reading = connection.read_buf(&mut seen);
        assert_ne!(patiently("the first part", reading).await.unwrap(), 0);
    }
    connection.write_all(b"3\r\nend\r\n0\r\n\r\n").await.unwrap();
    connection.read_to_end(&mut seen).await.unwrap();
    assert!(seen.ends_with(b"4\r\nfour\r\n3\r\nend\r\n0\r\n\r\n"));
    assert_eq!(link.wire.requests(), [""; 0]);
}

/// The layer reads the body, so the server decides how it is sent.
#[tokio::test]
async fn an_answer_that_names_its_transfer_coding_reaches_the_first_client() {
    let store = Store::open_in_real_time().await;
    let route = on_post(async || {
        let parts = stream::iter(["one, ", "two"]).map(Ok::<_, Infallible>);
        let response = Response::builder().header("transfer-encoding", "chunked");
        response.header("trailer", "x-sum").body(Body::from_stream(parts)).unwrap()
    });
    let layer = store.idempotency().http("pay").layer().unwrap();
    let server = listen(Router::new().route("/payments", route.route_layer(layer))).await;
    let first = client::send(server, &post("k", "{}")).await;
    assert_eq!((first.body(), first.headers().get("trailer")), (&Bytes::from("one, two"), None));
    let repeat = client::send(server, &post("k", "{}")).await;
    assert_eq!((is_replay(&repeat), repeat.body()), (true, first.body()));
}
