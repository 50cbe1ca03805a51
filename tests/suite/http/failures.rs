//! What a handler's failure leaves behind.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use axum::Router;
use axum::routing::{MethodRouter, post as on_post};
use bytes::Bytes;
use dynamodb_idempotency::Execution;
use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::policy::Failure;
use futures::stream;
use http::{Request, Response};
use lambda_http::service_fn;
use tower::{Layer, ServiceExt};

use super::event::{self, Kind};
use super::function::{Function, context_of};
use super::message::{outcome, post, problem};
use super::site::{Api, Place, Site, everywhere, listen};
use crate::support::{Runs, Store, raw};

fn keeping(site: &Site, failure: Failure) -> Http {
    site.http().policy(|policy| policy.failure(failure))
}

/// 503 with bytes that are no text, and the number of the run.
fn unavailable(run: u32) -> Response<Bytes> {
    let response = Response::builder().status(503).header("content-type", "image/png");
    let response = response.header("retry-after", "3").header("set-cookie", "a=1");
    response.body(vec![0xff, u8::try_from(run).unwrap()].into()).unwrap()
}

/// A failed request must not be reported as completed.
#[tokio::test]
async fn a_failure_that_cannot_be_read_is_still_a_failure() {
    for site in everywhere().await {
        let api = site.answering(keeping(&site, Failure::Replay), unavailable).await;
        api.send(post("k", "{}")).await;
        let record = site.item("k").await.unwrap();
        let damaged = AttributeValue::B(Blob::new(b"\0\0\0\0\x05text"));
        site.store.put(raw::with(record, "response", damaged)).await;
        problem(&api.send(post("k", "{}")).await, 500, "Failed");
        assert_eq!(site.runs.count(), 1);
    }
}

/// Its first run fails with an error, having said that nothing was executed if `nothing` is set.
fn failing(http: Http, runs: &Runs, nothing: bool) -> Function {
    let runs = runs.clone();
    Function::new(
        http.wrap(service_fn(move |request: lambda_http::Request| {
            let run = runs.add();
            if nothing {
                request.extensions().get::<Execution>().unwrap().discard();
            }
            std::future::ready(if run == 1 { Err("out of paper") } else { Ok("paid") })
        }))
        .unwrap(),
    )
}

#[tokio::test]
async fn a_functions_own_error_passes_through_and_frees_the_key_unless_it_is_kept() {
    for (failure, nothing, expected) in [
        (Failure::Release, false, "200"),
        (Failure::Replay, true, "200"),
        (Failure::Replay, false, "500 Failed"),
    ] {
        let (store, runs) = (Store::open_in_real_time().await, Runs::default());
        let http = store.idempotency().http("pay").policy(|policy| policy.failure(failure));
        let function = failing(http, &runs, nothing);
        let first = function.invoke_in(&Kind::Rest.example(), context_of(30)).await;
        assert_eq!(first, Err(r#""out of paper""#.to_owned()));
        let second = event::response(&function.invoke(&Kind::Rest.example()).await);
        assert_eq!(outcome(&second), expected, "{failure:?} {nothing}");
        assert_eq!(runs.count(), if expected == "200" { 2 } else { 1 });
    }
}

#[tokio::test]
async fn an_interim_response_is_a_failure_and_is_kept_without_its_answer() {
    let (store, runs) = (Store::open_in_real_time().await, Runs::default());
    let http = store.idempotency().http("pay").policy(|policy| policy.failure(Failure::Replay));
    let counted = runs.clone();
    let function = Function::new(
        http.wrap(service_fn(move |_: lambda_http::Request| {
            counted.add();
            let early = Response::builder().status(103).body(lambda_http::Body::Empty);
            std::future::ready(early.map_err(|error| error.to_string()))
        }))
        .unwrap(),
    );
    assert_eq!(event::response(&function.invoke(&Kind::Rest.example()).await).status(), 103);
    problem(&event::response(&function.invoke(&Kind::Rest.example()).await), 500, "Failed");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_services_own_error_passes_through_its_layer_and_frees_the_key() {
    let (store, runs) = (Store::open_in_real_time().await, Runs::default());
    let counted = runs.clone();
    let service = tower::service_fn(move |_: Request<axum::body::Body>| {
        let failed = counted.add() == 1;
        async move {
            if failed { Err("out of paper") } else { Ok(Response::new(axum::body::Body::empty())) }
        }
    });
    let service = store.idempotency().http("pay").layer().unwrap().layer(service);
    let request = || post("k", "{}").map(axum::body::Body::from);
    assert_eq!(service.clone().oneshot(request()).await.err(), Some("out of paper"));
    assert!(store.is_released("pay#k").await);
    assert!(service.oneshot(request()).await.is_ok());
    assert_eq!(runs.count(), 2);
}

/// If its head says that it is final, the effect has happened: the partial answer is discarded, and no
/// repeat runs the handler again.
#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_and_its_status_decides_what_it_was() {
    for place in [Place::Router, Place::Server] {
        for (status, repeats, record) in [
            (201, ["500 AnswerUnavailable", "500 AnswerUnavailable"], "COMPLETED"),
            (401, ["201", "201 replay"], "RELEASED"),
            (429, ["201", "201 replay"], "RELEASED"),
            (503, ["201", "201 replay"], "RELEASED"),
        ] {
            let (store, runs) = (Store::open_in_real_time().await, Runs::default());
            let counted = runs.clone();
            // The first breaks off in the middle.
            let route = on_post(move || {
                let is_first = counted.add() == 1;
                let end = if is_first { Err("the disk is gone") } else { Ok("other half") };
                let body = axum::body::Body::from_stream(stream::iter([Ok("one half, "), end]));
                let status = if is_first { status } else { 201 };
                std::future::ready(Response::builder().status(status).body(body).unwrap())
            });
            let api = serving(place, store.idempotency().http("pay"), route).await;
            let answer = api.send(post("k", "{}")).await;
            problem(&answer, 500, "BodyBroken");
            assert!(!String::from_utf8_lossy(answer.body()).contains("disk"));
            assert_eq!(store.status("pay#k").await.as_deref(), Some(record), "{status}");
            api.check(repeats.map(|expected| (status, post("k", "{}"), expected))).await;
        }
    }
}

/// This handler of `POST /payments`, in this place.
pub(crate) async fn serving(place: Place, http: Http, route: MethodRouter) -> Api {
    if place == Place::Server {
        let route = route.route_layer(http.layer().unwrap());
        Api::Server(listen(Router::new().route("/payments", route)).await)
    } else {
        let router = Router::new().route("/payments", route);
        Api::Lambda(Kind::HttpApi, Function::new(http.wrap(router).unwrap()))
    }
}
