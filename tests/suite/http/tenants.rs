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
use super::message::{is_replay, post, problem, with};
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
            let answer = api.send(of(tenant, key)).await;
            assert_eq!(answer.status(), 201, "{tenant} {key}");
            assert!(!is_replay(&answer), "{tenant} {key}");
        }
        let runs = site.runs.count();
        for (tenant, key) in pairs {
            assert!(is_replay(&api.send(of(tenant, key)).await), "{tenant} {key}");
        }
        assert_eq!(site.runs.count(), runs);
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
            let api = site.paying(http).await;
            assert!(!is_replay(&api.send(of("v2", "k")).await));
            assert!(is_replay(&api.send(of("v2", "k")).await));
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
            problem(&api.send(post("k", "{}")).await, 400, "TenantInvalid");
        }
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
    }
    let cases = [
        ("JWT", authorized(Kind::HttpApi, json!({"jwt": {"claims": {"org": ""}}}))),
        ("Cognito", authorized(Kind::Rest, json!({"claims": {"org": ""}}))),
        ("Lambda on REST", authorized(Kind::Rest, json!({"org": ""}))),
        ("Lambda on HTTP", authorized(Kind::HttpApi, json!({"lambda": {"org": ""}}))),
        // The text of such a number depends on the features of `serde_json`.
        ("a fraction", authorized(Kind::Rest, json!({"org": 1.5}))),
    ];
    let (store, runs) = (Store::open().await, Runs::default());
    let http = store.idempotency().http("pay");
    let function = paying(http.tenant(lambda::tenant::authorizer_claim("org")), &runs);
    for (name, event) in cases {
        println!("{name}");
        problem(&event::response(&function.invoke(&event).await), 400, "TenantInvalid");
    }
    let function =
        paying(store.idempotency().http("pay").tenant(lambda::tenant::tenant_id()), &runs);
    let mut context = context_of(30);
    context.tenant_id = Some(String::new());
    let answer = function.invoke_in(&Kind::Rest.example(), context).await.unwrap();
    problem(&event::response(&answer), 400, "TenantInvalid");
    assert_eq!(runs.count(), 0);
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
        api.send(post("k", "{}")).await;
        assert!(is_replay(&api.send(post("k", "{}")).await));
        assert_eq!(site.status("k").await.as_deref(), Some("COMPLETED"));
        assert!(!is_replay(&api.send(of("acme", "k")).await));

        let strict = site.paying(site.http().tenant(tenant::header("x-tenant"))).await;
        site.link.wire.forget();
        problem(&strict.send(post("k", "{}")).await, 400, "TenantMissing");
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (2, 0));
        assert!(is_replay(&strict.send(of("acme", "k")).await));
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
        let name = |tenant: &str| with(post("k", "{}"), "x-tenant", tenant);
        let mut twice = name("acme");
        twice.headers_mut().append("x-tenant", "umbrella".parse().unwrap());
        for http in [
            site.http().tenant(tenant::header("x-tenant")),
            site.http().tenant(tenant::header_sha256("x-tenant")),
            site.http().optional_tenant(tenant::header("x-tenant")),
        ] {
            let api = site.paying(http).await;
            problem(&api.send(twice.clone()).await, 400, "TenantInvalid");
        }
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
    }
}

#[tokio::test]
async fn a_secret_that_tells_the_tenant_is_not_in_the_table() {
    const SECRET: &str = "sk_live_4eC39HqLyjWDarjtT1zdp7dc";
    for site in everywhere().await {
        let api = site.paying(site.http().tenant(tenant::header_sha256("x-api-key"))).await;
        api.send(with(post("k", "{}"), "x-api-key", SECRET)).await;
        let repeat = api.send(with(post("k", "{}"), "x-api-key", SECRET)).await;
        let other = api.send(with(post("k", "{}"), "x-api-key", "another")).await;
        assert_eq!((is_replay(&repeat), is_replay(&other)), (true, false));
        let scan = site.store.raw.scan().table_name(site.store.table()).send().await.unwrap();
        assert!(scan.count() >= 2);
        assert!(!format!("{:?}", scan.items()).contains(SECRET));
    }
}

