//! What makes a request the same request.

use bytes::Bytes;
use dynamodb_idempotency::Fingerprint;
use http::Request;

use super::event::{self, Kind};
use super::function::Function;
use super::message::{by, is_replay, post, problem, to, with, without};
use super::site::{Place, everywhere};

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
    everywhere(async |site| {
        let api = site.paying(site.http()).await;
        api.send(original()).await;
        for (name, other) in &others {
            println!("{name}");
            problem(&api.send(other.clone()).await, 422, "Mismatch");
        }
        assert_eq!(site.runs.count(), 1);
        // Nothing that was refused has touched the answer.
        assert!(is_replay(&api.send(original()).await));
    })
    .await;
}

#[tokio::test]
async fn a_request_that_still_runs_is_no_excuse_for_another() {
    everywhere(async |site| {
        let gate = crate::support::Gate::default();
        let (runs, held) = (site.runs.clone(), gate.clone());
        let handler = move |_| {
            let (runs, held) = (runs.clone(), held.clone());
            async move {
                held.pass().await;
                super::site::paid(runs.add())
            }
        };
        let api = site.serve(site.http(), handler).await;
        let (first, ()) = tokio::join!(api.send(post("k", "1")), async {
            gate.reached().await;
            problem(&api.send(post("k", "2")).await, 422, "Mismatch");
            gate.open();
        });
        assert_eq!((first.status().as_u16(), site.runs.count()), (201, 1));
    })
    .await;
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
    everywhere(async |site| {
        for (name, one, other) in same {
            assert!(are_same(&site, post("", one), post("", other)).await, "{name}");
        }
        for (name, one, other) in different {
            let wrap = |value: &str| post("", format!(r#"{{"value":{value}}}"#));
            assert!(!are_same(&site, wrap(one), wrap(other)).await, "{name}");
        }
    })
    .await;
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
    everywhere(async |site| {
        for (content_type, by_value) in cases {
            let typed = |body| with(post("", body), "content-type", content_type);
            let same = are_same(&site, typed(one), typed(other)).await;
            assert_eq!(same, by_value, "{content_type}");
            assert!(are_same(&site, typed(one), typed(one)).await, "{content_type}");
        }
        let untyped = |body| without(post("", body), "content-type");
        assert!(!are_same(&site, untyped(one), untyped(other)).await);
    })
    .await;
}

#[tokio::test]
async fn what_is_not_json_counts_by_byte_whatever_it_says_it_is() {
    let bodies: [&'static [u8]; 6] =
        [b"", b"\xff\xfe", b"\xff\xff", b"{\"a\":1", b"{\"a\" :1", b"\"\xc3\""];
    everywhere(async |site| {
        for (number, one) in bodies.into_iter().enumerate() {
            assert!(are_same(&site, post("", one), post("", one)).await, "{number}");
            for other in &bodies[number + 1..] {
                assert!(!are_same(&site, post("", one), post("", *other)).await, "{number}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn other_headers_do_not_count() {
    everywhere(async |site| {
        let one = with(post("", "{}"), "x-request-id", "1");
        let other = with(with(post("", "{}"), "x-request-id", "2"), "authorization", "new");
        assert!(are_same(&site, one, other).await);
    })
    .await;
}

#[tokio::test]
async fn order_counts_among_parameters_of_one_name_only() {
    everywhere(async |site| {
        let query = |query: &str| to(post("", "{}"), &format!("/payments?{query}"));
        assert!(are_same(&site, query("b=1&a=2&a=3"), query("a=2&b=1&a=3")).await);
        assert!(!are_same(&site, query("a=2&a=3"), query("a=3&a=2")).await);
    })
    .await;
}

/// `lambda_http` makes the query anew from a hash map, whose order is another one for each event.
#[tokio::test]
async fn the_hash_map_of_an_event_is_no_mismatch() {
    let query: Vec<_> = (0..40).map(|number| format!("p{number}={number}")).collect();
    let request = to(post("k", "{}"), &format!("/payments?{}", query.join("&")));
    everywhere(async |site| {
        if site.place != Place::Function {
            return;
        }
        let service = lambda_http::service_fn(async |_: lambda_http::Request| {
            Ok::<_, std::convert::Infallible>("paid")
        });
        let function = Function::new(site.http().wrap(service));
        for kind in [Kind::Rest, Kind::Alb, Kind::AlbMultiValue, Kind::Lattice] {
            let request = with(request.clone(), "idempotency-key", &format!("{kind:?}"));
            for round in 0..10 {
                let answer = function.invoke(&kind.event(&request)).await;
                assert_eq!(is_replay(&event::response(&answer)), round > 0, "{kind:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_counts_can_be_chosen() {
    everywhere(async |site| {
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
    })
    .await;
}
