//! A handler whose whole effect is one transaction, around a `service_fn`.

use std::convert::Infallible;

use dynamodb_idempotency::Transaction;
use dynamodb_idempotency::http::Http;
use http::Response;
use lambda_http::{Body, Request, service_fn};

use super::event::{Kind, response};
use super::function::Function;
use super::message::{assert_same, by, is_replay, post, problem, without};
use crate::support::effects::{count, debit};
use crate::support::{Act, Link, Runs, Store, raw};

/// Takes 5 of `alice`; by the request's body without an answer for a lack of them, with a refusal,
/// with a panic, or with an answer that is not to be stored.
fn transfers(http: Http, table: &str, runs: &Runs) -> Function {
    let (table, runs) = (table.to_owned(), runs.clone());
    Function::new(
        http.wrap_transaction(service_fn(move |request: Request| {
            let (table, run) = (table.clone(), runs.add());
            async move {
                let answer = |status: u16, text: &str| {
                    let response = Response::builder().status(status).header("set-cookie", "a=b");
                    response.body(Body::from(text.to_owned())).expect("a response")
                };
                let body = String::from_utf8_lossy(request.body().as_ref()).into_owned();
                let writes = [count(&table, "effect"), debit(&table, "alice", 5)];
                let transaction =
                    Transaction::new(answer(201, &format!("run {run}"))).items(writes);
                Ok::<_, Infallible>(match body.as_str() {
                    "bare" => transaction,
                    "refuse" => Transaction::discard(answer(422, "no")),
                    "panic" => panic!("before anything happens"),
                    "fail" => Transaction::new(answer(503, "later")),
                    "interim" => {
                        Transaction::new(answer(103, "early")).items([count(&table, "effect")])
                    }
                    "read" => Transaction::new(answer(200, "read")),
                    "busy" => transaction.on_condition_failed(move |_| Some(answer(409, "busy"))),
                    "twice" => transaction.items([count(&table, "effect")]),
                    _ => transaction.on_condition_failed(move |_| Some(answer(402, "poor"))),
                })
            }
        }))
        .unwrap(),
    )
}

struct Api {
    store: Store,
    link: Link,
    function: Function,
}

impl Api {
    async fn open(change: impl FnOnce(Http) -> Http) -> Self {
        let (store, link) = (Store::open().await, Link::default());
        let http = change(store.over(&link).http("transfers"));
        let function = transfers(http, store.table(), &Runs::default());
        Self { store, link, function }
    }

    async fn send(&self, request: http::Request<bytes::Bytes>) -> Response<bytes::Bytes> {
        self.link.wire.forget();
        response(&self.function.invoke(&Kind::HttpApi.event(&request)).await)
    }

    async fn effects(&self) -> (i64, i64) {
        (self.store.counted("effect").await, self.store.counted("alice").await)
    }
}

#[tokio::test]
async fn first_and_repeat_take_one_round_trip_each() {
    let api = Api::open(|http| http).await;
    api.store.deposit("alice", 5).await;
    let mut first = api.send(post("k", "{}")).await;
    assert_eq!((first.status().as_u16(), first.body().as_ref()), (201, &b"run 1"[..]));
    assert_eq!(api.link.wire.requests(), ["TransactWriteItems"]);
    assert!(first.headers_mut().remove("set-cookie").is_some());
    let repeat = api.send(post("k", "{}")).await;
    assert_eq!(api.link.wire.requests(), ["TransactWriteItems"]);
    assert!(is_replay(&repeat));
    assert_same(&first, &repeat);
    problem(&api.send(post("k", "{\"other\":1}")).await, 422, "Mismatch");
    assert_eq!(api.effects().await, (1, 0));
}

#[tokio::test]
async fn a_condition_that_fails_gets_its_answer_stored_or_not_by_its_status() {
    let api = Api::open(|http| http).await;
    let poor = api.send(post("poor", "{}")).await;
    assert_eq!((poor.status().as_u16(), is_replay(&poor)), (402, false));
    assert_eq!(api.link.wire.requests(), ["TransactWriteItems", "PutItem"]);
    problem(&api.send(post("bare", "bare")).await, 409, "ConditionFailed");
    assert_eq!(api.send(post("busy", "busy")).await.body().as_ref(), b"busy");
    assert_eq!(api.link.wire.requests(), ["TransactWriteItems"]);
    // What was stored stays, and what was not happens now.
    api.store.deposit("alice", 50).await;
    let poor = api.send(post("poor", "{}")).await;
    assert_eq!((poor.status().as_u16(), is_replay(&poor)), (402, true));
    assert_eq!(api.send(post("bare", "bare")).await.status(), 201);
    assert_eq!(api.send(post("busy", "busy")).await.status(), 201);
    assert_eq!(api.effects().await, (2, 40));
}

#[tokio::test]
async fn what_executes_nothing_leaves_nothing() {
    let api = Api::open(|http| http).await;
    api.store.deposit("alice", 5).await;
    assert_eq!(api.send(post("k", "refuse")).await.status(), 422);
    assert_eq!(api.send(post("k", "fail")).await.status(), 503);
    problem(&api.send(post("k", "panic")).await, 500, "HandlerPanicked");
    // Whether there is an answer already.
    assert_eq!(api.link.wire.requests(), ["GetItem"; 1]);
    for invalid in ["twice", "interim"] {
        problem(&api.send(post("k", invalid)).await, 500, "Misconfigured");
        assert_eq!(api.link.wire.requests(), [""; 0]);
    }
    assert_eq!(api.send(post("k", "{}")).await.status(), 201);
    assert_eq!(api.effects().await, (1, 0));
}

#[tokio::test]
async fn the_key_is_needed_and_another_owner_respected() {
    let api = Api::open(|http| http).await;
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

/// Nothing is written without protection.
#[tokio::test]
async fn what_passes_through_may_read_and_not_write() {
    let api = Api::open(Http::key_optional).await;
    let read = api.send(by("GET", post("k", "read"))).await;
    assert_eq!((read.status().as_u16(), read.body().as_ref()), (200, &b"read"[..]));
    problem(&api.send(by("PUT", post("k", "{}"))).await, 500, "Misconfigured");
    problem(&api.send(without(post("k", "{}"), "idempotency-key")).await, 500, "Misconfigured");
    assert_eq!(api.link.wire.requests(), [""; 0]);
}
