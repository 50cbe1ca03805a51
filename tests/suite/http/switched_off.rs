//! Switched off is off: each request runs, whatever it lacks, and the table is not asked.

use bytes::Bytes;
use dynamodb_idempotency::Execution;
use dynamodb_idempotency::http::{Http, Tenant, tenant};
use http::Request;

use super::event::Kind;
use super::function::{Function, context_of, context_until};
use super::message::{and, by, keyless, post, with};
use super::site::{Api, Site, everywhere, paid};
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
    let long = "k".repeat(2000);
    let requests = [
        ("a key", post("k", "{}")),
        ("the same key with another payload", post("k", "[]")),
        ("no key", keyless("{}")),
        ("an empty key", post("", "{}")),
        ("a long key", post(&long, "{}")),
        ("two keys", and(post("k", "{}"), "idempotency-key", "other")),
        ("two tenants", and(with(post("k", "{}"), "x-tenant", "a"), "x-tenant", "b")),
        ("a long tenant", with(post("k", "{}"), "x-tenant", &long)),
        ("a large body", post("k", "x".repeat(5000))),
    ];
    for site in everywhere().await {
        let find = tenant::header("x-tenant");
        let by_header = serve(&site, off(&site).tenant(find).max_body_bytes(1000)).await;
        // No key is looked for in what is no JSON, or has no such member.
        let by_body = serve(&site, off(&site).json_key("/id")).await;
        for (name, request) in &requests {
            for api in [&by_header, &by_header, &by_body] {
                let before = site.runs.count();
                api.check([(name, request.clone(), "201")]).await;
                assert_eq!(site.runs.count(), before + 1, "{name}");
            }
        }
        assert_eq!(site.link.wire.requests(), [""; 0]);
    }
}

#[tokio::test]
async fn neither_an_empty_tenant_nor_the_end_of_the_invocation_refuses_it() {
    let site = everywhere().await.next().expect("a function");
    let http = off(&site).tenant(|_| Tenant::Known(String::new()));
    let Api::Lambda(_, function) = serve(&site, http).await else { panic!("a function") };
    let over = context_until(made_up_time::now() - std::time::Duration::from_secs(9));
    for context in [over, context_of(30), lambda_http::Context::default()] {
        let answer = function.invoke_in(&Kind::Rest.example(), context).await.unwrap();
        assert_eq!(answer["statusCode"], 201, "{answer}");
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
        api.check([("GET", by("GET", post("k", "")), "201")]).await;
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
        api.check([("once", keyless("{}"), "201"), ("twice", keyless("{}"), "201")]).await;
        assert_eq!(site.store.counted(&format!("effect {scope}")).await, 2);
    }
}

#[tokio::test]
async fn transactions_of_requests_without_a_key_are_written() {
    use dynamodb_idempotency::Transaction;
    use lambda_http::{Body, Response, service_fn};

    let site = everywhere().await.next().expect("a function");
    let table = site.store.table().to_owned();
    let handler = service_fn(move |_: lambda_http::Request| {
        let done = Transaction::new(Response::new(Body::Empty)).items([count(&table, "effect")]);
        std::future::ready(Ok::<_, std::convert::Infallible>(done))
    });
    for http in [off(&site), off(&site).key_optional()] {
        let function = Function::new(http.wrap_transaction(handler.clone()).unwrap());
        Api::Lambda(Kind::HttpApi, function).check([("no key", keyless("{}"), "200")]).await;
    }
    assert_eq!(site.store.counted("effect").await, 2);
}
