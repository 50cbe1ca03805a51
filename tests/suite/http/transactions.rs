//! Handlers whose whole effect is one transaction, around a `service_fn` and on a route of a server.

use std::convert::Infallible;

use axum::Router;
use axum::extract::State;
use axum::routing::any;
use bytes::Bytes;
use dynamodb_idempotency::Transaction;
use dynamodb_idempotency::http::Http;
use http::{Request, Response};
use lambda_http::service_fn;

use super::event::Kind;
use super::function::Function;
use super::message::{assert_same, by, is_replay, post, problem, without};
use super::site::{Api, listen};
use crate::support::effects::{count, debit};
use crate::support::{Act, Link, Runs, Store, raw};

/// Takes 5 of `alice`; by `act` without an answer for a lack of them, with a refusal, with a panic, or
/// with an answer that is not to be stored.
fn transfer<B>(act: &str, table: &str, run: u32) -> Transaction<Response<B>>
where
    B: From<String> + Send + 'static,
{
    let answer = |status: u16, text: &str| {
        let response = Response::builder().status(status).header("set-cookie", "a=b");
        response.body(B::from(text.to_owned())).expect("a response")
    };
    let effect = count(table, "effect");
    let done = Transaction::new(answer(201, &format!("run {run}")));
    let done = done.items([effect.clone(), debit(table, "alice", 5)]);
    match act {
        "bare" => done,
        "refuse" => Transaction::discard(answer(422, "no")),
        "panic" => panic!("before anything happens"),
        "fail" => Transaction::new(answer(503, "later")),
        "interim" => Transaction::new(answer(103, "early")).items([effect]),
        "read" => Transaction::new(answer(200, "read")),
        "busy" => done.on_condition_failed(move |_| Some(answer(409, "busy"))),
        "twice" => done.items([effect]),
        _ => done.on_condition_failed(move |_| Some(answer(402, "poor"))),
    }
}

struct Transfers {
    store: Store,
    link: Link,
    api: Api,
}

impl Transfers {
    async fn around_a_function(change: impl FnOnce(Http) -> Http) -> Self {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let http = change(store.over(&link).http("transfers"));
        let table = store.table().to_owned();
        let handler = service_fn(move |request: lambda_http::Request| {
            let act = String::from_utf8_lossy(request.body().as_ref()).into_owned();
            let (table, run) = (table.clone(), runs.add());
            async move { Ok::<_, Infallible>(transfer::<lambda_http::Body>(&act, &table, run)) }
        });
        let function = Function::new(http.wrap_transaction(handler).unwrap());
        Self { api: Api::Lambda(Kind::HttpApi, function), store, link }
    }

    async fn on_a_server(change: impl FnOnce(Http) -> Http) -> Self {
        let store = Store::open_in_real_time().await;
        let link = Link::default();
        let http = change(store.over(&link).http("transfers"));
        let handler = async |State((table, runs)): State<(String, Runs)>, act: String| {
            transfer::<axum::body::Body>(&act, &table, runs.add())
        };
        let router = Router::new()
            .route("/payments", any(handler))
            .route_layer(http.transaction_layer().unwrap())
            .with_state((store.table().to_owned(), Runs::default()));
        Self { api: Api::Server(listen(router).await), store, link }
    }

    async fn in_both_places(change: fn(Http) -> Http) -> [Self; 2] {
        [Self::around_a_function(change).await, Self::on_a_server(change).await]
    }

    async fn send(&self, request: Request<Bytes>) -> Response<Bytes> {
        self.link.wire.forget();
        self.api.send(request).await
    }

    async fn effects(&self) -> (i64, i64) {
        (self.store.counted("effect").await, self.store.counted("alice").await)
    }
}

