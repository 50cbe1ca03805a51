//! Handlers whose whole effect is one transaction, around a `service_fn` and on a route of a server.

use std::convert::Infallible;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::any;
use bytes::Bytes;
use dynamodb_idempotency::Transaction;
use dynamodb_idempotency::http::Http;
use futures::stream;
use http::{Request, Response, StatusCode};
use lambda_http::service_fn;

use super::event::Kind;
use super::function::Function;
use super::message::{assert_same, by, is_replay, keyless, outcome, post, problem, to};
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

/// What only axum's handlers can do: responses with other bodies, and errors of their own.
fn transfer_on_axum(
    act: &str,
    table: &str,
    run: u32,
) -> Result<Transaction<axum::response::Response>, StatusCode> {
    let body = |pieces| axum::body::Body::from_stream(stream::iter(pieces));
    match act {
        "own error" => Err(StatusCode::SERVICE_UNAVAILABLE),
        "no transaction" => Err(StatusCode::OK),
        "broken" => {
            let pieces = vec![Ok("half of "), Err(std::io::Error::other("gone"))];
            Ok(Transaction::new(body(pieces).into_response()).items([count(table, "effect")]))
        }
        "slow" => Ok(transfer("bare", table, run).on_condition_failed(|_| {
            let never = stream::pending::<Result<Bytes, std::io::Error>>();
            Some(axum::body::Body::from_stream(never).into_response())
        })),
        _ => Ok(transfer(act, table, run)),
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

    /// `/payments` under the transaction layer, `/plain` under the other one, `/bare` under none.
    async fn on_a_server(change: impl FnOnce(Http) -> Http) -> Self {
        let store = Store::open_in_real_time().await;
        let link = Link::default();
        let http = change(store.over(&link).http("transfers"));
        let handler = async |State((table, runs)): State<(String, Runs)>, act: String| {
            transfer_on_axum(&act, &table, runs.add())
        };
        let layer = http.clone().transaction_layer().unwrap();
        let router = Router::new()
            .route("/payments", any(handler).layer(layer))
            .route("/plain", any(handler).layer(http.layer().unwrap()))
            .route("/bare", any(handler))
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
    for transfers in Transfers::in_both_places(|http| http).await {
        let api = &transfers.api;
        api.check([
            ("an answer that is stored", post("poor", "{}"), "402"),
            ("none", post("bare", "bare"), "409 ConditionFailed"),
            ("an answer that is not", post("busy", "busy"), "409"),
        ])
        .await;
        transfers.store.deposit("alice", 50).await;
        api.check([
            ("what was stored stays", post("poor", "{}"), "402 replay"),
            ("what was not happens now", post("bare", "bare"), "201"),
            ("and this too", post("busy", "busy"), "201"),
        ])
        .await;
        assert_eq!(transfers.effects().await, (2, 40));
    }
    // An answer whose body is not there when it is needed is not sent.
    let transfers = Transfers::on_a_server(|http| http).await;
    transfers.api.check([("slow", post("slow", "slow"), "409 ConditionFailed")]).await;
    transfers.store.deposit("alice", 5).await;
    transfers.api.check([("slow", post("slow", "slow"), "201")]).await;
}

#[tokio::test]
async fn what_executes_nothing_leaves_nothing() {
    let both = [("refuse", "422"), ("fail", "503"), ("panic", "500 HandlerPanicked")];
    let invalid = [("twice", "500 Misconfigured"), ("interim", "500 Misconfigured")];
    let on_axum = [
        ("own error", "503"),
        ("no transaction", "200"),
        ("no transaction", "200"),
        ("broken", "500 BodyBroken"),
    ];
    for transfers in Transfers::in_both_places(|http| http).await {
        transfers.store.deposit("alice", 5).await;
        let is_server = matches!(transfers.api, Api::Server(_));
        // One request: whether there is an answer already. None where the transaction is invalid.
        let acts = both.map(|act| (act, 1)).into_iter().chain(invalid.map(|act| (act, 0)));
        for ((act, expected), requests) in
            acts.chain(on_axum.map(|act| (act, 1)).into_iter().filter(|_| is_server))
        {
            assert_eq!(outcome(&transfers.send(post("k", act)).await), expected, "{act}");
            assert_eq!(transfers.link.wire.requests().len(), requests, "{act}");
        }
        transfers.api.check([("the key is free", post("k", "{}"), "201")]).await;
        assert_eq!(transfers.effects().await, (1, 0));
    }
}

#[tokio::test]
async fn a_transaction_that_no_layer_takes_is_no_success() {
    let transfers = Transfers::on_a_server(|http| http).await;
    transfers.store.deposit("alice", 5).await;
    for path in ["/plain", "/bare", "/plain", "/bare"] {
        let answer = transfers.send(to(post("k", "bare"), path)).await;
        let body = problem(&answer, 500, "Misconfigured");
        assert!(body["detail"].as_str().is_some_and(|detail| detail.contains("transaction")));
    }
    assert_eq!(transfers.effects().await, (0, 5));
}

#[tokio::test]
async fn the_key_is_needed_and_another_owner_respected() {
    for api in Transfers::in_both_places(|http| http).await {
        problem(&api.send(keyless("")).await, 400, "KeyMissing");
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
    for transfers in Transfers::in_both_places(Http::key_optional).await {
        transfers
            .api
            .check([
                ("PUT that reads", by("PUT", post("k", "read")), "200"),
                ("GET that reads", by("GET", post("k", "read")), "200"),
                ("a read without a key", keyless("read"), "200"),
                ("PUT that writes", by("PUT", post("k", "{}")), "500 Misconfigured"),
                ("a write without a key", keyless("{}"), "500 Misconfigured"),
            ])
            .await;
        assert_eq!(transfers.link.wire.requests(), [""; 0]);
        assert_eq!(transfers.effects().await, (0, 0));
    }
}
