//! What each way through costs in requests to DynamoDB.

use super::message::{by, post, without};
use super::site::{everywhere, paid};
use crate::support::Gate;

#[tokio::test]
async fn first_takes_two_and_each_repeat_one() {
    everywhere(async |site| {
        let api = site.paying(site.http()).await;
        api.send(post("k", "1")).await;
        assert_eq!(site.link.wire.requests(), ["PutItem", "PutItem"]);
        site.link.wire.forget();
        assert_eq!(api.send(post("k", "1")).await.status(), 201);
        assert_eq!(site.link.wire.requests(), ["PutItem"]);
        site.link.wire.forget();
        assert_eq!(api.send(post("k", "2")).await.status(), 422);
        assert_eq!(site.link.wire.requests(), ["PutItem"]);
    })
    .await;
}

#[tokio::test]
async fn in_progress_takes_one() {
    everywhere(async |site| {
        let gate = Gate::default();
        let held = gate.clone();
        let handler = move |_| {
            let held = held.clone();
            async move {
                held.pass().await;
                paid(1)
            }
        };
        let api = site.serve(site.http(), handler).await;
        tokio::join!(api.send(post("k", "{}")), async {
            gate.reached().await;
            site.link.wire.forget();
            assert_eq!(api.send(post("k", "{}")).await.status(), 409);
            assert_eq!(site.link.wire.requests(), ["PutItem"]);
            gate.open();
        });
    })
    .await;
}

#[tokio::test]
async fn a_failure_takes_two() {
    everywhere(async |site| {
        let fail = |run| {
            let mut answer = paid(run);
            *answer.status_mut() = http::StatusCode::BAD_GATEWAY;
            answer
        };
        let api = site.answering(site.http(), fail).await;
        api.send(post("k", "{}")).await;
        assert_eq!(site.link.wire.requests(), ["PutItem", "UpdateItem"]);
    })
    .await;
}

#[tokio::test]
async fn what_passes_through_or_is_refused_at_the_door_takes_none() {
    everywhere(async |site| {
        let api = site.paying(site.http().tenant(|_| None)).await;
        assert_eq!(api.send(by("GET", post("k", ""))).await.status(), 201);
        for refused in [without(post("k", ""), "idempotency-key"), post("", ""), post("k", "")] {
            assert_eq!(api.send(refused).await.status(), 400);
        }
        assert_eq!(site.link.wire.requests(), [""; 0]);
    })
    .await;
}
