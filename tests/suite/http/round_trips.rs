//! What each way through costs in requests to DynamoDB.

use super::message::{by, post, without};
use super::site::everywhere;

#[tokio::test]
async fn first_takes_two_and_each_repeat_one() {
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        api.send(post("k", "1")).await;
        assert_eq!(site.link.wire.requests(), ["PutItem", "PutItem"]);
        site.link.wire.forget();
        assert_eq!(api.send(post("k", "1")).await.status(), 201);
        assert_eq!(site.link.wire.requests(), ["PutItem"]);
        site.link.wire.forget();
        assert_eq!(api.send(post("k", "2")).await.status(), 422);
        assert_eq!(site.link.wire.requests(), ["PutItem"]);
    }
}

#[tokio::test]
async fn what_passes_through_or_is_refused_at_the_door_takes_none() {
    for site in everywhere().await {
        let api = site.paying(site.http().tenant(|_| None)).await;
        assert_eq!(api.send(by("GET", post("k", ""))).await.status(), 201);
        for refused in [without(post("k", ""), "idempotency-key"), post("", ""), post("k", "")] {
            assert_eq!(api.send(refused).await.status(), 400);
        }
        assert_eq!(site.link.wire.requests(), [""; 0]);
    }
}
