//! The lease ends with the invocation that the request came with.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::routing::post as on_post;
use dynamodb_idempotency::Execution;
use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::policy::Lease;
use futures::{StreamExt, stream};
use http::Response;
use lambda_http::service_fn;
use tower::{Layer, ServiceExt};

use super::event::{self, Kind};
use super::function::{Function, context_of, context_until};
use super::message::{is_replay, post, problem, values};
use super::site::{everywhere, paid};
use crate::support::{Gate, Link, Runs, Store, made_up_time, raw};

/// A function that returns the end of its lease in epoch milliseconds, read from its own record.
fn lease_reader(store: &Arc<Store>, http: Http) -> Function {
    let store = Arc::clone(store);
    Function::new(
        http.wrap(service_fn(move |_: lambda_http::Request| {
            let store = Arc::clone(&store);
            async move { Ok::<_, Infallible>(lease_in(&store, "pay#order-7").await.to_string()) }
        }))
        .unwrap(),
    )
}

async fn lease_in(store: &Store, pk: &str) -> i64 {
    raw::number(&store.record(pk).await, "lease_expires_at")
}

/// Asserts that an invocation of so many seconds has a lease that ends with it, and frees the key.
async fn assert_lease_of(function: &Function, store: &Store, seconds: u64) {
    let context = context_of(seconds);
    let deadline = i64::try_from(context.deadline).unwrap();
    let answer = function.invoke_in(&Kind::HttpApi.example(), context).await.unwrap();
    let lease = answer["body"].as_str().and_then(|body| body.parse().ok());
    assert_near(lease.expect("a number"), deadline + 2_000);
    store.delete("pay#order-7").await;
}

/// Up to what is known of the store's clock: a `Date` has whole seconds.
#[track_caller]
fn assert_near(millis: i64, expected: i64) {
    assert!((millis - expected).abs() <= 3_000, "{millis} is not near {expected}");
}

#[tokio::test]
async fn the_lease_ends_two_seconds_after_the_invocation() {
    for seconds in [20, 900] {
        let store = Arc::new(Store::open().await);
        let function = lease_reader(&store, store.idempotency().http("pay"));
        assert_lease_of(&function, &store, seconds).await;
    }
}

/// A warm function is invoked several times, each time with another deadline.
#[tokio::test]
async fn each_invocation_of_a_warm_function_has_its_own_lease() {
    let store = Arc::new(Store::open().await);
    let function = lease_reader(&store, store.idempotency().http("pay"));
    for seconds in [20, 300, 60] {
        assert_lease_of(&function, &store, seconds).await;
    }
}

#[tokio::test]
async fn a_fixed_lease_does_not_depend_on_the_invocation() {
    let store = Arc::new(Store::open().await);
    let fixed = Lease::Fixed(Duration::from_secs(3600));
    let http = store.idempotency().http("pay").policy(|policy| policy.lease(fixed));
    let answer = lease_reader(&store, http).invoke(&Kind::Rest.example()).await;
    let lease: i64 = answer["body"].as_str().unwrap().parse().unwrap();
    assert_near(lease, raw::now() + 3_600_000);
}

#[tokio::test]
async fn an_invocation_whose_time_is_over_runs_nothing() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let counted = runs.clone();
    let handler = move |_: lambda_http::Request| {
        counted.add();
        std::future::ready(Ok::<_, Infallible>("paid"))
    };
    let function = Function::new(store.over(&link).http("pay").wrap(service_fn(handler)).unwrap());
    for seconds in [1, 3_500] {
        let context = context_until(made_up_time::now() - Duration::from_secs(seconds));
        let answer = function.invoke_in(&Kind::Rest.example(), context).await.unwrap();
        let answer = event::response(&answer);
        problem(&answer, 503, "DeadlineExceeded");
        assert_eq!(values(answer.headers(), "retry-after"), ["1"]);
    }
    assert_eq!((runs.count(), store.item("pay#order-7").await), (0, None));
    // The same function, with time again.
    let answer = event::response(&function.invoke(&Kind::Rest.example()).await);
    assert_eq!((answer.status().as_u16(), runs.count()), (200, 1));
}

