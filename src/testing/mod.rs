//! Tests of your own handlers: [`every_crash`] runs a handler with a crash at every point, and
//! [`Sandbox`] is a table on an embedded DynamoDB, with a clock that you control and records in any
//! state.
//!
//! ```
//! use std::cell::RefCell;
//! use std::collections::BTreeSet;
//!
//! use dynamodb_idempotency::testing::{World, every_crash};
//!
//! // In your tests: #[test] fn a_refund_survives_every_crash()
//! every_crash(async |world: World| {
//!     let refunds = RefCell::new(BTreeSet::new()); // the double of a bank
//!     let bank = async |key: String| {
//!         refunds.borrow_mut().insert(key); // it recognizes the keys of earlier requests
//!         world.point("refunded").await;
//!         Ok::<_, std::io::Error>("re_1".to_owned())
//!     };
//!     let answer = world.call(async |process| {
//!         let operation = process.idempotency().operation("refund").key("order-42").no_payload();
//!         let handler = async |execution: dynamodb_idempotency::Execution| {
//!             let key = execution.derive_key("refund").uuid();
//!             execution.step("refund", bank(key)).await
//!         };
//!         operation.run(handler).await
//!     });
//!     assert_eq!(answer.await.unwrap(), "re_1");
//!     assert_eq!(refunds.borrow().len(), 1);
//! });
//! ```
//!
//! # A sandbox
//!
//! ```
//! use std::time::Duration;
//! use dynamodb_idempotency::testing::Sandbox;
//! use dynamodb_idempotency::{ErrorKind, Outcome};
//!
//! # doc_examples::run(async |_, _| {
//! let sandbox = Sandbox::start().await?;
//! let idempotency = sandbox.idempotency();
//! let charge = || {
//!     let operation = idempotency.operation("charge").key("order-42").payload(&1200);
//!     operation.run_with_outcome(async |_| Ok::<_, std::io::Error>("re_1".to_owned()))
//! };
//!
//! // Another call is running the operation.
//! let record = sandbox.record("charge", "order-42").payload(&1200);
//! record.pending(Duration::from_secs(30)).await?;
//! let refused = charge().await.unwrap_err();
//! assert!(matches!(refused.idempotency().unwrap().kind(), ErrorKind::InProgress { .. }));
//!
//! // That call never completes.
//! sandbox.clock().advance(Duration::from_secs(60));
//! assert_eq!(charge().await?, Outcome::Executed("re_1".to_owned()));
//! assert_eq!(record.read().await?.expect("a record").attempt, 2);
//! # Ok(()) });
//! ```
//!
//! `SandboxRecord::request` gives a record the fingerprint of an HTTP request. To get a record with
//! a message's fingerprint, let the consumer handle the message once. A method that then changes the
//! record, such as `pending`, keeps the fingerprint.
//!
//! To test a handler without any of this, switch idempotency [off](crate::Builder::disabled).

mod clock;
mod crash;
mod record;
#[doc(hidden)]
pub mod transport;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::{Client, Config};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use self::clock::SandboxClock;
pub use self::crash::{EveryCrash, Process, World, every_crash};
pub use self::record::SandboxRecord;
use crate::builder::Builder;
use crate::error::{Error, ErrorKind};
use crate::idempotency::Idempotency;
#[doc(inline)]
pub use crate::ops::admin::{StoredAnswer, StoredRecord, StoredState};
use crate::store::key::Scope;
use crate::store::schema::TableSchema;
use crate::testing::transport::TABLE;

/// A table on its own embedded DynamoDB, in memory.
///
/// It listens on a port of the loopback interface, and lives as long as this value and the runtime
/// in which it was started.
///
/// The crate's waits (renewals, `InProgress::Wait`) take real time: the [clock](Self::clock) does
/// not shorten them, and tokio's paused time does not work with a port. The embedded DynamoDB knows
/// tables by their names only, not by their ARNs.
///
/// ```
/// # doc_examples::run(async |_, _| {
/// use dynamodb_idempotency::testing::Sandbox;
///
/// let sandbox = Sandbox::start().await?;
/// let idempotency = sandbox.idempotency();
/// let charge = idempotency.operation("charge").key("order-42").payload(&1200);
/// assert_eq!(charge.run(async |_| Ok::<_, std::io::Error>(1200)).await?, 1200);
/// # Ok(()) });
/// ```
#[derive(derive_more::Debug)]
#[debug("Sandbox {{ clock: {clock:?}, .. }}")]
pub struct Sandbox {
    client: Client,
    clock: SandboxClock,
    idempotency: Idempotency,
    /// The server ends when this value is dropped.
    _server: JoinSet<()>,
}

impl Sandbox {
    /// Starts a sandbox with a table of the default schema.
    ///
    /// ```
    /// # doc_examples::run(async |_, _| {
    /// use dynamodb_idempotency::testing::Sandbox;
    ///
    /// let sandbox = Sandbox::start().await?;
    /// assert!(sandbox.record("charge", "order-42").read().await?.is_none());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the sandbox cannot listen on a port of the loopback interface.
    pub async fn start() -> Result<Self, Error> {
        Self::with_schema(TableSchema::default()).await
    }

