//! The settings of an [`Idempotency`].

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use aws_smithy_async::time::SharedTimeSource;

use crate::answer::codec::{AnswerCodec, Coding};
use crate::call::cache::Cache;
use crate::call::core::Core;
use crate::call::kill_switch::{self, DISABLED_ENV};
use crate::clock::{Clock, StoreTime};
use crate::error::{Error, ErrorKind};
use crate::fault_injection::ClockShift;
use crate::idempotency::Idempotency;
use crate::policy::Policy;
use crate::signals::{Log, LogKey};
use crate::store::schema::TableSchema;
use crate::store::{Table, observable};

/// Default of [`Builder::request_timeout`].
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Default of [`Builder::clock_tolerance`].
const DEFAULT_CLOCK_TOLERANCE: Duration = Duration::from_secs(1);
const MAX_CLOCK_TOLERANCE: Duration = Duration::from_secs(10);

/// Sets the options of an [`Idempotency`] and builds it.
///
/// ```
/// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
/// use std::time::Duration;
///
/// use dynamodb_idempotency::signals::LogKey;
/// use dynamodb_idempotency::policy::Takeover;
/// use dynamodb_idempotency::{Idempotency, TableSchema};
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
    /// The client is the user's own until [`assemble`](Self::assemble) replaces it.
    core: Core,
    local_cache: usize,
    /// Whether DynamoDB's responses show no time, so that the wall clock is used.
    has_local_store_time: bool,
}

impl Builder {
    pub(crate) fn new(client: Client, table: String) -> Self {
        let table = Table {
            client,
            snapshot: Arc::default(),
            endpoint: Arc::default(),
            name: table,
            schema: TableSchema::default(),
            clock: Clock::new(SharedTimeSource::default(), ClockShift::default()),
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            capacity: None,
        };
        let core = Core {
            table,
            is_disabled: kill_switch::is_set(),
            policy: Arc::default(),
            clock_tolerance: DEFAULT_CLOCK_TOLERANCE,
            log: Log::default(),
            coding: Coding::default(),
            cache: None,
        };
        Self { core, local_cache: 0, has_local_store_time: false }
    }

    /// Sets the names of the table's key and attributes. Default: those in `docs/protocol.md`.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::{Idempotency, TableSchema};
    ///
    /// let schema = TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK");
    /// let idempotency = Idempotency::builder(client, "shared").schema(schema).build()?;
    /// # Ok(()) });
    /// ```
    pub fn schema(mut self, schema: TableSchema) -> Self {
        self.core.table.schema = schema;
        self
    }

