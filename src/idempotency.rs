//! One [`Idempotency`] a process, and how it is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;

use crate::answer::codec::{AnswerCodec, Coding};
use crate::clock::Clock;
use crate::dynamodb::{Snapshot, Table, watchable};
use crate::engine::cache::Cache;
use crate::engine::core::Core;
use crate::error::{Error, ErrorKind};
use crate::fault_injection::ClockShift;
use crate::kill_switch::{self, DISABLED_VARIABLE};
use crate::policy::Policy;
use crate::schema::TableSchema;
use crate::signals::{Log, LogKey};

/// The longest that one DynamoDB call may take, the SDK's retries included.
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How far the clocks of owner and store may differ before a lease is stamped anew.
const DEFAULT_CLOCK_TOLERANCE: Duration = Duration::from_secs(1);
const MAX_CLOCK_TOLERANCE: Duration = Duration::from_secs(10);

/// A table of idempotency records, and the policy with which operations use it.
///
/// Make one when the function initialises. Clones are cheap: they share the client and its
/// connections.
///
/// ```
/// # dynamodb_idempotency::testing::example(async |_, idempotency| {
/// let receipt = idempotency
///     .operation("charge")
///     .key("order-42")
///     .run(async |_| Ok::<_, std::io::Error>("paid".to_owned()))
///     .await?;
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct Idempotency {
    pub(crate) core: Arc<Core>,
}

impl Idempotency {
    /// Uses `table` through `client`, with the default policy and schema.
    ///
    /// The crate uses a copy of `client`, which shares its connections and credentials: your own
    /// requests with that client use the same open connection. Your configuration's interceptors
    /// see the crate's requests too. They also see two calls begin here (`read_before_execution`)
    /// for which nothing is sent. The copy retries as your configuration says, or not at all if
    /// retries are switched off, but waits at most an eighth of
    /// [`request_timeout`](Builder::request_timeout) between two tries.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::new(client, "idempotency");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Builder::new(client, table.into()).assemble(None)
    }

    /// The client that the crate uses. Use it for your own tables too: one open connection serves
    /// both.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// let orders = idempotency.client().put_item().table_name("orders"); // a table of your own
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.core.table.client
    }

    /// As [`new`](Self::new), with settings.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::{Idempotency, KeyForm};
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency")
    ///     .policy(|policy| policy.key_form(KeyForm::Sha256))
    ///     .build()?;
    /// # Ok(()) });
    /// ```
    pub fn builder(client: Client, table: impl Into<String>) -> Builder {
        Builder::new(client, table.into())
    }

    /// Creates the table that the schema describes, on demand and with its TTL enabled, and waits
    /// until it is active. For tests, examples and first steps.
    ///
    /// Returns whether it created the table. If the table exists with the same keys, it only
    /// enables the TTL and returns `false`.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::new(client, "payments");
    /// assert!(idempotency.create_table().await?);
    /// assert!(!idempotency.create_table().await?); // it is there
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) without permission or
    /// credentials, or if a table of that name has other keys;
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if DynamoDB fails or the table is
    /// not active after a minute.
    pub async fn create_table(&self) -> Result<bool, Error> {
        self.core.table.create_table().await
    }
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("table", &self.core.table.name)
            .field("policy", &self.core.policy)
            .finish_non_exhaustive()
    }
}

/// Builds an [`Idempotency`].
///
/// ```
/// # dynamodb_idempotency::testing::example(async |sandbox, _| { let client = sandbox.client();
/// use std::time::Duration;
///
/// use dynamodb_idempotency::signals::LogKey;
/// use dynamodb_idempotency::{Idempotency, TableSchema, Takeover};
///
/// let idempotency = Idempotency::builder(client, "shared")
///     .schema(TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK"))
///     .policy(|policy| policy.takeover(Takeover::Reject))
///     .request_timeout(Duration::from_secs(2))
///     .log_key(LogKey::Omitted)
///     .build()?;
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "call build()"]
pub struct Builder {
    client: Client,
    table: String,
    schema: TableSchema,
    policy: Policy,
    request_timeout: Duration,
    clock_tolerance: Duration,
    log: Log,
    coding: Coding,
    report_capacity: bool,
    disabled: bool,
    local_cache: usize,
    pub(crate) clock_shift: ClockShift,
}

impl Builder {
    fn new(client: Client, table: String) -> Self {
        Self {
            client,
            table,
            schema: TableSchema::default(),
            policy: Policy::default(),
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            clock_tolerance: DEFAULT_CLOCK_TOLERANCE,
            log: Log::default(),
            coding: Coding::default(),
            report_capacity: false,
            disabled: kill_switch::is_set(),
            local_cache: 0,
            clock_shift: ClockShift::default(),
        }
    }

    /// Names the table's attributes. Default: those of `docs/protocol.md`.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::{Idempotency, TableSchema};
    ///
    /// let schema = TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK");
    /// let idempotency = Idempotency::builder(client, "shared").schema(schema).build()?;
    /// # Ok(()) });
    /// ```
    pub fn schema(mut self, schema: TableSchema) -> Self {
        self.schema = schema;
        self
    }

