//! Each kind of event that `lambda_http` knows, from its JSON to the answer's.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::lambda::HandlerResponse;
use http::Request;
use lambda_http::{Body, Response, service_fn};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::event::{self, Kind};
use super::function::Function;
use super::message::{by, is_replay, post, problem, to, with};
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

/// An encoded `#` of the path comes decoded: what stands behind it, the query too, is then no part of
/// the URI that `lambda_http` makes.
#[tokio::test]
async fn the_query_counts_where_the_path_has_a_number_sign() {
    for kind in Kind::ALL {
        println!("{kind:?}");
        let (store, runs) = (Store::open().await, Runs::default());
        let functions = functions(store.idempotency().http("pay"), &runs, paid);
        let paying = |query: &str| {
            let mut event = kind.event(&to(post("k", "{}"), &format!("/payments?{query}")));
            kind.set_path(&mut event, "/payments/a#1");
            event
        };
        for function in &functions {
            let first = event::response(&function.invoke(&paying("amount=10&to=bob")).await);
            assert_eq!(first.status(), 201);
            let repeat = function.invoke(&paying("to=bob&amount=10")).await;
            assert!(is_replay(&event::response(&repeat)));
            for other in ["amount=20&to=bob", "amount=10", "amount=10&to=bob&fast=1", ""] {
                let answer = event::response(&function.invoke(&paying(other)).await);
                problem(&answer, 422, "Mismatch");
            }
        }
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test]
async fn a_body_in_base64_is_the_body_that_it_stands_for() {
    for kind in Kind::ALL {
        println!("{kind:?}");
        let (store, runs) = (Store::open().await, Runs::default());
        let [function, _] = functions(store.idempotency().http("pay"), &runs, paid);
        let mut encoded = kind.example();
        encoded["body"] = "eyJhbW91bnQiOjEyMDB9".into(); // {"amount":1200}
        encoded["isBase64Encoded"] = true.into();
        function.invoke(&kind.example()).await;
        assert!(is_replay(&event::response(&function.invoke(&encoded).await)));
        encoded["body"] = "eyJhbW91bnQiOjEyMDF9".into(); // {"amount":1201}
        problem(&event::response(&function.invoke(&encoded).await), 422, "Mismatch");
    }
}

/// It holds the body whole, and its `Content-Length` can be that of another encoding.
#[tokio::test]
async fn the_body_of_an_event_is_whole_whatever_its_content_length() {
    for kind in Kind::ALL {
        let (store, runs) = (Store::open().await, Runs::default());
        for function in functions(store.idempotency().http("pay"), &runs, paid) {
            let request = with(post("k", "{}"), "content-length", "9999");
            let response = event::response(&function.invoke(&kind.event(&request)).await);
            assert_eq!(response.status(), 201, "{kind:?}");
        }
        assert_eq!(runs.count(), 1, "{kind:?}");
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

/// `lambda_http` alone takes the last of a REST API's values: two keys would look like one.
#[tokio::test]
async fn two_keys_are_refused_on_each_kind_that_can_tell() {
    for kind in Kind::ALL {
        println!("{kind:?}");
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let [function, _] = functions(store.over(&link).http("pay"), &runs, paid);
        for other in ["order-8", "order-7"] {
            let mut request = post("order-7", "{}");
            request.headers_mut().append("idempotency-key", other.parse().unwrap());
            let answer = event::response(&function.invoke(&kind.event(&request)).await);
            if kind == Kind::Alb {
                // An ALB sends only the last value, without a sign that there were more.
                assert_eq!(answer.status(), 201);
                assert!(store.item(&format!("pay#{other}")).await.is_some());
            } else {
                problem(&answer, 400, "KeyInvalid");
                assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
            }
        }
    }
}

/// The spelling of a header's name is the client's, and a REST API hands it on.
#[tokio::test]
async fn two_keys_are_refused_however_the_header_is_spelled() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let [function, _] = functions(store.over(&link).http("pay"), &runs, paid);
    let mut one_name = Kind::Rest.example();
    one_name["multiValueHeaders"]["Idempotency-Key"] = json!(["order-6", "order-7"]);
    let mut two_names = Kind::Rest.example();
    two_names["multiValueHeaders"]["idempotency-key"] = json!(["order-8"]);
    two_names["headers"]["idempotency-key"] = "order-8".into();
    for event in [one_name, two_names] {
        problem(&event::response(&function.invoke(&event).await), 400, "KeyInvalid");
    }
    assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
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

/// Events bring a path decoded, and a URI ends where an encoded `#` was.
#[tokio::test]
async fn what_the_uri_does_not_show_of_the_path_counts_too() {
    for kind in Kind::ALL {
        let (store, runs) = (Store::open().await, Runs::default());
        let [function, _] = functions(store.idempotency().http("pay"), &runs, paid);
        let to = |path: &str| {
            let mut event = kind.example();
            let name = if event["rawPath"].is_string() { "rawPath" } else { "path" };
            event[name] = path.into();
            event
        };
        function.invoke(&to("/orders/a#1")).await;
        let repeat = event::response(&function.invoke(&to("/orders/a#1")).await);
        assert!(is_replay(&repeat), "{kind:?}");
        let other = event::response(&function.invoke(&to("/orders/a#2")).await);
        problem(&other, 422, "Mismatch");
    }
}

#[tokio::test]
async fn a_get_passes_through_on_each_kind() {
    for kind in Kind::ALL {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let functions = functions(store.over(&link).http("pay"), &runs, paid);
        for function in &functions {
            let get: Request<Bytes> = by("GET", post("k", ""));
            let answer = event::response(&function.invoke(&kind.event(&get)).await);
            assert_eq!((answer.status().as_u16(), is_replay(&answer)), (201, false), "{kind:?}");
        }
        assert_eq!((runs.count(), link.wire.requests().len()), (2, 0));
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

/// A problem is text, so that no integration encodes it.
#[tokio::test]
async fn a_problem_is_text_in_each_kinds_answer() {
    for kind in Kind::ALL {
        let (store, runs) = (Store::open().await, Runs::default());
        let [function, _] = functions(store.idempotency().http("pay"), &runs, paid);
        let mut request = post("k", "{}");
        request.headers_mut().remove("idempotency-key");
        let answer = function.invoke(&kind.event(&request)).await;
        assert_eq!(answer["isBase64Encoded"], false, "{kind:?}");
        problem(&event::response(&answer), 400, "KeyMissing");
    }
}
