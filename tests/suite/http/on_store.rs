//! What a user keeps out of the table: the first client gets it, no repeat does, and it is nowhere
//! stored.

use std::convert::Infallible;

use bytes::Bytes;
use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::policy::Failure;
use dynamodb_idempotency::{Execution, Reconciled, Transaction};
use http::{Request, Response};
use http_body_util::Full;
use lambda_http::{Body, service_fn};

use super::event::{Kind, response};
use super::function::Function;
use super::message::{assert_same, is_replay, post, problem, values};
use super::site::{Api, Site, everywhere};
use crate::answer_codec::shows;
use crate::support::effects::{count, debit};
use crate::support::{Act, Link, Store, raw};

const TOKEN: &str = "tok_5f3a";

/// With a token in a header and in the body, and with the body's length.
fn session(status: u16, run: u32) -> Response<Bytes> {
    let body = format!(r#"{{"run":{run},"token":"{TOKEN}"}}"#);
    let response = Response::builder().status(status).header("x-token", TOKEN);
    let response = response.header("x-run", run).header("set-cookie", "a=1");
    response.header("content-length", body.len()).body(body.into()).expect("a response")
}

/// Leaves the token out; a cookie that it adds is not stored either.
fn without_token(response: Response<Bytes>) -> Response<Bytes> {
    assert!(!response.headers().contains_key("set-cookie"), "it is not to be stored");
    let (mut head, body) = response.into_parts();
    head.headers.remove("x-token");
    head.headers.append("set-cookie", "b=2".parse().expect("a value"));
    let text = String::from_utf8(body.into()).expect("text");
    Response::from_parts(head, text.replace(TOKEN, "[left out]").into())
}

/// That the first answer has the token, and the table and a repeat's answer have not.
fn check(first: &Response<Bytes>, repeat: &Response<Bytes>, record: &raw::Item) {
    assert!(!is_replay(first) && is_replay(repeat));
    assert_eq!(values(first.headers(), "x-token"), [TOKEN]);
    assert!(String::from_utf8_lossy(first.body()).contains(TOKEN));
    assert!(!shows(record, TOKEN), "{record:?}");
    for response in [first, repeat] {
        let length = response.body().len().to_string();
        let lengths = values(response.headers(), "content-length");
        assert!(lengths.iter().all(|value| *value == length), "{lengths:?} for {length}");
    }
    assert!(!shows(record, "content-length"), "{record:?}");
    assert_eq!(repeat.status(), first.status());
    assert_eq!(values(repeat.headers(), "x-run"), values(first.headers(), "x-run"));
    for absent in ["x-token", "set-cookie"] {
        assert_eq!(values(repeat.headers(), absent), [""; 0]);
    }
    let expected = String::from_utf8_lossy(first.body()).replace(TOKEN, "[left out]");
    assert_eq!(String::from_utf8_lossy(repeat.body()), expected);
}

async fn check_twice(site: &Site, key: &str, api: &Api) {
    let first = api.send(post(key, "{}")).await;
    let repeat = api.send(post(key, "{}")).await;
    check(&first, &repeat, &site.item(key).await.expect("a record"));
    assert_eq!(site.runs.count(), 1);
}

#[tokio::test]
async fn what_is_left_out_is_not_stored_and_the_first_client_gets_it() {
    for cache in [0, 1 << 20] {
        for site in everywhere().await {
            let builder = site.store.builder(&site.link).local_cache(cache);
            let http = builder.build().unwrap().http(site.scope()).on_store(without_token);
            let api = site.answering(http, |run| session(201, run)).await;
            check_twice(&site, &format!("k{cache}"), &api).await;
        }
    }
}

#[tokio::test]
async fn a_failure_that_is_kept_is_changed_as_well() {
    for site in everywhere().await {
        let http = site.http().policy(|policy| policy.failure(Failure::Replay));
        let api = site.answering(http.on_store(without_token), |run| session(503, run)).await;
        check_twice(&site, "k", &api).await;
        assert_eq!(site.status("k").await.as_deref(), Some("FAILED"));
    }
}

/// Both when the client gets the response of the handler and when it gets the stored one.
#[tokio::test]
async fn a_committed_response_is_changed_as_well() {
    for act in [Act::Deliver, Act::LoseResponse] {
        for site in everywhere().await {
            let (runs, table) = (site.runs.clone(), site.store.table().to_owned());
            let handler = move |request: Request<Bytes>| {
                let (response, table) = (session(201, runs.add()), table.clone());
                async move {
                    let execution: &Execution = request.extensions().get().expect("it is there");
                    let items = [count(&table, "effect")];
                    execution.commit_response(&response, items).await.expect("it is taken");
                    Response::new(Bytes::new())
                }
            };
            let api = site.serve(site.http().on_store(without_token), handler).await;
            site.link.wire.next("TransactWriteItems", act.clone());
            check_twice(&site, &format!("{act:?}"), &api).await;
        }
    }
}

#[tokio::test]
async fn a_hooks_answers_are_changed_as_well() {
    for site in everywhere().await {
        for fails in [false, true] {
            let asked = site.runs.clone();
            let http = site.http().policy(|policy| policy.failure(Failure::Replay));
            let http = http.on_store(without_token).reconcile(move |_| {
                let found = session(201, asked.add()).map(Full::new);
                let word =
                    if fails { Reconciled::Failed(found) } else { Reconciled::Completed(found) };
                std::future::ready(Ok::<_, Infallible>(word))
            });
            // A request whose fingerprint is the test's own affair.
            let http =
                http.fingerprint(|_, _| dynamodb_idempotency::Fingerprint::builder().finish());
            let key = format!("{fails}");
            site.store.put(raw::abandoned(&site.pk(&key))).await;
            let before = site.runs.count();
            let api = site.answering(http, |_| panic!("it ran")).await;
            let first = api.send(post(&key, "{}")).await;
            let repeat = api.send(post(&key, "{}")).await;
            check(&first, &repeat, &site.item(&key).await.expect("a record"));
            assert_eq!(site.runs.count(), before + 1);
        }
    }
}

#[tokio::test]
async fn a_transactions_answers_are_changed_as_well() {
    for balance in [1, 0] {
        let (store, link) = (Store::open().await, Link::default());
        store.deposit("alice", balance).await;
        let http = store.over(&link).http("transfers").on_store(without_token);
        let table = store.table().to_owned();
        let function = Function::new(
            http.wrap_transaction(service_fn(move |_| {
                let debit = debit(&table, "alice", 1);
                async move {
                    let body = |response: Response<Bytes>| {
                        response.map(|body| Body::from(String::from_utf8_lossy(&body).into_owned()))
                    };
                    let transaction = Transaction::new(body(session(201, 1))).items([debit]);
                    let instead = move |_: &_| Some(body(session(402, 2)));
                    Ok::<_, Infallible>(transaction.on_condition_failed(instead))
                }
            }))
            .unwrap(),
        );
        let send =
            async || response(&function.invoke(&Kind::HttpApi.event(&post("k", "{}"))).await);
        let (first, repeat) = (send().await, send().await);
        assert_eq!(first.status().as_u16(), if balance == 1 { 201 } else { 402 });
        check(&first, &repeat, &store.record("transfers#k").await);
    }
}

/// Bytes stay bytes and text stays text, because Lambda distinguishes them.
#[tokio::test]
async fn a_hook_that_returns_the_response_unchanged_changes_no_byte() {
    let bodies: [&'static [u8]; 4] = [b"\0\xff\xfe\x80", b"", b"caf\xc3\xa9", b"{}"];
    for site in everywhere().await {
        for (number, body) in bodies.into_iter().enumerate() {
            let answer = move |_| Response::new(Bytes::from_static(body));
            let kept = |http: Http| http.on_store(|response| response);
            let key = format!("k{number}");
            let api = site.answering(kept(site.http()), answer).await;
            let first = api.send(post(&key, "{}")).await;
            let stored = site.item(&key).await.unwrap()["response"].clone();
            let repeat = api.send(post(&key, "{}")).await;
            assert!(is_replay(&repeat));
            assert_same(&first, &repeat);
            let plain = site.answering(site.http(), answer).await;
            plain.send(post(&format!("plain{number}"), "{}")).await;
            let plain = site.item(&format!("plain{number}")).await.unwrap();
            assert_eq!(stored, plain["response"]);
        }
    }
}

#[tokio::test]
async fn nothing_is_stored_of_an_answer_whose_hook_panics_and_it_is_not_made_again() {
    for site in everywhere().await {
        let http = site.http().on_store(|_| panic!("the hook does"));
        let api = site.answering(http, |run| session(201, run)).await;
        let first = api.send(post("k", "{}")).await;
        assert_eq!(
            (first.status().as_u16(), values(first.headers(), "x-token")),
            (201, vec![TOKEN])
        );
        let record = site.item("k").await.unwrap();
        assert_eq!(raw::status(&record), "COMPLETED");
        assert_eq!(record["response"], raw::answer("unavailable", "Http::on_store panicked"));
        problem(&api.send(post("k", "{}")).await, 500, "AnswerUnavailable");
        assert_eq!(site.runs.count(), 1);
    }
}

#[tokio::test]
async fn nothing_is_stored_of_an_answer_whose_hook_makes_it_an_interim_response() {
    for site in everywhere().await {
        let http = site.http().on_store(|mut response| {
            *response.status_mut() = http::StatusCode::EARLY_HINTS;
            response
        });
        let api = site.answering(http, |run| session(201, run)).await;
        assert_eq!(api.send(post("k", "{}")).await.status(), 201);
        assert_eq!(site.status("k").await.as_deref(), Some("COMPLETED"));
        problem(&api.send(post("k", "{}")).await, 500, "AnswerUnavailable");
        assert_eq!(site.runs.count(), 1);
    }
}
