//! Configuration is checked when a layer or a wrapper is made.

use std::convert::Infallible;
use std::time::Duration;

use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::{Error, ErrorKind, Transaction};
use http::{HeaderName, Method};
use lambda_http::{Body, Request, Response, service_fn};

use crate::support::Store;

/// The error of each way to use the configuration.
fn errors(http: &Http) -> [Option<Error>; 5] {
    let handler = service_fn(async |_: Request| Ok::<_, Infallible>(Response::new(Body::Empty)));
    let transfer = service_fn(async |_: Request| {
        Ok::<_, Infallible>(Transaction::new(Response::new(Body::Empty)))
    });
    [
        http.clone().layer().err(),
        http.clone().transaction_layer().err(),
        http.clone().wrap(handler).err(),
        http.clone().wrap_streaming(axum::Router::new()).err(),
        http.clone().wrap_transaction(transfer).err(),
    ]
}

fn assert_refused(http: &Http, named: &str) {
    for error in errors(http) {
        let error = error.unwrap_or_else(|| panic!("accepted, without {named:?}"));
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[tokio::test]
async fn an_invalid_policy_is_refused_when_the_layer_is_made() {
    let http = Store::open().await.idempotency().http("pay");
    assert!(errors(&http).iter().all(Option::is_none));
    let short = http.clone().policy(|policy| policy.retention(Duration::ZERO));
    assert_refused(&short, "Policy::retention");
    // A 1xx response would be replayed to clients that wait for the final one.
    assert_refused(&http.store_if(|status| !status.is_server_error()), "Http::store_if");
}

#[tokio::test]
async fn two_key_rules_are_refused() {
    let http = Store::open().await.idempotency().http("pay");
    let header = |http: Http| http.header(HeaderName::from_static("x-request-id"));
    let key = |http: Http| http.key(|parts| Some(parts.uri.path().to_owned()));
    let body = |http: Http| http.json_key(["/order_id"]);
    for one in [header(http.clone()), key(http.clone()), body(http.clone())] {
        assert!(errors(&one).iter().all(Option::is_none));
        for two in [header(one.clone()), key(one.clone()), body(one)] {
            assert_refused(&two, "key rule");
        }
    }
}

#[tokio::test]
async fn a_key_in_the_body_is_one_that_a_body_can_have() {
    let http = Store::open().await.idempotency().http("pay");
    assert_refused(&http.clone().json_key("order_id"), "write `/order_id`");
    assert_refused(&http.clone().json_key(["/a", "/a~b"]), "write `~0` for `~`");
    assert_refused(&http.clone().json_key([""; 0]), "pass at least one");
    assert_refused(&http.json_key("/order_id").key_optional(), "remove key_optional()");
}

#[cfg(feature = "webhook")]
#[tokio::test]
async fn nothing_replaces_a_webhooks_check() {
    use dynamodb_idempotency::http::{HmacScheme, Webhook};

    let http = Store::open().await.idempotency().http("pay");
    let webhook = |http: Http| http.webhook(Webhook::stripe(["whsec_1"]));
    let header = |http: Http| http.header(HeaderName::from_static("x-request-id"));
    let key = |http: Http| http.key(|parts| Some(parts.uri.path().to_owned()));
    let methods = |http: Http| http.methods([Method::POST]);
    let alone = webhook(http.clone());
    assert!(errors(&alone).iter().all(Option::is_none));
    for (wrong, named) in [
        (Webhook::stripe(["whsec_1", " whsec_2"]), "Webhook::stripe"),
        (Webhook::github(["\n"]), "Webhook::github"),
        (Webhook::standard(["whsec_MfKQ9r8G\nKYqrTwj"]), "Webhook::standard"),
        (Webhook::stripe(["whsec_1"]).json_id("id"), "write `/id`"),
        (Webhook::hmac(["s"], HmacScheme::new("x-signature", "sha256=")), "Webhook::hmac"),
    ] {
        assert_refused(&http.clone().webhook(wrong), named);
    }
    for two in [
        header(alone.clone()),
        key(alone.clone()),
        webhook(alone.clone()),
        webhook(header(http.clone())),
        webhook(key(http.clone())),
    ] {
        assert_refused(&two, "key rule");
    }
    for both in [methods(alone), webhook(methods(http.clone()))] {
        assert_refused(&both, "Http::methods");
    }
    assert_refused(&http.clone().webhook(Webhook::stripe([""])), "Webhook::stripe");
    assert_refused(&http.webhook(Webhook::signed(|_, _| true).json_id("id")), "write `/id`");
}
