//! A whole axum `Router` under `lambda_http`: routing, extractors and state are axum's as ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post as on_post};
use axum::{Extension, Json, Router};
use bytes::Bytes;
use dynamodb_idempotency::Execution;
use http::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use super::event::Kind;
use super::function::Function;
use super::message::{assert_same, by, outcome, post, to, without};
use super::site::{Api, listen};
use crate::support::{Link, Store};

type Ledger = Arc<AtomicU32>;

#[derive(Deserialize)]
struct Options {
    currency: Option<String>,
}

async fn refund(
    State(ledger): State<Ledger>,
    Path(payment): Path<String>,
    Query(options): Query<Options>,
    Extension(execution): Extension<Execution>,
    Json(body): Json<Value>,
) -> Response {
    let number = ledger.fetch_add(1, Ordering::SeqCst) + 1;
    let answer = json!({
        "number": number, "payment": payment, "currency": options.currency,
        "amount": body["amount"], "attempt": execution.attempt(),
    });
    (StatusCode::CREATED, Json(answer)).into_response()
}

async fn count(State(ledger): State<Ledger>) -> String {
    ledger.load(Ordering::SeqCst).to_string()
}

fn shop() -> Router {
    Router::new()
        .route("/payments/{id}/refunds", on_post(refund))
        .nest("/v2", Router::new().route("/payments/{id}/refunds", on_post(refund)))
        .route("/refunds/count", get(count))
        .with_state(Ledger::default())
}

fn refund_of(id: &str, key: &str) -> Request<Bytes> {
    to(post(key, r#"{"amount":5}"#), &format!("/payments/{id}/refunds?currency=eur"))
}

/// The router behind an HTTP API, by both runners.
async fn served() -> (Store, Link, [Api; 2]) {
    let (store, link) = (Store::open_in_real_time().await, Link::default());
    let wrapped = store.over(&link).http("refund").wrap(shop()).unwrap();
    let functions = [Function::new(wrapped.clone()), Function::under_lambda_http(wrapped)];
    (store, link, functions.map(|function| Api::Lambda(Kind::HttpApi, function)))
}

#[tokio::test]
async fn routes_extractors_and_state_work_and_repeats_are_replayed() {
    let (_store, _, apis) = served().await;
    let first = apis[0].send(refund_of("p1", "k")).await;
    assert_eq!(outcome(&first), "201");
    let expected =
        json!({"number": 1, "payment": "p1", "currency": "eur", "amount": 5, "attempt": 1});
    assert_eq!(serde_json::from_slice::<Value>(first.body()).unwrap(), expected);
    for api in &apis {
        assert_same(&first, &api.send(refund_of("p1", "k")).await);
        api.check([
            ("repeat", refund_of("p1", "k"), "201 replay"),
            ("another path", refund_of("p2", "k"), "422 Mismatch"),
        ])
        .await;
        let count = api.send(by("GET", to(post("k", ""), "/refunds/count"))).await;
        assert_eq!(count.body(), "1");
    }
}

/// All routes share the scope, also those that do not exist: a key is used once in the whole router.
#[tokio::test]
async fn a_nested_route_is_another_request_and_an_unknown_one_a_request_like_any_other() {
    let (_store, _, [api, _]) = served().await;
    let nested = |key| to(refund_of("p1", key), "/v2/payments/p1/refunds?currency=eur");
    let nowhere = || to(post("a", "{}"), "/nowhere");
    api.check([
        ("a route", refund_of("p1", "k"), "201"),
        ("a nested route", nested("k"), "422 Mismatch"),
        ("with another key", nested("k2"), "201"),
        ("again", nested("k2"), "201 replay"),
        ("an unknown route", nowhere(), "404"),
        ("again", nowhere(), "404 replay"),
    ])
    .await;
}

/// The handler has not begun: the client fixes its request and keeps its key.
#[tokio::test]
async fn what_axum_refuses_leaves_the_key_free() {
    #[derive(Deserialize)]
    struct Amount {
        amount: u32,
    }
    let pay = on_post(async |Json(Amount { amount }): Json<Amount>| amount.to_string());
    let store = Store::open_in_real_time().await;
    let http = || store.idempotency().http("pay");
    let layered =
        Router::new().route("/payments", pay.clone().route_layer(http().layer().unwrap()));
    let apis = [
        Api::Lambda(
            Kind::HttpApi,
            Function::new(http().wrap(Router::new().route("/payments", pay)).unwrap()),
        ),
        Api::Server(listen(layered).await),
    ];
    for (number, api) in apis.iter().enumerate() {
        let good = |key: &str| post(&format!("{key}{number}"), r#"{"amount":5}"#);
        let cases = [
            ("not JSON", "400", post(&format!("a{number}"), "{"), good("a")),
            ("no type", "415", without(good("b"), "content-type"), good("b")),
            ("no number", "422", post(&format!("c{number}"), r#"{"amount":"5"}"#), good("c")),
            ("no such method", "405", by("PATCH", good("d")), good("d")),
        ];
        for (name, refused, bad, good) in cases {
            api.check([
                (name, bad.clone(), refused),
                (name, bad, refused),
                (name, good.clone(), "200"),
                (name, good, "200 replay"),
            ])
            .await;
        }
    }
}

/// One route alone, while the rest of the router asks for no keys.
#[tokio::test]
async fn one_route_of_a_router_can_have_the_layer() {
    let (store, link) = (Store::open_in_real_time().await, Link::default());
    let layer = store.over(&link).http("refund").layer().unwrap();
    let inner = Router::new()
        .route("/payments/{id}/refunds", on_post(refund).route_layer(layer))
        .route("/log", on_post(count))
        .with_state(Ledger::default());
    // A REST API puts its stage before the path.
    let router = inner.clone().nest("/prod", inner);
    for kind in Kind::ALL {
        let api = Api::Lambda(kind, Function::under_lambda_http(router.clone()));
        let key = format!("{kind:?}");
        api.replayed(refund_of("p1", &key)).await;
        link.wire.forget();
        api.check([(&key, to(post(&key, ""), "/log"), "200")]).await;
        assert_eq!(link.wire.requests(), [""; 0]);
    }
}
