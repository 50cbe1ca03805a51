//! The engine under test, and callers' connections to it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::retry::{RetryConfig, RetryPartition};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Credentials, Region, StalledStreamProtectionConfig,
};
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_types::retry::RetrySpec;
use dynamodb_idempotency::{Builder, Idempotency, Policy, TableSchema};
use tokio::net::TcpListener;

use super::raw::{Item, key};
use super::{LocalClock, Wire, made_up_time};

/// The time limit of requests. In a race, the requests at a gate wait until the last one arrives.
const PATIENCE: Duration = Duration::from_secs(600);

/// One caller's connection: its network, its clock, and whether its SDK retries.
#[derive(Clone, Debug, Default)]
pub struct Link {
    pub wire: Wire,
    pub clock: LocalClock,
    /// How often the SDK sends a request; `None` for its default.
    tries: Option<u32>,
}

impl Link {
    /// A connection whose SDK sends each request once.
    pub fn without_retries() -> Self {
        Self { tries: Some(1), ..Self::default() }
    }

    /// How often its SDK sends a request, at most.
    pub fn tries(&self) -> u32 {
        self.tries.unwrap_or(retries().max_attempts())
    }

    /// The same connection with another clock.
    #[must_use]
    pub fn clock(self, clock: LocalClock) -> Self {
        Self { clock, ..self }
    }

    /// The connection of a later caller, for which `seconds` more have passed than for the others.
    pub fn later(seconds: i64) -> Self {
        let link = Self::default();
        link.let_pass(seconds);
        link
    }

    /// Lets time pass on the caller's clocks and on the store's.
    pub fn let_pass(&self, seconds: i64) {
        self.clock.live(seconds);
        self.freeze(seconds);
    }

    /// Like [`let_pass`](Self::let_pass) on a frozen machine: the monotonic clock stops.
    pub fn freeze(&self, seconds: i64) {
        self.clock.advance(seconds);
        self.wire.shift_date(seconds);
    }
}

/// A separate table on the engine under test.
#[derive(Debug)]
pub struct Store {
    endpoint: String,
    table: String,
    schema: TableSchema,
    /// A connection that no test disturbs.
    pub raw: Client,
}

impl Store {
    /// Creates a table with the default schema. Time is [simulated](super::made_up_time) from now on.
    pub async fn open() -> Self {
        Self::with_schema(TableSchema::default()).await
    }

    /// As [`open`](Self::open), but in real time, for a test that uses other sockets than the store's.
    pub async fn open_in_real_time() -> Self {
        Self::on_engine(TableSchema::default()).await.with_table().await
    }

    /// As [`open`](Self::open), but with this schema, which [`builder`](Self::builder) uses too.
    pub async fn with_schema(schema: TableSchema) -> Self {
        Self::without_table(schema).await.with_table().await
    }

    async fn with_table(self) -> Self {
        let is_new = self.idempotency().create_table().await.expect("the table can be made");
        assert!(is_new, "it is new");
        self
    }

    /// The engine, and the name of a table that does not exist.
    pub async fn without_table(schema: TableSchema) -> Self {
        made_up_time::begin();
        Self::on_engine(schema).await
    }

    async fn on_engine(schema: TableSchema) -> Self {
        let endpoint = endpoint().await;
        let raw = client(&endpoint, &Link::default());
        Self { endpoint, table: unique_name(), schema, raw }
    }

    /// A table that another process has created.
    pub fn existing(endpoint: &str, table: &str) -> Self {
        let raw = client(endpoint, &Link::default());
        let (endpoint, table) = (endpoint.to_owned(), table.to_owned());
        Self { endpoint, table, schema: TableSchema::default(), raw }
    }

