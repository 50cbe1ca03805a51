//! What makes a request the same request.

use std::convert::Infallible;

use aws_sdk_dynamodb::primitives::Blob;
use axum::body::Body;
use bytes::Bytes;
use dynamodb_idempotency::Fingerprint;
use http::{Request, Response};
use tower::Layer;

use super::event::{self, Kind};
use super::function::Function;
use super::message::{by, is_replay, post, through, to, with, without};
use super::site::everywhere;
use crate::support::Store;

/// The canonical form of JSON and the grammar of content types are tested next to their code.
#[tokio::test]
async fn the_same_key_with_another_request_is_refused() {
    const TARGET: &str = "/payments?a=2&a=3&b=1";
    let original = || to(post("k", r#"{"amount":1200,"to":"bob"}"#), TARGET);
    let of = |body: &'static str| to(post("k", body), TARGET);
    let at = |target| to(original(), target);
    let rows = [
        ("first", original(), "201"),
        ("JSON in another spelling", of(r#" {"to" : "\u0062ob", "amount":1200}"#), "201 replay"),
        ("parameters in another order", at("/payments?b=1&a=2&a=3"), "201 replay"),
        ("other headers", with(original(), "authorization", "new"), "201 replay"),
        ("another value", of(r#"{"amount":1201,"to":"bob"}"#), "422 Mismatch"),
        ("another number", of(r#"{"amount":1200.0,"to":"bob"}"#), "422 Mismatch"),
        ("no body", of(""), "422 Mismatch"),
        ("a path", at("/refunds?a=2&a=3&b=1"), "422 Mismatch"),
        ("a slash more", at("/payments/?a=2&a=3&b=1"), "422 Mismatch"),
        ("a query value", at("/payments?a=2&a=3&b=2"), "422 Mismatch"),
        ("a query name", at("/payments?a=2&a=3&c=1"), "422 Mismatch"),
        ("a parameter more", at("/payments?a=2&a=3&b=1&dry=1"), "422 Mismatch"),
        ("no query", at("/payments"), "422 Mismatch"),
        ("the values of one name reversed", at("/payments?a=3&a=2&b=1"), "422 Mismatch"),
        ("a method", by("PATCH", original()), "422 Mismatch"),
        // Nothing that was refused has touched the answer.
        ("last", original(), "201 replay"),
    ];
    for site in everywhere().await {
        site.paying(site.http()).await.check(rows.clone()).await;
        assert_eq!(site.runs.count(), 1);
    }
}

#[tokio::test]
async fn json_is_known_by_its_content_type_which_does_not_count_itself() {
    let (one, other) = (r#"{"a":1,"b":2}"#, r#"{"b":2, "a":1}"#);
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        for (content_type, expected) in [
            ("application/json; charset=utf-8", "201 replay"),
            ("application/vnd.shop+json", "201 replay"),
            ("application/jsonp", "422 Mismatch"),
            ("application/x-www-form-urlencoded", "422 Mismatch"),
        ] {
            let typed = |body| with(post(content_type, body), "content-type", content_type);
            api.check([
                (content_type, typed(one), "201"),
                (content_type, typed(other), expected),
                (
                    "as text",
                    with(typed(one), "content-type", "text/plain"),
                    match expected {
                        "201 replay" => "422 Mismatch",
                        _ => "201 replay",
                    },
                ),
            ])
            .await;
        }
        let untyped = |body| without(post("untyped", body), "content-type");
        api.check([("one", untyped(one), "201"), ("other", untyped(other), "422 Mismatch")]).await;
    }
}

/// `lambda_http` rebuilds the query from a hash map, whose order differs for each event.
#[tokio::test]
async fn the_hash_map_of_an_event_is_no_mismatch() {
    let query: Vec<_> = (0..40).map(|number| format!("p{number}={number}")).collect();
    let request = to(post("k", "{}"), &format!("/payments?{}", query.join("&")));
    let store = Store::open().await;
    let service =
        lambda_http::service_fn(async |_: lambda_http::Request| Ok::<_, Infallible>("paid"));
    let function = Function::new(store.idempotency().http("pay").wrap(service).unwrap());
    for kind in [Kind::Rest, Kind::Alb, Kind::AlbMultiValue, Kind::Lattice] {
        let request = with(request.clone(), "idempotency-key", &format!("{kind:?}"));
        for round in 0..10 {
            let answer = function.invoke(&kind.event(&request)).await;
            assert_eq!(is_replay(&event::response(&answer)), round > 0, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn what_counts_can_be_chosen() {
    for site in everywhere().await {
        let amount = |_: &http::request::Parts, body: &[u8]| {
            let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
            Fingerprint::of(&body["amount"]).unwrap()
        };
        let api = site.paying(site.http().fingerprint(amount)).await;
        let other = to(post("k", r#"{"amount":1,"note":"b"}"#), "/other?a=1");
        api.check([
            ("first", post("k", r#"{"amount":1,"note":"a"}"#), "201"),
            ("all but the amount is another", other, "201 replay"),
            ("another amount", post("k", r#"{"amount":2,"note":"a"}"#), "422 Mismatch"),
        ])
        .await;
    }
}

/// Sends requests that are written in lines: one request in several spellings each. Requests of two lines
/// must be two requests. If `spellings_are_one`, those of one line must be one.
async fn check_lines(
    lines: &[&[&'static str]],
    spellings_are_one: bool,
    request: impl Fn(Request<Bytes>, &'static str) -> Request<Bytes>,
) {
    let store = Store::open().await;
    let handler = tower::service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Body::from("paid")))
    });
    let service = store.idempotency().http("pay").layer().unwrap().layer(handler);
    let mut seen: Vec<(usize, &str, Blob)> = Vec::new();
    for (line, text) in
        lines.iter().enumerate().flat_map(|(line, texts)| texts.iter().map(move |one| (line, *one)))
    {
        let key = format!("k{}", seen.len());
        let request = request(post(&key, "{}"), text);
        assert_eq!(through(&service, request).await.status(), 200, "{text}");
        let record = store.record(&format!("pay#{key}")).await;
        let found = record["fingerprint"].as_b().unwrap().clone();
        for (other, before, fingerprint) in &seen {
            let is_one = *fingerprint == found;
            assert!(!is_one || *other == line, "{before:?} is {text:?}");
            assert!(is_one || *other != line || !spellings_are_one, "{before:?} is not {text:?}");
        }
        seen.push((line, text, found));
    }
}

/// Other spellings of a target may count.
#[tokio::test]
async fn however_odd_they_are_two_targets_are_two_requests() {
    let targets: [&[&str]; 23] = [
        &["/a/b", "/a/b?"],
        &["/a%2Fb"],
        &["/a//b"],
        &["/a/b/"],
        &["/a/./b"],
        &["/A/b"],
        &["/a%00b"],
        &["/a/b?x=1", "/a/b?&x=1", "/a/b?x=1&"],
        &["/a/b?x=%31"],
        &["/a/b?X=1"],
        &["/a/b?x%3D1"],
        &["/a/b?x"],
        &["/a/b?x="],
        &["/a/b?x=+"],
        &["/a/b?x=%20"],
        &["/a/b?x=%2B"],
        &["/a/b?x=1&x=2"],
        &["/a/b?x=2&x=1"],
        &["/a/b?x=1%26x=2"],
        &["/a/b?x=1;x=2"],
        &["/a/b?y=1&x=2", "/a/b?x=2&y=1"],
        &["/a/b?a=1"],
        &["/a/b?%61=1"],
    ];
    check_lines(&targets, false, to).await;
}

#[tokio::test]
async fn however_odd_they_are_two_bodies_are_two_requests() {
    let bodies: [&[&str]; 30] = [
        &[""],
        &[" "],
        &["null"],
        &["{}", "{ }"],
        &["[]"],
        &["\"\""],
        &["0"],
        &["-0"],
        &["0.0"],
        &["1"],
        &["1.0"],
        &["10e-1"],
        &["9007199254740993"],
        &["9007199254740992"],
        &[r#"{"a":1}"#, r#"{"\u0061":1}"#, "{\"a\":1}\n", "\u{feff}{\"a\":1}"],
        &[r#"{"a":1,"a":2}"#],
        &[r#"{"a":2,"a":1}"#],
        &[r#"{"a":2}"#],
        &[r#"{"a":"\u00e9"}"#, "{\"a\":\"\u{e9}\"}"],
        &["{\"a\":\"e\u{301}\"}"],
        &[r#"{"a":"\/"}"#, r#"{"a":"/"}"#],
        &[r#"{"a":1,}"#],
        &[r#"{"a":1"#],
        &[r#"{"a" :1"#],
        &["[1,2]", "[1, 2]"],
        &[r#"{"a":1}{"a":1}"#],
        &["\u{feff}{\"a\":1,}"],
        &[r#"{"a":"\ud800"}"#],
        &[r#"{"a":"\u0000"}"#],
        &[r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#],
    ];
    check_lines(&bodies, true, |request, body| {
        request.map(|_| Bytes::from_static(body.as_bytes()))
    })
    .await;
}
