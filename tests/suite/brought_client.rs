//! What the crate takes over from the client that it is given, and what that client notices of it. That
//! connections are shared is shown in `tests/one-pool/`, where the SDK has a default HTTP client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_credential_types::provider::{ProvideCredentials, future};
use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextMut, BeforeSerializationInterceptorContextRef,
    FinalizerInterceptorContextMut, FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Builder, ConfigBag, Credentials, Intercept, Region, RuntimeComponents,
};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::get_item::GetItemInput;
use aws_sdk_dynamodb::{Client, Config};
use dynamodb_idempotency::{ErrorKind, Idempotency};

use crate::support::{Charging, Link, Runs, Store, charge, kind};

/// A count that is shared.
#[derive(Clone, Debug, Default)]
struct Count(Arc<AtomicU32>);

impl Count {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl ProvideCredentials for Count {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        self.add();
        let credentials = Credentials::new("test", "test", None, None, "test");
        future::ProvideCredentials::ready(Ok(credentials))
    }
}

fn config(store: &Store, link: &Link) -> Builder {
    Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(store.endpoint())
        .http_client(link.wire.clone())
}

/// The client has a cache that its configuration does not name.
#[tokio::test]
async fn credentials_are_fetched_once_for_business_and_crate() {
    let (store, link, fetched) =
        (Store::open_in_real_time().await, Link::default(), Count::default());
    let config = config(&store, &link).credentials_provider(fetched.clone());
    let business = Client::from_conf(config.build());
    let idempotency = Idempotency::new(business.clone(), store.table());
    let other =
        Idempotency::builder(business.clone(), store.table()).knows_time(true).build().unwrap();

    business.describe_table().table_name(store.table()).send().await.unwrap();
    for idempotency in [idempotency, other] {
        charge(idempotency.charging(), &Runs::default()).await.unwrap();
    }
    assert_eq!(fetched.get(), 1);
}

/// A mock's interceptor, say, that takes no call but those which it expects; and one that counts.
#[derive(Clone, Debug, Default)]
struct Strict {
    begun: Count,
    ended: Count,
}

impl Intercept for Strict {
    fn name(&self) -> &'static str {
        "Strict"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.begun.add();
        Ok(())
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        assert!(context.input().downcast_ref::<GetItemInput>().is_none(), "no read is expected");
        Ok(())
    }

    fn modify_before_completion(
        &self,
        _: &mut FinalizerInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.ended.add();
        Ok(())
    }

    fn read_after_execution(
        &self,
        _: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.ended.add();
        Ok(())
    }
}

#[tokio::test]
async fn the_clients_interceptors_see_only_calls_that_were_made() {
    let (store, link, strict) =
        (Store::open_in_real_time().await, Link::default(), Strict::default());
    let client = Client::from_conf(config(&store, &link).interceptor(strict.clone()).build());
    let idempotency = Idempotency::builder(client, store.table()).knows_time(true).build().unwrap();
    assert_eq!((strict.begun.get(), strict.ended.get()), (2, 0));
    assert!(link.wire.requests().is_empty());

    charge(idempotency.charging(), &Runs::default()).await.unwrap();
    assert_eq!((strict.begun.get(), strict.ended.get()), (4, 4));
}

/// Fails each call at its beginning.
#[derive(Debug)]
struct Failing;

impl Intercept for Failing {
    fn name(&self) -> &'static str {
        "Failing"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        Err("not today".into())
    }
}

#[tokio::test]
async fn a_failing_interceptor_is_reported_as_the_sdk_reports_it() {
    let (store, link, runs) = (Store::open_in_real_time().await, Link::default(), Runs::default());
    let client = Client::from_conf(config(&store, &link).interceptor(Failing).build());
    let idempotency = Idempotency::new(client, store.table());
    let error = charge(idempotency.charging(), &runs).await.unwrap_err();
    assert!(format!("{error:?}").contains("not today"), "{error:?}");
    assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
}

#[tokio::test]
async fn a_client_without_region_fails_as_the_sdk_does() {
    let (store, link, runs) = (Store::open_in_real_time().await, Link::default(), Runs::default());
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .http_client(link.wire.clone());
    let client = Client::from_conf(config.build());
    let theirs = client.list_tables().send().await.unwrap_err();
    assert!(format!("{theirs:?}").contains("Missing Region"), "{theirs:?}");

    let idempotency = Idempotency::new(client, store.table());
    let error = charge(idempotency.charging(), &runs).await.unwrap_err();
    assert!(format!("{error:?}").contains("Missing Region"), "{error:?}");
    assert_eq!((kind::<u32, _>(Err(error)), runs.count()), (ErrorKind::Configuration, 0));
}

/// With an endpoint the SDK resolves no region, and fails when it signs.
#[tokio::test]
async fn a_missing_region_is_reported_with_and_without_an_endpoint() {
    let (store, link, runs) = (Store::open_in_real_time().await, Link::default(), Runs::default());
    for endpoint in [None, Some("http://127.0.0.1:8000".to_owned())] {
        let mut config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .http_client(link.wire.clone());
        config.set_endpoint_url(endpoint);
        let idempotency = Idempotency::new(Client::from_conf(config.build()), store.table());
        let error = charge(idempotency.charging(), &runs).await.unwrap_err();
        let error = error.idempotency().expect("an error of the crate").to_string();
        assert!(error.contains("no AWS region is set: set AWS_REGION"), "{error}");
    }
    assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
}

#[tokio::test]
async fn an_endpoint_without_a_scheme_is_reported_with_the_setting() {
    let (store, link, runs) = (Store::open_in_real_time().await, Link::default(), Runs::default());
    for endpoint in ["127.0.0.1:8000", "localhost:8000"] {
        let client = Client::from_conf(config(&store, &link).endpoint_url(endpoint).build());
        let idempotency = Idempotency::new(client, store.table());
        let error = charge(idempotency.charging(), &runs).await.unwrap_err();
        let error = error.into_handler().unwrap_err();
        let created = idempotency.create_table().await.unwrap_err();
        for error in [error, created] {
            assert_eq!(error.kind(), ErrorKind::Configuration);
            let advice = "AWS_ENDPOINT_URL_DYNAMODB must begin with http:// or https://";
            assert!(error.to_string().contains(advice), "{error:#?}");
        }
    }
    assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
}

/// Time-outs of the SDK need a runtime, once they begin.
#[test]
fn it_is_made_where_no_runtime_is() {
    let timeouts = TimeoutConfig::builder()
        .operation_timeout(Duration::from_secs(1))
        .operation_attempt_timeout(Duration::from_secs(1));
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .timeout_config(timeouts.build());
    let _idempotency = Idempotency::new(Client::from_conf(config.build()), "idempotency");
}
