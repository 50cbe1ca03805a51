//! gRPC: refused where its trailers are not kept; elsewhere its answers are judged, stored and replayed
//! with them.

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
use crate::support::{Link, Runs, Store, in_record, raw};

type Change = fn(Http) -> Http;

fn call(key: &str, body: &'static str) -> Request<Bytes> {
    with(post(key, body), "content-type", "application/grpc+proto")
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
    let service = http.layer().layer(handler);
    let (head, body) = service.oneshot(request.map(Body::from)).await.unwrap().into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned();
    (Response::from_parts(head, body.to_bytes()), trailers)
}

#[tokio::test]
async fn where_trailers_are_not_kept_it_is_refused_and_nothing_runs() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let http = || store.over(&link).http("pay");
    let (refused, _) = send(http(), &runs, "0", call("k", "")).await;
    problem(&refused, 415, "GrpcUnsupported");
    // Nobody is sent for a key that does not help.
    let (refused, _) = send(http(), &runs, "0", without(call("k", ""), "idempotency-key")).await;
    problem(&refused, 415, "GrpcUnsupported");

    // Lambda carries no trailers, whatever is chosen.
    for http in [http(), http().grpc(true)] {
        let handler = service_fn(async |_| -> Result<Response<lambda_http::Body>, Infallible> {
            panic!("nothing may run")
        });
        let function = Function::new(http.clone().wrap(handler));
        let event = Kind::HttpApi.event(&call("k", ""));
        let answer = event::response(&function.invoke(&event).await);
        problem(&answer, 415, "GrpcUnsupported");
        let router = axum::Router::new();
        let request = call("k", "").map(|_| lambda_http::Body::Empty);
        let streamed = http.wrap_streaming(router).call(request).await.unwrap();
        assert_eq!(streamed.status(), 415);
    }
    assert_eq!((runs.count(), link.wire.requests()), (0, vec![]));
}

#[tokio::test]
async fn what_passes_through_keeps_its_trailers() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let optional = store.over(&link).http("pay").key_required(false);
    let request = without(call("k", ""), "idempotency-key");
    let (_, followed) = send(optional, &runs, "14", request).await;
    assert_eq!(followed, Some(trailers("14")));
    let off = store.builder(&link).disabled(true).build().unwrap();
    for http in [off.http("pay"), off.http("pay").grpc(true)] {
        let (_, followed) = send(http, &runs, "14", call("k", "")).await;
        assert_eq!(followed, Some(trailers("14")));
    }
    assert_eq!(link.wire.requests(), [""; 0]);
}

#[tokio::test]
async fn an_answer_is_replayed_with_its_trailers() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let grpc = || store.over(&link).http("pay").grpc(true);
    let in_parts = |http: Http| {
        http.policy(|policy| {
            policy.large_answers(dynamodb_idempotency::LargeAnswers::InParts { above: 0 })
        })
    };
    let hooked = |http: Http| http.on_store(|response| response).on_replay(|response| response);
    let ways: [(&str, Change); 2] =
        [("plain", |http| http), ("readable", |http| http.policy(in_record))];
    let all = ways.map(|(name, way)| (name, way(grpc())));
    let all = all.into_iter().chain([("parts", in_parts(grpc())), ("hooks", hooked(grpc()))]);
    for (name, http) in all {
        let (first, followed) = send(http.clone(), &runs, "0", call(name, "")).await;
        let (repeat, again) = send(http, &runs, "14", call(name, "")).await;
        assert_eq!((followed, again), (Some(trailers("0")), Some(trailers("0"))), "{name}");
        assert!(!is_replay(&first) && is_replay(&repeat), "{name}");
        assert_eq!(first.body(), repeat.body());
    }
    assert_eq!(runs.count(), 4);
}

#[tokio::test]
async fn the_status_behind_the_body_decides() {
    let (store, link) = (Store::open().await, Link::default());
    for (status, is_stored) in [
        ("0", true),
        ("5", true),
        // Refusals, and failures.
        ("3", false),
        ("16", false),
        ("1", false),
        ("10", false),
        ("13", false),
        ("14", false),
        ("none", false),
    ] {
        let (runs, http) = (Runs::default(), || store.over(&link).http("pay").grpc(true));
        let key = format!("k{status}");
        let (_, followed) = send(http(), &runs, status, call(&key, "")).await;
        assert_eq!(followed, Some(trailers(status)));
        send(http(), &runs, status, call(&key, "")).await;
        assert_eq!(runs.count(), if is_stored { 1 } else { 2 }, "{status}");
    }
}

#[tokio::test]
async fn the_crates_own_answers_are_grpcs() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let grpc = || store.over(&link).http("pay").grpc(true);
    send(grpc(), &runs, "0", call("k", "")).await;
    let (mismatch, _) = send(grpc(), &runs, "0", call("k", "other")).await;
    let header = |name: &str| mismatch.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(
        (mismatch.status().as_u16(), header("content-type")),
        (200, "application/grpc".into())
    );
    assert_eq!(header("grpc-status"), "9");
    assert!(header("grpc-message").contains("already used: "), "{}", header("grpc-message"));
    assert!(mismatch.body().is_empty());
    // Whoever renders problems renders these too.
    let rendered = grpc().problem(|problem| Response::new(problem.title().into()));
    let (mismatch, _) = send(rendered, &runs, "0", call("k", "other")).await;
    assert_eq!(mismatch.body(), "Idempotency key is already used");
}

#[tokio::test]
async fn an_answer_with_trailers_is_not_given_out_without_them() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let http = || store.over(&link).http("pay");
    send(http().grpc(true), &runs, "0", call("k", "")).await;
    let plain = with(call("k", ""), "content-type", "application/octet-stream");
    let (refused, _) = send(http(), &runs, "0", plain).await;
    problem(&refused, 500, "RecordNotUnderstood");
    assert_eq!((runs.count(), raw::status(&store.record("pay#k").await)), (1, "COMPLETED"));
}