#[tokio::test]
async fn utf8_tenants_do_not_meet() {
    let (store, runs) = (Store::open().await, Runs::default());
    let function =
        paying(store.idempotency().http("pay").tenant(lambda::tenant::tenant_id()), &runs);
    // Composed, decomposed, another script's look-alike, and four bytes.
    let tenants =
        ["caf\u{e9}", "cafe\u{301}", "c\u{430}f\u{e9}", "cafe", "\u{1f980}", "\u{1f980}#"];
    for round in 0..2 {
        for tenant in tenants {
            let mut context = context_of(30);
            context.tenant_id = Some(tenant.to_owned());
            let answer = function.invoke_in(&Kind::HttpApi.example(), context).await.unwrap();
            assert_eq!(is_replay(&event::response(&answer)), round == 1, "{tenant}");
        }
    }
    assert!(store.item("pay/%t/\u{1f980}%23#order-7").await.is_some());
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
    let claims = json!({
        "jwt": {"claims": {"sub": "u-1", "org": "acme#1"}, "scopes": ["pay"]}
    });
    let cognito = json!({"claims": {"sub": "u-1", "org": "acme#1", "email": "a@example.com"}});
    let lambda_on_rest = json!({"principalId": "u-1", "org": "acme#1", "integrationLatency": 7});
    let lambda_on_http = json!({"lambda": {"org": "acme#1"}});
    let cases = [
        ("JWT on an HTTP API", authorized(Kind::HttpApi, claims)),
        ("Cognito on a REST API", authorized(Kind::Rest, cognito)),
        ("Lambda on a REST API", authorized(Kind::Rest, lambda_on_rest)),
        ("Lambda on an HTTP API", authorized(Kind::HttpApi, lambda_on_http)),
    ];
    for (name, event) in cases {
        println!("{name}");
        let http = |store: &Store| {
            let http = store.idempotency().http("pay");
            http.tenant(lambda::tenant::authorizer_claim("org"))
        };
        assert_eq!(pk_of(http, &event).await, "pay/%t/acme%231#order-7", "{name}");
    }
}

#[tokio::test]
async fn a_claim_that_is_no_text_counts_by_its_json_text() {
    for (claim, segment) in [(json!(7), "7"), (json!(true), "true"), (json!("7"), "7")] {
        let event = authorized(Kind::HttpApi, json!({"lambda": {"org": claim}}));
        let http = |store: &Store| {
            store.idempotency().http("pay").tenant(lambda::tenant::authorizer_claim("org"))
        };
        assert_eq!(pk_of(http, &event).await, format!("pay/%t/{segment}#order-7"));
    }
}

#[tokio::test]
async fn who_has_no_claim_is_no_tenant() {
    let cases = [
        ("no authorizer", Kind::HttpApi.example()),
        ("no authorizer, REST", Kind::Rest.example()),
        ("no such service", Kind::Alb.example()),
        ("another claim", authorized(Kind::HttpApi, json!({"jwt": {"claims": {"sub": "u"}}}))),
        ("another claim, REST", authorized(Kind::Rest, json!({"claims": {"sub": "u"}}))),
        ("null", authorized(Kind::HttpApi, json!({"lambda": {"org": null}}))),
        ("a list", authorized(Kind::HttpApi, json!({"lambda": {"org": ["acme", "bolt"]}}))),
        ("an object", authorized(Kind::Rest, json!({"org": {"id": "acme"}}))),
    ];
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let http = store.over(&link).http("pay");
    let function = paying(http.tenant(lambda::tenant::authorizer_claim("org")), &runs);
    for (name, event) in cases {
        println!("{name}");
        let answer = event::response(&function.invoke(&event).await);
        problem(&answer, 400, "TenantMissing");
    }
    assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
}

#[tokio::test]
async fn lambdas_own_tenant_is_the_invocations() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let http = store.over(&link).http("pay");
    let function = paying(http.tenant(lambda::tenant::tenant_id()), &runs);
    let missing = event::response(&function.invoke(&Kind::Rest.example()).await);
    problem(&missing, 400, "TenantMissing");
    for (tenant, replayed) in [("blue", false), ("green", false), ("blue", true), ("green", true)] {
        let mut context = context_of(30);
        context.tenant_id = Some(tenant.to_owned());
        let answer = function.invoke_in(&Kind::Rest.example(), context).await.unwrap();
        assert_eq!(is_replay(&event::response(&answer)), replayed, "{tenant}");
    }
    assert!(store.item("pay/%t/blue#order-7").await.is_some());
}
