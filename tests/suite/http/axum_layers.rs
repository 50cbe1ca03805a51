//! The layer among axum's own: nested routers, body limits, load shedding, routes that it is not for.

use std::sync::Arc;

use axum::body::Body;
use axum::error_handling::HandleErrorLayer;
use axum::extract::Path;
use axum::routing::{get, post as on_post};
use axum::{BoxError, Router};
use bytes::Bytes;
use dynamodb_idempotency::Execution;
use dynamodb_idempotency::policy::Failure;
use futures::{StreamExt, stream};
use http::StatusCode;
use tower::ServiceExt;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower_http::limit::RequestBodyLimitLayer;

use super::message::{by, is_replay, keyless, outcome, post, problem, through, to, whole};
use crate::support::{Gate, Runs, Store};

/// The layer sees `/payments` in both cases.
#[tokio::test]
async fn one_user_does_not_get_the_answer_of_another_behind_a_nested_prefix() {
    let store = Store::open_in_real_time().await;
    let pay = on_post(async |Path(user): Path<String>| user);
    let pay = pay.route_layer(store.idempotency().http("pay").layer().unwrap());
    let router = Router::new().nest("/users/{user}", Router::new().route("/payments", pay));
    let of = |user: &str| to(post("k", "{}"), &format!("/users/{user}/payments"));
    for (user, expected) in [("anna", "200"), ("bert", "422 Mismatch"), ("anna", "200 replay")] {
        let answer = through(&router, of(user)).await;
        assert_eq!(outcome(&answer), expected, "{user}");
        assert!(user != "anna" || answer.body() == "anna");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_of_a_layer_above_is_too_large() {
    let store = Store::open_in_real_time().await;
    let pay =
        on_post(async || "paid").route_layer(store.idempotency().http("pay").layer().unwrap());
    let router = Router::new().route("/payments", pay).layer(RequestBodyLimitLayer::new(8));
    // Without a length: the limit shows while the body is read.
    let chunks = |chunk| Body::from_stream(stream::iter([Ok::<_, BoxError>(chunk), Ok("5678")]));
    for (first, expected) in [("12345", "413 BodyTooLarge"), ("1234", "200")] {
        let request = post("k", "").map(|_| chunks(first));
        let answer = whole(router.clone().oneshot(request).await.unwrap()).await;
        assert_eq!(outcome(&answer), expected, "{first}");
    }
}

/// The inner layer would wait for the record of the outer one, which waits for it.
#[tokio::test]
async fn two_layers_with_the_same_scope_around_one_handler_are_a_configuration_error() {
    let (store, runs) = (Store::open_in_real_time().await, Runs::default());
    let idempotency = store.idempotency();
    let layered = |inner: &str| {
        let runs = runs.clone();
        let pay = on_post(async move || runs.add().to_string());
        let pay = pay.route_layer(idempotency.http(inner).layer().unwrap());
        Router::new().route("/payments", pay).layer(idempotency.http("pay").layer().unwrap())
    };
    let error = through(&layered("pay"), post("k", "{}")).await;
    problem(&error, 500, "Misconfigured");
    assert_eq!(runs.count(), 0);
    assert_eq!(through(&layered("charge"), post("k2", "{}")).await.body(), "1");
}

#[tokio::test]
async fn on_a_method_the_layer_leaves_other_routes_as_they_are() {
    let store = Store::open_in_real_time().await;
    let pay =
        on_post(async || "paid").route_layer(store.idempotency().http("pay").layer().unwrap());
    let router = Router::new().route("/payments", pay).route("/reports", get(async || "report"));
    for (name, request, status) in [
        ("another route", to(keyless(""), "/reports"), 405),
        ("another method", by("PATCH", keyless("")), 405),
        ("no route", to(keyless(""), "/nowhere"), 404),
        ("its route", keyless(""), 400),
    ] {
        assert_eq!(through(&router, request).await.status(), status, "{name}");
    }
}

/// As in the guide: a request that was shed has executed nothing.
#[tokio::test]
async fn a_request_that_was_shed_uses_up_no_attempt() {
    async fn shed(execution: Execution, _: BoxError) -> StatusCode {
        execution.discard();
        StatusCode::SERVICE_UNAVAILABLE
    }

    let (store, gate) = (Store::open_in_real_time().await, Gate::default());
    let held = gate.clone();
    let pay = on_post(move |execution: Execution| {
        let held = held.clone();
        async move {
            held.pass().await;
            format!("{:?}", execution.attempt())
        }
    });
    let retain = Failure::Retain { max_attempts: 2 };
    let http = store.idempotency().http("pay").policy(|policy| policy.failure(retain));
    let shedding =
        (HandleErrorLayer::new(shed), LoadShedLayer::new(), GlobalConcurrencyLimitLayer::new(1));
    let router = Router::new()
        .route("/payments", pay.route_layer(shedding).route_layer(http.layer().unwrap()));
    let first = tokio::spawn({
        let router = router.clone();
        async move { through(&router, post("first", "{}")).await }
    });
    gate.reached().await;
    for _ in 0..3 {
        assert_eq!(through(&router, post("second", "{}")).await.status(), 503);
    }
    gate.open();
    assert_eq!(first.await.unwrap().status(), 200);
    assert_eq!(through(&router, post("second", "{}")).await.status(), 200);
}

/// A frame that counts itself, and has one byte.
struct Frame(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        b"x"
    }
}

/// A body of many frames. It panics if more than a few of them are kept.
fn tiny_frames() -> Body {
    let counter = Arc::new(());
    let frames = stream::iter(0..10_000).map(move |_| {
        let kept = Arc::strong_count(&counter) - 1;
        assert!(kept <= 2, "{kept} frames are kept");
        Ok::<_, BoxError>(Bytes::from_owner(Frame(Arc::clone(&counter))))
    });
    Body::from_stream(frames)
}

#[tokio::test]
async fn frames_are_copied_and_not_kept() {
    let (store, runs) = (Store::open_in_real_time().await, Runs::default());
    let counted = runs.clone();
    let pay = on_post(move |body: Bytes| {
        counted.add();
        async move { (body.len() == 10_000).then(tiny_frames).unwrap() }
    });
    let pay = pay.route_layer(store.idempotency().http("pay").layer().unwrap());
    let router = Router::new().route("/payments", pay);
    for is_repeat in [false, true] {
        let request = post("k", "").map(|_| tiny_frames());
        let response = whole(router.clone().oneshot(request).await.unwrap()).await;
        assert_eq!((response.status().as_u16(), is_replay(&response)), (200, is_repeat));
        assert_eq!(response.body().len(), 10_000);
    }
    assert_eq!(runs.count(), 1);
}
