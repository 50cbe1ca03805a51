//! Webhooks: signed by their sender, and done once an event.

use std::time::SystemTime;

use bytes::Bytes;
use dynamodb_idempotency::http::{Http, Webhook};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderName, Request, Response};
use sha2::Sha256;

use super::message::{assert_same, is_replay, post, problem, with, without};
use super::site::{Api, Site, everywhere, paid};

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
    everywhere(async |site| {
        let api = inbox(&site).await;
        let first = api.send(event("evt_1", 1)).await;
        assert_eq!((first.status().as_u16(), is_replay(&first)), (201, false));
        let again = api.send(event("evt_1", 2)).await;
        assert!(is_replay(&again));
        assert_same(&first, &again);
        assert!(!is_replay(&api.send(event("evt_2", 1)).await));
        assert_eq!(site.runs.count(), 2);
        assert_eq!(site.status("evt_1").await.as_deref(), Some("COMPLETED"));
    })
    .await;
}

/// Nothing is looked up, so nothing of a stored answer is given away.
#[tokio::test]
async fn what_the_sender_has_not_signed_is_refused_before_a_replay() {
    everywhere(async |site| {
        let api = inbox(&site).await;
        api.send(event("evt_1", 1)).await;
        site.link.wire.forget();
        for request in [forged("evt_1"), without(event("evt_1", 1), "stripe-signature")] {
            problem(&api.send(request).await, 401, "SignatureInvalid");
        }
        assert_eq!(site.link.wire.requests(), [""; 0]);
        assert_eq!(site.runs.count(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_signature_ages_by_the_stores_time() {
    everywhere(async |site| {
        let api = inbox(&site).await;
        api.send(event("evt_1", 1)).await;
        let old = event("evt_2", 1);
        site.link.let_pass(400);
        // Tells the time.
        site.link.wire.forget();
        problem(&api.send(old).await, 401, "SignatureInvalid");
        assert_eq!(site.runs.count(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_signed_request_without_an_event_is_refused() {
    everywhere(async |site| {
        let optional = site.http().key_required(false);
        for http in [site.http(), optional] {
            let http = http.webhook(Webhook::stripe([SECRET]).json_id("/event/id"));
            let api = site.paying(http).await;
            problem(&api.send(event("evt_1", 1)).await, 400, "KeyMissing");
        }
        assert_eq!(site.runs.count(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_delivery_that_fails_is_run_by_the_next() {
    everywhere(async |site| {
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
    })
    .await;
}

#[tokio::test]
async fn a_redelivery_of_githubs_is_a_repeat() {
    everywhere(async |site| {
        let api = site.paying(site.http().webhook(Webhook::github([SECRET]))).await;
        let delivery = |id: &str| {
            let body = r#"{"zen":"Keep it logically awesome."}"#;
            let signature = format!("sha256={}", hex_mac(body));
            let request = without(post("", body), "idempotency-key");
            with(with(request, "x-hub-signature-256", &signature), "x-github-delivery", id)
        };
        for (id, replayed) in [("a", false), ("a", true), ("b", false)] {
            assert_eq!(is_replay(&api.send(delivery(id)).await), replayed, "{id}");
        }
        let unsigned = without(delivery("a"), "x-hub-signature-256");
        problem(&api.send(unsigned).await, 401, "SignatureInvalid");
    })
    .await;
}

/// Another sender's scheme, with the key in a header.
#[tokio::test]
async fn any_signature_can_be_checked() {
    everywhere(async |site| {
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
    })
    .await;
}

/// The switch is for idempotency, and a signature is who it is.
#[tokio::test]
async fn a_signature_is_checked_where_idempotency_is_switched_off() {
    everywhere(async |site| {
        let builder = site.store.builder(&site.link).disabled(true);
        let off = builder.build().expect("the settings are right").http(site.scope());
        let api = site.paying(stripe(off)).await;
        problem(&api.send(forged("evt_1")).await, 401, "SignatureInvalid");
        for _ in 0..2 {
            let answer = api.send(event("evt_1", 1)).await;
            assert_eq!((answer.status().as_u16(), is_replay(&answer)), (201, false));
        }
        assert_eq!(site.link.wire.requests(), [""; 0]);
    })
    .await;
}
