//! However the SDK's retries are set, a call has what its own promises take.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_smithy_types::retry::RetrySpec;
use dynamodb_idempotency::{ErrorKind, Idempotency};

use crate::support::raw::status;
use crate::support::{Act, Charging, Link, Runs, Store, charge, executed, kind, replayed};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// A caller whose SDK retries so.
fn retrying(store: &Store, link: &Link, retries: RetryConfig) -> Idempotency {
    let mut config = store.client(link).config().to_builder();
    config.set_retry_config(Some(retries));
    let client = Client::from_conf(config.build());
    let builder = Idempotency::builder(client, store.table()).request_timeout(REQUEST_TIMEOUT);
    builder.knows_time(true).build().unwrap()
}

/// A base that would have each wait outlast the call.
fn patient(spec: RetrySpec) -> RetryConfig {
    let base = Duration::from_secs(1_000_000);
    let retries = RetryConfig::standard().with_max_attempts(4).with_initial_backoff(base);
    let spec = spec.with_non_throttling_initial_backoff(base);
    retries.with_max_backoff(base).with_retry_spec(spec)
}

#[tokio::test]
async fn four_tries_fit_into_a_call_however_long_the_sdk_would_wait() {
    let calls = [RetrySpec::v2_0(), RetrySpec::v2_1()]
        .into_iter()
        .flat_map(|spec| [Act::THROTTLE, Act::SERVER_ERROR].map(|act| (spec.clone(), act)));
    let calls = calls.map(async |(spec, act)| {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let idempotency = retrying(&store, &link, patient(spec));
        for _ in 1..4 {
            link.wire.next("PutItem", act.clone());
        }
        assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 1));
        assert_eq!(link.wire.requests(), ["PutItem"; 5]);
    });
    futures::future::join_all(calls).await;
}

#[tokio::test]
async fn with_retries_switched_off_nothing_is_lost_and_nothing_runs_twice() {
    for act in [Act::LoseRequest, Act::LoseResponse, Act::SERVER_ERROR] {
        // Whatever is lost, of the two requests of a run.
        for lost in 0..2 {
            let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
            let idempotency = retrying(&store, &link, RetryConfig::disabled());
            for _ in 0..lost {
                link.wire.next("PutItem", Act::Deliver);
            }
            link.wire.next("PutItem", act.clone());
            let on = || idempotency.charging();
            assert_eq!(charge(on(), &runs).await.unwrap(), executed(1, 1), "{act:?} {lost}");
            assert_eq!(charge(on(), &runs).await.unwrap(), replayed(1, 1), "{act:?} {lost}");
            assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
        }
    }
}

#[tokio::test]
async fn without_sdk_retries_a_throttled_call_gets_a_retryable_error() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = retrying(&store, &link, RetryConfig::disabled());
    let on = || idempotency.charging();
    link.wire.next("PutItem", Act::THROTTLE);
    assert_eq!(kind(charge(on(), &runs).await), ErrorKind::Unavailable);
    assert_eq!(
        (link.wire.requests(), store.item("charge#k").await),
        (vec!["PutItem".into()], None)
    );
    assert_eq!(charge(on(), &runs).await.unwrap(), executed(1, 1));
}
