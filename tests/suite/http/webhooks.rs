//! Webhooks: signed by their sender, and done once an event.

use std::convert::Infallible;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use dynamodb_idempotency::Fingerprint;
use dynamodb_idempotency::http::{HmacScheme, Http, Webhook};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderName, Request, Response};
use http_body_util::Full;
use serde_json::Value;
use sha2::Sha256;
use tower::{Layer, ServiceExt, service_fn};

use super::message::{assert_same, by, is_replay, post, problem, with, without};
use super::site::{Api, Place, Site, everywhere, paid};
use crate::support::{Act, Link, LocalClock, Store, made_up_time, raw};

const SECRET: &str = "whsec_test";

fn hex_mac(message: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("any length will do");
    let mac = mac.chain_update(message).finalize().into_bytes();
    mac.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

fn seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs()
}

/// An event as Stripe sends it; `delivery` is another number in each delivery.
fn event(id: &str, delivery: u32) -> Request<Bytes> {
    let body = format!(r#"{{"id":"{id}","pending_webhooks":{delivery}}}"#);
    let time = seconds();
    let signature = format!("t={time},v1={}", hex_mac(&format!("{time}.{body}")));
    with(without(post("", body), "idempotency-key"), "stripe-signature", &signature)
}

/// Signed as another event.
fn forged(id: &str) -> Request<Bytes> {
    let signature = event("another", 1).headers()["stripe-signature"].clone();
    with(event(id, 1), "stripe-signature", signature.to_str().expect("text"))
}

fn stripe(http: Http) -> Http {
    http.webhook(Webhook::stripe(["whsec_another", SECRET]))
}

async fn inbox(site: &Site) -> Api {
    site.paying(stripe(site.http())).await
}

#[tokio::test]
async fn an_event_that_is_delivered_again_gets_the_same_answer() {
    for site in everywhere().await {
        let api = inbox(&site).await;
        let first = api.send(event("evt_1", 1)).await;
        assert_eq!((first.status().as_u16(), is_replay(&first)), (201, false));
        let again = api.send(event("evt_1", 2)).await;
        assert!(is_replay(&again));
        assert_same(&first, &again);
        assert!(!is_replay(&api.send(event("evt_2", 1)).await));
        assert_eq!(site.runs.count(), 2);
        assert_eq!(site.status("evt_1").await.as_deref(), Some("COMPLETED"));
    }
}

/// Nothing is looked up, so nothing of a stored answer is given away.
#[tokio::test]
async fn what_the_sender_has_not_signed_is_refused_before_a_replay() {
    for site in everywhere().await {
        let api = inbox(&site).await;
        api.send(event("evt_1", 1)).await;
        site.link.wire.forget();
        for request in [forged("evt_1"), without(event("evt_1", 1), "stripe-signature")] {
            problem(&api.send(request).await, 401, "SignatureInvalid");
        }
        assert_eq!(site.link.wire.requests(), [""; 0]);
        assert_eq!(site.runs.count(), 1);
    }
}

#[tokio::test]
async fn a_signature_ages_by_the_stores_time() {
    for site in everywhere().await {
        let api = inbox(&site).await;
        api.send(event("evt_1", 1)).await;
        let old = event("evt_2", 1);
        site.link.let_pass(400);
        // Its response carries the time.
        site.link.wire.forget();
        problem(&api.send(old).await, 401, "SignatureInvalid");
        assert_eq!(site.runs.count(), 1);
    }
}

#[tokio::test]
async fn a_signed_request_without_an_event_is_refused() {
    for site in everywhere().await {
        let optional = site.http().key_optional();
        for http in [site.http(), optional] {
            let http = http.webhook(Webhook::stripe([SECRET]).json_id("/event/id"));
            let api = site.paying(http).await;
            problem(&api.send(event("evt_1", 1)).await, 400, "KeyMissing");
        }
        assert_eq!(site.runs.count(), 0);
    }
}

#[tokio::test]
async fn a_delivery_that_fails_is_run_by_the_next() {
    for site in everywhere().await {
        let api = site.answering(stripe(site.http()), |run| {
            if run == 1 {
                Response::builder().status(503).body(Bytes::new()).expect("one")
            } else {
                paid(run)
            }
        });
        let api = api.await;
        for (status, replayed) in [(503, false), (201, false), (201, true)] {
            let answer = api.send(event("evt_1", 1)).await;
            assert_eq!((answer.status().as_u16(), is_replay(&answer)), (status, replayed));
        }
    }
}

/// The sender takes all of these for failures, and delivers the event again. That holds also for a 404
/// of a router that has no such route yet.
#[tokio::test]
async fn only_a_2xx_is_done_and_any_other_response_leaves_the_event_to_the_next_delivery() {
    for site in everywhere().await {
        for status in [302, 304, 308, 400, 401, 402, 404, 409, 410, 422, 423, 424, 429, 500] {
            let before = site.runs.count();
            let api = site.answering(stripe(site.http()), move |run| {
                let status = if run == before + 1 { status } else { 204 };
                Response::builder().status(status).body(Bytes::new()).expect("one")
            });
            let api = api.await;
            let id = format!("evt_{status}");
            for (expected, replayed) in [(status, false), (204, false), (204, true)] {
                let answer = api.send(event(&id, 1)).await;
                assert_eq!((answer.status().as_u16(), is_replay(&answer)), (expected, replayed));
            }
            assert_eq!(site.runs.count(), before + 2, "{status}");
        }
    }
}

#[tokio::test]
async fn what_is_done_can_be_chosen_for_a_webhook_too() {
    for site in everywhere().await {
        let final_too = |http: Http| http.store_if(|status| status.is_success() || status == 404);
        let cases = [final_too(stripe(site.http())), stripe(final_too(site.http()))];
        for (id, http) in ["evt_1", "evt_2"].into_iter().zip(cases) {
            let not_found = |_| Response::builder().status(404).body(Bytes::new()).expect("one");
            let api = site.answering(http, not_found).await;
            for replayed in [false, true] {
                let answer = api.send(event(id, 1)).await;
                assert_eq!((answer.status().as_u16(), is_replay(&answer)), (404, replayed));
            }
        }
    }
}

/// A delivery as a sender of Standard Webhooks signs it.
fn from_standard(id: &str) -> Request<Bytes> {
    let (time, body) = (seconds().to_string(), r#"{"id":"evt"}"#);
    let key = b"key of a standard sender";
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("any length will do");
    let mac = mac.chain_update(format!("{id}.{time}.{body}")).finalize().into_bytes();
    let signature = format!("v1,{}", BASE64.encode(mac));
    let request = without(post("", body), "idempotency-key");
    let request = with(with(request, "webhook-id", id), "webhook-timestamp", &time);
    with(request, "webhook-signature", &signature)
}

fn standard(http: Http) -> Http {
    let secret = format!("v1,whsec_{}\n", BASE64.encode(b"key of a standard sender"));
    http.webhook(Webhook::standard([secret]))
}

/// A process that has sent no request yet, whose wall clock is off by so many seconds.
fn starting(site: &Site, link: Link, off: i64) -> (Http, Site) {
    let link = link.clock(LocalClock::off_by(off));
    let idempotency = site.store.starting(&link).build().expect("the settings are right");
    (idempotency.http(site.scope()), Site { link, ..site.clone() })
}

/// Nothing that was refused would ever have shown the process DynamoDB's time.
#[tokio::test]
async fn a_new_process_whose_clock_is_wrong_judges_a_signature_by_the_stores_time() {
    for site in everywhere().await {
        for off in [-600, 600, 0] {
            if off > 0 && site.place != Place::Server {
                // By this clock, the invocation's deadline is over.
                continue;
            }
            let cases = [
                (stripe as fn(Http) -> Http, event as fn(&str, u32) -> Request<Bytes>),
                (standard, |id, _| from_standard(id)),
            ];
            for (number, (webhook, delivery)) in cases.into_iter().enumerate() {
                let (http, new) = starting(&site, Link::default(), off);
                let api = new.paying(webhook(http)).await;
                let id = format!("evt_{number}_{off}");
                let first = api.send(delivery(&id, 1)).await;
                assert_eq!((first.status().as_u16(), is_replay(&first)), (201, false), "{id}");
                assert_eq!(new.link.wire.requests()[..2], ["GetItem", "PutItem"], "{id}");
                assert!(is_replay(&api.send(delivery(&id, 1)).await), "{id}");
                assert_eq!(new.link.wire.count("GetItem"), 1, "{id}: the time is known");
            }
        }
    }
}

#[tokio::test]
async fn a_new_process_whose_clock_is_behind_refuses_an_old_signature() {
    for site in everywhere().await {
        let cases =
            [(stripe as fn(Http) -> Http, event("evt_1", 1)), (standard, from_standard("evt_1"))];
        for (webhook, delivery) in cases {
            // Without retries, DynamoDB's denial of a request in the wrong time is all that it learns from.
            for link in [Link::default(), Link::without_retries()] {
                let (http, new) = starting(&site, link, -200);
                // The store's clock is 400 s later than the signature's, this process's 200 s earlier.
                new.link.wire.shift_date(400);
                let api = new.paying(webhook(http)).await;
                problem(&api.send(delivery.clone()).await, 401, "SignatureInvalid");
                assert!(new.link.wire.requests().len() <= 1, "{:?}", new.link.wire.requests());
            }
        }
        assert_eq!(site.runs.count(), 0);
    }
}

/// The sender must deliver the event again, which it does not after some of its 4xx responses.
#[tokio::test]
async fn a_signature_whose_time_cannot_be_judged_is_not_refused() {
    for site in everywhere().await {
        let (http, new) = starting(&site, Link::default(), -600);
        let api = new.paying(standard(http)).await;
        new.link.wire.down(Act::LoseRequest);
        problem(&api.send(from_standard("evt_1")).await, 503, "Unavailable");
        new.link.wire.forget();
        let forged = with(from_standard("evt_1"), "webhook-id", "evt_2");
        problem(&api.send(forged).await, 401, "SignatureInvalid");
        assert_eq!(new.link.wire.requests(), [""; 0], "only a right signature is worth a request");
        new.link.wire.up();
        assert_eq!(api.send(from_standard("evt_1")).await.status(), 201);
    }
}

#[tokio::test]
async fn an_event_after_a_byte_order_mark_has_an_id() {
    for site in everywhere().await {
        let api = inbox(&site).await;
        let marked = || {
            let (time, body) = (seconds(), "\u{feff}{\"id\":\"evt_1\"}");
            let signature = format!("t={time},v1={}", hex_mac(&format!("{time}.{body}")));
            with(without(post("", body), "idempotency-key"), "stripe-signature", &signature)
        };
        for replayed in [false, true] {
            assert_eq!(is_replay(&api.send(marked()).await), replayed);
        }
        assert_eq!(site.status("evt_1").await.as_deref(), Some("COMPLETED"));
    }
}

/// A delivery as GitHub sends it.
fn from_github(id: &str, body: &str) -> Request<Bytes> {
    let signature = format!("sha256={}", hex_mac(body));
    let request = without(post("", body.to_owned()), "idempotency-key");
    with(with(request, "x-hub-signature-256", &signature), "x-github-delivery", id)
}

#[tokio::test]
async fn a_redelivery_of_githubs_is_a_repeat() {
    for site in everywhere().await {
        let api = site.paying(site.http().webhook(Webhook::github([SECRET]))).await;
        let delivery = |id| from_github(id, r#"{"zen":"Keep it logically awesome."}"#);
        for (id, replayed) in [("a", false), ("a", true), ("b", false)] {
            assert_eq!(is_replay(&api.send(delivery(id)).await), replayed, "{id}");
        }
        let unsigned = without(delivery("a"), "x-hub-signature-256");
        problem(&api.send(unsigned).await, 401, "SignatureInvalid");
    }
}

/// GitHub does not sign the header: which of the two ids it sent is not known.
#[tokio::test]
async fn two_ids_are_refused_like_two_keys() {
    for site in everywhere().await {
        let api = site.paying(site.http().webhook(Webhook::github([SECRET]))).await;
        for second in ["a", "b"] {
            let mut twice = from_github("a", "{}");
            twice.headers_mut().append("x-github-delivery", second.parse().expect("a value"));
            problem(&api.send(twice).await, 400, "KeyInvalid");
        }
        assert_eq!(site.runs.count(), 0);
        assert_eq!(site.link.wire.requests(), [""; 0]);
    }
}

/// The three places route every method to the handler.
#[tokio::test]
async fn a_signature_is_required_whatever_the_method() {
    for site in everywhere().await {
        let api = inbox(&site).await;
        for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "POST"] {
            let unsigned = without(event("evt_1", 1), "stripe-signature");
            for request in [unsigned, forged("evt_1")] {
                problem(&api.send(by(method, request)).await, 401, "SignatureInvalid");
            }
        }
        assert_eq!(site.runs.count(), 0);
        let first = api.send(by("PUT", event("evt_1", 1))).await;
        assert_eq!((first.status().as_u16(), is_replay(&first)), (201, false));
        for method in ["PUT", "POST", "DELETE"] {
            assert!(is_replay(&api.send(by(method, event("evt_1", 2))).await), "{method}");
        }
        assert_eq!(site.runs.count(), 1);
    }
}

#[tokio::test]
async fn no_content_type_comes_before_the_signature() {
    for site in everywhere().await {
        let on = inbox(&site).await;
        let off = site.paying(stripe(switched_off(&site))).await;
        let grpc = |request| with(request, "content-type", "application/grpc");
        for api in [&on, &off] {
            let unsigned = without(event("evt_1", 1), "stripe-signature");
            for request in [unsigned, forged("evt_1")] {
                problem(&api.send(grpc(request)).await, 401, "SignatureInvalid");
            }
        }
        problem(&on.send(grpc(event("evt_1", 1))).await, 415, "GrpcUnsupported");
        assert_eq!(site.runs.count(), 0);
        assert_eq!(off.send(grpc(event("evt_1", 1))).await.status(), 201);
    }
}

#[tokio::test]
async fn a_fingerprint_chosen_before_the_webhook_counts_too() {
    for site in everywhere().await {
        let body =
            |_: &http::request::Parts, body: &[u8]| Fingerprint::builder().json(body).finish();
        let api = site.paying(stripe(site.http().fingerprint(body))).await;
        api.send(event("evt_1", 1)).await;
        assert!(is_replay(&api.send(event("evt_1", 1)).await));
        problem(&api.send(event("evt_1", 2)).await, 422, "Mismatch");
    }
}

#[tokio::test]
async fn an_event_is_remembered_as_long_as_its_sender_delivers_it() {
    const DAY: i64 = 24 * 3600;
    let days = |days: u64| std::time::Duration::from_secs(days * 24 * 3600);
    for site in everywhere().await {
        let longer = site.http().policy(|policy| policy.retention(days(90)));
        let cases = [
            ("evt_1", stripe(site.http()), 30),
            ("evt_2", stripe(longer), 90),
            ("evt_3", stripe(site.http()).policy(|policy| policy.retention(days(4))), 4),
        ];
        for (id, http, days) in cases {
            let api = site.paying(http).await;
            api.send(event(id, 1)).await;
            let record = site.item(id).await.expect("a record");
            let left = raw::number(&record, "expires_at") - raw::now() / 1000;
            assert!((days * DAY - 60..=days * DAY + 60).contains(&left), "{id}: {left}");
        }
    }
}

/// GitHub's payloads reach 25 MB. No Lambda event is that large.
#[tokio::test]
async fn the_body_limit_follows_the_sender() {
    let http = Store::open().await.idempotency().http("github");
    let large = "x".repeat(7 * 1024 * 1024);
    let status = async |http: Http, id| {
        let handler = service_fn(async |_: Request<Full<Bytes>>| {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        });
        let service = http.layer().unwrap().layer(handler);
        let delivery = from_github(id, &large).map(Full::new);
        service.oneshot(delivery).await.expect("an answer").status().as_u16()
    };
    let github = http.clone().webhook(Webhook::github([SECRET]));
    assert_eq!(status(github.clone(), "a").await, 200);
    assert_eq!(status(github.max_body_bytes(1 << 20), "b").await, 413);
    assert_eq!(status(stripe(http), "c").await, 413);
}

/// Deliveries that the senders' own libraries signed: `tests/webhooks/sign.js`.
const DELIVERIES: &str = include_str!("../../webhooks/deliveries.json");

fn texts(value: &Value) -> Vec<String> {
    let texts = value.as_array().expect("a list").iter();
    texts.map(|text| text.as_str().expect("text").to_owned()).collect()
}

fn webhook(sender: &str, secrets: impl IntoIterator<Item = String>) -> Webhook {
    match sender {
        "stripe" => Webhook::stripe(secrets),
        "github" => Webhook::github(secrets),
        "standard" => Webhook::standard(secrets),
        "shopify" => {
            let scheme = HmacScheme::new("x-shopify-hmac-sha256", "{base64}");
            let id = HeaderName::from_static("x-shopify-event-id");
            Webhook::hmac(secrets, scheme).header_id(id)
        }
        "paddle" => {
            let scheme = HmacScheme::new("paddle-signature", "ts={time};h1={hex}");
            Webhook::hmac(secrets, scheme.signs("{time}:{body}")).json_id("/event_id")
        }
        other => panic!("{other}"),
    }
}

/// A recorded delivery, with this body.
fn recorded(delivery: &Value, body: String) -> Request<Bytes> {
    let mut request = Request::post("/webhooks").header("content-type", "application/json");
    for (name, value) in delivery["headers"].as_object().expect("headers") {
        request = request.header(name, value.as_str().expect("text"));
    }
    request.body(body.into()).expect("a request")
}

#[tokio::test]
async fn deliveries_signed_by_the_senders_own_libraries_are_accepted() {
    let file: Value = serde_json::from_str(DELIVERIES).expect("JSON");
    let signed_at = file["time"].as_i64().expect("a time");
    for site in everywhere().await {
        let now = made_up_time::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        site.link.freeze(signed_at - i64::try_from(now.as_secs()).expect("a time"));
        for delivery in file["deliveries"].as_array().expect("a list") {
            let (sender, id) = (&delivery["sender"], delivery["id"].as_str().expect("an id"));
            let body = delivery["body"].as_str().expect("a body");
            let secrets = texts(&delivery["secrets"]);
            let make = |secrets: &[String]| {
                webhook(sender.as_str().expect("a sender"), secrets.iter().cloned())
            };
            // Each of the secrets alone is enough while they are rotated.
            let rotated = secrets.iter().map(std::slice::from_ref).chain([&secrets[..]]);
            for (index, secrets) in rotated.enumerate() {
                let api = site.paying(site.http().webhook(make(secrets))).await;
                let answer = api.send(recorded(delivery, body.to_owned())).await;
                assert_eq!(answer.status(), 201, "{sender} {id}");
                assert_eq!(is_replay(&answer), index > 0, "{sender} {id}");
                let changed = recorded(delivery, format!("{body} "));
                problem(&api.send(changed).await, 401, "SignatureInvalid");
            }
            let other = ["whsec_b3RoZXIgc2VjcmV0".to_owned()];
            let api = site.paying(site.http().webhook(make(&other))).await;
            let answer = api.send(recorded(delivery, body.to_owned())).await;
            problem(&answer, 401, "SignatureInvalid");
            assert_eq!(site.status(id).await.as_deref(), Some("COMPLETED"));
        }
        assert_eq!(site.runs.count(), 10);
    }
}

/// Another sender's scheme, with the key in a header.
#[tokio::test]
async fn any_signature_can_be_checked() {
    for site in everywhere().await {
        let sender = Webhook::signed(|parts, body| {
            let expected = hex_mac(&String::from_utf8_lossy(body));
            parts.headers.get("x-signature").is_some_and(|signature| *signature == *expected)
        });
        let sender = sender.header_id(HeaderName::from_static("webhook-id"));
        let api = site.paying(site.http().webhook(sender)).await;
        let request = with(without(post("", "{}"), "idempotency-key"), "webhook-id", "msg_1");
        problem(&api.send(request.clone()).await, 401, "SignatureInvalid");
        let signed = with(request, "x-signature", &hex_mac("{}"));
        for replayed in [false, true] {
            assert_eq!(is_replay(&api.send(signed.clone()).await), replayed);
        }
    }
}

fn switched_off(site: &Site) -> Http {
    let builder = site.store.builder(&site.link).disabled();
    builder.build().expect("the settings are right").http(site.scope())
}

/// The switch is for idempotency. A signature says who the sender is.
#[tokio::test]
async fn a_signature_is_checked_where_idempotency_is_switched_off() {
    for site in everywhere().await {
        // The size of a body refuses nothing then.
        let api = site.paying(stripe(switched_off(&site)).max_body_bytes(8)).await;
        problem(&api.send(forged("evt_1")).await, 401, "SignatureInvalid");
        for _ in 0..2 {
            let answer = api.send(event("evt_1", 1)).await;
            assert_eq!((answer.status().as_u16(), is_replay(&answer)), (201, false));
        }
        assert_eq!(site.link.wire.requests(), [""; 0]);
    }
}
