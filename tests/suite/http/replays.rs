//! A repeat gets the first answer, and what belongs to one message alone is not in it.

use bytes::Bytes;
use http::Response;

use super::message::{assert_same, is_replay, own_headers, post, values, with};
use super::site::{Place, everywhere, paid};
use crate::support::raw::Item;

#[tokio::test]
async fn a_repeat_gets_the_first_answer_and_says_so() {
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        let first = api.send(post("k", r#"{"amount":1200}"#)).await;
        assert!(!is_replay(&first));
        assert_eq!(first.status(), 201);
        assert_eq!(first.headers()["location"], "/payments/1");
        assert_eq!(first.body(), r#"{"run":1}"#);
        for _ in 0..3 {
            let repeat = api.send(post("k", r#"{"amount":1200}"#)).await;
            assert!(is_replay(&repeat));
            assert_same(&first, &repeat);
        }
        assert_eq!(site.runs.count(), 1);
        assert_eq!(site.status("k").await.as_deref(), Some("COMPLETED"));
    }
}

#[tokio::test]
async fn another_key_is_another_request() {
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        api.send(post("k", "{}")).await;
        let other = api.send(post("K", "{}")).await;
        assert!(!is_replay(&other));
        assert_eq!(other.body(), r#"{"run":2}"#);
    }
}

#[tokio::test]
async fn a_body_comes_back_byte_for_byte() {
    let bodies: [&'static [u8]; 5] =
        [b"\0\xff\xfe\x80", b"", b"caf\xc3\xa9 \xe2\x82\xac", b" {\"a\" : 1.0}\r\n", b"\xc3"];
    for site in everywhere().await {
        for (number, body) in bodies.into_iter().enumerate() {
            let answer = move |_| {
                let response = Response::builder().header("content-type", "application/pdf");
                response.body(Bytes::from_static(body)).unwrap()
            };
            let api = site.answering(site.http(), answer).await;
            let first = api.send(post(&format!("k{number}"), "{}")).await;
            let repeat = api.send(post(&format!("k{number}"), "{}")).await;
            assert!(is_replay(&repeat));
            assert_eq!(first.body(), body);
            assert_same(&first, &repeat);
        }
    }
}

#[tokio::test]
async fn an_answer_without_content_stays_without() {
    for site in everywhere().await {
        let answer = |_| Response::builder().status(204).body(Bytes::new()).unwrap();
        let api = site.answering(site.http(), answer).await;
        let (first, repeat) = (api.send(post("k", "")).await, api.send(post("k", "")).await);
        assert_eq!((first.status().as_u16(), is_replay(&repeat)), (204, true));
        assert_same(&first, &repeat);
    }
}

/// In Lambda's answers the headers are a map, without an order: there it is tested that all values
/// are there, and on a socket their order as well.
#[tokio::test]
async fn headers_keep_their_order_and_all_their_values() {
    for site in everywhere().await {
        let answer = |_| {
            let response = Response::builder()
                .header("x-zebra", "1")
                .header("vary", "accept")
                .header("link", "</payments/1>; rel=self")
                .header("vary", "origin")
                .header("content-type", "text/plain")
                .header("x-ant", "2")
                .header("link", "</payments>; rel=collection");
            response.body("paid".into()).unwrap()
        };
        let api = site.answering(site.http(), answer).await;
        let (first, repeat) = (api.send(post("k", "")).await, api.send(post("k", "")).await);
        assert!(is_replay(&repeat));
        assert_same(&first, &repeat);
        if site.place == Place::Server {
            assert_eq!(own_headers(&repeat), own_headers(&first));
            let names: Vec<_> = own_headers(&first).iter().map(|(name, _)| name.as_str()).collect();
            let sent = ["x-zebra", "vary", "vary", "link", "link", "content-type", "x-ant"];
            assert_eq!(names, sent);
        }
        if site.place != Place::Router {
            // An HTTP API has one value for each.
            assert_eq!(values(repeat.headers(), "vary"), ["accept", "origin"]);
        }
    }
}

#[tokio::test]
async fn cookies_dates_and_hop_by_hop_headers_are_neither_stored_nor_replayed() {
    const LONG_AGO: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    for site in everywhere().await {
        let answer = |_| {
            let response = Response::builder()
                .header("set-cookie", "visits=1")
                .header("set-cookie", "session=s3cret; HttpOnly")
                .header("date", LONG_AGO)
                .header("keep-alive", "timeout=5")
                .header("proxy-authenticate", "Basic")
                .header("connection", "X-Hop, x-other-hop")
                .header("x-hop", "1")
                .header("x-other-hop", "2")
                .header("x-kept", "3");
            response.body("paid".into()).unwrap()
        };
        let api = site.answering(site.http(), answer).await;
        let first = api.send(post("k", "")).await;
        assert_eq!(first.headers()["x-hop"], "1");
        let cookies = ["visits=1", "session=s3cret; HttpOnly"];
        assert_eq!(values(first.headers(), "set-cookie"), cookies);
        assert_eq!(values(first.headers(), "date"), [LONG_AGO]);

        let repeat = api.send(post("k", "")).await;
        assert!(is_replay(&repeat));
        assert_eq!(own_headers(&repeat).len(), 1, "{:?}", repeat.headers());
        assert_eq!(repeat.headers()["x-kept"], "3");
        assert_ne!(values(repeat.headers(), "date"), [LONG_AGO]);
        let record = site.item("k").await.unwrap();
        let mut stored = stored_headers(&record);
        // A whole router knows how long its answers are.
        stored.retain(|name| *name != "content-length");
        assert_eq!(stored, ["x-kept"]);
    }
}

/// The names of the headers in a record's answer.
fn stored_headers(record: &Item) -> Vec<&str> {
    let headers = record["response"].as_m().unwrap()["headers"].as_l().unwrap();
    headers.iter().map(|pair| pair.as_l().unwrap()[0].as_s().unwrap().as_str()).collect()
}

#[tokio::test]
async fn only_a_replay_has_the_mark_of_one_whatever_the_handler_sets() {
    for site in everywhere().await {
        let answer = |run| {
            let mut response = paid(run);
            response.headers_mut().insert("idempotency-replayed", "true".parse().unwrap());
            response
        };
        let api = site.answering(site.http(), answer).await;
        assert!(!is_replay(&api.send(post("k", "")).await));
        assert!(is_replay(&api.send(post("k", "")).await));
    }
}

/// A failed precondition is not replayed to a repeat whose validator matches now.
#[tokio::test]
async fn a_failed_precondition_is_evaluated_again() {
    for site in everywhere().await {
        let runs = site.runs.clone();
        let api = site.serve(site.http(), move |request| {
            let fits = request.headers().get("if-match").is_some_and(|tag| tag == "\"v2\"");
            let run = runs.add();
            std::future::ready(if fits { paid(run) } else { precondition_failed() })
        });
        let api = api.await;
        let sent = |tag| with(post("k", "{}"), "if-match", tag);
        assert_eq!(api.send(sent("\"v1\"")).await.status(), 412);
        let done = api.send(sent("\"v2\"")).await;
        assert_eq!((done.status().as_u16(), is_replay(&done)), (201, false));
        // It is done: what the client knows of it by now makes it no other request.
        for tag in ["\"v1\"", "\"v2\"", "\"v3\""] {
            let repeat = api.send(sent(tag)).await;
            assert!(is_replay(&repeat));
            assert_same(&done, &repeat);
        }
        assert_eq!(site.runs.count(), 2);
    }
}

fn precondition_failed() -> Response<Bytes> {
    Response::builder().status(412).body(Bytes::new()).unwrap()
}

#[cfg(feature = "metrics")]
#[tokio::test]
async fn signals_tell_a_replay_from_a_first_answer() {
    for site in everywhere().await {
        let listener = crate::support::listener::Listener::start();
        let api = site.paying(site.http()).await;
        api.send(post("k", "{}")).await;
        api.send(post("k", "{}")).await;
        api.send(post("k", "[]")).await;
        let ended = listener.logged("an idempotent call has ended");
        let outcomes: Vec<_> = ended.iter().map(|event| event.get("outcome")).collect();
        assert_eq!(outcomes, ["first", "replay", "mismatch"]);
    }
}
