//! Bodies that are large, too large, or broken off.

use axum::Router;
use axum::body::Body;
use axum::routing::post as on_post;
use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use tokio::io::AsyncWriteExt;
use tower::{Layer, ServiceExt};

use super::client;
use super::message::{is_replay, post, problem, whole, with};
use super::site::{everywhere, listen};
use crate::support::{Link, Runs, Store};

/// A server whose layer takes bodies of eight bytes.
async fn small(store: &Store, link: &Link, runs: &Runs) -> std::net::SocketAddr {
    let runs = runs.clone();
    let route = on_post(move |body: Bytes| {
        let run = runs.add();
        async move { format!("run {run}: {} bytes", body.len()) }
    });
    let layer = store.over(link).http("pay").max_body_bytes(8).layer().unwrap();
    listen(Router::new().route("/payments", route.route_layer(layer))).await
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused() {
    let (store, link, runs) = (Store::open_in_real_time().await, Link::default(), Runs::default());
    let server = small(&store, &link, &runs).await;
    let too_large = [
        ("of a known length", post("k", "123456789")),
        ("in chunks", chunked("9\r\n123456789\r\n0\r\n\r\n")),
        ("in two chunks", chunked("5\r\n12345\r\n5\r\n67890\r\n0\r\n\r\n")),
    ];
    for (name, request) in too_large {
        println!("{name}");
        let problem = problem(&client::send(server, &request).await, 413, "BodyTooLarge");
        assert!(problem["detail"].as_str().unwrap().contains("8 bytes"));
    }
    assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
    let largest = client::send(server, &chunked("5\r\n12345\r\n3\r\n678\r\n0\r\n\r\n")).await;
    assert_eq!(largest.body(), "run 1: 8 bytes");
    assert!(is_replay(&client::send(server, &post("k", "12345678")).await));
}

/// A limit that only a layer heeds would be a trap for a function that is moved.
#[tokio::test]
async fn a_request_that_is_too_large_is_refused_around_a_function_too() {
    for site in everywhere().await {
        let api = site.paying(site.http().max_body_bytes(64)).await;
        let large = problem(&api.send(post("k", "x".repeat(250))).await, 413, "BodyTooLarge");
        assert!(large["detail"].as_str().unwrap().contains("64 bytes"));
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
        api.check([("the largest", post("k", "x".repeat(64)), "201")]).await;
    }
}

fn chunked(body: &'static str) -> Request<Bytes> {
    with(post("k", body), "transfer-encoding", "chunked")
}

#[tokio::test]
async fn a_request_that_breaks_off_runs_nothing() {
    let (store, link, runs) = (Store::open_in_real_time().await, Link::default(), Runs::default());
    let server = small(&store, &link, &runs).await;
    let request = with(post("k", "1234"), "content-length", "8");
    let mut stream = client::begin(server, &request).await;
    stream.shutdown().await.unwrap();
    problem(&client::receive(stream).await, 400, "BodyUnreadable");
    assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
    assert_eq!(client::send(server, &post("k", "1234")).await.body(), "run 1: 4 bytes");
}

#[tokio::test]
async fn a_request_body_that_ends_with_an_error_is_the_clients_fault() {
    let (store, link) = (Store::open_in_real_time().await, Link::default());
    let service = tower::service_fn(async |_: Request<Body>| -> Result<Response<Body>, ()> {
        panic!("nothing may run");
    });
    let service = store.over(&link).http("pay").layer().unwrap().layer(service);
    let body = stream::iter([Ok("some"), Err("cut off at 10.0.0.7")]);
    let response = service.oneshot(post("k", "").map(|_| Body::from_stream(body))).await.unwrap();
    let refused = problem(&whole(response).await, 400, "BodyUnreadable");
    assert!(!refused.to_string().contains("10.0.0.7"));
    assert_eq!(link.wire.requests(), [""; 0]);
}
