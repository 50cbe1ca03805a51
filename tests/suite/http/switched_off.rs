//! Switched off is off: each request runs, whatever it lacks, and the table is not asked.

use bytes::Bytes;
use dynamodb_idempotency::Execution;
use dynamodb_idempotency::http::{Http, Tenant, Webhook, tenant};
use http::Request;

use super::event::Kind;
use super::function::{Function, context_of, context_until};
use super::message::{by, is_replay, post, problem, with, without};
use super::site::{Api, Place, Site, everywhere, paid};
use crate::support::effects::count;
use crate::support::{Runs, made_up_time};

fn off(site: &Site) -> Http {
    let builder = site.store.builder(&site.link).disabled();
    builder.build().expect("the settings are right").http(site.scope())
}

/// A handler that uses its execution as ever.
async fn serve(site: &Site, http: Http) -> Api {
    let runs = site.runs.clone();
    let handler = move |request: Request<Bytes>| {
        let execution: &Execution = request.extensions().get().expect("an execution");
        assert!(!execution.is_protected());
        assert_eq!((execution.attempt(), execution.owner().len()), (0, 32));
        std::future::ready(paid(runs.add()))
    };
    site.serve(http, handler).await
}

#[tokio::test]
async fn nothing_is_refused_and_each_twin_runs() {
    let mut two_keys = post("k", "{}");
    two_keys.headers_mut().append("idempotency-key", "other".parse().unwrap());
    let mut two_tenants = with(post("k", "{}"), "x-tenant", "a");
    two_tenants.headers_mut().append("x-tenant", "b".parse().unwrap());
    let long = "k".repeat(2000);
    let requests = [
        ("a key", post("k", "{}")),
        ("the same key with another payload", post("k", "[]")),
        ("no key", without(post("k", "{}"), "idempotency-key")),
        ("an empty key", post("", "{}")),
        ("a long key", post(&long, "{}")),
        ("two keys", two_keys),
        ("two tenants", two_tenants),
        ("a long tenant", with(post("k", "{}"), "x-tenant", &long)),
        ("a large body", post("k", "x".repeat(5000))),
    ];
    for site in everywhere().await {
        let find = tenant::header("x-tenant");
        let api = serve(&site, off(&site).tenant(find).max_body_bytes(1000)).await;
        for (name, request) in &requests {
            for _ in 0..2 {
                let before = site.runs.count();
                let answer = api.send(request.clone()).await;
                assert_eq!((answer.status().as_u16(), is_replay(&answer)), (201, false), "{name}");
                assert_eq!(site.runs.count(), before + 1, "{name}");
            }
        }
        assert_eq!(site.link.wire.requests(), [""; 0]);
    }
}

/// Nothing comes before the signature; after it, nothing is refused.
#[tokio::test]
async fn a_webhook_has_to_be_signed_and_may_be_large() {
    for site in everywhere().await {
        let inbox = Webhook::signed(|parts, _| parts.headers.contains_key("x-signed"));
        let api = serve(&site, off(&site).webhook(inbox).max_body_bytes(1000)).await;
        let large = post("k", format!(r#"{{"id":"{}"}}"#, "x".repeat(5000)));
        for unsigned in [large.clone(), with(large.clone(), "content-type", "application/grpc")] {
            problem(&api.send(unsigned).await, 401, "SignatureInvalid");
        }
        assert_eq!(site.runs.count(), 0);
        assert_eq!(api.send(with(large, "x-signed", "yes")).await.status(), 201);
    }
}

#[tokio::test]
async fn neither_an_empty_tenant_nor_the_end_of_the_invocation_refuses_it() {
    for site in everywhere().await {
        if site.place != Place::Function {
            continue;
        }
        let Api::Lambda(_, function) =
            serve(&site, off(&site).tenant(|_| Tenant::Known(String::new()))).await
        else {
            panic!("a function");
        };
        let over = context_until(made_up_time::now() - std::time::Duration::from_secs(9));
        for context in [over, context_of(30), lambda_http::Context::default()] {
            let answer = function.invoke_in(&Kind::Rest.example(), context).await.unwrap();
            assert_eq!(answer["statusCode"], 201, "{answer}");
        }
    }
}

#[tokio::test]
async fn other_methods_pass_through_as_ever() {
    for site in everywhere().await {
        let runs = site.runs.clone();
        let handler = move |request: Request<Bytes>| {
            assert!(request.extensions().get::<Execution>().is_none());
            std::future::ready(paid(runs.add()))
        };
        let api = site.serve(off(&site), handler).await;
        assert_eq!(api.send(by("GET", post("k", ""))).await.status(), 201);
    }
}

/// The business's own writes, each time.
#[tokio::test]
async fn commits_of_requests_without_a_key_are_written() {
    for site in everywhere().await {
        let (runs, table, scope) = (Runs::default(), site.store.table().to_owned(), site.scope());
        let handler = move |request: Request<Bytes>| {
            let (run, table) = (runs.add(), table.clone());
            async move {
                let execution: &Execution = request.extensions().get().expect("an execution");
                let response = paid(run);
                let row = format!("effect {scope}");
                execution.commit_response(&response, [count(&table, &row)]).await.unwrap();
                response
            }
        };
        let api = site.serve(off(&site), handler).await;
        for _ in 0..2 {
            let answer = api.send(without(post("", "{}"), "idempotency-key")).await;
            assert_eq!(answer.status(), 201);
        }
        assert_eq!(site.store.counted(&format!("effect {scope}")).await, 2);
    }
}

#[tokio::test]
async fn transactions_of_requests_without_a_key_are_written() {
    use dynamodb_idempotency::Transaction;
    use lambda_http::{Body, Response, service_fn};

    for site in everywhere().await {
        if site.place != Place::Function {
            continue;
        }
        let table = site.store.table().to_owned();
        let handler = service_fn(move |_: lambda_http::Request| {
            let done =
                Transaction::new(Response::new(Body::Empty)).items([count(&table, "effect")]);
            std::future::ready(Ok::<_, std::convert::Infallible>(done))
        });
        let keyless = without(post("", "{}"), "idempotency-key");
        for http in [off(&site), off(&site).key_optional()] {
            let function = Function::new(http.wrap_transaction(handler.clone()).unwrap());
            let answer = function.invoke(&Kind::HttpApi.event(&keyless)).await;
            assert_eq!(answer["statusCode"], 200, "{answer}");
        }
        assert_eq!(site.store.counted("effect").await, 2);
    }
}
