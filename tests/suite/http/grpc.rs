//! gRPC and gRPC-Web are refused: their answers have their status in trailers, which are not stored.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use dynamodb_idempotency::http::Http;
use futures::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use lambda_http::service_fn;
use tower::{Layer, Service, ServiceExt};

use super::event::{self, Kind};
use super::function::Function;
use super::message::{is_replay, post, problem, with, without};
use crate::support::{Link, Runs, Store};

fn call(content_type: &str) -> Request<Bytes> {
    with(post("k", ""), "content-type", content_type)
}

fn trailers(status: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::try_from(status).unwrap());
    trailers.append("detail-bin", HeaderValue::from_static("AAE"));
    trailers.append("detail-bin", HeaderValue::from_bytes(b"\xe9").unwrap());
    trailers
}

/// An answer of two messages, and its status behind them.
fn answer(run: u32, status: &str) -> Response<Body> {
    let message = Frame::data(Bytes::from(format!("run {run}")));
    let frames =
        [message, Frame::data(Bytes::from_static(b"\0\xff")), Frame::trailers(trailers(status))];
    let body = StreamBody::new(stream::iter(frames.map(Ok::<_, Infallible>)));
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(Body::new(body)).unwrap()
}

/// What came of a call: the response, and what followed its body.
type Answered = (Response<Bytes>, Option<HeaderMap>);

/// Sends it through a layer around a handler whose answers have this status.
async fn send(http: Http, runs: &Runs, status: &'static str, request: Request<Bytes>) -> Answered {
    let runs = runs.clone();
    let handler = tower::service_fn(move |_: Request<Body>| {
        let answer = answer(runs.add(), status);
        async move { Ok::<_, Infallible>(answer) }
    });
    let service = http.layer().unwrap().layer(handler);
    let (head, body) = service.oneshot(request.map(Body::from)).await.unwrap().into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned();
    (Response::from_parts(head, body.to_bytes()), trailers)
}

#[tokio::test]
async fn grpc_is_refused_and_nothing_runs() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let http = || store.over(&link).http("pay");
    for content_type in
        ["application/grpc", "application/grpc+proto", "Application/gRPC-Web-text; charset=utf-8"]
    {
        // Also without a key: the client is not asked for one that would not help.
        for request in [call(content_type), without(call(content_type), "idempotency-key")] {
            let (refused, _) = send(http(), &runs, "0", request).await;
            problem(&refused, 415, "GrpcUnsupported");
        }
        let handler = service_fn(async |_| -> Result<Response<lambda_http::Body>, Infallible> {
            panic!("nothing may run")
        });
        let function = Function::new(http().wrap(handler).unwrap());
        let event = Kind::HttpApi.event(&call(content_type));
        let answer = event::response(&function.invoke(&event).await);
        problem(&answer, 415, "GrpcUnsupported");
        let request = call(content_type).map(|_| lambda_http::Body::Empty);
        let streamed =
            http().wrap_streaming(axum::Router::new()).unwrap().call(request).await.unwrap();
        assert_eq!(streamed.status(), 415);
    }
    assert_eq!((runs.count(), link.wire.requests()), (0, vec![]));
}

#[tokio::test]
async fn a_request_that_passes_through_keeps_its_trailers() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let optional = store.over(&link).http("pay").key_optional();
    let request = without(call("application/grpc"), "idempotency-key");
    let (_, followed) = send(optional, &runs, "14", request).await;
    assert_eq!(followed, Some(trailers("14")));
    let off = store.builder(&link).disabled().build().unwrap();
    let (_, followed) = send(off.http("pay"), &runs, "14", call("application/grpc")).await;
    assert_eq!(followed, Some(trailers("14")));
    assert_eq!(link.wire.requests(), [""; 0]);
}

#[tokio::test]
async fn trailers_are_neither_stored_nor_sent() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let http = || store.over(&link).http("pay");
    let (first, followed) = send(http(), &runs, "0", post("k", "")).await;
    let (repeat, again) = send(http(), &runs, "14", post("k", "")).await;
    assert_eq!((followed, again), (None, None));
    assert!(!is_replay(&first) && is_replay(&repeat));
    assert_eq!((first.body(), runs.count()), (repeat.body(), 1));
}