    /// Starts a sandbox with a table of this schema.
    ///
    /// ```
    /// # doc_examples::run(async |_, _| {
    /// use dynamodb_idempotency::TableSchema;
    /// use dynamodb_idempotency::testing::Sandbox;
    ///
    /// let schema = TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK");
    /// let sandbox = Sandbox::with_schema(schema).await?;
    /// sandbox.record("charge", "order-42").completed("re_1").await?;
    /// let record = sandbox.record("charge", "order-42").read().await?.expect("a record");
    /// assert_eq!(record.raw()["SK"]["S"], "charge#order-42");
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`start`](Self::start); [`ErrorKind::Configuration`] if two attributes have
    /// the same name.
    pub async fn with_schema(schema: TableSchema) -> Result<Self, Error> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(not_started)?;
        let address = listener.local_addr().map_err(not_started)?;
        let database = dynoxide::Database::memory().map_err(not_started)?;
        let mut server = JoinSet::new();
        server.spawn(dynoxide::server::serve_on(listener, database));
        let clock = SandboxClock::default();
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("sandbox", "sandbox", None, None, "sandbox"))
            .endpoint_url(format!("http://{address}"))
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .time_source(clock.clone())
            .interceptor(clock.clone());
        let client = Client::from_conf(config.build());
        let builder = Idempotency::builder(client.clone(), TABLE).schema(schema);
        let idempotency = builder.enabled().build()?;
        idempotency.create_table().await?;
        Ok(Self { client, clock, idempotency, _server: server })
    }

    /// Returns an [`Idempotency`] on the table, with the default policy.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// sandbox.record("charge", "order-42").payload(&1200).completed("re_1").await?;
    /// let idempotency = sandbox.idempotency();
    /// let charge = idempotency.operation("charge").key("order-42").payload(&1200);
    /// let answer = charge.run(async |_| Ok::<_, std::io::Error>("re_2".to_owned())).await?;
    /// assert_eq!(answer, "re_1");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn idempotency(&self) -> Idempotency {
        self.idempotency.clone()
    }

    /// Returns a builder for an [`Idempotency`] on the table with settings of your own.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// use dynamodb_idempotency::policy::Takeover;
    /// use dynamodb_idempotency::ErrorKind;
    ///
    /// let idempotency =
    ///     sandbox.builder().policy(|policy| policy.takeover(Takeover::Reject)).build()?;
    /// sandbox.record("charge", "order-42").payload(&1200).abandoned().await?;
    /// let charge = idempotency.operation("charge").key("order-42").payload(&1200);
    /// let ran = charge.run(async |_| Ok::<_, std::io::Error>(())).await;
    /// assert_eq!(ran.unwrap_err().idempotency().unwrap().kind(), ErrorKind::Abandoned);
    /// # Ok(()) });
    /// ```
    pub fn builder(&self) -> Builder {
        let builder = Idempotency::builder(self.client.clone(), TABLE);
        builder.schema(self.idempotency.core.table.schema.clone()).enabled()
    }

    /// Returns a client of the embedded DynamoDB, for your own tables.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// let tables = sandbox.client().list_tables().send().await?;
    /// assert_eq!(tables.table_names(), [sandbox.table()]);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the name of the table.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// assert_eq!(sandbox.table(), "idempotency");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn table(&self) -> &str {
        TABLE
    }

    /// Returns the clock of the clients and of the table.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use std::time::Duration;
    ///
    /// sandbox.record("payments", "order-42").payload(&1200).pending(Duration::from_secs(30)).await?;
    /// sandbox.clock().advance(Duration::from_secs(60)); // beyond the lease
    /// let charge = idempotency.operation("payments").key("order-42").payload(&1200);
    /// let attempt = charge.run(async |execution| Ok::<_, std::io::Error>(execution.attempt())).await?;
    /// assert_eq!(attempt, 2);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn clock(&self) -> &SandboxClock {
        &self.clock
    }

    /// Returns the record of a key, which need not exist.
    ///
    /// A string is one segment of the scope. For a tenant, pass
    /// `Scope::new("orders").tenant("acme")`. For a scope in the form of the command line, pass
    /// [`Scope::from_encoded`].
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// let record = sandbox.record("charge", "order-42");
    /// assert!(record.read().await?.is_none());
    /// record.completed("re_1").await?;
    /// assert_eq!(record.read().await?.expect("a record").status(), "COMPLETED");
    /// # Ok(()) });
    /// ```
    pub fn record(&self, scope: impl Into<Scope>, key: impl Into<String>) -> SandboxRecord<'_> {
        SandboxRecord::new(self, scope.into(), key.into())
    }
}

fn not_started(source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unavailable, "the embedded DynamoDB could not be started")
        .with_source(source)
}
