//! An error in a call, a deployment or a record is reported before anything runs.

use std::convert::Infallible;
use std::time::Duration;

use aws_credential_types::provider::{ProvideCredentials, error::CredentialsError, future};
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::{Client, Config};
use dynamodb_idempotency::policy::{Failure, Lease, Outage};
use dynamodb_idempotency::{
    Call, Error, ErrorKind, Fingerprint, Idempotency, Policy, RunError, TableSchema, derive_key,
};

use crate::support::raw::{self, Item, n, s, with};
use crate::support::{Act, Charging, Link, Runs, Store, caller_on, charge, executed, kind};

/// What a call says to a deployment that cannot work; nothing may run.
async fn misconfigured(idempotency: &Idempotency) -> String {
    let runs = Runs::default();
    let result = charge(idempotency.operation("charge").key("secret").no_payload(), &runs).await;
    let error = result.unwrap_err();
    let error = error.idempotency().unwrap();
    assert_eq!((error.kind(), runs.count()), (ErrorKind::Configuration, 0));
    assert!(!error.is_retryable() && !error.to_string().contains("secret"));
    error.to_string()
}

#[tokio::test]
async fn an_unknown_table() {
    let store = Store::without_table(TableSchema::default()).await;
    let message = misconfigured(&store.idempotency()).await;
    assert!(message.contains(store.table()), "{message}");
}

#[tokio::test]
async fn a_table_with_other_keys() {
    for schema in [
        TableSchema::default().partition_key("id"),
        TableSchema::default().composite_key("pk", "IDEMPOTENCY", "sk"),
    ] {
        let store = Store::with_schema(schema).await;
        let client = store.client(&Link::default());
        let message = misconfigured(&Idempotency::new(client, store.table())).await;
        assert!(message.contains(store.table()) && message.contains("TableSchema"), "{message}");
    }
}

#[tokio::test]
async fn a_denied_access() {
    for code in ["AccessDeniedException", "OptInRequired", "MissingAuthenticationTokenException"] {
        let (store, link) = (Store::open().await, Link::default());
        link.wire.down(Act::Answer(400, code));
        let message = misconfigured(&store.over(&link)).await;
        assert!(message.contains(code), "{message}");
    }
}

/// A consumer's loop tries again, and no handler runs without a record.
#[tokio::test]
async fn credentials_that_lapse_are_transient_and_no_outage() {
    for code in [
        "ExpiredTokenException",
        "InvalidSignatureException",
        "UnrecognizedClientException",
        "RequestExpired",
    ] {
        let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
        let open = |policy: Policy| policy.outage(Outage::Open);
        let idempotency = store.by(&link, open);
        link.wire.down(Act::Answer(400, code));
        let result = charge(idempotency.charging(), &runs).await;
        let error = result.unwrap_err().into_handler().unwrap_err();
        assert_eq!((error.kind(), runs.count()), (ErrorKind::Unavailable, 0), "{code}");
        assert!(error.is_retryable() && !error.is_outcome_unknown(), "{code}");
        let message = error.to_string();
        assert!(message.contains(code) && message.contains("as the test requested"), "{message}");
        assert!(!message.contains("dynamodb:"), "{message}");
        let error = idempotency.preflight(["charge"]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{code}: {error}");
        link.wire.up();
        let outcome = charge(idempotency.charging(), &runs).await;
        assert_eq!(outcome.unwrap(), executed(1, 1), "{code}");
    }
}

/// Returns the error that `of` makes.
#[derive(Debug)]
struct Failing(fn() -> CredentialsError);

impl ProvideCredentials for Failing {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err(self.0()))
    }
}

#[tokio::test]
async fn a_source_of_credentials_that_fails_is_transient_and_no_outage() {
    let failures: [fn() -> CredentialsError; 2] = [
        || CredentialsError::provider_error("STS responded with 503"),
        || CredentialsError::provider_timed_out(Duration::from_secs(5)),
    ];
    for failure in failures {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(store.endpoint())
            .http_client(link.wire.clone())
            .credentials_provider(Failing(failure));
        let client = Client::from_conf(config.build());
        let builder = Idempotency::builder(client, store.table());
        let open = |policy: Policy| policy.outage(Outage::Open);
        let idempotency = builder.policy(open).enabled().build().unwrap();
        let result = charge(idempotency.charging(), &runs).await;
        let error = result.unwrap_err().into_handler().unwrap_err();
        assert_eq!((error.kind(), runs.count()), (ErrorKind::Unavailable, 0), "{error}");
        assert!(error.to_string().contains("credentials"), "{error}");
        assert!(link.wire.requests().is_empty());
    }
}

#[derive(Debug)]
struct NoCredentials;

impl ProvideCredentials for NoCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err(CredentialsError::not_loaded("there are none")))
    }
}

#[tokio::test]
async fn missing_credentials() {
    let (store, link) = (Store::open().await, Link::default());
    let config = || {
        Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(store.endpoint())
            .http_client(link.wire.clone())
    };
    for config in [config(), config().credentials_provider(NoCredentials)] {
        let client = Client::from_conf(config.build());
        let message = misconfigured(&Idempotency::new(client, store.table())).await;
        assert!(message.contains("credentials"), "{message}");
    }
    assert!(link.wire.requests().is_empty());
}

