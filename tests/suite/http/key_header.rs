//! Which header values are a key, and which requests need one.

use http::{HeaderName, HeaderValue, Method};

use super::message::{by, is_replay, post, problem, with, without};
use super::site::{Place, everywhere};

#[tokio::test]
async fn a_request_without_a_key_is_refused() {
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        let answer = api.send(without(post("k", "{}"), "idempotency-key")).await;
        let problem = problem(&answer, 400, "KeyMissing");
        assert!(problem["detail"].as_str().unwrap().contains("idempotency-key"));
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
    }
}

#[tokio::test]
async fn a_request_without_a_key_passes_through_where_none_is_required() {
    for site in everywhere().await {
        let api = site.paying(site.http().key_optional()).await;
        for run in 1..=2 {
            let answer = api.send(without(post("k", "{}"), "idempotency-key")).await;
            assert_eq!(answer.status(), 201);
            assert!(!is_replay(&answer));
            assert_eq!((site.runs.count(), site.link.wire.requests().len()), (run, 0));
        }
        api.send(post("k", "{}")).await;
        assert!(is_replay(&api.send(post("k", "{}")).await));
    }
}

#[tokio::test]
async fn what_is_no_key_is_refused_and_nothing_runs() {
    let long = "k".repeat(256);
    let quoted_long = format!("\"{long}\"");
    let cases = [
        ("empty", ""),
        ("an empty string", r#""""#),
        ("256 bytes", &long),
        ("a string of 256 bytes", &quoted_long),
        ("a tab inside", "a\tb"),
        ("a tab in a string", "\"a\tb\""),
        ("no closing quote", r#""a"#),
        ("text after the string", r#""a" b"#),
        ("an unknown escape", r#""a\b""#),
        ("two keys in one header", "a,b"),
        ("two strings in one header", r#""a", "b""#),
    ];
    for site in everywhere().await {
        for http in [site.http(), site.http().key_optional()] {
            let api = site.paying(http).await;
            for (name, key) in cases {
                println!("{name}");
                problem(&api.send(post(key, "{}")).await, 400, "KeyInvalid");
            }
        }
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
    }
}

#[tokio::test]
async fn two_key_headers_are_refused_whatever_they_hold() {
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        for (one, other) in [("a", "b"), ("a", "a"), (r#""a""#, "a"), ("a", "")] {
            let mut request = post(one, "{}");
            let other = HeaderValue::from_str(other).unwrap();
            request.headers_mut().append("idempotency-key", other);
            problem(&api.send(request).await, 400, "KeyInvalid");
        }
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
    }
}

#[tokio::test]
async fn quoted_and_bare_spelling_name_one_key() {
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        let first = api.send(post("8e03978e-40d5", "{}")).await;
        assert!(!is_replay(&first));
        for spelling in [r#""8e03978e-40d5""#, " \t\"8e03978e-40d5\" ", r#""8e03978e-40d5";v=1"#] {
            let repeat = api.send(post(spelling, "{}")).await;
            assert!(is_replay(&repeat), "{spelling}");
            assert_eq!(repeat.body(), first.body());
        }
        assert_eq!(site.runs.count(), 1);
    }
}

#[tokio::test]
async fn the_record_is_under_the_value_and_not_under_its_spelling() {
    let cases = [
        (r#""a\"b\\c""#, r#"a"b\c"#),
        (r#""a, b""#, "a, b"),
        ("it's#1/2%", "it's#1/2%"),
        (r"a\b", r"a\b"),
    ];
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        for (spelling, key) in cases {
            assert_eq!(api.send(post(spelling, "{}")).await.status(), 201);
            assert_eq!(site.status(key).await.as_deref(), Some("COMPLETED"), "{spelling}");
        }
    }
}

/// Lambda's events cannot carry it: `lambda_http` refuses the whole event.
#[tokio::test]
async fn a_bare_key_may_be_utf8() {
    for site in everywhere().await {
        if site.place != Place::Server {
            continue;
        }
        let api = site.paying(site.http()).await;
        api.send(post("clé-ключ", "{}")).await;
        assert!(is_replay(&api.send(post("clé-ключ", "{}")).await));
        assert_eq!(site.status("clé-ключ").await.as_deref(), Some("COMPLETED"));
        let long = "é".repeat(128);
        problem(&api.send(post(&long, "{}")).await, 400, "KeyInvalid");
    }
}

#[tokio::test]
async fn the_longest_key_has_255_bytes() {
    let longest = "k".repeat(255);
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        api.send(post(&longest, "{}")).await;
        assert!(is_replay(&api.send(post(&format!("\"{longest}\""), "{}")).await));
        assert_eq!(site.runs.count(), 1);
    }
}

#[tokio::test]
async fn other_methods_pass_through_with_their_key() {
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        for (number, method) in (1..).zip(["GET", "PUT", "DELETE", "OPTIONS", "GET"]) {
            let answer = api.send(by(method, post("k", ""))).await;
            assert_eq!(answer.status(), 201, "{method}");
            assert!(!is_replay(&answer), "{method}");
            assert_eq!(site.runs.count(), number, "{method}");
        }
        // Nor does a key that would be none matter to them.
        assert_eq!(api.send(by("GET", post("", ""))).await.status(), 201);
        assert_eq!(site.link.wire.requests(), [""; 0]);
    }
}

#[tokio::test]
async fn the_methods_can_be_chosen() {
    for site in everywhere().await {
        let api = site.paying(site.http().methods([Method::PUT])).await;
        api.send(post("k", "{}")).await;
        assert!(!is_replay(&api.send(post("k", "{}")).await));
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (2, 0));
        api.send(by("PUT", post("k", "{}"))).await;
        assert!(is_replay(&api.send(by("PUT", post("k", "{}"))).await));
        assert_eq!(site.runs.count(), 3);
    }
}

#[tokio::test]
async fn the_header_can_be_chosen() {
    for site in everywhere().await {
        let name = HeaderName::from_static("x-request-id");
        let api = site.paying(site.http().header(name)).await;
        let problem = problem(&api.send(post("k", "{}")).await, 400, "KeyMissing");
        assert!(problem["detail"].as_str().unwrap().contains("x-request-id"));
        api.send(with(post("k", "{}"), "x-request-id", "r-1")).await;
        // The usual header means nothing now.
        let repeat = api.send(with(post("other", "{}"), "x-request-id", "r-1")).await;
        assert!(is_replay(&repeat));
        assert_eq!(site.status("r-1").await.as_deref(), Some("COMPLETED"));
        assert_eq!(site.runs.count(), 1);
    }
}
