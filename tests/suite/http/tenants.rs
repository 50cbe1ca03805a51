//! Keys belong to tenants.

use std::convert::Infallible;

use bytes::Bytes;
use dynamodb_idempotency::http::{Http, Tenant, tenant};
use dynamodb_idempotency::{Scope, lambda};
use http::Request;
use lambda_http::{Body, Response, service_fn};
use serde_json::{Value, json};

use super::event::{self, Kind};
use super::function::{Function, context_of};
use super::message::{and, outcome, post, with};
use super::site::{Place, everywhere};
use crate::support::{Link, Runs, Store};

fn of(tenant: &str, key: &str) -> Request<Bytes> {
    with(post(key, "{}"), "x-tenant", tenant)
}

#[tokio::test]
async fn tenants_do_not_share_a_key() {
    // Pairs that would meet if scope, tenant and key were joined without care. A key that begins with
    // a quote has to be quoted.
    let pairs = [
        ("acme", "k"),
        ("acme#k", "k"),
        ("acme#", "k"),
        ("acme/k", "k"),
        ("acme%23k", "k"),
        ("acme%2Fk", "k"),
        ("acme%", "k"),
        ("acme%25", "k"),
        ("acme", "k#k"),
        ("acme", "#k"),
        ("acme", "/k"),
        ("acme", "%23k"),
        ("\"acme\"", "k"),
        ("'acme'", "k"),
        ("acme\"", r#""\"k""#),
        ("ACME", "k"),
        // No tenant: the plain scope.
        ("", "k"),
        ("", "acme#k"),
    ];
    for site in everywhere().await {
        let api = site.paying(site.http().optional_tenant(tenant::header("x-tenant"))).await;
        for (tenant, key) in pairs {
            api.check([(tenant, of(tenant, key), "201")]).await;
        }
        for (tenant, key) in pairs {
            api.check([(tenant, of(tenant, key), "201 replay")]).await;
        }
        let pk = format!("{}/%t/acme%23k#k", site.scope());
        assert!(site.store.item(&pk).await.is_some());
    }
}

#[tokio::test]
async fn a_tenant_does_not_meet_a_namespace_of_its_name() {
    for site in everywhere().await {
        let idempotency = site.store.over(&site.link);
        let tenant = || tenant::header("x-tenant");
        let scope = || Scope::new(site.scope());
        let https = [
            idempotency.http(scope()).tenant(tenant()),
            idempotency.http(scope().segment("v2")),
            idempotency.http(scope().segment("v2")).tenant(tenant()),
            idempotency.http(scope().segment("v2").segment("v2")),
            idempotency.http(scope().segment("%t").segment("v2")),
            idempotency.http(scope().segment("%t/v2")),
        ];
        for http in https {
            site.paying(http).await.replayed(of("v2", "k")).await;
        }
        assert_eq!(site.runs.count(), 6);
    }
}

/// All whose name is empty would be one tenant.
#[tokio::test]
async fn a_tenant_without_a_name_is_refused_even_where_none_is_needed() {
    for site in everywhere().await {
        let empty = |_: &http::request::Parts| Tenant::Known(String::new());
        for http in [site.http().tenant(empty), site.http().optional_tenant(empty)] {
            let api = site.paying(http).await;
            api.check([("an empty name", post("k", "{}"), "400 TenantInvalid")]).await;
        }
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
    }
}

/// Once for each operation of a process.
#[cfg(feature = "metrics")]
#[tokio::test]
async fn credentials_without_a_tenant_are_warned_of() {
    use crate::support::listener::Listener;

    const MESSAGE: &str = "requests carry credentials, and no tenant is set: clients that send the same key \
                           and request get one answer. Call Http::tenant, or Http::single_tenant if they may \
                           share it";
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    let idempotency = store.idempotency();
    let rest = Kind::Rest.example();
    let with_header = |name: &str| {
        let mut event = rest.clone();
        event["headers"][name] = "secret".into();
        event["multiValueHeaders"][name] = json!(["secret"]);
        event
    };
    let claims = authorized(Kind::HttpApi, json!({"jwt": {"claims": {"sub": "acme"}}}));
    let context = authorized(Kind::Rest, json!({"org": "acme"}));
    let events = [with_header("Authorization"), with_header("x-api-key"), claims, context];
    for (number, event) in events.iter().enumerate() {
        let scope = format!("credentials-{number}");
        let http = || idempotency.http(scope.as_str());
        let by_header = |_: &http::request::Parts| Some("acme".to_owned());
        for quiet in [http().single_tenant(), http().tenant(by_header)] {
            paying(quiet, &runs).invoke(event).await;
        }
        assert_eq!(listener.logged(MESSAGE).len(), number);
        for _ in 0..2 {
            paying(http(), &runs).invoke(event).await;
        }
        let warnings = listener.logged(MESSAGE);
        assert_eq!(warnings.len(), number + 1, "{event}");
        assert_eq!(warnings[number].get("operation"), scope.as_str());
        assert!(!format!("{warnings:?}").contains("secret"));
    }
    paying(idempotency.http("credentials-none"), &runs).invoke(&rest).await;
    assert_eq!(listener.logged(MESSAGE).len(), events.len());
}

#[tokio::test]
async fn a_request_without_a_tenant_is_refused_unless_it_may_share_the_plain_scope() {
    for site in everywhere().await {
        let header = tenant::header("x-tenant");
        let api = site.paying(site.http().optional_tenant(header)).await;
        api.replayed(post("k", "{}")).await;
        assert_eq!(site.status("k").await.as_deref(), Some("COMPLETED"));
        api.check([("a tenant", of("acme", "k"), "201")]).await;

        let strict = site.paying(site.http().tenant(tenant::header("x-tenant"))).await;
        site.link.wire.forget();
        strict.check([("no tenant", post("k", "{}"), "400 TenantMissing")]).await;
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (2, 0));
        strict.check([("a tenant", of("acme", "k"), "201 replay")]).await;
    }
}

