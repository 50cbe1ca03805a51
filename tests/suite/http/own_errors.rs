//! Errors of the crate that a handler on Lambda returns by `?` are answered as in axum.

use std::error::Error as StdError;
use std::fmt;

use dynamodb_idempotency::lambda::LambdaResponse;
use dynamodb_idempotency::{Idempotency, RunError, Transaction};
use http::Response;
use lambda_http::{Body, Error, Request, service_fn};
use tower::ServiceExt;

use super::message::{by, post, problem, whole};
use crate::support::{Charging, caller, raw};

/// A handler's own error, with the crate's as its cause.
#[derive(Debug)]
struct Failed(RunError<String>);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the order failed")
    }
}

impl StdError for Failed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// How a handler returns the error of an operation that another call is running.
const WAYS: [&str; 6] = ["error", "run error", "boxed", "cause", "of a step", "own"];

async fn work(idempotency: Idempotency, way: &'static str) -> Result<(), Error> {
    let running = || idempotency.calling("inner");
    match way {
        "error" => {
            let ran = running().run(async |_| Ok::<_, String>(())).await;
            Ok(ran.map_err(|error| error.into_handler().unwrap_err())?)
        }
        "run error" => Ok(running().run(async |_| Ok::<_, String>(())).await?),
        "boxed" => running().run(async |_| Ok::<_, Error>(())).await.map_err(RunError::into_boxed),
        "cause" => Ok(running().run(async |_| Ok::<_, String>(())).await.map_err(Failed)?),
        "of a step" => {
            let outer = idempotency.calling("outer").run(async |_| {
                running().run(async |_| Ok::<_, Error>(())).await?;
                Ok::<_, Error>(())
            });
            Ok(outer.await?)
        }
        "own" => Err("the bank is closed".into()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn an_error_of_the_crate_is_answered_whatever_it_is_boxed_in() {
    let (store, _, idempotency) = caller().await;
    store.put(raw::pending("inner#k")).await;
    // The second request passes through.
    for (way, request) in WAYS.iter().flat_map(|way| [(*way, "POST"), (*way, "GET")]) {
        let sent = |key: &str| by(request, post(key, "{}")).map(|body| Body::Binary(body.into()));
        let handler = {
            let idempotency = idempotency.clone();
            move |_: Request| work(idempotency.clone(), way)
        };
        let plain = {
            let handler = handler.clone();
            service_fn(move |request| {
                let working = handler(request);
                async { working.await.map(|()| Response::new(Body::from("paid"))) }
            })
        };
        let transaction = service_fn(move |request| {
            let working = handler(request);
            async { working.await.map(|()| Transaction::new(Response::new(Body::from("paid")))) }
        });
        let http = || idempotency.http("pay");
        let wrapped = http().wrap(plain.clone()).unwrap().oneshot(sent("a")).await;
        let wrapped = wrapped.map(LambdaResponse::into_inner);
        let transacted = http().wrap_transaction(transaction).unwrap().oneshot(sent("b")).await;
        let transacted = transacted.map(LambdaResponse::into_inner);
        let streamed = http().wrap_streaming(plain).unwrap().oneshot(sent("c")).await;
        if way == "own" {
            for error in [wrapped.err(), transacted.err(), streamed.err()] {
                assert_eq!(error.expect("an error").to_string(), "the bank is closed");
            }
            continue;
        }
        for response in [
            whole(wrapped.unwrap()).await,
            whole(transacted.unwrap()).await,
            whole(streamed.unwrap()).await,
        ] {
            println!("{way}, {request}");
            problem(&response, 409, "InProgress");
            assert!(response.headers().contains_key("retry-after"));
        }
    }
    // The handlers have failed: their keys are free.
    for key in ["a", "b", "c"] {
        let record = store.item(&format!("pay#{key}")).await;
        assert!(record.is_none_or(|record| raw::status(&record) == "RELEASED"), "{key}");
    }
}