    pub fn table(&self) -> &str {
        &self.table
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A caller on a connection without faults, with the default policy.
    pub fn idempotency(&self) -> Idempotency {
        self.over(&Link::default())
    }

    /// A caller on this connection, with the default policy.
    pub fn over(&self, link: &Link) -> Idempotency {
        self.builder(link).build().expect("the settings are right")
    }

    /// A caller on this connection, with this policy.
    pub fn by(&self, link: &Link, policy: impl FnOnce(Policy) -> Policy) -> Idempotency {
        self.builder(link).policy(policy).build().expect("the settings are right")
    }

    /// As [`builder`](Self::builder), in a process that has sent no request yet.
    pub fn starting(&self, link: &Link) -> Builder {
        self.builder(link).knows_time(false)
    }

    /// A builder of a caller on this connection, in a process that has learned the store's time. Requests
    /// have a long time limit, for busy machines.
    pub fn builder(&self, link: &Link) -> Builder {
        link.wire.grant_no_more();
        let clock = link.clock.clone();
        Idempotency::builder(self.client(link), &self.table)
            .schema(self.schema.clone())
            .request_timeout(PATIENCE)
            .shift_monotonic_clock(move || clock.lived())
            .knows_time(true)
    }

    /// An operator's tool on this connection, with permissions that functions do not have.
    pub fn tool(&self, link: &Link) -> Idempotency {
        let builder = Idempotency::builder(self.client(link), &self.table);
        let builder = builder.schema(self.schema.clone()).request_timeout(PATIENCE);
        builder.build().expect("the settings are right")
    }

    pub fn client(&self, link: &Link) -> Client {
        client(&self.endpoint, link)
    }

    /// The raw item with this `pk`.
    pub async fn item(&self, pk: &str) -> Option<Item> {
        self.item_at(key(pk)).await
    }

    /// The raw item with this whole key.
    pub async fn item_at(&self, key: Item) -> Option<Item> {
        let get = self.raw.get_item().table_name(&self.table).set_key(Some(key));
        get.consistent_read(true).send().await.expect("the store is there").item
    }

    /// The raw item with this `pk`, which must exist.
    pub async fn record(&self, pk: &str) -> Item {
        self.item(pk).await.unwrap_or_else(|| panic!("there is no record {pk}"))
    }

    /// The state of the record with this `pk`, if there is one.
    pub async fn status(&self, pk: &str) -> Option<String> {
        self.item(pk).await.map(|item| super::raw::status(&item).to_owned())
    }

    /// Whether the record with this `pk` is RELEASED.
    pub async fn is_released(&self, pk: &str) -> bool {
        self.status(pk).await.as_deref() == Some("RELEASED")
    }

    /// Writes a raw item, whatever was there.
    pub async fn put(&self, item: Item) {
        let put = self.raw.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.expect("the store is there");
    }

    /// Deletes the raw item with this `pk`.
    pub async fn delete(&self, pk: &str) {
        let delete = self.raw.delete_item().table_name(&self.table).set_key(Some(key(pk)));
        delete.send().await.expect("the store is there");
    }
}

/// Where the engine under test is. The embedded one is separate, and ends with the test's runtime.
pub async fn endpoint() -> String {
    if let Ok(endpoint) = std::env::var("DYNAMODB_ENDPOINT")
        && !endpoint.is_empty()
    {
        return endpoint;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let database = dynoxide::Database::memory().expect("a database in memory");
    tokio::spawn(dynoxide::server::serve_on(listener, database));
    format!("http://{address}")
}

/// Whether the SDK uses its retry rules of 2026. `cargo test` tests without them, `cargo xtask verify` with
/// them.
fn has_new_retries() -> bool {
    std::env::var("AWS_NEW_RETRIES_2026").is_ok_and(|set| set.eq_ignore_ascii_case("true"))
}

/// The retries that `aws-config` and the client set for DynamoDB, by the old or the new rules, but
/// with almost no wait after throttling.
fn retries() -> RetryConfig {
    let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    if !has_new_retries() {
        return retries;
    }
    let spec = RetrySpec::v2_1().with_non_throttling_initial_backoff(Duration::from_millis(25));
    retries.with_retry_spec(spec).with_max_attempts(4)
}

fn client(endpoint: &str, link: &Link) -> Client {
    let retries = retries();
    let tries = link.tries.unwrap_or(retries.max_attempts());
    let retries = retries.with_max_attempts(tries);
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(endpoint)
        .http_client(link.wire.clone())
        .time_source(link.clock.clone())
        .retry_config(retries)
        // On a busy machine, hundreds of concurrent callers connect slowly.
        .timeout_config(TimeoutConfig::builder().connect_timeout(PATIENCE).build())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        // Otherwise the failures of one test would use up the retries of another.
        .retry_partition(RetryPartition::new(unique_name()));
    Client::from_conf(config.build())
}

fn unique_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("suite-{}-{}-{number}", std::process::id(), started.as_micros())
}