/// Whose request would it be?
#[tokio::test]
async fn a_repeated_tenant_is_refused_even_where_none_is_needed() {
    for site in everywhere().await {
        if site.place == Place::Router {
            // An HTTP API joins the two values, which makes another tenant.
            continue;
        }
        for http in [
            site.http().tenant(tenant::header_sha256("x-tenant")),
            site.http().optional_tenant(tenant::header("x-tenant")),
        ] {
            let twice = and(of("acme", "k"), "x-tenant", "umbrella");
            site.paying(http).await.check([("two", twice, "400 TenantInvalid")]).await;
        }
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
    }
}

#[tokio::test]
async fn a_secret_that_tells_the_tenant_is_not_in_the_table() {
    const SECRET: &str = "sk_live_4eC39HqLyjWDarjtT1zdp7dc";
    for site in everywhere().await {
        let api = site.paying(site.http().tenant(tenant::header_sha256("x-api-key"))).await;
        api.replayed(with(post("k", "{}"), "x-api-key", SECRET)).await;
        let other = with(post("k", "{}"), "x-api-key", "another");
        api.check([("another tenant", other, "201")]).await;
        let scan = site.store.raw.scan().table_name(site.store.table()).send().await.unwrap();
        assert!(scan.count() >= 2);
        assert!(!format!("{:?}", scan.items()).contains(SECRET));
    }
}

fn paying(http: Http, runs: &Runs) -> Function {
    let runs = runs.clone();
    Function::new(
        http.wrap(service_fn(move |_: lambda_http::Request| {
            let run = runs.add();
            async move { Ok::<_, Infallible>(Response::new(Body::from(run.to_string()))) }
        }))
        .unwrap(),
    )
}

/// The record's key after an invocation with this event.
async fn pk_of(http: impl Fn(&Store) -> Http, event: &Value) -> String {
    let (store, runs) = (Store::open().await, Runs::default());
    let answer = paying(http(&store), &runs).invoke(event).await;
    assert_eq!(answer["statusCode"], 200, "{answer}");
    let scan = store.raw.scan().table_name(store.table()).send().await.unwrap();
    let [item] = scan.items() else { panic!("not one item: {:?}", scan.items()) };
    item["pk"].as_s().unwrap().clone()
}

fn authorized(kind: Kind, authorizer: Value) -> Value {
    let mut event = kind.example();
    event["requestContext"]["authorizer"] = authorizer;
    event
}

