//! Where a request's key is found, which values are one, and which requests need one.

use http::{HeaderName, Method};

use super::message::{and, by, keyless, post, problem, with};
use super::site::{Place, everywhere};

/// The whole grammar is tested next to its code.
#[tokio::test]
async fn what_is_no_key_is_refused_and_nothing_runs() {
    let long = "k".repeat(256);
    let invalid = [
        ("an empty key", post("", "{}")),
        ("256 bytes", post(&long, "{}")),
        ("a tab inside", post("a\tb", "{}")),
        ("no closing quote", post(r#""a"#, "{}")),
        ("two keys in one header", post("a,b", "{}")),
        ("two headers", and(post("a", "{}"), "idempotency-key", "b")),
        ("two headers with one key", and(post("a", "{}"), "idempotency-key", "a")),
        ("a second header that is empty", and(post("a", "{}"), "idempotency-key", "")),
    ];
    for site in everywhere().await {
        for http in [site.http(), site.http().key_optional()] {
            let api = site.paying(http).await;
            api.check(invalid.clone().map(|(name, request)| (name, request, "400 KeyInvalid")))
                .await;
        }
        let api = site.paying(site.http()).await;
        let missing = problem(&api.send(keyless("{}")).await, 400, "KeyMissing");
        assert!(missing["detail"].as_str().unwrap().contains("idempotency-key"));
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
    }
}

#[tokio::test]
async fn a_request_without_a_key_passes_through_where_none_is_required() {
    for site in everywhere().await {
        let api = site.paying(site.http().key_optional()).await;
        api.check([("once", keyless("{}"), "201"), ("twice", keyless("{}"), "201")]).await;
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (2, 0));
        api.replayed(post("k", "{}")).await;
    }
}

#[tokio::test]
async fn all_spellings_of_a_key_are_one_and_the_record_is_under_its_value() {
    let longest = "k".repeat(255);
    let cases = [
        ("8e03978e-40d5", r#""8e03978e-40d5""#, "8e03978e-40d5"),
        (r#"" 8e03""#, "\t\" 8e03\" ", " 8e03"),
        (r#""8e04";v=1"#, "8e04", "8e04"),
        (r#""a\"b\\c""#, r#""a\"b\\c""#, r#"a"b\c"#),
        (r#""a, b""#, r#""a, b""#, "a, b"),
        ("it's#1/2%", "it's#1/2%", "it's#1/2%"),
        (r"a\b", r"a\b", r"a\b"),
        (&longest, &format!("\"{longest}\""), &longest),
    ];
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        for (one, other, key) in cases {
            api.check([(one, post(one, "{}"), "201"), (other, post(other, "{}"), "201 replay")])
                .await;
            assert_eq!(site.status(key).await.as_deref(), Some("COMPLETED"), "{one}");
        }
        if site.place == Place::Server {
            // Lambda's events cannot carry it: `lambda_http` refuses the whole event.
            api.replayed(post("clé-ключ", "{}")).await;
            assert_eq!(site.status("clé-ключ").await.as_deref(), Some("COMPLETED"));
        }
    }
}

#[tokio::test]
async fn other_methods_than_the_chosen_ones_pass_through_with_their_key() {
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        for method in ["GET", "PUT", "DELETE", "OPTIONS", "GET"] {
            api.check([(method, by(method, post("k", "")), "201")]).await;
        }
        // Nor does a key that would be none matter to them.
        api.check([
            ("an invalid key", by("GET", post("", "")), "201"),
            ("no key", by("GET", keyless("")), "201"),
        ])
        .await;
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (7, 0));

        let api = site.paying(site.http().methods([Method::PUT])).await;
        api.check(["once", "twice"].map(|name| (name, post("k", "{}"), "201"))).await;
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (9, 0));
        api.replayed(by("PUT", post("k", "{}"))).await;
    }
}

#[tokio::test]
async fn the_header_can_be_chosen() {
    for site in everywhere().await {
        // Its name is one that JSON does not have to escape, and is sent as it is.
        let name = HeaderName::from_static("x-it's!");
        let api = site.paying(site.http().header(name)).await;
        let missing = problem(&api.send(post("k", "{}")).await, 400, "KeyMissing");
        assert!(missing["detail"].as_str().unwrap().ends_with("x-it's!"));
        let request = |usual| with(post(usual, "{}"), "x-it's!", "r-1");
        // The usual header means nothing now.
        api.check([("first", request("a"), "201"), ("repeat", request("b"), "201 replay")]).await;
        assert_eq!(site.status("r-1").await.as_deref(), Some("COMPLETED"));
    }
}

#[tokio::test]
async fn a_function_can_find_the_key() {
    for site in everywhere().await {
        let find = |parts: &http::request::Parts| {
            let id = parts.headers.get("x-delivery")?.to_str().ok()?;
            Some(id.trim_start_matches("id=").to_owned())
        };
        let api = site.paying(site.http().key(find)).await;
        let delivery = |id: &str, other: &str| with(post(other, "{}"), "x-delivery", id);
        api.check([
            ("first", delivery("id=7", "a"), "201"),
            ("repeat", delivery("id=7", "b"), "201 replay"),
            ("none", post("k", "{}"), "400 KeyMissing"),
            ("empty", delivery("id=", "k"), "400 KeyInvalid"),
            ("256 bytes", delivery(&"k".repeat(256), "k"), "400 KeyInvalid"),
        ])
        .await;
        assert_eq!(site.status("7").await.as_deref(), Some("COMPLETED"));
        let optional = site.paying(site.http().key(find).key_optional()).await;
        optional.check([("none", post("k", "{}"), "201")]).await;
        assert_eq!(site.runs.count(), 2);
    }
}

/// The header is not read: it has another value in each request.
#[tokio::test]
async fn the_key_can_be_parts_of_the_bodys_json() {
    for site in everywhere().await {
        let api = site.paying(site.http().json_key(["/order/id", "/line"])).await;
        api.check([
            ("first", post("1", r#"{"order":{"id":"o-1"},"line":1}"#), "201"),
            ("repeat", post("2", r#"{"line":1, "order":{"id":"o-1"}}"#), "201 replay"),
            ("a text", post("1", r#"{"order":{"id":"o-1"},"line":"1"}"#), "201"),
            ("another", post("1", r#"{"order":{"id":"o-1"},"line":1,"a":5}"#), "422 Mismatch"),
        ])
        .await;
        assert_eq!(site.status(r#"["o-1",1]"#).await.as_deref(), Some("COMPLETED"));
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
        let api = site.paying(site.http().json_key("/order_id").max_body_bytes(300)).await;
        for (body, kind, says) in &cases {
            let problem = problem(&api.send(post("k", (*body).to_owned())).await, 400, kind);
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(says) && !detail.contains("secret"), "{body}: {detail}");
        }
        let fine = || post("k", r#"{"order_id":1}"#);
        api.check([
            ("gRPC", with(fine(), "content-type", "application/grpc"), "415 GrpcUnsupported"),
            // It is not searched for its key.
            ("over the limit", post("k", " ".repeat(301)), "413 BodyTooLarge"),
        ])
        .await;
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
        // Other methods have no key.
        api.check([("PUT", by("PUT", post("k", "{}")), "201"), ("POST", fine(), "201")]).await;
    }
}
