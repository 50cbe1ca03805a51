//! The handler finds its `Execution` in the request's extensions, and may outlive its lease.

use bytes::Bytes;
use dynamodb_idempotency::Execution;
use http::{Request, Response};

use super::message::post;
use super::site::everywhere;
use crate::support::{Runs, raw};

#[tokio::test]
async fn the_handler_reaches_its_execution() {
    for site in everywhere().await {
        let handler = async |request: Request<Bytes>| {
            let execution: &Execution = request.extensions().get().expect("it is there");
            Response::new(format!("{} {}", execution.owner(), execution.attempt()).into())
        };
        let api = site.serve(site.http(), move |request| Box::pin(handler(request))).await;
        let first = api.send(post("k", "{}")).await;
        let record = site.item("k").await.unwrap();
        let (owner, attempt) = (raw::text(&record, "owner"), raw::number(&record, "attempt"));
        assert_eq!((first.body(), attempt), (&Bytes::from(format!("{owner} 1")), 1));
    }
}

#[tokio::test]
async fn a_request_that_passes_through_has_none() {
    for site in everywhere().await {
        let handler = async |request: Request<Bytes>| {
            let found = request.extensions().get::<Execution>().is_some();
            Response::new(found.to_string().into())
        };
        let handler = move |request| Box::pin(handler(request));
        let api = site.serve(site.http(), handler).await;
        let get = super::message::by("GET", post("k", ""));
        assert_eq!(api.send(get).await.body(), "false");
        assert_eq!(api.send(post("k", "")).await.body(), "true");
    }
}

/// A 5xx releases the key, but not where steps are done.
#[tokio::test]
async fn a_step_of_a_failed_request_is_not_done_again() {
    for site in everywhere().await {
        let (runs, charges) = (site.runs.clone(), Runs::default());
        let counted = charges.clone();
        let handler = move |request: Request<Bytes>| {
            let (runs, charges) = (runs.clone(), counted.clone());
            async move {
                let execution = request.extensions().get::<Execution>().expect("it is there");
                let charging = async { Ok::<_, &str>(charges.add()) };
                let charge = execution.step("charge", charging).await.unwrap();
                let status = if runs.add() == 1 { 500 } else { 201 };
                let response = Response::builder().status(status);
                response.body(format!("charge {charge}").into()).unwrap()
            }
        };
        let api = site.serve(site.http(), handler).await;
        for (status, record) in [(500, "FAILED"), (201, "COMPLETED"), (201, "COMPLETED")] {
            let answer = api.send(post("k", "{}")).await;
            assert_eq!(
                (answer.status().as_u16(), answer.body().as_ref()),
                (status, &b"charge 1"[..])
            );
            assert_eq!(site.status("k").await.as_deref(), Some(record));
        }
        assert_eq!((site.runs.count(), charges.count()), (2, 1));
    }
}
