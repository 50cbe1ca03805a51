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

use super::message::{and, assert_same, by, is_replay, keyless, problem, with, without};
use super::site::{Api, Place, Site, everywhere};
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
    with(keyless(body), "stripe-signature", &signature)
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

fn grpc(request: Request<Bytes>) -> Request<Bytes> {
    with(request, "content-type", "application/grpc")
}

/// Requests that Stripe has not signed. The three places route every method to the handler.
fn unsigned() -> impl Iterator<Item = (String, Request<Bytes>, &'static str)> {
    let without = || without(event("evt_1", 1), "stripe-signature");
    ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "POST"].into_iter().flat_map(move |method| {
        [("unsigned", without()), ("forged", forged("evt_1"))].into_iter().flat_map(
            move |(name, request)| {
                let request = by(method, request);
                [
                    (format!("{name} {method}"), request.clone(), "401 SignatureInvalid"),
                    (format!("{name} {method}, gRPC"), grpc(request), "401 SignatureInvalid"),
                ]
            },
        )
    })
}

/// Nothing is looked up for what the sender has not signed, so nothing of a stored answer is given away.
#[tokio::test]
async fn an_event_is_done_once_and_what_its_sender_has_not_signed_is_refused() {
    for site in everywhere().await {
        let api = inbox(&site).await;
        let first = api.send(event("evt_1", 1)).await;
        assert_same(&first, &api.send(event("evt_1", 2)).await);
        assert_eq!(site.status("evt_1").await.as_deref(), Some("COMPLETED"));
        site.link.wire.forget();
        api.check(unsigned()).await;
        api.check([("signed gRPC", grpc(event("evt_1", 1)), "415 GrpcUnsupported")]).await;
        assert_eq!(site.link.wire.requests(), [""; 0]);
        api.check([
            ("delivered again", event("evt_1", 3), "201 replay"),
            ("by PUT", by("PUT", event("evt_1", 4)), "201 replay"),
            ("another event, by PUT", by("PUT", event("evt_2", 1)), "201"),
            ("delivered again, by DELETE", by("DELETE", event("evt_2", 2)), "201 replay"),
        ])
        .await;
        // It ages by the store's time, which the responses have brought.
        let old = event("evt_3", 1);
        site.link.let_pass(400);
        api.check([("too old", old, "401 SignatureInvalid")]).await;
        assert_eq!(site.runs.count(), 2);
    }
}

/// The switch is for idempotency: a signature says who the sender is. The size of a body refuses nothing
/// then.
#[tokio::test]
async fn a_signature_is_checked_where_idempotency_is_switched_off() {
    for site in everywhere().await {
        let off = site.store.builder(&site.link).disabled().build().unwrap();
        let api = site.paying(stripe(off.http(site.scope())).max_body_bytes(8)).await;
        api.check(unsigned()).await;
        assert_eq!(site.runs.count(), 0);
        api.check([
            ("once", event("evt_1", 1), "201"),
            ("twice", event("evt_1", 1), "201"),
            ("gRPC", grpc(event("evt_1", 1)), "201"),
        ])
        .await;
        assert_eq!(site.link.wire.requests(), [""; 0]);
    }
}

#[tokio::test]
async fn a_signed_request_without_an_event_is_refused() {
    for site in everywhere().await {
        for http in [site.http(), site.http().key_optional()] {
            let http = http.webhook(Webhook::stripe([SECRET]).json_id("/event/id"));
            let api = site.paying(http).await;
            api.check([("another member", event("evt_1", 1), "400 KeyMissing")]).await;
        }
        assert_eq!(site.runs.count(), 0);
    }
}

fn responding(status: u16) -> Response<Bytes> {
    Response::builder().status(status).body(Bytes::new()).expect("a response")
}

/// The sender takes all of these for failures, and delivers the event again. That holds also for a 404
/// of a router that has no such route yet.
#[tokio::test]
async fn only_a_2xx_is_done_and_any_other_response_leaves_the_event_to_the_next_delivery() {
    for site in everywhere().await {
        for status in [302, 304, 308, 400, 401, 402, 404, 409, 410, 422, 423, 424, 429, 500, 503] {
            let next = site.runs.count() + 1;
            let answer = move |run| responding(if run == next { status } else { 204 });
            let api = site.answering(stripe(site.http()), answer).await;
            let id = format!("evt_{status}");
            for expected in [status.to_string().as_str(), "204", "204 replay"] {
                api.check([(&id, event(&id, 1), expected)]).await;
            }
        }
    }
}

#[tokio::test]
async fn what_is_done_can_be_chosen_for_a_webhook_too() {
    for site in everywhere().await {
        let final_too = |http: Http| http.store_if(|status| status.is_success() || status == 404);
        let cases = [final_too(stripe(site.http())), stripe(final_too(site.http()))];
        for (id, http) in ["evt_1", "evt_2"].into_iter().zip(cases) {
            let api = site.answering(http, |_| responding(404)).await;
            api.check(["404", "404 replay"].map(|expected| (id, event(id, 1), expected))).await;
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
    let request = keyless(body);
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
                api.check([(&id, delivery(&id, 1), "201")]).await;
                assert_eq!(new.link.wire.requests()[..2], ["GetItem", "PutItem"], "{id}");
                api.check([(&id, delivery(&id, 1), "201 replay")]).await;
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

/// A delivery as GitHub sends it.
fn from_github(id: &str, body: &str) -> Request<Bytes> {
    let signature = format!("sha256={}", hex_mac(body));
    let request = keyless(body.to_owned());
    with(with(request, "x-hub-signature-256", &signature), "x-github-delivery", id)
}

/// GitHub does not sign the header: which of two ids it sent is not known.
#[tokio::test]
async fn a_redelivery_of_githubs_is_a_repeat_and_two_ids_are_refused() {
    for site in everywhere().await {
        let api = site.paying(site.http().webhook(Webhook::github([SECRET]))).await;
        let delivery = |id| from_github(id, r#"{"zen":"Keep it logically awesome."}"#);
        let and_id = |id| and(delivery("a"), "x-github-delivery", id);
        api.check([
            ("two ids", and_id("b"), "400 KeyInvalid"),
            ("one id twice", and_id("a"), "400 KeyInvalid"),
        ])
        .await;
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
        api.check([
            ("unsigned", without(delivery("a"), "x-hub-signature-256"), "401 SignatureInvalid"),
            ("first", delivery("a"), "201"),
            ("again", delivery("a"), "201 replay"),
            ("another", delivery("b"), "201"),
        ])
        .await;
    }
}

#[tokio::test]
async fn a_fingerprint_chosen_before_the_webhook_counts_too() {
    for site in everywhere().await {
        let body =
            |_: &http::request::Parts, body: &[u8]| Fingerprint::builder().json(body).finish();
        let api = site.paying(stripe(site.http().fingerprint(body))).await;
        api.check([
            ("first", event("evt_1", 1), "201"),
            ("again", event("evt_1", 1), "201 replay"),
            ("another delivery", event("evt_1", 2), "422 Mismatch"),
        ])
        .await;
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
        let request = with(keyless("{}"), "webhook-id", "msg_1");
        let signed = || with(request.clone(), "x-signature", &hex_mac("{}"));
        api.check([
            ("unsigned", request.clone(), "401 SignatureInvalid"),
            ("signed", signed(), "201"),
            ("again", signed(), "201 replay"),
        ])
        .await;
    }
}
