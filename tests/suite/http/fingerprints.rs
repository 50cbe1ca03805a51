//! What makes a request the same request.

use std::convert::Infallible;

use aws_sdk_dynamodb::primitives::Blob;
use axum::body::Body;
use bytes::Bytes;
use dynamodb_idempotency::Fingerprint;
use dynamodb_idempotency::http::IdempotencyService;
use http::{Request, Response};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt};

use super::event::{self, Kind};
use super::function::Function;
use super::message::{by, is_replay, post, problem, to, with, without};
use super::site::{Place, everywhere};
use crate::support::Store;

#[tokio::test]
async fn the_same_key_with_another_request_is_refused() {
    let original = || to(post("k", r#"{"amount":1200}"#), "/payments?currency=eur");
    let others = [
        ("body", to(post("k", r#"{"amount":1201}"#), "/payments?currency=eur")),
        ("no body", to(post("k", ""), "/payments?currency=eur")),
        ("path", to(original(), "/refunds?currency=eur")),
        ("a slash more", to(original(), "/payments/?currency=eur")),
        ("query value", to(original(), "/payments?currency=usd")),
        ("query name", to(original(), "/payments?c=eur")),
        ("a parameter more", to(original(), "/payments?currency=eur&dry=1")),
        ("no query", to(original(), "/payments")),
        ("method", by("PATCH", original())),
    ];
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        api.send(original()).await;
        for (name, other) in &others {
            println!("{name}");
            problem(&api.send(other.clone()).await, 422, "Mismatch");
        }
        assert_eq!(site.runs.count(), 1);
        // Nothing that was refused has touched the answer.
        assert!(is_replay(&api.send(original()).await));
    }
}

/// Sends `one` and then `other` with one key: whether the second was taken for the first.
async fn are_same(site: &super::site::Site, one: Request<Bytes>, other: Request<Bytes>) -> bool {
    let api = site.paying(site.http()).await;
    let key = format!("same-{}", site.runs.count());
    let key = |request| with(request, "idempotency-key", &key);
    assert_eq!(api.send(key(one)).await.status(), 201);
    let answer = api.send(key(other)).await;
    if !is_replay(&answer) {
        problem(&answer, 422, "Mismatch");
    }
    is_replay(&answer)
}

#[tokio::test]
async fn json_counts_by_value() {
    let same = [
        ("white space", r#"{"a":[1,2],"b":"x"}"#, " {\r\n\t\"a\" : [ 1 , 2 ],\"b\":\"x\" }\n"),
        ("order of members", r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{"b":{"d":3,"c":2},"a":1}"#),
        ("escapes", r#"{"a":"é/\u0041"}"#, r#"{"\u0061":"\u00e9\/A"}"#),
    ];
    let different = [
        ("beyond 2^53", "9007199254740993", "9007199254740992"),
        ("beyond 2^64", "18446744073709551617", "18446744073709551616"),
        ("many digits", "0.1000000000000000055", "0.1"),
        ("a fraction of nothing", "1.0", "1"),
        ("an exponent", "1e0", "1"),
        ("minus nothing", "-0", "0"),
        ("a string of digits", r#""1""#, "1"),
        ("order of elements", "[1,2]", "[2,1]"),
        ("a repeated member", r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        ("repeated members swapped", r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
        ("null and nothing", r#"{"a":null}"#, "{}"),
        ("case", r#"{"a":"X"}"#, r#"{"a":"x"}"#),
    ];
    for site in everywhere().await {
        for (name, one, other) in same {
            assert!(are_same(&site, post("", one), post("", other)).await, "{name}");
        }
        for (name, one, other) in different {
            let wrap = |value: &str| post("", format!(r#"{{"value":{value}}}"#));
            assert!(!are_same(&site, wrap(one), wrap(other)).await, "{name}");
        }
    }
}

#[tokio::test]
async fn json_is_known_by_its_content_type() {
    let (one, other) = (r#"{"a":1,"b":2}"#, r#"{"b":2, "a":1}"#);
    let cases = [
        ("application/json; charset=utf-8", true),
        ("Application/JSON", true),
        ("application/vnd.shop+json", true),
        ("text/plain", false),
        ("application/jsonp", false),
        ("application/x-www-form-urlencoded", false),
    ];
    for site in everywhere().await {
        for (content_type, by_value) in cases {
            let typed = |body| with(post("", body), "content-type", content_type);
            let same = are_same(&site, typed(one), typed(other)).await;
            assert_eq!(same, by_value, "{content_type}");
            assert!(are_same(&site, typed(one), typed(one)).await, "{content_type}");
        }
        let untyped = |body| without(post("", body), "content-type");
        assert!(!are_same(&site, untyped(one), untyped(other)).await);
    }
}

#[tokio::test]
async fn what_is_not_json_counts_by_byte_whatever_it_says_it_is() {
    let bodies: [&'static [u8]; 6] =
        [b"", b"\xff\xfe", b"\xff\xff", b"{\"a\":1", b"{\"a\" :1", b"\"\xc3\""];
    for site in everywhere().await {
        for (number, one) in bodies.into_iter().enumerate() {
            assert!(are_same(&site, post("", one), post("", one)).await, "{number}");
            for other in &bodies[number + 1..] {
                assert!(!are_same(&site, post("", one), post("", *other)).await, "{number}");
            }
        }
    }
}

#[tokio::test]
async fn other_headers_do_not_count() {
    for site in everywhere().await {
        let one = with(post("", "{}"), "x-request-id", "1");
        let other = with(with(post("", "{}"), "x-request-id", "2"), "authorization", "new");
        assert!(are_same(&site, one, other).await);
        let typed = |kind| with(post("", "amount=1"), "content-type", kind);
        let [form, text] = ["application/x-www-form-urlencoded", "text/plain"].map(typed);
        assert!(are_same(&site, form, text).await);
    }
}

#[tokio::test]
async fn only_the_order_of_parameters_with_one_name_matters() {
    for site in everywhere().await {
        let query = |query: &str| to(post("", "{}"), &format!("/payments?{query}"));
        assert!(are_same(&site, query("b=1&a=2&a=3"), query("a=2&b=1&a=3")).await);
        assert!(!are_same(&site, query("a=2&a=3"), query("a=3&a=2")).await);
    }
}

/// `lambda_http` rebuilds the query from a hash map, whose order differs for each event.
#[tokio::test]
async fn the_hash_map_of_an_event_is_no_mismatch() {
    let query: Vec<_> = (0..40).map(|number| format!("p{number}={number}")).collect();
    let request = to(post("k", "{}"), &format!("/payments?{}", query.join("&")));
    for site in everywhere().await {
        if site.place != Place::Function {
            continue;
        }
        let service = lambda_http::service_fn(async |_: lambda_http::Request| {
            Ok::<_, std::convert::Infallible>("paid")
        });
        let function = Function::new(site.http().wrap(service).unwrap());
        for kind in [Kind::Rest, Kind::Alb, Kind::AlbMultiValue, Kind::Lattice] {
            let request = with(request.clone(), "idempotency-key", &format!("{kind:?}"));
            for round in 0..10 {
                let answer = function.invoke(&kind.event(&request)).await;
                assert_eq!(is_replay(&event::response(&answer)), round > 0, "{kind:?}");
            }
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
        api.send(post("k", r#"{"amount":1,"note":"a"}"#)).await;
        let repeat = to(post("k", r#"{"amount":1,"note":"b"}"#), "/other?a=1");
        assert!(is_replay(&api.send(repeat).await));
        let other = api.send(post("k", r#"{"amount":2,"note":"a"}"#)).await;
        problem(&other, 422, "Mismatch");
    }
}

/// What the record says of a request.
async fn fingerprint(service: &Paying, store: &Store, key: &str, request: Request<Bytes>) -> Blob {
    assert_eq!(service.clone().oneshot(request.map(Body::from)).await.unwrap().status(), 200);
    store.record(&format!("pay#{key}")).await["fingerprint"].as_b().unwrap().clone()
}

type Paying = IdempotencyService<Handler>;
type Handler = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

fn paying(store: &Store) -> Paying {
    let handler = tower::service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Body::from("paid")))
    });
    store.idempotency().http("pay").layer().unwrap().layer(Handler::new(handler))
}

/// Each line is one request in several spellings; no two lines are one.
#[tokio::test]
async fn however_odd_they_are_two_targets_are_two_requests() {
    let store = Store::open().await;
    let service = paying(&store);
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
    let mut seen: Vec<(usize, &str, Blob)> = Vec::new();
    for (line, target) in
        targets.iter().enumerate().flat_map(|(n, line)| line.iter().map(move |one| (n, *one)))
    {
        let key = format!("k{}", seen.len());
        let found = fingerprint(&service, &store, &key, to(post(&key, "{}"), target)).await;
        for (other, spelled, before) in &seen {
            // Raw spellings may count, never the other way round.
            assert!(*before != found || *other == line, "{spelled} is {target}");
        }
        seen.push((line, target, found));
    }
}

/// As above, of bodies.
#[tokio::test]
async fn however_odd_they_are_two_bodies_are_two_requests() {
    let store = Store::open().await;
    let service = paying(&store);
    let bodies: [&[&str]; 27] = [
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
        &[r#"{"a":1}{"a":1}"#],
        &["\u{feff}{\"a\":1,}"],
        &[r#"{"a":"\ud800"}"#],
        &[r#"{"a":"\u0000"}"#],
        &[r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#],
    ];
    let mut seen: Vec<(usize, &str, Blob)> = Vec::new();
    for (line, body) in
        bodies.iter().enumerate().flat_map(|(n, line)| line.iter().map(move |one| (n, *one)))
    {
        let key = format!("k{}", seen.len());
        let request = post(&key, Bytes::from_static(body.as_bytes()));
        let found = fingerprint(&service, &store, &key, request).await;
        for (other, spelled, before) in &seen {
            assert_eq!(*before == found, *other == line, "{spelled:?} {body:?}");
        }
        seen.push((line, body, found));
    }
}
