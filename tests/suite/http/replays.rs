//! A repeat gets the first answer at the cost of one request, and what belongs to one message alone is
//! not in it.

use bytes::Bytes;
use dynamodb_idempotency::http::Http;
use http::Response;

use super::message::{is_replay, own_headers, post, problem, values, with};
use super::site::{Place, Site, everywhere, paid};
use crate::answer_codec::{Mask, shows};
use crate::support::in_record;
use crate::support::raw::Item;

#[tokio::test]
async fn a_first_call_takes_two_requests_and_whatever_comes_after_it_one() {
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        let first = api.replayed(post("k", r#"{"amount":1200}"#)).await;
        assert_eq!(site.link.wire.requests().len(), 2 + 1);
        assert_eq!((first.status().as_u16(), first.body().as_ref()), (201, &br#"{"run":1}"#[..]));
        assert_eq!(first.headers()["location"], "/payments/1");
        api.check([("another request", post("k", "2"), "422 Mismatch")]).await;
        assert_eq!(site.link.wire.requests().len(), 2 + 1 + 1);
        assert_eq!(site.status("k").await.as_deref(), Some("COMPLETED"));
        assert_eq!(api.replayed(post("K", "2")).await.body(), r#"{"run":2}"#);
    }
}

type Settings = fn(&Site) -> Http;

/// What can be between an answer and its record, and changes nothing of it.
const WAYS: [(&str, Settings); 4] = [
    ("nothing", Site::http),
    ("on_replay", |site| site.http().on_replay(|response| response)),
    ("on_store", |site| site.http().on_store(|response| response)),
    ("a codec", |site| {
        let builder = site.store.builder(&site.link).answer_codec(Mask::default());
        builder.reject_plain_answers().build().unwrap().http(site.scope())
    }),
];

#[tokio::test]
async fn a_body_comes_back_byte_for_byte() {
    let bodies: [&'static [u8]; 6] = [
        b"\0\xff\xfe\x80",
        b"",
        b"caf\xc3\xa9 \xe2\x82\xac",
        b" {\"a\" : 1.0}\r\n",
        b"\xc3",
        b"{\"secret\":1}",
    ];
    for site in everywhere().await {
        for (number, body) in bodies.into_iter().enumerate() {
            // Lambda tells text from bytes by the type.
            for content_type in ["application/pdf", "text/plain"] {
                if content_type == "text/plain" && std::str::from_utf8(body).is_err() {
                    continue;
                }
                let mut stored = Vec::new();
                for (way, http) in WAYS {
                    let answer = move |_| {
                        let response = Response::builder().header("content-type", content_type);
                        response.header("x-secret", "secret").body(body.into()).unwrap()
                    };
                    let key = format!("{way} {content_type} {number}");
                    let api = site.answering(http(&site), answer).await;
                    assert_eq!(api.replayed(post(&key, "")).await.body(), body, "{key}");
                    let record = site.item(&key).await.unwrap();
                    assert_eq!(shows(&record, "secret"), way != "a codec", "{key}");
                    stored.push(record["response"].clone());
                }
                assert_eq!(stored[0], stored[2], "on_store");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_without_content_stays_without() {
    for site in everywhere().await {
        let answer = |_| Response::builder().status(204).body(Bytes::new()).unwrap();
        let api = site.answering(site.http(), answer).await;
        assert_eq!(api.replayed(post("k", "")).await.status(), 204);
    }
}

/// Of a kind that DynamoDB counts byte by byte.
#[tokio::test]
async fn a_large_answer_is_replayed_whole_and_one_that_no_item_can_hold_is_never_made_again() {
    let of = |kilobytes: usize| {
        move |_| {
            let body: Vec<u8> = (0..251).cycle().take(kilobytes * 1024).collect();
            let response = Response::builder().header("content-type", "application/octet-stream");
            response.body(body.into()).unwrap()
        }
    };
    for site in everywhere().await {
        let api = site.answering(site.http(), of(390)).await;
        assert_eq!(api.replayed(post("large", "{}")).await.body().len(), 390 * 1024);
        let api = site.answering(site.http().policy(in_record), of(410)).await;
        let first = api.send(post("k", "{}")).await;
        assert_eq!((first.status().as_u16(), first.body().len()), (200, 410 * 1024));
        assert_eq!(site.status("k").await.as_deref(), Some("COMPLETED"));
        for _ in 0..2 {
            problem(&api.send(post("k", "{}")).await, 500, "AnswerUnavailable");
        }
        assert_eq!(site.runs.count(), 2);
    }
}

/// In Lambda's answers the headers are a map, without an order: there it is tested that all values
/// are there, and on a socket their order as well.
#[tokio::test]
async fn headers_keep_their_order_and_all_their_values() {
    let sent = [
        ("x-zebra", "1"),
        ("vary", "accept"),
        ("link", "</payments/1>; rel=self"),
        ("vary", "origin"),
        ("content-type", "text/plain"),
        ("x-ant", "2"),
        ("link", "</payments>; rel=collection"),
    ];
    for site in everywhere().await {
        let answer = move |_| {
            let response = Response::builder();
            let response =
                sent.iter().fold(response, |all, (name, value)| all.header(*name, *value));
            response.body("paid".into()).unwrap()
        };
        let api = site.answering(site.http(), answer).await;
        let first = api.replayed(post("k", "")).await;
        let repeat = api.send(post("k", "")).await;
        if site.place == Place::Server {
            assert_eq!(own_headers(&repeat), own_headers(&first));
            let names: Vec<_> = own_headers(&first).iter().map(|(name, _)| name.as_str()).collect();
            // A `HeaderMap` has all values of a name together.
            assert_eq!(names, ["x-zebra", "vary", "vary", "link", "link", "content-type", "x-ant"]);
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
        site.answering(site.http(), answer).await.replayed(post("k", "")).await;
    }
}

/// A failed precondition is not replayed to a repeat whose validator matches now.
#[tokio::test]
async fn a_failed_precondition_is_evaluated_again() {
    for site in everywhere().await {
        let runs = site.runs.clone();
        let handler = move |request: http::Request<Bytes>| {
            let mut response = paid(runs.add());
            if request.headers()["if-match"] != "\"v2\"" {
                *response.status_mut() = http::StatusCode::PRECONDITION_FAILED;
            }
            std::future::ready(response)
        };
        let api = site.serve(site.http(), handler).await;
        let sent = |tag| with(post("k", "{}"), "if-match", tag);
        api.check([
            ("an old tag", sent("\"v1\""), "412"),
            ("the tag", sent("\"v2\""), "201"),
            // What the client knows of it by now makes it no other request.
            ("the old tag again", sent("\"v1\""), "201 replay"),
            ("the tag again", sent("\"v2\""), "201 replay"),
            ("a new tag", sent("\"v3\""), "201 replay"),
        ])
        .await;
    }
}

#[cfg(feature = "metrics")]
#[tokio::test]
async fn signals_tell_a_replay_from_a_first_answer() {
    for site in everywhere().await {
        let listener = crate::support::listener::Listener::start();
        let api = site.paying(site.http()).await;
        api.replayed(post("k", "{}")).await;
        api.send(post("k", "[]")).await;
        let ended = listener.logged("an idempotent call has ended");
        let outcomes: Vec<_> = ended.iter().map(|event| event.get("outcome")).collect();
        assert_eq!(outcomes, ["first", "replay", "mismatch"]);
    }
}
