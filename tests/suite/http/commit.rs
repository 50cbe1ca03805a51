//! The client gets the committed response, however its handler ends.

use bytes::Bytes;
use dynamodb_idempotency::{Error, ErrorKind, Execution};
use http::{Request, Response};

use super::message::{assert_same, is_replay, post, problem, values};
use super::site::{Api, Site, everywhere, paid};
use crate::faq::invalid;
use crate::support::effects::count;
use crate::support::{Charging, commit_kind, raw};

/// What a handler does after its commit.
#[derive(Clone, Copy, Debug)]
enum Then {
    Return,
    Other,
    Fail,
    NothingExecuted,
    Panic,
}

/// 503 with a cookie, which no plain answer could be stored with.
fn booked(run: u32) -> Response<Bytes> {
    let mut response = paid(run);
    *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().append("set-cookie", "visits=1".parse().unwrap());
    response.headers_mut().append("x-two", "b".parse().unwrap());
    response.headers_mut().append("x-two", "a".parse().unwrap());
    response
}

async fn booking(site: &Site, then: Then) -> Api {
    let (runs, table) = (site.runs.clone(), site.store.table().to_owned());
    let scope = site.scope();
    let handler = move |request: Request<Bytes>| {
        let (runs, table) = (runs.clone(), table.clone());
        async move {
            let execution: &Execution = request.extensions().get().expect("it is there");
            let response = booked(runs.add());
            let row = format!("effect {scope} {then:?}");
            execution.commit_response(&response, [count(&table, &row)]).await.unwrap();
            match then {
                Then::Return => response,
                Then::Other => paid(99),
                Then::Fail => {
                    Response::builder().status(500).body(Bytes::new()).expect("a response")
                }
                Then::NothingExecuted => {
                    execution.discard();
                    paid(99)
                }
                Then::Panic => panic!("after the commit"),
            }
        }
    };
    site.serve(site.http(), handler).await
}

#[tokio::test]
async fn the_client_gets_it_byte_for_byte_whatever_the_handler_returns() {
    for site in everywhere().await {
        for then in [Then::Return, Then::Other, Then::Fail, Then::NothingExecuted, Then::Panic] {
            let (key, api) = (format!("{then:?}"), booking(&site, then).await);
            let first = api.send(post(&key, "{}")).await;
            let run = site.runs.count();
            assert_eq!((first.status().as_u16(), first.body()), (503, paid(run).body()));
            assert_eq!(values(first.headers(), "set-cookie"), ["visits=1"]);
            assert!(!is_replay(&first));
            let repeat = api.send(post(&key, "{}")).await;
            assert!(is_replay(&repeat));
            assert_eq!(values(repeat.headers(), "set-cookie"), [""; 0]);
            let mut without_cookie = first;
            without_cookie.headers_mut().remove("set-cookie");
            assert_same(&without_cookie, &repeat);
            let row = format!("effect {} {then:?}", site.scope());
            assert_eq!((site.store.counted(&row).await, site.runs.count()), (1, run));
        }
    }
}

#[tokio::test]
async fn who_lost_the_lease_commits_nothing_and_gets_what_counts() {
    for site in everywhere().await {
        for completed in [true, false] {
            let key = format!("k{completed}");
            let (store, table) = (site.store.clone(), site.store.table().to_owned());
            let (pk, row) = (site.pk(&key), format!("effect {} {completed}", site.scope()));
            let counted = row.clone();
            let handler = move |request: Request<Bytes>| {
                let (store, table) = (store.clone(), table.clone());
                let (pk, row) = (pk.clone(), row.clone());
                async move {
                    let execution: &Execution = request.extensions().get().expect("it is there");
                    let mut theirs = store.record(&pk).await;
                    theirs.insert("owner".to_owned(), raw::s(raw::OTHER_OWNER));
                    if completed {
                        let done = raw::completed(&pk, "");
                        theirs.insert("status".to_owned(), raw::s("COMPLETED"));
                        theirs.insert("completed_at".to_owned(), done["completed_at"].clone());
                        theirs.insert("response".to_owned(), http_answer("theirs"));
                    }
                    store.put(theirs).await;
                    let response = paid(1);
                    let lost = execution.commit_response(&response, [count(&table, &row)]).await;
                    assert_eq!(commit_kind(&lost), ErrorKind::LeaseLost);
                    response
                }
            };
            let api = site.serve(site.http(), handler).await;
            let response = api.send(post(&key, "{}")).await;
            if completed {
                assert_eq!(
                    (is_replay(&response), response.body().as_ref()),
                    (true, &b"theirs"[..])
                );
            } else {
                problem(&response, 409, "LeaseLost");
            }
            assert_eq!(site.store.counted(&counted).await, 0);
        }
    }
}

pub(crate) fn http_answer(body: &str) -> aws_sdk_dynamodb::types::AttributeValue {
    use aws_sdk_dynamodb::types::AttributeValue;
    AttributeValue::M(std::collections::HashMap::from([
        ("status".to_owned(), raw::n(201)),
        ("headers".to_owned(), AttributeValue::L(Vec::new())),
        ("body".to_owned(), raw::s(body)),
    ]))
}

fn is_wrong_kind_of_answer(result: &Result<(), Error>) {
    let message = "an HTTP handler commits by commit_response(), a function by commit()";
    assert_eq!(invalid(result.as_ref().unwrap_err()), message);
}

#[tokio::test]
async fn an_interim_response_cannot_be_committed() {
    for site in everywhere().await {
        let handler = |request: Request<Bytes>| async move {
            let execution: &Execution = request.extensions().get().expect("it is there");
            let mut early = paid(1);
            *early.status_mut() = http::StatusCode::EARLY_HINTS;
            let wrong = execution.commit_response(&early, []).await.unwrap_err();
            assert!(
                invalid(&wrong).starts_with("the answer cannot be serialized: its status is 1xx")
            );
            paid(1)
        };
        let api = site.serve(site.http(), handler).await;
        assert_eq!(api.send(post("k", "{}")).await.status(), 201);
    }
}

#[tokio::test]
async fn a_functions_commit_in_an_http_handler_is_an_error_and_the_reverse() {
    for site in everywhere().await {
        let handler = |request: Request<Bytes>| async move {
            let execution: &Execution = request.extensions().get().expect("it is there");
            let wrong = execution.commit("paid", []).await;
            is_wrong_kind_of_answer(&wrong);
            paid(1)
        };
        let api = site.serve(site.http(), handler).await;
        assert_eq!(api.send(post("k", "{}")).await.status(), 201);
    }
    let store = crate::support::Store::open().await;
    let answer = store.idempotency().calling("o").run(async |execution| {
        let wrong = execution.commit_response(&paid(1), []).await;
        is_wrong_kind_of_answer(&wrong);
        Ok::<_, Error>(1)
    });
    assert_eq!(answer.await.unwrap(), 1);
}
