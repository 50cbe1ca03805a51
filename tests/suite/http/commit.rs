//! The client gets the committed response, however its handler ends.

use bytes::Bytes;
use dynamodb_idempotency::{Error, Execution};
use http::{Request, Response};

use super::message::{assert_same, is_replay, outcome, post};
use super::site::{Api, Site, everywhere, paid};
use crate::faq::invalid;
use crate::support::Charging;
use crate::support::effects::count;

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
            let mut first = api.send(post(&key, "{}")).await;
            let run = site.runs.count();
            assert_eq!((outcome(&first), first.body()), ("503".to_owned(), paid(run).body()));
            let cookie = first.headers_mut().remove("set-cookie");
            assert_eq!(cookie, Some("visits=1".parse().unwrap()));
            let repeat = api.send(post(&key, "{}")).await;
            assert!(is_replay(&repeat));
            assert_same(&first, &repeat);
            let row = format!("effect {} {then:?}", site.scope());
            assert_eq!((site.store.counted(&row).await, site.runs.count()), (1, run));
        }
    }
}

const WRONG_KIND: &str = "an HTTP handler commits by commit_response(), a function by commit()";

#[tokio::test]
async fn what_is_no_response_cannot_be_committed() {
    for site in everywhere().await {
        let handler = |request: Request<Bytes>| async move {
            let execution: &Execution = request.extensions().get().expect("it is there");
            let mut early = paid(1);
            *early.status_mut() = http::StatusCode::EARLY_HINTS;
            let interim = execution.commit_response(&early, []).await.unwrap_err();
            let reason = "the answer cannot be serialized: its status is 1xx";
            assert!(invalid(&interim).starts_with(reason));
            assert_eq!(invalid(&execution.commit("paid", []).await.unwrap_err()), WRONG_KIND);
            paid(1)
        };
        let api = site.serve(site.http(), handler).await;
        api.check([("a handler without a commit", post("k", "{}"), "201")]).await;
    }
    let store = crate::support::Store::open().await;
    let answer = store.idempotency().calling("o").run(async |execution| {
        let response = execution.commit_response(&paid(1), []).await;
        assert_eq!(invalid(&response.unwrap_err()), WRONG_KIND);
        Ok::<_, Error>(1)
    });
    assert_eq!(answer.await.unwrap(), 1);
}
