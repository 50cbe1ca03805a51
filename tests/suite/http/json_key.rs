//! Keys in the JSON of a request's body.

use super::message::{assert_same, by, is_replay, post, problem, with};
use super::site::everywhere;

/// The header is not read: it has another value in each request.
#[tokio::test]
async fn the_key_is_found_in_the_body() {
    for site in everywhere().await {
        let api = site.paying(site.http().json_key(["/order/id", "/line"])).await;
        let first = api.send(post("h-1", r#"{"order":{"id":"o-1"},"line":1}"#)).await;
        let again = api.send(post("h-2", r#"{"line":1, "order":{"id":"o-1"}}"#)).await;
        assert!(!is_replay(&first) && is_replay(&again));
        assert_same(&first, &again);
        let text = api.send(post("h-1", r#"{"order":{"id":"o-1"},"line":"1"}"#)).await;
        assert!(!is_replay(&text));
        assert_eq!(site.runs.count(), 2);
        assert_eq!(site.status(r#"["o-1",1]"#).await.as_deref(), Some("COMPLETED"));
        let other = r#"{"order":{"id":"o-1"},"line":1,"amount":5}"#;
        problem(&api.send(post("h-1", other)).await, 422, "Mismatch");
    }
}

#[tokio::test]
async fn a_body_without_its_key_is_refused_and_nothing_runs() {
    let long = format!(r#"{{"order_id":"{}"}}"#, "k".repeat(256));
    let cases = [
        ("{}", "KeyMissing", "`/order_id`"),
        (r#"{"order_id":null}"#, "KeyMissing", "`/order_id`"),
        (r#"["order_id"]"#, "KeyMissing", "`/order_id`"),
        ("", "KeyInvalid", "payload"),
        ("order_id=7", "KeyInvalid", "not JSON"),
        (r#"{"order_id":{"secret":1}}"#, "KeyInvalid", "neither a string nor a number"),
        (r#"{"order_id":true}"#, "KeyInvalid", "neither a string nor a number"),
        (r#"{"order_id":""}"#, "KeyInvalid", "empty"),
        (&long, "KeyInvalid", "255 bytes"),
    ];
    for site in everywhere().await {
        let api = site.paying(site.http().json_key("/order_id")).await;
        for (body, kind, says) in &cases {
            let problem = problem(&api.send(post("k", (*body).to_owned())).await, 400, kind);
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(says) && !detail.contains("secret"), "{body}: {detail}");
        }
        let grpc = with(post("k", r#"{"order_id":1}"#), "content-type", "application/grpc");
        problem(&api.send(grpc).await, 415, "GrpcUnsupported");
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
        // Other methods have no key.
        assert_eq!(api.send(by("PUT", post("k", "{}"))).await.status(), 201);
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_not_searched_for_its_key() {
    for site in everywhere().await {
        let api = site.paying(site.http().json_key("/id").max_body_bytes(16)).await;
        assert_eq!(api.send(post("k", r#"{"id":"12345678"}"#)).await.status(), 413);
        assert_eq!(site.runs.count(), 0);
        assert_eq!(api.send(post("k", r#"{"id":"1234567"}"#)).await.status(), 201);
    }
}

#[tokio::test]
async fn while_idempotency_is_switched_off_no_key_is_looked_for() {
    for site in everywhere().await {
        let off = site.store.builder(&site.link).disabled().build().unwrap();
        let api = site.paying(off.http(site.scope()).json_key("/id")).await;
        for body in ["{}", "no JSON"] {
            assert_eq!(api.send(post("k", body)).await.status(), 201);
        }
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (2, 0));
    }
}
