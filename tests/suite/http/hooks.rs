//! What users put between a request, its record and its replay. Of what is kept out of the table, the
//! first client gets all, no repeat does, and it is nowhere stored.

use std::convert::Infallible;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use dynamodb_idempotency::http::{Http, StoredUntil};
use dynamodb_idempotency::policy::Failure;
use dynamodb_idempotency::{Execution, Fingerprint, Reconciled, Transaction};
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use lambda_http::{Body, service_fn};

use super::event::Kind;
use super::function::Function;
use super::message::{is_replay, outcome, post, values};
use super::site::{Api, Site, everywhere};
use crate::answer_codec::shows;
use crate::support::effects::{count, debit};
use crate::support::{Act, Link, Runs, Store, raw};

#[tokio::test]
async fn a_replay_is_changed_before_it_goes_out_and_the_record_is_not() {
    for site in everywhere().await {
        let asked = Runs::default();
        let counted = asked.clone();
        let http = site.http().on_replay(move |response: Response<Bytes>| {
            let run = counted.add();
            let (mut head, body) = response.into_parts();
            assert_eq!(head.headers["idempotency-replayed"], "true");
            head.headers.insert("x-replay", HeaderValue::from(run));
            let text = String::from_utf8(body.into()).unwrap();
            Response::from_parts(head, text.replace("run", "replayed_run").into())
        });
        let api = site.paying(http).await;
        let first = api.send(post("k", "{}")).await;
        assert_eq!((first.body().as_ref(), asked.count()), (&br#"{"run":1}"#[..], 0));
        let before = site.item("k").await;
        for replay in 1..=2 {
            let repeat = api.send(post("k", "{}")).await;
            assert_eq!(outcome(&repeat), "201 replay");
            assert_eq!(repeat.body(), r#"{"replayed_run":1}"#);
            assert_eq!(repeat.headers()["x-replay"], replay.to_string());
        }
        assert_eq!(site.item("k").await, before);
        api.check([("another request", post("k", "[]"), "422 Mismatch")]).await;
        assert_eq!((asked.count(), site.runs.count()), (2, 1));
    }
}

/// Also an answer of the local cache, and a failure that is kept.
#[tokio::test]
async fn a_replay_says_when_its_answer_expires() {
    for site in everywhere().await {
        let cached = site.store.builder(&site.link).local_cache(1 << 20).build().unwrap();
        let kept = |http: Http| http.policy(|policy| policy.failure(Failure::Replay));
        for (key, status, http) in [
            ("stored", 201, site.http()),
            ("cached", 201, cached.http(site.scope())),
            ("kept", 500, kept(site.http())),
        ] {
            let http = http.on_replay(|mut response: Response<Bytes>| {
                let StoredUntil(end) = *response.extensions().get().expect("a replay says it");
                let seconds = end.duration_since(UNIX_EPOCH).unwrap().as_secs();
                response.headers_mut().insert("x-until", seconds.into());
                response
            });
            let answer = move |_| {
                let response = Response::builder().status(status);
                response.body(Bytes::from_static(b"{}")).expect("a response")
            };
            let api = site.answering(http, answer).await;
            assert!(!is_replay(&api.send(post(key, "{}")).await));
            let repeat = api.send(post(key, "{}")).await;
            assert!(is_replay(&repeat), "{key}");
            let until = repeat.headers()["x-until"].to_str().unwrap();
            let item = site.item(key).await.unwrap();
            assert_eq!(item["expires_at"].as_n().unwrap(), until, "{key}");
        }
    }
}

#[tokio::test]
async fn a_body_that_was_changed_does_not_go_out_with_the_length_that_it_had() {
    for site in everywhere().await {
        let http = site.http().on_replay(|response: Response<Bytes>| {
            response.map(|body| [&body, &b" again"[..]].concat().into())
        });
        let answer = |_| {
            let response = Response::builder().header("content-length", "4");
            response.body(Bytes::from_static(b"paid")).expect("a response")
        };
        let api = site.answering(http, answer).await;
        assert_eq!(api.send(post("k", "{}")).await.body(), "paid");
        let repeat = api.send(post("k", "{}")).await;
        assert_eq!(repeat.body(), "paid again");
        let lengths = values(repeat.headers(), "content-length");
        assert!(lengths.is_empty() || lengths == ["10"], "{lengths:?}");
    }
}

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

/// Returns the record.
async fn check_twice(site: &Site, key: &str, api: &Api) -> raw::Item {
    let first = api.send(post(key, "{}")).await;
    let repeat = api.send(post(key, "{}")).await;
    let record = site.item(key).await.expect("a record");
    check(&first, &repeat, &record);
    record
}

#[tokio::test]
async fn what_is_left_out_is_not_stored_and_the_first_client_gets_it() {
    for site in everywhere().await {
        let cached = site.store.builder(&site.link).local_cache(1 << 20).build().unwrap();
        let kept = site.http().policy(|policy| policy.failure(Failure::Replay));
        for (key, http, status, record) in [
            ("stored", site.http(), 201, "COMPLETED"),
            ("cached", cached.http(site.scope()), 201, "COMPLETED"),
            ("kept failure", kept, 503, "FAILED"),
        ] {
            let http = http.on_store(without_token);
            let api = site.answering(http, move |run| session(status, run)).await;
            assert_eq!(raw::status(&check_twice(&site, key, &api).await), record, "{key}");
        }
        assert_eq!(site.runs.count(), 3);
    }
}

/// Both when the client gets the response of the handler and when it gets the stored one.
#[tokio::test]
async fn a_committed_response_is_changed_as_well() {
    for site in everywhere().await {
        for act in [Act::Deliver, Act::LoseResponse] {
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
        assert_eq!(site.runs.count(), 2);
    }
}

#[tokio::test]
async fn a_reconcile_hooks_answers_are_changed_as_well() {
    for site in everywhere().await {
        for (key, fails) in [("completed", false), ("failed", true)] {
            let asked = site.runs.clone();
            let http = site.http().policy(|policy| policy.failure(Failure::Replay));
            let http = http.on_store(without_token).reconcile(move |_| {
                let found = session(201, asked.add()).map(Full::new);
                let answer =
                    if fails { Reconciled::Failed(found) } else { Reconciled::Completed(found) };
                std::future::ready(Ok::<_, Infallible>(answer))
            });
            let http = http.fingerprint(|_, _| Fingerprint::builder().finish());
            site.store.put(raw::abandoned(&site.pk(key))).await;
            let api = site.answering(http, |_| panic!("it ran")).await;
            check_twice(&site, key, &api).await;
        }
        assert_eq!(site.runs.count(), 2);
    }
}

#[tokio::test]
async fn a_transactions_answers_are_changed_as_well() {
    for (balance, status) in [(1, 201), (0, 402)] {
        let (store, link) = (Store::open().await, Link::default());
        store.deposit("alice", balance).await;
        let http = store.over(&link).http("transfers").on_store(without_token);
        let table = store.table().to_owned();
        let handler = service_fn(move |_| {
            let text = |response: Response<Bytes>| {
                response.map(|body| Body::from(String::from_utf8_lossy(&body).into_owned()))
            };
            let transaction =
                Transaction::new(text(session(201, 1))).items([debit(&table, "alice", 1)]);
            let instead = move |_: &_| Some(text(session(402, 2)));
            std::future::ready(Ok::<_, Infallible>(transaction.on_condition_failed(instead)))
        });
        let function = Function::new(http.wrap_transaction(handler).unwrap());
        let api = Api::Lambda(Kind::HttpApi, function);
        let (first, repeat) = (api.send(post("k", "{}")).await, api.send(post("k", "{}")).await);
        assert_eq!(first.status().as_u16(), status);
        check(&first, &repeat, &store.record("transfers#k").await);
    }
}

#[tokio::test]
async fn nothing_is_stored_of_an_answer_whose_hook_makes_it_an_interim_response() {
    for site in everywhere().await {
        let http = site.http().on_store(|mut response| {
            *response.status_mut() = http::StatusCode::EARLY_HINTS;
            response
        });
        let api = site.paying(http).await;
        api.check([
            ("first", post("k", "{}"), "201"),
            ("repeat", post("k", "{}"), "500 AnswerUnavailable"),
        ])
        .await;
        assert_eq!(site.status("k").await.as_deref(), Some("COMPLETED"));
        assert_eq!(site.runs.count(), 1);
    }
}