    /// Changes the default policy, which all operations inherit.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::policy::Takeover;
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency")
    ///     .policy(|policy| policy.takeover(Takeover::Reject))
    ///     .build()?;
    /// # Ok(()) });
    /// ```
    pub fn policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.core.policy = Arc::new(change(Arc::unwrap_or_clone(self.core.policy)));
        self
    }

    /// Limits how long a call waits for DynamoDB. At least 100 ms; default 5 s.
    ///
    /// Before the handler starts, the limit covers all requests of the call, with the SDK's retries.
    /// The first request may take half of the limit, and each later request half of the remaining time.
    /// Time spent waiting for another owner does not count. When the limit is reached,
    /// [`Policy::outage`] decides.
    ///
    /// Once the handler runs, the limit applies to each request. A deadline, or a lease that must be
    /// renewed, shortens it. If a request has no response within the limit, its outcome is unknown.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
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
        self.core.table.request_timeout = timeout;
        self
    }

    /// Sets how far the local clock may differ from DynamoDB's. At most 10 s; default 1 s.
    ///
    /// If the difference is larger, the crate writes a new lease a second time, with corrected times.
    /// This costs one write. A value below the default causes needless writes, because DynamoDB's
    /// `Date` header is in whole seconds.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
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
        self.core.clock_tolerance = tolerance;
        self
    }

    /// Declares that no response shows DynamoDB's time, and uses this machine's wall clock instead.
    ///
    /// By default, the crate reads the time from the `Date` header of DynamoDB's responses, and no call runs
    /// before a response has shown it ([`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable)). Declare this
    /// only for an emulator or a proxy that never sends the header. A `Date` that a response has is then
    /// ignored.
    ///
    /// The clocks of all machines that use the table must then agree within
    /// [`clock_tolerance`](Self::clock_tolerance). If a clock is ahead by more, its machine can take over a
    /// live lease, or run a completed operation again.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency").local_store_time().build()?;
    /// # Ok(()) });
    /// ```
    pub fn local_store_time(mut self) -> Self {
        self.has_local_store_time = true;
        self
    }

    /// Sets how the key appears in the spans of calls. Default: [`LogKey::Hashed`].
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::{Idempotency, signals::LogKey};
    ///
    /// let idempotency =
    ///     Idempotency::builder(client, "idempotency").log_key(LogKey::Verbatim).build()?;
    /// # Ok(()) });
    /// ```
    pub fn log_key(mut self, log_key: LogKey) -> Self {
        self.core.log.key = log_key;
        self
    }

    /// Logs the end of a first run at INFO, like the end of every other call.
    ///
    /// By default, first runs end at DEBUG, so a function that logs at INFO is silent until a request
    /// repeats. With this setting, the log has one line for each call.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency").log_first_runs().build()?;
    /// # Ok(()) });
    /// ```
    pub fn log_first_runs(mut self) -> Self {
        self.core.log.first_runs = true;
        self
    }

    /// Stores answers through a codec, for example encrypted. Default: no codec.
    ///
    /// The codec applies to all operations of this [`Idempotency`]; see [`AnswerCodec`].
    ///
    /// Give the codec and its keys to every process that reads the table. A process that cannot decode
    /// an answer returns [`ErrorKind::AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable) to
    /// repeats. This includes processes of an older deployment that runs during a rollout. Answers that
    /// were stored before the codec was added stay readable; see
    /// [`reject_plain_answers`](Self::reject_plain_answers).
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
        self.core.coding.codec = Some(Arc::new(codec));
        self
    }

    /// Rejects *plain* answers and steps, which no [codec](Self::answer_codec) encoded.
    ///
    /// Use it if others can write to the table: without it, they can replace an encoded answer with a
    /// plain one. Set it once the last plain answer is past its retention, because a repeat of a plain
    /// answer then gets [`ErrorKind::AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable).
    ///
    /// By default, plain answers are read, so that you can add a codec while the table holds older
    /// answers. The setting requires a codec.
    ///
    /// ```
    /// use aws_sdk_dynamodb::Client;
    /// use dynamodb_idempotency::{AnswerCodec, Error, Idempotency};
    ///
    /// fn coded(client: Client, codec: impl AnswerCodec + 'static) -> Result<Idempotency, Error> {
    ///     Idempotency::builder(client, "idempotency")
    ///         .answer_codec(codec)
    ///         .reject_plain_answers()
    ///         .build()
    /// }
    /// ```
    pub fn reject_plain_answers(mut self) -> Self {
        self.core.coding.rejects_plain = true;
        self
    }

    /// Reports the capacity units of each request.
    ///
    /// DynamoDB then returns the units with each response. They appear as the metric
    /// [`CAPACITY_UNITS`](crate::signals::CAPACITY_UNITS) and in the event of the request.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency").report_capacity().build()?;
    /// # Ok(()) });
    /// ```
    pub fn report_capacity(mut self) -> Self {
        self.core.table.capacity = Some(ReturnConsumedCapacity::Total);
        self
    }

    /// Switches idempotency off: every call runs its handler, and nothing is stored.
    ///
    /// Use it in tests of handlers, and in an emergency in which running twice is better than not
    /// running. The crate sends no request for its records. It rejects a call only for a configuration
    /// error, or for the signature or size of a webhook. Commits and transactions write only your items. The
    /// crate logs a warning when the [`Idempotency`] is built, and one for each call.
    ///
    /// Default: the value of the variable [`IDEMPOTENCY_DISABLED`](crate::DISABLED_ENV).
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// use dynamodb_idempotency::Outcome;
    ///
    /// // In a test of a handler that is not about idempotency.
    /// let off = sandbox.builder().disabled().build()?;
    /// for _ in 0..2 {
    ///     let operation = off.operation("charge").key("order-42").payload(&1200);
    ///     let outcome = operation.run_with_outcome(async |_| Ok::<_, std::io::Error>(1200)).await?;
    ///     assert_eq!(outcome, Outcome::Unprotected(1200));
    /// }
    /// # Ok(()) });
    /// ```
    pub fn disabled(mut self) -> Self {
        self.core.is_disabled = true;
        self
    }

    /// Keeps idempotency on and ignores the variable [`IDEMPOTENCY_DISABLED`](crate::DISABLED_ENV).
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency").enabled().build()?;
    /// # Ok(()) });
    /// ```
    pub fn enabled(mut self) -> Self {
        self.core.is_disabled = false;
        self
    }

    /// Keeps completed answers in memory, up to about `bytes` in total. Default: 0, no cache.
    ///
    /// A repeat of the same request is then answered without DynamoDB. The cache drops rarely used
    /// answers first. It does not keep an answer that is larger than a quarter of `bytes`.
    ///
    /// The cache keeps an answer until its retention ends by either clock, wall or monotonic. It does not
    /// notice when the record is deleted, or released by hand.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// let cached = sandbox.builder().local_cache(1 << 20).build()?;
    /// let charge = || cached.operation("charge").key("order-42").payload(&1200);
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

    /// Checks the settings and creates the [`Idempotency`].
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
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
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if a setting is out of its
    /// bounds, or if two attributes have the same name.
    pub fn build(mut self) -> Result<Idempotency, Error> {
        let Core { table, policy, clock_tolerance, coding, .. } = &self.core;
        table.schema.validate()?;
        let wrong = |message| Err(Error::new(ErrorKind::Configuration, message));
        if *clock_tolerance > MAX_CLOCK_TOLERANCE {
            return wrong(
                "clock_tolerance is over 10 s: a lease of 30 s would be over before it is certain",
            );
        }
        policy.validate(*clock_tolerance)?;
        if table.request_timeout < Duration::from_millis(100) {
            return wrong(
                "request_timeout is below 100 ms: DynamoDB would hardly ever answer in time",
            );
        }
        if coding.rejects_plain && coding.codec.is_none() {
            return wrong("reject_plain_answers() needs an answer_codec: no answer could be read");
        }
        self.core.cache =
            (self.local_cache > 0).then(|| Cache::new(self.local_cache)).transpose()?;
        Ok(self.assemble())
    }

    /// Creates the instance without checking the settings. The default settings are valid.
    pub(crate) fn assemble(self) -> Idempotency {
        let mut core = self.core;
        let table = &mut core.table;
        if core.is_disabled {
            tracing::warn!(
                table = table.name,
                "idempotency is switched OFF: handlers run for every repeat \
                 ({DISABLED_ENV}, or Builder::disabled)"
            );
        }
        let (snapshot, endpoint) = (Arc::clone(&table.snapshot), Arc::clone(&table.endpoint));
        table.client = observable(&table.client, snapshot, endpoint, table.request_timeout);
        // The client's own time source, so that the SDK and the crate see the same time.
        table.clock.local.wall = table.client.config().time_source().unwrap_or_default();
        if core.is_disabled || self.has_local_store_time {
            table.clock.declare_local();
        }
        if table.clock.local.shift.knows_time {
            let now = table.clock.now();
            table.clock.observe(StoreTime { date: now.wall, sent: now, received: now });
        }
        Idempotency { core: Arc::new(core) }
    }
}

#[cfg(feature = "internals")]
impl Builder {
    /// Moves the monotonic clock of a test by the given milliseconds, forward or back.
    #[doc(hidden)]
    pub fn shift_monotonic_clock(
        mut self,
        shift: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        self.core.table.clock.local.shift.shift = Some(Arc::new(shift));
        self
    }

    /// Lets a test start with a process whose clock is right, as if the process had received DynamoDB's
    /// time before.
    #[doc(hidden)]
    pub const fn knows_time(mut self, knows_time: bool) -> Self {
        self.core.table.clock.local.shift.knows_time = knows_time;
        self
    }
}