/// An item that this version does not understand: nothing runs and nothing changes.
async fn not_understood(case: &str, item: Item) {
    left_alone(case, item, ErrorKind::UnknownRecord).await;
}

async fn left_alone(case: &str, item: Item, expected: ErrorKind) {
    let (store, runs) = (Store::open().await, Runs::default());
    store.put(item.clone()).await;
    let result = charge(store.idempotency().charging(), &runs).await;
    assert_eq!((kind(result), runs.count()), (expected, 0), "{case}");
    assert_eq!(store.record("charge#k").await, item, "{case}");
}

/// During a rollout both versions run. The older version returns a retryable error for a record that
/// it does not understand, because a retry may reach the newer one.
#[tokio::test]
async fn a_record_of_a_newer_version_is_left_to_that_version() {
    let recipe_2 = [&[2], &[7; 32][..]].concat();
    let recipe_2 = AttributeValue::B(Blob::new(recipe_2));
    for (case, record) in [
        ("running", raw::pending("charge#k")),
        ("abandoned", raw::abandoned("charge#k")),
        ("failed", raw::failed("charge#k")),
        ("completed", raw::completed("charge#k", "1")),
    ] {
        let newer = with(record.clone(), "fingerprint", recipe_2.clone());
        left_alone(case, newer, ErrorKind::NewerRecord).await;
        left_alone(case, with(record, "format", n(2)), ErrorKind::NewerRecord).await;
    }
}

#[tokio::test]
async fn a_newer_record_is_met_by_a_further_try() {
    let store = Store::open().await;
    store.put(with(raw::completed("charge#k", "1"), "format", n(2))).await;
    let ran = charge(store.idempotency().charging(), &Runs::default()).await;
    let Err(RunError::Idempotency(error)) = ran else { panic!("{ran:?}") };
    assert!(error.is_retryable() && !error.is_outcome_unknown(), "{error:?}");
}

#[tokio::test]
async fn a_record_of_an_unknown_format() {
    let past = n(raw::now() / 1000 - 60);
    for format in [n(0), s("1"), AttributeValue::Null(true)] {
        for (case, record) in [
            ("running", raw::pending("charge#k")),
            ("abandoned", raw::abandoned("charge#k")),
            ("completed", raw::completed("charge#k", "1")),
            ("expired", with(raw::completed("charge#k", "1"), "expires_at", past.clone())),
        ] {
            not_understood(case, with(record, "format", format.clone())).await;
        }
    }
}

#[tokio::test]
async fn an_item_of_another_program_is_not_understood() {
    not_understood("only a key", raw::key("charge#k")).await;
    let other = with(raw::key("charge#k"), "total", n(12));
    not_understood("another application's", with(other, "expires_at", n(1))).await;
}

#[tokio::test]
async fn a_corrupt_record() {
    let without = |name: &str| {
        let mut record = raw::abandoned("charge#k");
        record.remove(name);
        record
    };
    let required = [
        "status",
        "owner",
        "attempt",
        "fingerprint",
        "lease_expires_at",
        "created_at",
        "expires_at",
    ];
    for name in required {
        not_understood(name, without(name)).await;
        let list = AttributeValue::L(Vec::new());
        not_understood(name, with(raw::abandoned("charge#k"), name, list)).await;
    }
    let completed = || raw::completed("charge#k", "1");
    for (case, record) in [
        ("unknown status", with(completed(), "status", s("DONE"))),
        ("fraction", with(completed(), "attempt", AttributeValue::N("1.5".to_owned()))),
        ("short hash", with(completed(), "fingerprint", AttributeValue::B(Blob::new([1; 32])))),
        ("no recipe", with(completed(), "fingerprint", AttributeValue::B(Blob::new([0; 33])))),
        ("answer of text", with(completed(), "response", s("1"))),
        ("answer of another shape", with(completed(), "response", raw::answer("zstd", "1"))),
        ("no answer", {
            let mut record = completed();
            record.remove("response");
            record
        }),
    ] {
        not_understood(case, record).await;
    }
}

/// Where they are set for all, at once.
#[tokio::test]
async fn settings_that_contradict_each_other_are_refused_as_they_are_built() {
    let (store, link) = (Store::open().await, Link::default());
    let seconds = Duration::from_secs;
    let builder = || store.builder(&link);
    let lease = |lease| builder().policy(move |p| p.lease(lease)).clock_tolerance(seconds(5));
    for (named, builder) in [
        ("Policy::completion_timeout", builder().policy(|p| p.retention(seconds(5)))),
        ("Lease::Fixed", lease(Lease::Fixed(seconds(6)))),
        ("Lease::Renewed", lease(Lease::Renewed(seconds(6)))),
        ("clock_tolerance", builder().clock_tolerance(seconds(11))),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(named), "{error}");
    }
}

const DAYS: Duration = Duration::from_secs(48 * 3600);

