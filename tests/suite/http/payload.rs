//! Lambda accepts responses up to a size: a larger one is a clear error, and completes its request.

use std::convert::Infallible;

use bytes::Bytes;
use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::{Fingerprint, Transaction};
use http::Response;
use lambda_http::{Body, service_fn};

use super::event::{self, Kind};
use super::function::Function;
use super::message::{is_replay, post, problem};
use crate::support::effects::count;
use crate::support::{Runs, Store};

const MIB: usize = 1 << 20;

/// In bytes of JSON.
fn limit(kind: Kind) -> usize {
    match kind {
        Kind::Alb | Kind::AlbMultiValue => MIB,
        Kind::Rest | Kind::HttpApi | Kind::FunctionUrl | Kind::Lattice => 6_291_556,
    }
}

fn answering(http: Http, runs: &Runs, status: u16, body: Body) -> Function {
    let runs = runs.clone();
    let handler = service_fn(move |_: lambda_http::Request| {
        runs.add();
        let content_type = match body {
            Body::Binary(_) => "application/octet-stream",
            _ => "text/plain",
        };
        let response = Response::builder().status(status).header("content-type", content_type);
        let response = response.header("x-note", "\"quoted\"");
        std::future::ready(Ok::<_, Infallible>(response.body(body.clone()).unwrap()))
    });
    Function::new(http.wrap(handler).unwrap())
}

async fn send(function: &Function, kind: Kind, key: &str) -> (Response<Bytes>, usize) {
    let answer = function.invoke(&kind.event(&post(key, "{}"))).await;
    let bytes = answer.to_string().len();
    (event::response(&answer), bytes)
}

type Make = fn(usize) -> Body;

/// A 400 is not stored: nothing but the size decides.
#[tokio::test]
async fn a_response_of_the_largest_size_is_sent_and_a_larger_one_is_an_error() {
    let store = Store::open().await;
    // What one byte of the body takes in JSON, in thirds.
    let bodies: [(usize, Make); 4] = [
        (3, |bytes| Body::Text("x".repeat(bytes))),
        (6, |bytes| Body::Text("\"".repeat(bytes))),
        (18, |bytes| Body::Text("\0".repeat(bytes))),
        // As base64.
        (4, |bytes| Body::Binary(vec![0xff; bytes])),
    ];
    for (kind, (thirds, body)) in Kind::ALL.into_iter().flat_map(|kind| bodies.map(|b| (kind, b))) {
        println!("{kind:?} {thirds}");
        let runs = Runs::default();
        let of = |bytes| answering(store.idempotency().http("pay"), &runs, 400, body(bytes));
        let largest = (limit(kind) - 512) * 3 / thirds;
        let (sent, bytes) = send(&of(largest), kind, "k").await;
        assert_eq!((sent.status().as_u16(), sent.body().len()), (400, largest));
        assert!((limit(kind) - 1024..=limit(kind)).contains(&bytes), "{bytes}");
        let (refused, bytes) = send(&of(limit(kind) * 3 / thirds), kind, "k").await;
        problem(&refused, 500, "BodyBroken");
        assert!(bytes < 1024);
        assert_eq!(runs.count(), 2);
    }
}

#[tokio::test]
async fn a_request_with_a_too_large_answer_is_completed_and_repeats_get_the_reason() {
    let (store, runs) = (Store::open().await, Runs::default());
    let body = Body::Text("x".repeat(6_300_000));
    let function = answering(store.idempotency().http("pay"), &runs, 201, body);
    let (first, _) = send(&function, Kind::HttpApi, "k").await;
    let first = problem(&first, 500, "BodyBroken");
    assert!(first["detail"].as_str().unwrap().contains("Lambda accepts 6291556"), "{first}");
    assert_eq!(store.status("pay#k").await.as_deref(), Some("COMPLETED"));
    let (repeat, _) = send(&function, Kind::HttpApi, "k").await;
    problem(&repeat, 500, "AnswerUnavailable");
    let record = store.record("pay#k").await;
    let reason = record["response"].as_m().unwrap()["unavailable"].as_s().unwrap();
    assert!(reason.contains("Lambda accepts 6291556"), "{reason}");
    assert_eq!(runs.count(), 1);
}

/// An API Gateway takes the answer, and an ALB in front of the same function does not.
#[tokio::test]
async fn a_replay_that_is_too_large_is_an_error_and_the_record_stays() {
    let (store, runs) = (Store::open().await, Runs::default());
    let http = store.idempotency().http("pay");
    let http = http.fingerprint(|_, body| Fingerprint::builder().json(body).finish());
    let function = answering(http, &runs, 201, Body::Text("x".repeat(MIB)));
    assert_eq!(send(&function, Kind::HttpApi, "k").await.0.status(), 201);
    let (refused, _) = send(&function, Kind::Alb, "k").await;
    problem(&refused, 500, "AnswerUnavailable");
    let (repeat, _) = send(&function, Kind::HttpApi, "k").await;
    assert!(is_replay(&repeat) && repeat.body().len() == MIB);
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_transaction_with_too_large_an_answer_writes_nothing() {
    let store = Store::open().await;
    let table = store.table().to_owned();
    let handler = service_fn(move |_: lambda_http::Request| {
        let response = Response::new(Body::Text("x".repeat(MIB)));
        let transaction = Transaction::new(response).items([count(&table, "effect")]);
        std::future::ready(Ok::<_, Infallible>(transaction))
    });
    let function =
        Function::new(store.idempotency().http("pay").wrap_transaction(handler).unwrap());
    let (refused, _) = send(&function, Kind::Alb, "k").await;
    problem(&refused, 500, "BodyBroken");
    assert_eq!((store.counted("effect").await, store.status("pay#k").await), (0, None));
}
