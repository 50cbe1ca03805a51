//! What users put between a request, its record and its replay.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use dynamodb_idempotency::http::{Http, StoredUntil};
use dynamodb_idempotency::policy::Failure;
use http::{HeaderValue, Response};

use super::message::{assert_same, is_replay, post, problem, values, with};
use super::site::everywhere;
use crate::answer_codec::{Mask, shows};
use crate::support::Runs;

#[tokio::test]
async fn a_replay_is_changed_before_it_goes_out_and_the_record_is_not() {
    for site in everywhere().await {
        let asked = Runs::default();
        let counted = asked.clone();
        let http = site.http().on_replay(move |response: Response<Bytes>| {
            let run = counted.add();
            let (mut head, body) = response.into_parts();
            assert_eq!(head.headers["idempotency-replayed"], "true");
            head.headers.insert("x-replay", HeaderValue::from(run));
            let text = String::from_utf8(body.into()).unwrap();
            Response::from_parts(head, text.replace("run", "replayed_run").into())
        });
        let api = site.paying(http).await;
        let first = api.send(post("k", "{}")).await;
        assert_eq!((first.body().as_ref(), asked.count()), (&br#"{"run":1}"#[..], 0));
        let before = site.item("k").await;
        for replay in 1..=2 {
            let repeat = api.send(post("k", "{}")).await;
            assert!(is_replay(&repeat));
            assert_eq!(repeat.body(), r#"{"replayed_run":1}"#);
            assert_eq!(repeat.headers()["x-replay"], replay.to_string());
        }
        assert_eq!(site.item("k").await, before);
        problem(&api.send(post("k", "[]")).await, 422, "Mismatch");
        assert_eq!((asked.count(), site.runs.count()), (2, 1));
    }
}

/// Also an answer of the local cache, and a failure that is kept.
#[tokio::test]
async fn a_replay_says_when_its_answer_expires() {
    for site in everywhere().await {
        let cached = site.store.builder(&site.link).local_cache(1 << 20).build().unwrap();
        let kept = |http: Http| http.policy(|policy| policy.failure(Failure::Replay));
        for (key, status, http) in [
            ("stored", 201, site.http()),
            ("cached", 201, cached.http(site.scope())),
            ("kept", 500, kept(site.http())),
        ] {
            let http = http.on_replay(|mut response: Response<Bytes>| {
                let StoredUntil(end) = *response.extensions().get().expect("a replay says it");
                let seconds = end.duration_since(UNIX_EPOCH).unwrap().as_secs();
                response.headers_mut().insert("x-until", seconds.into());
                response
            });
            let answer = move |_| {
                let response = Response::builder().status(status);
                response.body(Bytes::from_static(b"{}")).expect("a response")
            };
            let api = site.answering(http, answer).await;
            assert!(!is_replay(&api.send(post(key, "{}")).await));
            let repeat = api.send(post(key, "{}")).await;
            assert!(is_replay(&repeat), "{key}");
            let until = repeat.headers()["x-until"].to_str().unwrap();
            let item = site.item(key).await.unwrap();
            assert_eq!(item["expires_at"].as_n().unwrap(), until, "{key}");
        }
    }
}

#[tokio::test]
async fn a_body_that_was_changed_does_not_go_out_with_the_length_that_it_had() {
    for site in everywhere().await {
        let http = site.http().on_replay(|response: Response<Bytes>| {
            response.map(|body| [&body, &b" again"[..]].concat().into())
        });
        let answer = |_| {
            let response = Response::builder().header("content-length", "4");
            response.body(Bytes::from_static(b"paid")).expect("a response")
        };
        let api = site.answering(http, answer).await;
        assert_eq!(api.send(post("k", "{}")).await.body(), "paid");
        let repeat = api.send(post("k", "{}")).await;
        assert_eq!(repeat.body(), "paid again");
        let lengths = values(repeat.headers(), "content-length");
        assert!(lengths.is_empty() || lengths == ["10"], "{lengths:?}");
    }
}

#[tokio::test]
async fn a_hook_that_returns_the_response_unchanged_changes_no_byte() {
    let bodies: [&'static [u8]; 4] = [b"\0\xff\xfe\x80", b"", b"caf\xc3\xa9", b"{}"];
    for site in everywhere().await {
        for (number, body) in bodies.into_iter().enumerate() {
            let answer = move |_| Response::new(Bytes::from_static(body));
            let api = site.answering(site.http().on_replay(|response| response), answer).await;
            let first = api.send(post(&format!("k{number}"), "{}")).await;
            let repeat = api.send(post(&format!("k{number}"), "{}")).await;
            assert!(is_replay(&repeat));
            assert_same(&first, &repeat);
        }
    }
}

#[tokio::test]
async fn an_answer_that_a_codec_has_encoded_is_replayed_byte_for_byte() {
    let bodies: [&'static [u8]; 4] = [b"\0\xff\xfe\x80", b"", b"caf\xc3\xa9", b"{\"secret\":1}"];
    for site in everywhere().await {
        let builder = site.store.builder(&site.link).answer_codec(Mask::default());
        let idempotency = builder.reject_plain_answers().build().unwrap();
        for (number, body) in bodies.into_iter().enumerate() {
            let answer = move |_| {
                let response = Response::builder().header("x-secret", "secret");
                response.body(Bytes::from_static(body)).unwrap()
            };
            let api = site.answering(idempotency.http(site.scope()), answer).await;
            let first = api.send(post(&format!("k{number}"), "{}")).await;
            let repeat = api.send(post(&format!("k{number}"), "{}")).await;
            assert!(is_replay(&repeat));
            assert_same(&first, &repeat);
            assert!(!shows(&site.item(&format!("k{number}")).await.unwrap(), "secret"));
        }
    }
}

#[tokio::test]
async fn a_key_may_be_found_elsewhere_than_in_its_header() {
    for site in everywhere().await {
        let find = |parts: &http::request::Parts| {
            let id = parts.headers.get("x-delivery")?.to_str().ok()?;
            Some(id.trim_start_matches("id=").to_owned())
        };
        let api = site.paying(site.http().key(find)).await;
        let delivery = |id: &str, other: &str| with(post(other, "{}"), "x-delivery", id);
        assert_eq!(api.send(delivery("id=7", "a")).await.status(), 201);
        assert!(is_replay(&api.send(delivery("id=7", "b")).await));
        assert_eq!(site.status("7").await.as_deref(), Some("COMPLETED"));
        problem(&api.send(post("k", "{}")).await, 400, "KeyMissing");
        for bad in ["id=".to_owned(), "k".repeat(256)] {
            problem(&api.send(delivery(&bad, "k")).await, 400, "KeyInvalid");
        }
        assert_eq!(site.runs.count(), 1);
        let optional = site.paying(site.http().key(find).key_optional()).await;
        assert!(!is_replay(&optional.send(post("k", "{}")).await));
        assert_eq!(site.runs.count(), 2);
    }
}