#[tokio::test]
async fn calls_that_cannot_be_right() {
    let (_store, link, _, idempotency) = caller_on(Link::default()).await;
    let charge_of = || idempotency.operation("charge");
    let unserializable = std::collections::HashMap::from([((1, 2), 3)]);
    let tiny = Lease::Fixed(Duration::from_millis(1));
    for (case, operation) in [
        ("empty key", idempotency.operation("charge").key("").no_payload()),
        ("long key", idempotency.operation("charge").key("k".repeat(2048 - 6)).no_payload()),
        ("long scope", idempotency.operation("c".repeat(2047)).key("k").no_payload()),
        ("long tenant", charge_of().segment(&"#".repeat(1000)).key("k").no_payload()),
        ("payload", charge_of().key("k").payload(&unserializable)),
    ] {
        refused(case, operation, ErrorKind::InvalidInput).await;
    }
    refused(
        "empty scope",
        idempotency.operation("").key("k").no_payload(),
        ErrorKind::Configuration,
    )
    .await;
    let policies: [(&str, &dyn Fn(Policy) -> Policy); 4] = [
        ("Lease::Fixed", &|policy| policy.lease(tiny)),
        ("Policy::retention", &|policy| policy.retention(Duration::ZERO)),
        ("Policy::completion_timeout", &|policy| policy.completion_timeout(DAYS)),
        ("Failure::Retain", &|policy| policy.failure(Failure::Retain { max_attempts: 0 })),
    ];
    for (named, change) in policies {
        let errors = [
            charge_of().policy(change).map(drop).unwrap_err(),
            idempotency.http("charge").policy(change).layer().map(drop).unwrap_err(),
            consumer_of(&idempotency, change).unwrap_err(),
            event_of(&idempotency, change).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().contains(named), "{error}");
        }
    }
    assert!(link.wire.requests().is_empty());
}

/// JSON has no such numbers: `serde_json` writes `null`, as it does for `None`.
#[tokio::test]
async fn a_payload_with_a_number_that_json_does_not_have_is_refused() {
    #[derive(serde::Serialize)]
    struct Order {
        lines: Vec<(String, Option<f64>)>,
    }
    #[derive(serde::Serialize)]
    enum Amount {
        Tuple(u8, f32),
        Named { of: f32 },
    }
    let (_store, link, _, idempotency) = caller_on(Link::default()).await;
    let call = || idempotency.operation("charge").key("k");
    for number in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        let order = Order { lines: vec![("a".to_owned(), Some(number))] };
        #[expect(clippy::cast_possible_truncation, reason = "it stays what it is")]
        let single = number as f32;
        let map = std::collections::BTreeMap::from([("a", number)]);
        for (case, operation) in [
            ("number", call().payload(&number)),
            ("single", call().payload(&single)),
            ("some", call().payload(&Some(number))),
            ("member", call().payload(&order)),
            ("tuple", call().payload(&Amount::Tuple(1, single))),
            ("variant", call().payload(&Amount::Named { of: single })),
            ("map", call().payload(&map)),
        ] {
            refused(case, operation, ErrorKind::InvalidInput).await;
        }
        assert_eq!(Fingerprint::of(&number).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(derive_key("refund", &map).unwrap_err().kind(), ErrorKind::InvalidInput);
        #[cfg(feature = "event")]
        assert!(dynamodb_idempotency::event::JsonEvent::of(&map).is_err());
    }
    assert!(link.wire.requests().is_empty());
    let finite = (None::<f64>, f64::MAX, f32::MIN_POSITIVE, u128::MAX, i128::MIN, "", ());
    assert!(charge(call().payload(&finite), &Runs::default()).await.is_ok());
}

fn consumer_of(idempotency: &Idempotency, change: impl Fn(Policy) -> Policy) -> Result<(), Error> {
    let consumer = idempotency.sqs("charge").policy(change);
    consumer.handler(async |_, _| Ok::<_, Infallible>(())).map(drop)
}

fn event_of(idempotency: &Idempotency, change: impl Fn(Policy) -> Policy) -> Result<(), Error> {
    let event = idempotency.event("charge", String::clone, async |_, _| Ok::<_, Infallible>(1));
    event.policy(change).map(drop)
}

async fn refused(case: &str, operation: Call, expected: ErrorKind) {
    let runs = Runs::default();
    let result = charge(operation, &runs).await;
    assert_eq!((kind(result), runs.count()), (expected, 0), "{case}");
}

#[tokio::test]
async fn the_longest_keys_work_and_one_byte_more_is_refused() {
    let composite = TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK");
    for (schema, limit) in [(TableSchema::default(), 2048), (composite, 1024)] {
        let (store, runs) = (Store::with_schema(schema).await, Runs::default());
        let idempotency = store.idempotency();
        let longest = "k".repeat(limit - "charge#".len());
        let outcome =
            charge(idempotency.operation("charge").key(&longest).no_payload(), &runs).await;
        assert_eq!(outcome.unwrap(), executed(1, 1));
        let longer = idempotency.operation("charge").key(longest + "k").no_payload();
        assert_eq!(kind(charge(longer, &runs).await), ErrorKind::InvalidInput);
    }
}
