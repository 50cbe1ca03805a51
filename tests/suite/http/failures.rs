//! What a handler's failure leaves behind.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use axum::Router;
use axum::routing::{MethodRouter, post as on_post};
use bytes::Bytes;
use dynamodb_idempotency::Execution;
use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::policy::Failure;
use futures::{StreamExt, stream};
use http::{Request, Response};
use lambda_http::service_fn;
use tower::{Layer, ServiceExt};

use super::event::{self, Kind};
use super::function::{Function, context_of};
use super::message::{is_replay, post, problem};
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
async fn a_functions_own_error_passes_through_and_frees_the_key() {
    for (failure, nothing) in [(Failure::Release, false), (Failure::Replay, true)] {
        let (store, runs) = (Store::open_in_real_time().await, Runs::default());
        let http = store.idempotency().http("pay").policy(|policy| policy.failure(failure));
        let function = failing(http, &runs, nothing);
        let first = function.invoke_in(&Kind::Rest.example(), context_of(30)).await;
        assert_eq!(first, Err(r#""out of paper""#.to_owned()));
        assert!(store.is_released("pay#order-7").await);
        let second = function.invoke(&Kind::Rest.example()).await;
        assert_eq!((second["statusCode"].as_u64(), runs.count()), (Some(200), 2));
    }
}

#[tokio::test]
async fn a_functions_error_that_is_kept_is_not_run_again() {
    let (store, runs) = (Store::open_in_real_time().await, Runs::default());
    let http = store.idempotency().http("pay").policy(|policy| policy.failure(Failure::Replay));
    let function = failing(http, &runs, false);
    let first = function.invoke_in(&Kind::Rest.example(), context_of(30)).await;
    assert_eq!(first, Err(r#""out of paper""#.to_owned()));
    let repeat = event::response(&function.invoke(&Kind::Rest.example()).await);
    problem(&repeat, 500, "Failed");
    assert_eq!(runs.count(), 1);
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

/// The effect has happened: the partial answer is discarded, and no repeat runs the handler again.
#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_and_completes_the_request() {
    for place in [Place::Router, Place::Server] {
        let (store, runs) = (Store::open_in_real_time().await, Runs::default());
        let api = breaking_off(place, store.idempotency().http("pay"), &runs, 201).await;
        let answer = api.send(post("k", "{}")).await;
        problem(&answer, 500, "BodyBroken");
        assert!(!String::from_utf8_lossy(answer.body()).contains("disk"));
        for _ in 0..2 {
            problem(&api.send(post("k", "{}")).await, 500, "AnswerUnavailable");
        }
        assert_eq!(runs.count(), 1);
        assert_eq!(raw::status(&store.record("pay#k").await), "COMPLETED");
    }
}

/// A body that panics has broken off as well.
#[tokio::test]
async fn an_answer_whose_body_panics_is_an_error_and_completes_the_request() {
    for place in [Place::Router, Place::Server] {
        let (store, runs) = (Store::open_in_real_time().await, Runs::default());
        let counted = runs.clone();
        let route = on_post(move || {
            counted.add();
            let pieces = stream::iter([true, false]).map(|is_good| {
                assert!(is_good, "the body panics");
                Ok::<_, std::io::Error>("one half, ")
            });
            let body = axum::body::Body::from_stream(pieces);
            std::future::ready(Response::builder().status(201).body(body).unwrap())
        });
        let api = serving(place, store.idempotency().http("pay"), route).await;
        problem(&api.send(post("k", "{}")).await, 500, "BodyBroken");
        problem(&api.send(post("k", "{}")).await, 500, "AnswerUnavailable");
        assert_eq!(runs.count(), 1);
        assert_eq!(raw::status(&store.record("pay#k").await), "COMPLETED");
    }
}

/// Its head says that nothing of it is final.
#[tokio::test]
async fn a_failure_that_breaks_off_is_a_failure() {
    let places = [Place::Router, Place::Server];
    for (place, status) in places.into_iter().flat_map(|place| [401, 429, 503].map(|s| (place, s)))
    {
        let (store, runs) = (Store::open_in_real_time().await, Runs::default());
        let http = store.idempotency().http("pay");
        let api = breaking_off(place, http, &runs, status).await;
        problem(&api.send(post("k", "{}")).await, 500, "BodyBroken");
        let second = api.send(post("k", "{}")).await;
        assert_eq!((second.status().as_u16(), is_replay(&second)), (201, false));
        assert_eq!(second.body().as_ref(), b"one half, other half");
        assert!(is_replay(&api.send(post("k", "{}")).await));
        assert_eq!(runs.count(), 2);
    }
}

/// The first answer has this status, and breaks off in the middle.
async fn breaking_off(place: Place, http: Http, runs: &Runs, status: u16) -> Api {
    let counted = runs.clone();
    let route = on_post(move || {
        let broken = counted.add() == 1;
        let end = if broken { Err("the disk is gone") } else { Ok("other half") };
        let body = axum::body::Body::from_stream(stream::iter([Ok("one half, "), end]));
        let status = if broken { status } else { 201 };
        let response = Response::builder().status(status).body(body);
        std::future::ready(response.unwrap())
    });
    serving(place, http, route).await
}

async fn serving(place: Place, http: Http, route: MethodRouter) -> Api {
    if place == Place::Server {
        let route = route.route_layer(http.layer().unwrap());
        Api::Server(listen(Router::new().route("/payments", route)).await)
    } else {
        let router = Router::new().route("/payments", route);
        Api::Lambda(Kind::HttpApi, Function::new(http.wrap(router).unwrap()))
    }
}
