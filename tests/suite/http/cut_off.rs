//! Bodies that end before the length that their head announces.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::post as on_post;
use bytes::Bytes;
use dynamodb_idempotency::http::Http;
use futures::{StreamExt, stream};
use http::{Method, Response};
use http_body_util::BodyExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tower::{Layer, ServiceExt, service_fn};

use super::message::{by, outcome, post, through, whole, with};
use super::site::listen;
use crate::support::gate::patiently;
use crate::support::{Runs, Store};

/// A permit for each event.
#[derive(Clone)]
struct Bell(Arc<Semaphore>);

impl Bell {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    fn ring(&self) {
        self.0.add_permits(1);
    }

    async fn rung(&self) {
        patiently("a bell", self.0.acquire()).await.expect("it is open").forget();
    }
}

/// Rings when it is dropped.
struct OnDrop(Bell);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.ring();
    }
}

/// hyper reports a stream that is reset with `NO_ERROR` as the end of the body.
#[tokio::test]
async fn an_upload_that_is_reset_half_way_runs_nothing() {
    let (store, runs) = (Store::open_in_real_time().await, Runs::default());
    let (read, ended) = (Bell::new(), Bell::new());
    let layer = store.idempotency().http("pay").layer().unwrap();
    let counted = runs.clone();
    let pay = on_post(move |body: Bytes| {
        counted.add();
        std::future::ready(format!("{} bytes", body.len()))
    });
    let (on_read, on_end) = (read.clone(), ended.clone());
    let observed = from_fn(move |request: Request, next: Next| {
        let (on_read, on_end) = (on_read.clone(), OnDrop(on_end.clone()));
        async move {
            let _ends = on_end;
            let noted = request.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    on_read.ring();
                    frame
                }))
            });
            next.run(noted).await
        }
    });
    let router = Router::new().route("/payments", pay.route_layer(layer.clone())).layer(observed);
    let connection = TcpStream::connect(listen(router).await).await.unwrap();
    let (client, connection) = h2::client::handshake(connection).await.unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let request = http::Request::post("http://localhost/payments")
        .header("idempotency-key", "k")
        .header("content-length", "8")
        .body(())
        .unwrap();
    let (_response, mut body) = client.send_request(request, false).unwrap();
    body.send_data(Bytes::from_static(b"half"), false).unwrap();
    read.rung().await;
    body.send_reset(h2::Reason::NO_ERROR);
    ended.rung().await;
    patiently("the end of the handlers", layer.drain()).await;
    assert_eq!(runs.count(), 0);
    assert!(store.item("pay#k").await.is_none(), "the key is free for the whole upload");
}

/// Sends bodies of 12 bytes, of which the last announces more.
async fn announce(http: Http) -> u32 {
    let runs = Runs::default();
    let counted = runs.clone();
    let handler = service_fn(move |_: Request| {
        counted.add();
        std::future::ready(Ok::<_, Infallible>(Response::new(Body::from("paid"))))
    });
    let service = http.layer().unwrap().layer(handler);
    for (announced, expected) in [("12", "200"), ("11", "200"), ("13", "400 BodyUnreadable")] {
        let request = with(post(announced, ""), "content-length", announced);
        let pieces = [r#"{"id""#, r#":"evt"}"#].map(Ok::<_, Infallible>);
        let request = request.map(|_| Body::from_stream(stream::iter(pieces)));
        let response = whole(service.clone().oneshot(request).await.unwrap()).await;
        assert_eq!(outcome(&response).replace(" replay", ""), expected, "{announced}");
    }
    runs.count()
}

#[tokio::test]
async fn fewer_bytes_than_announced_are_refused_and_more_are_not() {
    let store = Store::open().await;
    assert_eq!(announce(store.idempotency().http("pay")).await, 2);
    assert!(store.item("pay#13").await.is_none());
}

#[cfg(feature = "webhook")]
#[tokio::test]
async fn fewer_bytes_than_announced_are_refused_under_a_right_signature_too() {
    use dynamodb_idempotency::http::Webhook;

    let store = Store::open().await;
    let http = store.idempotency().http("pay").webhook(Webhook::signed(|_, _| true));
    assert_eq!(announce(http).await, 1, "all are deliveries of one event");
}

/// A handler that passes on what another server sent.
#[tokio::test]
async fn a_response_that_ends_too_early_is_not_stored() {
    let (store, runs) = (Store::open().await, Runs::default());
    let counted = runs.clone();
    let handler = service_fn(move |request: Request| {
        counted.add();
        let pieces = stream::iter(["ha", "lf"]).map(Ok::<_, Infallible>);
        let body =
            if request.method() == "HEAD" { Body::empty() } else { Body::from_stream(pieces) };
        let response = Response::builder().header("content-length", "8").body(body).unwrap();
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let methods = [Method::POST, Method::HEAD];
    let layer = store.idempotency().http("pay").methods(methods).layer().unwrap();
    let service = layer.layer(handler);
    let send = async |key: &str, method: &str| {
        outcome(&through(&service, by(method, post(key, "{}"))).await)
    };
    assert_eq!(send("k", "POST").await, "500 BodyBroken");
    assert_eq!(send("k", "POST").await, "500 AnswerUnavailable");
    assert_eq!(send("head", "HEAD").await, "200");
    assert_eq!(runs.count(), 2);
}
