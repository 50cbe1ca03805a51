//! Each kind of event that `lambda_http` knows, from its JSON to the answer's.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::lambda::HandlerResponse;
use lambda_http::{Body, Response, service_fn};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::event::{self, Kind};
use super::function::Function;
use super::message::{and, by, is_replay, keyless, outcome, post, to, with};
use crate::support::{Link, Runs, Store, raw};

/// A function that answers what `answer` gives by the number of the run, under the crate's own
/// runner and under that of `lambda_http`.
fn functions<R: HandlerResponse + Send + Sync + 'static>(
    http: Http,
    runs: &Runs,
    answer: impl Fn(u32) -> R + Clone + Send + Sync + 'static,
) -> [Function; 2] {
    let runs = runs.clone();
    let service = service_fn(move |_: lambda_http::Request| {
        std::future::ready(Ok::<_, Infallible>(answer(runs.add())))
    });
    let wrapped = http.wrap(service).unwrap();
    [Function::new(wrapped.clone()), Function::under_lambda_http(wrapped)]
}

fn paid(run: u32) -> Response<Body> {
    let response = Response::builder().status(201).header("content-type", "application/json");
    response.body(format!(r#"{{"run":{run}}}"#).into()).unwrap()
}

#[tokio::test]
async fn every_kind_of_event_is_replayed() {
    for kind in Kind::ALL {
        println!("{kind:?}");
        let (store, runs) = (Store::open().await, Runs::default());
        let functions = functions(store.idempotency().http("pay"), &runs, paid);
        let mut first = functions[0].invoke(&kind.example()).await;
        assert_eq!((&first["statusCode"], &first["body"]), (&json!(201), &json!(r#"{"run":1}"#)));
        assert!(!is_replay(&event::response(&first)));
        mark(kind, &mut first);
        for function in &functions {
            assert_eq!(function.invoke(&kind.example()).await, first);
        }
        let record = store.record("pay#order-7").await;
        assert_eq!((raw::status(&record), runs.count()), ("COMPLETED", 1));
    }
}

/// Adds the mark of a replay to an answer, where this kind has its headers.
fn mark(kind: Kind, answer: &mut Value) {
    const MARK: &str = "idempotency-replayed";
    match kind {
        Kind::Rest => answer["multiValueHeaders"][MARK] = json!(["true"]),
        Kind::HttpApi | Kind::FunctionUrl | Kind::Lattice => {
            answer["headers"][MARK] = json!("true");
        }
        Kind::Alb | Kind::AlbMultiValue => {
            answer["headers"][MARK] = json!("true");
            answer["multiValueHeaders"][MARK] = json!(["true"]);
        }
    }
}

/// Sends events one after the other. Each row is a name, the event and the answer's
/// [`outcome`]. Each answer is text, so that no integration encodes it.
async fn check(function: &Function, rows: impl IntoIterator<Item = (&str, Value, &str)>) {
    for (name, event, expected) in rows {
        let answer = function.invoke(&event).await;
        assert_eq!(outcome(&event::response(&answer)), expected, "{name}");
        assert_eq!(answer["isBase64Encoded"], false, "{name}");
    }
}

/// An encoded `#` of the path comes decoded: what stands behind it, the query too, is then no part of
/// the URI that `lambda_http` makes.
#[tokio::test]
async fn all_of_a_request_counts_as_it_was_sent() {
    for kind in Kind::ALL {
        println!("{kind:?}");
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let functions = functions(store.over(&link).http("pay"), &runs, paid);
        for (runner, function) in functions.iter().enumerate() {
            let key = |name: &str| format!("{name} {runner}");
            let query = |query: &str| {
                let request = to(post(&key("query"), "{}"), &format!("/payments?{query}"));
                let mut event = kind.event(&request);
                kind.set_path(&mut event, "/payments/a#1");
                event
            };
            let path = |path: &str| {
                let mut event = kind.event(&post(&key("path"), "{}"));
                let name = if event["rawPath"].is_string() { "rawPath" } else { "path" };
                event[name] = path.into();
                event
            };
            let body = |body: &str, is_base64: bool| {
                let mut event = kind.event(&post(&key("body"), body.to_owned()));
                event["isBase64Encoded"] = is_base64.into();
                event
            };
            // The event has the whole body; the length can be that of another encoding.
            let length = with(post(&key("length"), "{}"), "content-length", "9999");
            check(
                function,
                [
                    ("a query", query("amount=10&to=bob"), "201"),
                    ("its parameters in another order", query("to=bob&amount=10"), "201 replay"),
                    ("another value", query("amount=20&to=bob"), "422 Mismatch"),
                    ("a parameter less", query("amount=10"), "422 Mismatch"),
                    ("a parameter more", query("amount=10&to=bob&fast=1"), "422 Mismatch"),
                    ("no query", query(""), "422 Mismatch"),
                    ("a path", path("/orders/a#1"), "201"),
                    ("the same path", path("/orders/a#1"), "201 replay"),
                    ("another path", path("/orders/a#2"), "422 Mismatch"),
                    ("a body", body(r#"{"amount":1200}"#, false), "201"),
                    ("its base64", body("eyJhbW91bnQiOjEyMDB9", true), "201 replay"),
                    ("another body's base64", body("eyJhbW91bnQiOjEyMDF9", true), "422 Mismatch"),
                    ("a wrong length", kind.event(&length), "201"),
                ],
            )
            .await;
            link.wire.forget();
            check(
                function,
                [
                    ("GET", kind.event(&by("GET", post("k", ""))), "201"),
                    ("no key", kind.event(&keyless("{}")), "400 KeyMissing"),
                ],
            )
            .await;
            assert_eq!(link.wire.requests(), [""; 0]);
        }
        assert_eq!(runs.count(), 2 * 5);
    }
}

#[tokio::test]
async fn the_handler_gets_the_body_as_it_was_sent() {
    let bodies: [&'static [u8]; 3] = [b"\0\xff", b"", b"{\"a\" : 1}"];
    for (kind, body) in Kind::ALL.iter().flat_map(|kind| bodies.map(|body| (*kind, body))) {
        let (store, seen) = (Store::open().await, Arc::new(Mutex::new(Bytes::new())));
        let handler = {
            let seen = Arc::clone(&seen);
            move |request: lambda_http::Request| {
                *seen.lock().unwrap() = Bytes::copy_from_slice(request.body());
                std::future::ready(Ok::<_, Infallible>("paid"))
            }
        };
        let http = store.idempotency().http("pay");
        let function = Function::new(http.wrap(service_fn(handler)).unwrap());
        function.invoke(&kind.event(&post("k", body))).await;
        assert_eq!(*seen.lock().unwrap(), body, "{kind:?}");
    }
}

/// What is text and what is base64 is `lambda_http`'s choice, by the answer's headers: neither the
/// first answer nor its replay may differ from what it sends without this crate.
#[tokio::test]
async fn text_stays_text_and_bytes_stay_bytes() {
    type Case = (&'static [(&'static str, &'static str)], &'static [u8], &'static str, bool);
    let cases: [Case; 10] = [
        (&[("content-type", "text/plain; charset=utf-8")], b"caf\xc3\xa9", "caf\u{e9}", false),
        (&[("content-type", "text/plain; charset=iso-8859-1")], b"caf\xe9", "caf\u{e9}", false),
        (&[("content-type", "application/vnd.shop+json")], b"{}", "{}", false),
        (&[], b"plain", "plain", false),
        (&[], b"", "", false),
        (&[("content-type", "image/png")], b"\0\xff", "AP8=", true),
        (&[("content-type", "image/png")], b"plain", "cGxhaW4=", true),
        (&[("content-type", "image/png")], b"", "", true),
        (&[("content-type", "text/plain"), ("content-encoding", "br")], b"plain", "cGxhaW4=", true),
        (&[("content-type", "text/plain")], b"not text: \xff", "not text: \u{fffd}", false),
    ];
    let store = Store::open().await;
    for kind in Kind::ALL {
        for (number, (headers, body, text, is_base64)) in cases.into_iter().enumerate() {
            println!("{kind:?}: {headers:?} {body:?}");
            let service = service_fn(move |_: lambda_http::Request| {
                let mut response = Response::new(Body::Binary(body.to_vec()));
                for (name, value) in headers {
                    response.headers_mut().insert(*name, value.parse().unwrap());
                }
                std::future::ready(Ok::<_, Infallible>(response))
            });
            let http = store.idempotency().http(format!("{kind:?} {number}"));
            let mut alone = Function::new(service).invoke(&kind.example()).await;
            assert_eq!(
                (&alone["body"], &alone["isBase64Encoded"]),
                (&json!(text), &json!(is_base64))
            );
            let function = Function::new(http.wrap(service).unwrap());
            assert_eq!(function.invoke(&kind.example()).await, alone);
            mark(kind, &mut alone);
            assert_eq!(function.invoke(&kind.example()).await, alone);
        }
    }
}

/// What stands around the wrapped service sees the difference, and so does the record's reader.
#[tokio::test]
async fn the_record_tells_text_from_bytes() {
    for (content_type, is_text) in [("text/plain", true), ("image/png", false)] {
        let store = Store::open().await;
        let service = service_fn(move |_: lambda_http::Request| {
            let response = Response::builder().header("content-type", content_type);
            std::future::ready(response.body(Body::from("paid")))
        });
        let wrapped = store.idempotency().http("pay").wrap(service).unwrap();
        for round in 0..2 {
            let request = post("k", "{}").map(|_| Body::Empty);
            let response = wrapped.clone().oneshot(request).await.unwrap().into_inner();
            let expected = if is_text { "Text" } else { "Binary" };
            assert!(format!("{:?}", response.body()).starts_with(expected), "{round}");
            assert_eq!(response.body().as_ref(), b"paid");
        }
        let record = store.record("pay#k").await;
        let body = &record["response"].as_m().unwrap()["body"];
        assert_eq!((body.is_s(), body.is_b()), (is_text, !is_text));
    }
}

/// `lambda_http` alone takes the last of a REST API's values: two keys would look like one. The spelling
/// of the header's name is the client's, and a REST API hands it on.
#[tokio::test]
async fn two_keys_are_refused_on_each_kind_that_can_tell() {
    for kind in Kind::ALL {
        println!("{kind:?}");
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let [function, _] = functions(store.over(&link).http("pay"), &runs, paid);
        let twice = |other| kind.event(&and(post("order-7", "{}"), "idempotency-key", other));
        if kind == Kind::Alb {
            // An ALB sends only the last value, without a sign that there were more.
            check(&function, [("the last counts", twice("order-8"), "201")]).await;
            assert!(store.item("pay#order-8").await.is_some());
            continue;
        }
        let mut events = vec![
            ("two", twice("order-8"), "400 KeyInvalid"),
            ("one", twice("order-7"), "400 KeyInvalid"),
        ];
        if kind == Kind::Rest {
            let mut one_name = kind.example();
            one_name["multiValueHeaders"]["Idempotency-Key"] = json!(["order-6", "order-7"]);
            let mut two_names = kind.example();
            two_names["multiValueHeaders"]["idempotency-key"] = json!(["order-8"]);
            two_names["headers"]["idempotency-key"] = "order-8".into();
            events.push(("a name as the client spells it", one_name, "400 KeyInvalid"));
            events.push(("two spellings of the name", two_names, "400 KeyInvalid"));
        }
        check(&function, events).await;
        assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
    }
}

#[tokio::test]
async fn all_values_of_a_header_reach_the_handler() {
    for kind in [Kind::Rest, Kind::AlbMultiValue, Kind::Lattice] {
        let store = Store::open().await;
        let handler = |request: lambda_http::Request| {
            let values = request.headers().get_all("x-item").iter();
            let values: Vec<_> = values.map(|value| value.to_str().unwrap()).collect();
            let host = request.uri().host().map(str::to_owned);
            std::future::ready(Ok::<_, Infallible>(format!("{values:?} {}", host.is_some())))
        };
        let http = store.idempotency().http("pay");
        let function = Function::new(http.wrap(service_fn(handler)).unwrap());
        let mut request = post("k", "{}");
        for item in ["a", "b", "a"] {
            request.headers_mut().append("x-item", item.parse().unwrap());
        }
        let answer = function.invoke(&kind.event(&request)).await;
        // It reads the host from the single headers; this load balancer sends none.
        let host = kind != Kind::AlbMultiValue;
        assert_eq!(answer["body"], format!(r#"["a", "b", "a"] {host}"#), "{kind:?}");
    }
}

#[tokio::test]
async fn a_websocket_message_passes_through() {
    let event = serde_json::from_str(include_str!("events/websocket.json")).unwrap();
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    for function in functions(store.over(&link).http("pay"), &runs, paid) {
        assert_eq!(function.invoke(&event).await["statusCode"], 201);
    }
    assert_eq!((runs.count(), link.wire.requests().len()), (2, 0));
}
