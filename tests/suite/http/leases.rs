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
use super::message::{post, problem, values};
use super::site::{Place, everywhere, paid};
use crate::support::{Gate, Link, Runs, Store, made_up_time, raw};

async fn lease_in(store: &Store, pk: &str) -> i64 {
    raw::number(&store.record(pk).await, "lease_expires_at")
}

/// Up to what is known of the store's clock: a `Date` has whole seconds.
#[track_caller]
fn assert_near(name: &str, lease: i64, seconds: i64) {
    let expected = raw::now() + seconds * 1000;
    assert!((lease - expected).abs() <= 3_000, "{name}: {lease} is not near {expected}");
}

/// Functions that return the end of their lease, read from their own record: one that is wrapped, and one
/// with a layer on its route.
fn lease_readers(store: &Arc<Store>, http: &Http) -> [Function; 2] {
    let lease = {
        let store = Arc::clone(store);
        move || {
            let store = Arc::clone(&store);
            async move { lease_in(&store, "pay#order-7").await.to_string() }
        }
    };
    let route = on_post(lease.clone()).route_layer(http.clone().layer().unwrap());
    let wrapped = service_fn(move |_: lambda_http::Request| {
        let lease = lease();
        async { Ok::<_, Infallible>(lease.await) }
    });
    [
        Function::new(http.clone().wrap(wrapped).unwrap()),
        Function::under_lambda_http(Router::new().route("/payments", route)),
    ]
}

/// Each function is warm: it is invoked several times, each time with another deadline. A context made by
/// hand has a deadline of 0, and `cargo lambda watch` sends 600,000; then the lease is the one of a call
/// without a deadline.
#[tokio::test]
async fn the_lease_ends_two_seconds_after_the_invocation() {
    let in_1970 = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    let store = Arc::new(Store::open().await);
    let fixed = Lease::Fixed(Duration::from_secs(3600));
    let http = || store.idempotency().http("pay");
    for (function, fixed) in lease_readers(&store, &http())
        .into_iter()
        .zip(lease_readers(&store, &http().policy(|policy| policy.lease(fixed))))
    {
        let an_hour_ago = made_up_time::now() - Duration::from_secs(3_700);
        for (name, function, context, seconds) in [
            ("20 s", &function, context_of(20), 22),
            ("15 minutes", &function, context_of(900), 902),
            ("a minute", &function, context_of(60), 62),
            ("over for more than an hour", &function, context_until(an_hour_ago), 30),
            ("0", &function, context_until(in_1970(0)), 30),
            ("600,000", &function, context_until(in_1970(600_000)), 30),
            ("a fixed lease", &fixed, context_of(30), 3600),
        ] {
            let answer = function.invoke_in(&Kind::HttpApi.example(), context).await.unwrap();
            let lease = answer["body"].as_str().and_then(|body| body.parse().ok());
            assert_near(name, lease.expect("a number"), seconds);
            store.delete("pay#order-7").await;
        }
    }
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

/// Without an invocation there is no deadline: half a minute, renewed.
#[tokio::test]
async fn a_server_has_a_lease_that_is_renewed() {
    let site = everywhere().await.find(|site| site.place == Place::Server).unwrap();
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
    tokio::join!(api.send(post("k", "{}")), async {
        gate.reached().await;
        assert_near("a server", lease_in(&site.store, &site.pk("k")).await, 30);
        gate.open();
    });
    api.check([("repeat", post("k", "{}"), "201 replay")]).await;
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