    /// Changes the policy that operations inherit.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::{Idempotency, Takeover};
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency")
    ///     .policy(|policy| policy.takeover(Takeover::Reject))
    ///     .build()?;
    /// # Ok(()) });
    /// ```
    pub fn policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.policy = change(self.policy);
        self
    }

    /// The longest that DynamoDB may delay a call before its handler starts, with all requests
    /// until then and the SDK's own retries. After that [`Policy::outage`] decides. The first
    /// request may take half of this time, each later one half of what is left. Waiting for another
    /// owner is not counted. Once the handler runs, each request may take this long; without a
    /// response by then its outcome is unknown. At least 100 ms; default 5 s. A deadline, or a lease
    /// that has to be renewed, makes it shorter.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| { let client = sandbox.client();
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency")
    ///     .request_timeout(Duration::from_secs(2))
    ///     .build()?;
    /// # Ok(()) });
    /// ```
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How far the local clock may be from DynamoDB's before a fresh lease is stamped again, which
    /// costs one write. At most 10 s; default 1 s. A smaller value would cause needless writes,
    /// because DynamoDB's `Date` has a resolution of one second.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| { let client = sandbox.client();
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency")
    ///     .clock_tolerance(Duration::from_secs(3))
    ///     .build()?;
    /// # Ok(()) });
    /// ```
    pub fn clock_tolerance(mut self, tolerance: Duration) -> Self {
        self.clock_tolerance = tolerance;
        self
    }

    /// What the spans of calls show of their keys. Default: [`LogKey::Hashed`].
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::{Idempotency, signals::LogKey};
    ///
    /// let idempotency =
    ///     Idempotency::builder(client, "idempotency").log_key(LogKey::Verbatim).build()?;
    /// # Ok(()) });
    /// ```
    pub fn log_key(mut self, log_key: LogKey) -> Self {
        self.log.key = log_key;
        self
    }

    /// Logs the end of a first run at INFO, like the end of every other call. Default: `false`, at
    /// DEBUG, so that a function which logs at INFO is silent as long as nothing repeats.
    ///
    /// With it every outcome is in the log, one line for each call. A metric filter on the log can
    /// then count first runs and replays, and compute the share of replays.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency").log_first_runs(true).build()?;
    /// # Ok(()) });
    /// ```
    pub fn log_first_runs(mut self, log: bool) -> Self {
        self.log.first_runs = log;
        self
    }

    /// Stores answers through a codec, for example encrypted. Default: none, and small answers can
    /// be read in the DynamoDB console. The codec applies to all operations of this
    /// [`Idempotency`]; see [`AnswerCodec`].
    ///
    /// Each process that reads the table needs it. Without the codec, or without the key that
    /// encrypted an answer, a repeat gets
    /// [`ErrorKind::AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable). So do repeats on
    /// instances of an older deployment while a newer one with a codec rolls out. Answers that were
    /// stored before are read as before; see [`accept_plain_answers`](Self::accept_plain_answers).
    ///
    /// ```
    /// use aws_sdk_dynamodb::Client;
    /// use dynamodb_idempotency::{AnswerCodec, Error, Idempotency};
    ///
    /// fn coded(client: Client, codec: impl AnswerCodec + 'static) -> Result<Idempotency, Error> {
    ///     Idempotency::builder(client, "idempotency").answer_codec(codec).build()
    /// }
    /// ```
    pub fn answer_codec(mut self, codec: impl AnswerCodec + 'static) -> Self {
        self.coding.codec = Some(Arc::new(codec));
        self
    }

    /// Whether answers and steps that no [codec](Self::answer_codec) wrote are read. Only for use
    /// with a codec. Default: they are, so that you can add a codec while older answers are in the
    /// table.
    ///
    /// With `false` a repeat gets
    /// [`ErrorKind::AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable) for them. Choose
    /// `false` if someone else may write to the table, once the retention of the last plain answer
    /// is over. Otherwise they could replace an encoded answer by a plain one of their own.
    ///
    /// ```
    /// use aws_sdk_dynamodb::Client;
    /// use dynamodb_idempotency::{AnswerCodec, Error, Idempotency};
    ///
    /// fn coded(client: Client, codec: impl AnswerCodec + 'static) -> Result<Idempotency, Error> {
    ///     Idempotency::builder(client, "idempotency")
    ///         .answer_codec(codec)
    ///         .accept_plain_answers(false)
    ///         .build()
    /// }
    /// ```
    pub fn accept_plain_answers(mut self, accept: bool) -> Self {
        self.coding.refuses_plain = !accept;
        self
    }

    /// Asks DynamoDB for the capacity units of each request, and reports them as
    /// [`CAPACITY_UNITS`](crate::signals::CAPACITY_UNITS) and in the request's event. Default: no.
    /// It costs no units, and some bytes in each response.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency").report_capacity(true).build()?;
    /// # Ok(()) });
    /// ```
    pub fn report_capacity(mut self, report: bool) -> Self {
        self.report_capacity = report;
        self
    }

    /// Switches idempotency off: handlers run each time, nothing is stored, looked up or refused,
    /// and no request is sent to the table. Commits and transactions are written without the
    /// crate's record. Default: what the variable
    /// [`IDEMPOTENCY_DISABLED`](crate::DISABLED_VARIABLE) says.
    ///
    /// For tests of handlers, and for an emergency in which running twice is better than not
    /// running. The log has a warning when it is built, and one for each call.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| {
    /// use dynamodb_idempotency::Outcome;
    ///
    /// // In a test of a handler that is not about idempotency.
    /// let off = sandbox.builder().disabled(true).build()?;
    /// for _ in 0..2 {
    ///     let operation = off.operation("charge").key("order-42");
    ///     let outcome = operation.run_with_outcome(async |_| Ok::<_, std::io::Error>(1200)).await?;
    ///     assert_eq!(outcome, Outcome::Unprotected(1200));
    /// }
    /// # Ok(()) });
    /// ```
    pub fn disabled(mut self, disabled: bool) -> Self {
        self.disabled = disabled;
        self
    }

    /// Keeps completed answers in this process's memory, of about so many bytes in all. A repeat of
    /// the same request is then answered without DynamoDB. Default 0: none. Rarely used answers are
    /// dropped first. An answer larger than a quarter of it is not kept.
    ///
    /// An answer is kept to the end of its retention, by the wall clock or by the time that has
    /// passed, and used only for the same fingerprint. If this process runs an operation again
    /// ([`Completed::Execute`](crate::Completed::Execute)), its answer is dropped. It does not
    /// notice if another process changes a finished record (runs it again, or deletes it by hand).
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| {
    /// let cached = sandbox.builder().local_cache(1 << 20).build()?;
    /// let charge = || cached.operation("charge").key("order-42");
    /// charge().run(async |_| Ok::<_, std::io::Error>("re_1".to_owned())).await?;
    ///
    /// // Not even DynamoDB is asked.
    /// drop(sandbox);
    /// let repeat = charge().run(async |_| Ok::<_, std::io::Error>("re_2".to_owned())).await?;
    /// assert_eq!(repeat, "re_1");
    /// # Ok(()) });
    /// ```
    pub fn local_cache(mut self, bytes: usize) -> Self {
        self.local_cache = bytes;
        self
    }

    /// Checks the settings.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, _| {
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::ErrorKind;
    ///
    /// let builder = sandbox.builder().policy(|policy| policy.retention(Duration::ZERO));
    /// assert_eq!(builder.build().unwrap_err().kind(), ErrorKind::Configuration);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) for a setting out of its
    /// bounds, or for two attributes with one name.
    pub fn build(self) -> Result<Idempotency, Error> {
        self.schema.validate()?;
        if self.clock_tolerance > MAX_CLOCK_TOLERANCE {
            let message =
                "clock_tolerance is over 10 s: a lease of 30 s would be over before it is certain";
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        self.policy.validate(self.clock_tolerance)?;
        if self.request_timeout < Duration::from_millis(100) {
            let message =
                "request_timeout is below 100 ms: DynamoDB would hardly ever answer in time";
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        if self.coding.refuses_plain && self.coding.codec.is_none() {
            let message =
                "accept_plain_answers(false) needs an answer_codec: no answer could be read";
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        let cache = (self.local_cache > 0).then(|| Cache::new(self.local_cache)).transpose()?;
        Ok(self.assemble(cache))
    }

    fn assemble(self, cache: Option<Cache>) -> Idempotency {
        if self.disabled {
            tracing::warn!(
                table = self.table,
                "idempotency is switched OFF: handlers run for every repeat \
                 ({DISABLED_VARIABLE}, or Builder::disabled)"
            );
        }
        let snapshot = Arc::<Snapshot>::default();
        let client = watchable(&self.client, Arc::clone(&snapshot), self.request_timeout);
        // The client's own time source, so that both always tell the same time.
        let source = client.config().time_source().unwrap_or_default();
        let knows_time = self.disabled || self.clock_shift.knows_time();
        let clock = Clock::new(source, self.clock_shift);
        if knows_time {
            clock.trust_local();
        }
        let table = Table {
            client,
            snapshot,
            name: self.table,
            schema: self.schema,
            clock,
            request_timeout: self.request_timeout,
            capacity: self.report_capacity.then_some(ReturnConsumedCapacity::Total),
        };
        let core = Core {
            table,
            is_disabled: self.disabled,
            policy: self.policy,
            clock_tolerance: self.clock_tolerance,
            log: self.log,
            coding: self.coding,
            cache,
        };
        Idempotency { core: Arc::new(core) }
    }
}

#[cfg(feature = "fault-injection")]
impl Builder {
    /// Lets a test move the monotonic clock: so many ms ahead of the machine's, or behind it.
    #[doc(hidden)]
    pub fn shift_monotonic_clock(
        mut self,
        shift: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        self.clock_shift.set(shift);
        self
    }

    /// Lets a test begin with a process that has heard of the store before, and whose clock is right.
    #[doc(hidden)]
    pub const fn knows_time(mut self, knows_time: bool) -> Self {
        self.clock_shift.knows_time = knows_time;
        self
    }
}
