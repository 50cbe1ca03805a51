//! A request that is dropped at any of its pauses: who waits gets one answer, and nothing runs twice.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use dynamodb_idempotency::Transaction;
use futures::future::join_all;
use http::{Request, Response};
use lambda_http::service_fn;
use tower::{Layer, ServiceExt};

use super::message::{post, through};
use crate::loss::dropped::{dropped_at, patient};
use crate::support::effects::count;
use crate::support::{Runs, Store};

/// The handler runs longer than its lease would last without renewal.
#[tokio::test]
async fn wherever_a_client_hangs_up_the_handler_runs_once() {
    for pauses in 0.. {
        let (store, runs) = (Store::open().await, Runs::default());
        let counted = runs.clone();
        let handler = tower::service_fn(move |_: Request<Body>| {
            let runs = counted.clone();
            async move {
                let run = runs.add();
                tokio::time::sleep(Duration::from_secs(40)).await;
                Ok::<_, Infallible>(Response::new(Body::from(format!("run {run}"))))
            }
        });
        let service =
            store.idempotency().http("pay").policy(patient).layer().unwrap().layer(handler);
        let send = async || {
            let sent = through(&service, post("k", "{}")).await;
            (sent.status().as_u16(), sent.into_body())
        };
        let (ended, answers) =
            tokio::join!(dropped_at(pauses, send()), join_all((0..3).map(|_| send())));
        for answer in answers {
            assert_eq!(answer, (200, Bytes::from_static(b"run 1")), "{pauses}");
        }
        assert_eq!(runs.count(), 1, "{pauses}");
        if ended.is_some() {
            assert!(pauses > 0);
            break;
        }
    }
}

#[tokio::test]
async fn wherever_a_transactions_request_is_dropped_it_is_written_once() {
    for pauses in 0.. {
        let store = Store::open().await;
        let table = store.table().to_owned();
        let handler = service_fn(move |_: lambda_http::Request| {
            let effect = count(&table, "effect");
            async move {
                tokio::task::yield_now().await;
                let response = Response::new(lambda_http::Body::from("paid"));
                Ok::<_, Infallible>(Transaction::new(response).items([effect]))
            }
        });
        let http = store.idempotency().http("pay").policy(patient);
        let service = http.wrap_transaction(handler).unwrap();
        let send = || {
            let request = post("k", "{}").map(|_| lambda_http::Body::from("{}"));
            service.clone().oneshot(request)
        };
        let (ended, one, other) = tokio::join!(dropped_at(pauses, send()), send(), send());
        assert!(one.is_ok() && other.is_ok(), "{pauses}");
        assert_eq!(store.counted("effect").await, 1, "{pauses}");
        if ended.is_some() {
            assert!(pauses > 1);
            break;
        }
    }
}
