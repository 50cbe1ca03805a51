//! The handler finds its `Execution` in the request's extensions.

use bytes::Bytes;
use dynamodb_idempotency::Execution;
use http::{Request, Response};

use super::message::{by, post};
use super::site::everywhere;
use crate::support::raw;

#[tokio::test]
async fn the_handler_reaches_its_execution_and_a_request_that_passes_through_has_none() {
    for site in everywhere().await {
        let handler = |request: Request<Bytes>| {
            let found = request.extensions().get::<Execution>();
            let found = found.map(|found| format!("{} {}", found.owner(), found.attempt()));
            std::future::ready(Response::new(found.unwrap_or("none".to_owned()).into()))
        };
        let api = site.serve(site.http(), handler).await;
        let first = api.send(post("k", "{}")).await;
        let record = site.item("k").await.unwrap();
        let (owner, attempt) = (raw::text(&record, "owner"), raw::number(&record, "attempt"));
        assert_eq!((first.body(), attempt), (&Bytes::from(format!("{owner} 1")), 1));
        assert_eq!(api.send(by("GET", post("k", ""))).await.body(), "none");
    }
}