#[tokio::test]
async fn first_and_repeat_take_one_round_trip_each() {
    for api in Transfers::in_both_places(|http| http).await {
        api.store.deposit("alice", 5).await;
        let mut first = api.send(post("k", "{}")).await;
        assert_eq!((first.status().as_u16(), first.body().as_ref()), (201, &b"run 1"[..]));
        assert_eq!(api.link.wire.requests(), ["TransactWriteItems"]);
        assert!(first.headers_mut().remove("set-cookie").is_some());
        let repeat = api.send(post("k", "{}")).await;
        assert_eq!(api.link.wire.requests(), ["TransactWriteItems"]);
        assert!(is_replay(&repeat));
        assert_same(&first, &repeat);
        problem(&api.send(post("k", "bare")).await, 422, "Mismatch");
        assert_eq!(api.effects().await, (1, 0));
    }
}

#[tokio::test]
async fn a_condition_that_fails_gets_its_answer_stored_or_not_by_its_status() {
    for api in Transfers::in_both_places(|http| http).await {
        let poor = api.send(post("poor", "{}")).await;
        assert_eq!((poor.status().as_u16(), is_replay(&poor)), (402, false));
        problem(&api.send(post("bare", "bare")).await, 409, "ConditionFailed");
        assert_eq!(api.send(post("busy", "busy")).await.body().as_ref(), b"busy");
        // What was stored stays, and what was not happens now.
        api.store.deposit("alice", 50).await;
        let poor = api.send(post("poor", "{}")).await;
        assert_eq!((poor.status().as_u16(), is_replay(&poor)), (402, true));
        assert_eq!(api.send(post("bare", "bare")).await.status(), 201);
        assert_eq!(api.send(post("busy", "busy")).await.status(), 201);
        assert_eq!(api.effects().await, (2, 40));
    }
}

#[tokio::test]
async fn what_executes_nothing_leaves_nothing() {
    for api in Transfers::in_both_places(|http| http).await {
        api.store.deposit("alice", 5).await;
        assert_eq!(api.send(post("k", "refuse")).await.status(), 422);
        assert_eq!(api.send(post("k", "fail")).await.status(), 503);
        problem(&api.send(post("k", "panic")).await, 500, "HandlerPanicked");
        // Whether there is an answer already.
        assert_eq!(api.link.wire.requests(), ["GetItem"]);
        for invalid in ["twice", "interim"] {
            problem(&api.send(post("k", invalid)).await, 500, "Misconfigured");
            assert_eq!(api.link.wire.requests(), [""; 0]);
        }
        assert_eq!(api.send(post("k", "{}")).await.status(), 201);
        assert_eq!(api.effects().await, (1, 0));
    }
}

#[tokio::test]
async fn the_key_is_needed_and_another_owner_respected() {
    for api in Transfers::in_both_places(|http| http).await {
        problem(&api.send(without(post("k", ""), "idempotency-key")).await, 400, "KeyMissing");
        let mut pending = raw::pending("transfers#k");
        assert_eq!(api.send(post("k", "{}")).await.status(), 402);
        let fingerprint = api.store.record("transfers#k").await["fingerprint"].clone();
        pending.insert("fingerprint".to_owned(), fingerprint);
        api.store.put(pending).await;
        problem(&api.send(post("k", "{}")).await, 409, "InProgress");
        api.link.wire.every("TransactWriteItems", Act::Answer(400, "ResourceNotFoundException"));
        // The missing table may be the business's: the title does not blame idempotency.
        let missing = problem(&api.send(post("k2", "{}")).await, 500, "Misconfigured");
        assert_eq!(missing["title"], "The server is misconfigured");
    }
}

/// Nothing is written without protection.
#[tokio::test]
async fn what_passes_through_may_read_and_not_write() {
    for api in Transfers::in_both_places(Http::key_optional).await {
        let keyless = |act| without(post("", act), "idempotency-key");
        for request in [by("PUT", post("k", "read")), by("GET", post("k", "read")), keyless("read")]
        {
            let read = api.send(request).await;
            assert_eq!((read.status().as_u16(), read.body().as_ref()), (200, &b"read"[..]));
        }
        for request in [by("PUT", post("k", "{}")), keyless("{}")] {
            problem(&api.send(request).await, 500, "Misconfigured");
        }
        assert_eq!(api.link.wire.requests(), [""; 0]);
        assert_eq!(api.effects().await, (0, 0));
    }
}
