//! Who has answered, for layers above: they need not read the response.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse;
use bytes::Bytes;
use dynamodb_idempotency::http::{AnsweredBy, Http, ProblemKind};
use dynamodb_idempotency::policy::Failure;
use dynamodb_idempotency::{Fingerprint, Reconciled, Transaction};
use http::Response;
use lambda_http::service_fn;
use tower::{Layer, ServiceExt};

use super::message::{by, keyless, post, through};
use crate::support::{Act, Link, Runs, Store, raw};

/// Who answers requests of a handler that fails for the body `fail`.
async fn answered(http: Http, request: http::Request<Bytes>) -> Option<AnsweredBy> {
    let handler = tower::service_fn(async |request: Request| {
        let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
        let status = if body == "fail" { 503 } else { 201 };
        let response = Response::builder().status(status).body(Body::empty());
        Ok::<_, Infallible>(response.unwrap())
    });
    let response = through(&http.layer().unwrap().layer(handler), request).await;
    response.extensions().get().copied()
}

#[tokio::test]
async fn a_layer_above_sees_what_answered() {
    let (store, link) = (Store::open().await, Link::without_retries());
    let http = || store.over(&link).http("pay");
    let problem = |kind| Some(AnsweredBy::Problem(kind));
    let kept = || http().policy(|policy| policy.failure(Failure::Replay));
    let cases = [
        ("a first run", http(), post("k", "1"), Some(AnsweredBy::Handler)),
        ("a repeat", http(), post("k", "1"), Some(AnsweredBy::Replay)),
        ("another request", http(), post("k", "2"), problem(ProblemKind::Mismatch)),
        ("no key", http(), keyless(""), problem(ProblemKind::KeyMissing)),
        ("a failure", http(), post("f", "fail"), Some(AnsweredBy::Handler)),
        ("a failure that is kept", kept(), post("f", "fail"), Some(AnsweredBy::Handler)),
        ("its repeat", kept(), post("f", "fail"), Some(AnsweredBy::Replay)),
        ("another method", http(), by("GET", post("k", "1")), None),
    ];
    for (name, http, request, by) in cases {
        assert_eq!(answered(http, request).await, by, "{name}");
    }
    link.wire.down(Act::LoseRequest);
    assert_eq!(answered(http(), post("d", "1")).await, problem(ProblemKind::Unavailable));
}

/// Whatever the user's own hooks make of the response.
#[tokio::test]
async fn hooks_that_make_another_response_change_nothing_of_it() {
    let store = Store::open().await;
    let http = || {
        let http = store.idempotency().http("pay").on_replay(|_| Response::new(Bytes::new()));
        http.render_problem(|_| Response::new(Bytes::new()))
    };
    assert_eq!(answered(http(), post("k", "1")).await, Some(AnsweredBy::Handler));
    assert_eq!(answered(http(), post("k", "1")).await, Some(AnsweredBy::Replay));
    let mismatch = Some(AnsweredBy::Problem(ProblemKind::Mismatch));
    assert_eq!(answered(http(), post("k", "2")).await, mismatch);
}

#[tokio::test]
async fn a_reconcile_hooks_answer_is_the_hooks() {
    type Found = fn(Response<String>) -> Reconciled<Response<String>, Response<String>>;
    for found in [Reconciled::Completed as Found, Reconciled::Failed] {
        let store = Store::open().await;
        store.put(raw::abandoned("pay#k")).await;
        let http = store.idempotency().http("pay").reconcile(move |_| async move {
            Ok::<_, Infallible>(found(Response::new("found".to_owned())))
        });
        let http = http.fingerprint(|_, _| Fingerprint::builder().finish());
        assert_eq!(answered(http, post("k", "1")).await, Some(AnsweredBy::Hook));
    }
}

#[tokio::test]
async fn lambda_functions_see_what_answered() {
    let (store, runs) = (Store::open().await, Runs::default());
    let handler = service_fn(move |_: lambda_http::Request| {
        let run = runs.add();
        async move { Ok::<_, Infallible>(run.to_string()) }
    });
    let service = store.idempotency().http("pay").wrap(handler).unwrap();
    let transfer = service_fn(async |_: lambda_http::Request| {
        Ok::<_, Infallible>(Transaction::new(Response::new(lambda_http::Body::Empty)).items([]))
    });
    let transaction = store.idempotency().http("transfer").wrap_transaction(transfer).unwrap();
    let sent = |body| post("k", body).map(|body: Bytes| lambda_http::Body::Binary(body.into()));
    let mismatch = AnsweredBy::Problem(ProblemKind::Mismatch);
    for (body, by) in [("1", AnsweredBy::Handler), ("1", AnsweredBy::Replay), ("2", mismatch)] {
        let response = service.clone().oneshot(sent(body)).await.unwrap().into_inner();
        assert_eq!(response.extensions().get(), Some(&by));
        let response = transaction.clone().oneshot(sent(body)).await.unwrap().into_inner();
        assert_eq!(response.extensions().get(), Some(&by));
    }
}

/// Nothing is written, and the handler's response is not what the client gets.
#[tokio::test]
async fn a_transaction_whose_response_cannot_be_sent_is_answered_by_a_problem() {
    let store = Store::open().await;
    let http = store.idempotency().http("transfer").key_optional();
    let broken = Some(AnsweredBy::Problem(ProblemKind::BodyBroken));
    let failing = tower::service_fn(async |_: Request| {
        let pieces = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("gone"))]);
        let response = Response::new(Body::from_stream(pieces));
        Ok::<_, Infallible>(Transaction::new(response).into_response())
    });
    let service = http.transaction_layer().unwrap().layer(failing);
    for (name, request) in [("a key", post("l", "1")), ("no key", keyless("1"))] {
        let response = through(&service, request).await;
        assert_eq!(response.extensions().get().copied(), broken, "{name}");
    }
    assert_eq!(store.status("transfer#l").await, None);
}