#[tokio::test]
async fn each_authorizers_claims_are_found() {
    let jwt = json!({"jwt": {"claims": {"sub": "u-1", "org": "acme#1"}, "scopes": ["pay"]}});
    let cognito = json!({"claims": {"sub": "u-1", "org": "acme#1", "email": "a@example.com"}});
    let lambda_on_rest = json!({"principalId": "u-1", "org": "acme#1", "integrationLatency": 7});
    let on_http = |claim: Value| authorized(Kind::HttpApi, json!({"lambda": {"org": claim}}));
    for (name, event, segment) in [
        ("JWT on an HTTP API", authorized(Kind::HttpApi, jwt), "acme%231"),
        ("Cognito on a REST API", authorized(Kind::Rest, cognito), "acme%231"),
        ("Lambda on a REST API", authorized(Kind::Rest, lambda_on_rest), "acme%231"),
        ("Lambda on an HTTP API", on_http(json!("acme#1")), "acme%231"),
        // What is no text counts by its JSON text.
        ("a number", on_http(json!(7)), "7"),
        ("a boolean", on_http(json!(true)), "true"),
        ("digits", on_http(json!("7")), "7"),
    ] {
        let http = |store: &Store| {
            let http = store.idempotency().http("pay");
            http.tenant(lambda::tenant::authorizer_claim("org"))
        };
        assert_eq!(pk_of(http, &event).await, format!("pay/%t/{segment}#order-7"), "{name}");
    }
}

#[tokio::test]
async fn who_has_no_claim_is_no_tenant() {
    let on_http = |authorizer| authorized(Kind::HttpApi, authorizer);
    let on_rest = |authorizer| authorized(Kind::Rest, authorizer);
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let http = store.over(&link).http("pay");
    let function = paying(http.tenant(lambda::tenant::authorizer_claim("org")), &runs);
    for (name, event, expected) in [
        ("no authorizer", Kind::HttpApi.example(), "400 TenantMissing"),
        ("no authorizer, REST", Kind::Rest.example(), "400 TenantMissing"),
        ("no such service", Kind::Alb.example(), "400 TenantMissing"),
        ("another claim", on_http(json!({"jwt": {"claims": {"sub": "u"}}})), "400 TenantMissing"),
        ("another claim, REST", on_rest(json!({"claims": {"sub": "u"}})), "400 TenantMissing"),
        ("null", on_http(json!({"lambda": {"org": null}})), "400 TenantMissing"),
        ("a list", on_http(json!({"lambda": {"org": ["acme", "bolt"]}})), "400 TenantMissing"),
        ("an object", on_rest(json!({"org": {"id": "acme"}})), "400 TenantMissing"),
        // All whose name is empty would be one tenant.
        ("empty, JWT", on_http(json!({"jwt": {"claims": {"org": ""}}})), "400 TenantInvalid"),
        ("empty, Cognito", on_rest(json!({"claims": {"org": ""}})), "400 TenantInvalid"),
        ("empty, Lambda on REST", on_rest(json!({"org": ""})), "400 TenantInvalid"),
        ("empty, Lambda on HTTP", on_http(json!({"lambda": {"org": ""}})), "400 TenantInvalid"),
        // The text of such a number depends on the features of `serde_json`.
        ("a fraction", on_rest(json!({"org": 1.5})), "400 TenantInvalid"),
    ] {
        let answer = event::response(&function.invoke(&event).await);
        assert_eq!(outcome(&answer), expected, "{name}");
    }
    assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
}

#[tokio::test]
async fn lambdas_own_tenant_is_the_invocations() {
    let (store, runs) = (Store::open().await, Runs::default());
    let function =
        paying(store.idempotency().http("pay").tenant(lambda::tenant::tenant_id()), &runs);
    let invoke = async |tenant: Option<&str>| {
        let mut context = context_of(30);
        context.tenant_id = tenant.map(str::to_owned);
        let answer = function.invoke_in(&Kind::Rest.example(), context).await.unwrap();
        outcome(&event::response(&answer))
    };
    assert_eq!(invoke(None).await, "400 TenantMissing");
    assert_eq!(invoke(Some("")).await, "400 TenantInvalid");
    // Composed, decomposed, another script's look-alike, and four bytes.
    let tenants =
        ["blue", "caf\u{e9}", "cafe\u{301}", "c\u{430}f\u{e9}", "cafe", "\u{1f980}", "\u{1f980}#"];
    for (tenant, expected) in
        ["200", "200 replay"].iter().flat_map(|outcome| tenants.map(|tenant| (tenant, *outcome)))
    {
        assert_eq!(invoke(Some(tenant)).await, expected, "{tenant}");
    }
    assert!(store.item("pay/%t/\u{1f980}%23#order-7").await.is_some());
}
