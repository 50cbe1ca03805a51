//! The entry: one [`Idempotency`] a process, and how it is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;

use crate::acquire::Replays;
use crate::cache::Cache;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind};
use crate::flight::Flights;
use crate::key::Scope;
use crate::operation::Operation;
use crate::policy::Policy;
use crate::schema::TableSchema;
use crate::table::Table;

/// The longest that one DynamoDB call may take, the SDK's retries included.
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How far the clocks of owner and store may differ before a lease is stamped anew.
const DEFAULT_CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// A table of idempotency records, and the policy with which operations use it.
///
/// Make one when the function initialises and clone it freely: a clone shares the client and its
/// connections.
#[derive(Clone)]
pub struct Idempotency {
    pub(crate) core: Arc<Core>,
}

pub(crate) struct Core {
    pub(crate) table: Table,
    pub(crate) policy: Policy,
    pub(crate) clock_tolerance: Duration,
    pub(crate) replays: Replays,
    /// Completed answers that this process has seen, if it keeps them.
    pub(crate) cache: Option<Cache>,
    /// The calls on their way to their keys, if they share what they are told.
    pub(crate) flights: Option<Flights>,
}

impl Idempotency {
    /// Uses `table` through `client`, with the default policy and schema.
    #[must_use]
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Builder::new(client, table.into()).assemble()
    }

    /// Uses `table` through `client`, with choices.
    pub fn builder(client: Client, table: impl Into<String>) -> Builder {
        Builder::new(client, table.into())
    }

    /// Starts one operation under `scope`; give it a key and [`run`](Operation::run) it.
    ///
    /// A text names one segment; [`Scope`] builds longer ones. Operations with different scopes
    /// share no record, whatever their keys.
    pub fn operation(&self, scope: impl Into<Scope>) -> Operation<'_> {
        Operation::new(self, scope.into())
    }

    /// Creates the table that the schema describes, on demand and with its TTL enabled, and waits
    /// until it is active: for tests, examples and first steps.
    ///
    /// Of a table that is there already, with the same keys, only the TTL is enabled.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) without permission or
    /// credentials, or where a table of that name has other keys;
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) when DynamoDB fails
    /// or the table is not active after a minute.
    pub async fn create_table(&self) -> Result<(), Error> {
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
#[derive(Debug)]
#[must_use = "call build()"]
pub struct Builder {
    client: Client,
    table: String,
    schema: TableSchema,
    policy: Policy,
    request_timeout: Duration,
    clock_tolerance: Duration,
    local_cache: usize,
    single_flight: bool,
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
            local_cache: 0,
            single_flight: true,
        }
    }

    /// Names the table's attributes. Default: those of `docs/protocol.md`.
    pub fn schema(mut self, schema: TableSchema) -> Self {
        self.schema = schema;
        self
    }

    /// Changes the policy that operations inherit.
    pub fn policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.policy = change(self.policy);
        self
    }

    /// The longest that one DynamoDB call may take, the SDK's own retries included; what has no
    /// answer by then has an unknown outcome. At least 100 ms; default 5 s. A deadline or a lease
    /// that has to be renewed makes it shorter.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How far the local clock may be from DynamoDB's before a fresh lease is stamped anew, which
    /// costs one write. Default 1 s; below that the one-second resolution of DynamoDB's `Date`
    /// would cause needless writes.
    pub fn clock_tolerance(mut self, tolerance: Duration) -> Self {
        self.clock_tolerance = tolerance;
        self
    }

    /// Keeps completed answers in this process's memory, of about so many bytes in all: a repeat of
    /// the same request is then answered without DynamoDB. Default 0, none. The least recently used
    /// ones make room; an answer larger than a quarter of it is not kept.
    ///
    /// An answer is kept to the end of its retention, by the wall clock or by the time that has passed,
    /// and compared by its request's fingerprint. What this process runs again
    /// ([`Completed::Execute`](crate::Completed::Execute)) it forgets; what others do to a finished
    /// record (run it again, delete it by hand) does not reach its memory.
    pub fn local_cache(mut self, bytes: usize) -> Self {
        self.local_cache = bytes;
        self
    }

    /// Whether calls of one request (same key, same fingerprint, same policy) that are in this process
    /// at once share what one of them is told: the answer, that the operation is running, that it is
    /// refused, that DynamoDB fails. Of those that wait
    /// ([`InProgress::Wait`](crate::InProgress::Wait)) one looks for all. Default: they do.
    ///
    /// What is shared may have left DynamoDB just before the call began. Where the one that asks is
    /// dropped, or DynamoDB fails it, another one asks for all, four times at the most; then a call
    /// ends with that failure, or asks by itself. It waits for others' word for three times
    /// [`request_timeout`](Self::request_timeout), and no longer than its deadline allows. A call with
    /// a [reconcile hook](Operation::reconcile), under
    /// [`Completed::Execute`](crate::Completed::Execute) or of a
    /// [transaction](Operation::run_transaction) goes alone.
    pub fn single_flight(mut self, share: bool) -> Self {
        self.single_flight = share;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) for a setting out of its
    /// bounds or attribute names that collide.
    pub fn build(self) -> Result<Idempotency, Error> {
        self.schema.validate()?;
        self.policy.validate()?;
        if self.request_timeout < Duration::from_millis(100) {
            let message =
                "request_timeout is below 100 ms: DynamoDB would hardly ever answer in time";
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        Ok(self.assemble())
    }

    fn assemble(self) -> Idempotency {
        // The client's own time source, so that both always tell the same time.
        let source = self.client.config().time_source().unwrap_or_default();
        let table = Table {
            client: self.client,
            name: self.table,
            schema: self.schema,
            clock: Clock::new(source),
            request_timeout: self.request_timeout,
        };
        let (policy, clock_tolerance) = (self.policy, self.clock_tolerance);
        let core = Core {
            table,
            policy,
            clock_tolerance,
            replays: Replays::default(),
            cache: (self.local_cache > 0).then(|| Cache::new(self.local_cache)),
            flights: self.single_flight.then(Flights::default),
        };
        Idempotency { core: Arc::new(core) }
    }
}