/// A context made by hand has a deadline of 0, and `cargo lambda watch` sends 600,000. The lease is the
/// one of a call without a deadline.
#[tokio::test]
async fn an_impossible_deadline_counts_as_none() {
    let an_hour_ago = made_up_time::now() - Duration::from_secs(3_700);
    let in_1970 = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    for impossible in [an_hour_ago, in_1970(0), in_1970(600_000)] {
        let store = Arc::new(Store::open().await);
        let function = lease_reader(&store, store.idempotency().http("pay"));
        let context = context_until(impossible);
        let answer = function.invoke_in(&Kind::HttpApi.example(), context).await.unwrap();
        let lease: i64 =
            answer["body"].as_str().and_then(|body| body.parse().ok()).expect("a number");
        assert_near(lease, raw::now() + 30_000);
    }
}

#[tokio::test]
async fn a_layer_on_a_route_under_lambda_has_the_invocations_lease() {
    let store = Arc::new(Store::open().await);
    let looked_at = Arc::clone(&store);
    let route = on_post(move || {
        let store = Arc::clone(&looked_at);
        async move { lease_in(&store, "pay#order-7").await.to_string() }
    });
    let layer = store.idempotency().http("pay").layer().unwrap();
    let router = Router::new().route("/payments", route.route_layer(layer));
    assert_lease_of(&Function::under_lambda_http(router), &store, 120).await;
}

/// Without an invocation there is no deadline: half a minute, renewed.
#[tokio::test]
async fn a_server_has_a_lease_that_is_renewed() {
    for site in everywhere().await {
        if site.place != super::site::Place::Server {
            continue;
        }
        let gate = Gate::default();
        let held = gate.clone();
        let handler = move |request: http::Request<bytes::Bytes>| {
            let held = held.clone();
            async move {
                let execution = request.extensions().get::<Execution>().unwrap().clone();
                assert!(execution.lease_remaining() > Duration::from_secs(20));
                held.pass().await;
                paid(1)
            }
        };
        let api = site.serve(site.http(), handler).await;
        let (first, ()) = tokio::join!(api.send(post("k", "{}")), async {
            gate.reached().await;
            let lease = raw::number(&site.item("k").await.unwrap(), "lease_expires_at");
            assert_near(lease, raw::now() + 30_000);
            gate.open();
        });
        assert_eq!(first.status(), 201);
        assert!(is_replay(&api.send(post("k", "{}")).await));
    }
}

/// By a machine that was frozen half-way.
#[tokio::test]
async fn a_handler_whose_lease_expires_is_stopped_and_its_client_gets_an_error() {
    for site in everywhere().await {
        let (link, after) = (site.link.clone(), Runs::default());
        let counted = after.clone();
        let handler = move |_: http::Request<bytes::Bytes>| {
            let (link, after) = (link.clone(), counted.clone());
            async move {
                link.freeze(3_600);
                tokio::task::yield_now().await;
                paid(after.add())
            }
        };
        let api = site.serve(site.http(), handler).await;
        let answer = api.send(post("k", "{}")).await;
        problem(&answer, 503, "LeaseExpired");
        assert_eq!(values(answer.headers(), "retry-after"), ["1"]);
        assert_eq!(after.count(), 0);
        assert_eq!(site.status("k").await.as_deref(), Some("PENDING"));
    }
}

/// The handler has returned, and its body is still being made.
#[tokio::test]
async fn a_body_is_not_made_any_further_after_the_lease() {
    for pass in [Link::freeze, Link::let_pass] {
        let (store, link, after) = (Store::open().await, Link::default(), Runs::default());
        let (frozen, counted) = (link.clone(), after.clone());
        let handler = tower::service_fn(move |_: http::Request<Body>| {
            let (link, after) = (frozen.clone(), counted.clone());
            let parts = stream::iter(0..3).then(move |part| {
                let (link, after) = (link.clone(), after.clone());
                async move {
                    if part == 1 {
                        pass(&link, 3_600);
                        tokio::task::yield_now().await;
                        after.add();
                    }
                    Ok::<_, Infallible>("part")
                }
            });
            std::future::ready(Ok::<_, Infallible>(Response::new(Body::from_stream(parts))))
        });
        let service = store.over(&link).http("pay").layer().unwrap().layer(handler);
        let answer = service.oneshot(post("k", "{}").map(Body::from)).await.unwrap();
        assert_eq!((answer.status().as_u16(), after.count()), (503, 0));
        assert_eq!(store.status("pay#k").await.as_deref(), Some("PENDING"));
    }
}
