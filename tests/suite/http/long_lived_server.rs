//! A layer on one route of a server with real connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::{get, post as on_post};
use bytes::Bytes;
use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::policy::{Failure, InProgress};
use futures::{StreamExt, stream};
use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::{Layer, ServiceExt};

use super::client;
use super::message::{by, is_replay, post, to, with, without};
use super::site::{has_looked, listen};
use crate::support::gate::patiently;
use crate::support::{Gate, Link, Runs, Store, raw};

/// `POST /payments` stops at the gate, and panics for the body `crash`; `GET /payments` counts.
async fn serve(http: Http, gate: &Gate, runs: &Runs) -> SocketAddr {
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
    let pay = pay.route_layer(http.layer().unwrap());
    listen(Router::new().route("/payments", pay.merge(count))).await
}

/// Waits until a key's record says so.
async fn until_status(store: &Store, pk: &str, status: Option<&str>) {
    let looking = async {
        loop {
            let record = store.item(pk).await;
            if record.as_ref().map(raw::status) == status {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    patiently("a record's status", looking).await;
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_stop_the_handler() {
    let (store, gate, runs) = (Store::open_in_real_time().await, Gate::default(), Runs::default());
    let server = serve(store.idempotency().http("pay"), &gate, &runs).await;
    let connection = client::begin(server, &post("k", "{}")).await;
    gate.reached().await;
    drop(connection);
    // Both directions are served by one task: an answered request shows that the server has had
    // the chance to see that the first client is gone.
    for _ in 0..20 {
        client::send(server, &by("GET", post("", ""))).await;
    }
    gate.open();
    until_status(&store, "pay#k", Some("COMPLETED")).await;
    let repeat = client::send(server, &post("k", "{}")).await;
    assert_eq!((repeat.body().as_ref(), is_replay(&repeat)), (&b"run 1"[..], true));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn who_drains_the_layer_waits_for_owners_whose_clients_are_gone() {
    let (store, gate) = (Store::open_in_real_time().await, Gate::default());
    let layer = store.idempotency().http("pay").layer().unwrap();
    let held = gate.clone();
    let pay = on_post(move || {
        let gate = held.clone();
        async move { gate.pass().await }
    });
    let router: Router = Router::new().route("/payments", pay.route_layer(layer.clone()));
    let server = listen(router).await;
    let connection = client::begin(server, &post("k", "{}")).await;
    gate.reached().await;
    drop(connection);
    let ((), ()) = tokio::join!(layer.drain(), async { gate.open() });
    assert_eq!(raw::status(&store.record("pay#k").await), "COMPLETED");
}

/// The next client, on another connection, waits for the answer of the run whose client is gone.
#[tokio::test]
async fn who_comes_after_a_hang_up_waits_for_the_same_run() {
    let (store, link) = (Store::open_in_real_time().await, Link::default());
    let (gate, runs) = (Gate::default(), Runs::default());
    let wait = InProgress::Wait { timeout: super::LONG };
    let http = store.over(&link).http("pay").policy(|policy| policy.in_progress(wait));
    let server = serve(http, &gate, &runs).await;
    let connection = client::begin(server, &post("k", "{}")).await;
    gate.reached().await;
    drop(connection);
    let (repeat, ()) = tokio::join!(client::send_owned(server, post("k", "{}")), async {
        has_looked(&link).await;
        gate.open();
    });
    assert_eq!((repeat.body().as_ref(), is_replay(&repeat)), (&b"run 1"[..], true));
}

/// A time-out above the layer drops the request's future: the owner goes on.
#[tokio::test]
async fn a_dropped_future_does_not_stop_the_handler() {
    let (store, gate, runs) = (Store::open_in_real_time().await, Gate::default(), Runs::default());
    let (held, counted) = (gate.clone(), runs.clone());
    let service = tower::service_fn(move |_: Request| {
        let (held, run) = (held.clone(), counted.add());
        async move {
            held.pass().await;
            Ok::<_, Infallible>(Response::new(Body::from(format!("run {run}"))))
        }
    });
    let service = store.idempotency().http("pay").layer().unwrap().layer(service);
    let request = || post("k", "{}").map(Body::from);
    tokio::select! {
        biased;
        _ = service.clone().oneshot(request()) => panic!("it cannot have passed the gate"),
        () = gate.reached() => {}
    }
    gate.open();
    until_status(&store, "pay#k", Some("COMPLETED")).await;
    let repeat = service.oneshot(request()).await.unwrap();
    assert!(repeat.headers().contains_key("idempotency-replayed"));
    assert_eq!(runs.count(), 1);
}

/// The client of the panicking handler is gone, and the key is released nevertheless.
#[tokio::test]
async fn a_panic_after_a_hang_up_ends_the_record_too() {
    for (failure, status) in [(Failure::Release, "RELEASED"), (Failure::Replay, "FAILED")] {
        let (store, gate, runs) =
            (Store::open_in_real_time().await, Gate::default(), Runs::default());
        let http = store.idempotency().http("pay").policy(|policy| policy.failure(failure));
        let server = serve(http, &gate, &runs).await;
        let connection = client::begin(server, &post("k", "crash")).await;
        gate.reached().await;
        drop(connection);
        for _ in 0..20 {
            client::send(server, &by("GET", post("", ""))).await;
        }
        gate.open();
        until_status(&store, "pay#k", Some(status)).await;
        assert_eq!(client::send(server, &by("GET", post("", ""))).await.body(), "1");
    }
}

#[tokio::test]
async fn the_other_methods_of_the_router_need_no_key() {
    let (store, link) = (Store::open_in_real_time().await, Link::default());
    let (gate, runs) = (Gate::default(), Runs::default());
    gate.open();
    let server = serve(store.over(&link).http("pay"), &gate, &runs).await;
    client::send(server, &post("k", "{}")).await;
    link.wire.forget();
    for request in [without(by("GET", post("", "")), "idempotency-key"), by("GET", post("k", ""))] {
        let answer = client::send(server, &request).await;
        assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (200, &b"1"[..]));
        assert!(!is_replay(&answer));
    }
    assert_eq!(link.wire.requests(), [""; 0]);
}

/// One keep-alive client after the other, and many clients at the same time.
#[tokio::test]
async fn keys_do_not_hinder_each_other() {
    let (store, gate, runs) = (Store::open_in_real_time().await, Gate::default(), Runs::default());
    let server = serve(store.idempotency().http("pay"), &gate, &runs).await;
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

/// A body that streams both ways, for as long as it passes through.
async fn echo(http: Http) -> SocketAddr {
    let echo = on_post(|request: Request| async move {
        Response::new(Body::from_stream(request.into_body().into_data_stream()))
    });
    listen(Router::new().route("/echo", echo.route_layer(http.key_optional().layer().unwrap())))
        .await
}

#[tokio::test]
async fn bodies_that_pass_through_stream() {
    let (store, link) = (Store::open_in_real_time().await, Link::default());
    let server = echo(store.over(&link).http("pay")).await;
    let request = without(to(post("", ""), "/echo"), "idempotency-key");
    let request = with(request, "transfer-encoding", "chunked");
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

/// The other side of it: an answer is stored before its first byte is sent.
#[tokio::test]
async fn an_answer_with_a_key_is_sent_when_it_is_whole_and_stored() {
    let (store, gate) = (Store::open_in_real_time().await, Gate::default());
    let held = gate.clone();
    let route = on_post(move || {
        let held = held.clone();
        let parts = stream::iter(["one, ", "two"]).then(move |part| {
            let held = held.clone();
            async move {
                if part == "two" {
                    held.pass().await;
                }
                Ok::<_, Infallible>(part)
            }
        });
        std::future::ready(Response::new(Body::from_stream(parts)))
    });
    let http = store.idempotency().http("pay");
    let router = Router::new().route("/payments", route.route_layer(http.layer().unwrap()));
    let server = listen(router).await;
    let connection = client::begin(server, &post("k", "{}")).await;
    gate.reached().await;
    let mut byte = [0; 1];
    let early = tokio::time::timeout(Duration::from_millis(50), connection.peek(&mut byte)).await;
    assert!(early.is_err(), "something was sent before the answer was stored");
    gate.open();
    assert_eq!(client::receive(connection).await.body(), "one, two");
    let record = store.record("pay#k").await;
    assert_eq!(raw::status(&record), "COMPLETED");
}
