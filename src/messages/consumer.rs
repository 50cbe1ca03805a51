//! How a source's messages are consumed: the builder.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::envelope::Envelope;
use super::key::MessageKey;
use super::message::Message;
use super::service::MessageService;
use super::settings::{Disposal, MissingKey, Order};
use super::source::{DynamoDbStreams, EventBridge, Kafka, Kinesis, S3, Sns, Source, Sqs};
use crate::execution::Execution;
use crate::fingerprint::Fingerprint;
use crate::idempotency::Idempotency;
use crate::key::Scope;
use crate::policy::Policy;

/// How many messages of a batch are in flight at once, unless the user says otherwise.
const DEFAULT_CONCURRENCY: usize = 10;
/// No message is started when less of the invocation is left, unless the user says otherwise.
const DEFAULT_DEADLINE_MARGIN: Duration = Duration::from_secs(1);

macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident: $source:ident),* $(,)?) => {
        impl Idempotency {$(
            $(#[$doc])*
            pub fn $name(&self, scope: impl Into<Scope>) -> Consumer<$source> {
                Consumer::new(self, scope.into())
            }
        )*}
    };
}

entries! {
    /// Consumes messages of Amazon SQS under `scope`, of standard and of FIFO queues. Key by
    /// default: the message attribute `Idempotency-Key`.
    sqs: Sqs,
    /// Consumes records of Amazon Kinesis Data Streams under `scope`. Key by default: the broker's
    /// id.
    kinesis: Kinesis,
    /// Consumes records of DynamoDB Streams under `scope`. Key by default: the broker's id.
    dynamodb_streams: DynamoDbStreams,
    /// Consumes records of Apache Kafka, Amazon MSK or self-managed, under `scope`. Key by default:
    /// the header `Idempotency-Key`.
    kafka: Kafka,
    /// Consumes notifications of Amazon SNS under `scope`. Key by default: the message attribute
    /// `Idempotency-Key`.
    sns: Sns,
    /// Consumes events of Amazon EventBridge under `scope`. Key by default: the broker's id.
    eventbridge: EventBridge,
    /// Consumes event notifications of Amazon S3 under `scope`. Key by default: the broker's id.
    s3: S3,
}

/// How messages of the source `S` are consumed; made by [`Idempotency::sqs`] and its siblings.
#[must_use = "give it a handler"]
pub struct Consumer<S: Source> {
    pub(super) config: Config<S>,
}

type MessageFingerprint<R> = Arc<dyn Fn(&Message<R>) -> Fingerprint + Send + Sync>;

pub(super) struct Config<S: Source> {
    pub(super) idempotency: Idempotency,
    pub(super) scope: Scope,
    pub(super) policy: Policy,
    pub(super) key: MessageKey<S::Record>,
    pub(super) envelope: Option<Envelope>,
    pub(super) fingerprint: Option<MessageFingerprint<S::Record>>,
    pub(super) order: Order,
    pub(super) concurrency: usize,
    pub(super) deadline_margin: Duration,
    pub(super) partial_response: bool,
    pub(super) missing_key: MissingKey,
    pub(super) malformed: Disposal,
    pub(super) mismatched: Disposal,
    pub(super) exhausted: Disposal,
}

impl<S: Source> Consumer<S> {
    fn new(idempotency: &Idempotency, scope: Scope) -> Self {
        Self {
            config: Config {
                policy: idempotency.core.policy.clone(),
                idempotency: idempotency.clone(),
                scope,
                key: S::default_key(),
                envelope: None,
                fingerprint: None,
                order: Order::Source,
                concurrency: DEFAULT_CONCURRENCY,
                deadline_margin: DEFAULT_DEADLINE_MARGIN,
                partial_response: S::PARTIAL_BY_DEFAULT,
                missing_key: MissingKey::Fail,
                malformed: Disposal::Report,
                mismatched: Disposal::Report,
                exhausted: Disposal::Report,
            },
        }
    }

    /// Where the idempotency key of a message stands. Default: see the source's entry.
    pub fn key(mut self, key: MessageKey<S::Record>) -> Self {
        self.config.key = key;
        self
    }

    /// The idempotency key is what `find` makes of a message: a `String`, or an `Option<String>`.
    pub fn key_with<Key: Into<Option<String>>>(
        self,
        find: impl Fn(&Message<S::Record>) -> Key + Send + Sync + 'static,
    ) -> Self {
        self.key(MessageKey::with(find))
    }

    /// Changes the inherited policy for these messages.
    /// [`Failure::Retain`](crate::Failure::Retain) counts the attempts of a message across its
    /// deliveries; see [`exhausted`](Self::exhausted).
    pub fn policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.config.policy = change(self.config.policy);
        self
    }

    /// What of a message must be the same in a repeat with the same key. Default: its payload, by
    /// its JSON value; choose otherwise where producers put a time of sending into it.
    pub fn fingerprint(
        mut self,
        fingerprint: impl Fn(&Message<S::Record>) -> Fingerprint + Send + Sync + 'static,
    ) -> Self {
        self.config.fingerprint = Some(Arc::new(fingerprint));
        self
    }

    /// How many messages of a batch are in flight at once, at the most; at least 1 (0 counts as
    /// that). Default 10.
    ///
    /// Their futures share one task: a handler that blocks its thread holds up the others.
    pub fn concurrency(mut self, limit: usize) -> Self {
        self.config.concurrency = limit.max(1);
        self
    }

    /// In which order messages run. Default [`Order::Source`].
    pub fn order(mut self, order: Order) -> Self {
        self.config.order = order;
        self
    }

    /// No message is started when less than this is left of the invocation: those are reported, and
    /// come again. Half of the invocation's time is the most that counts. Default 1 s; as long as a
    /// handler usually takes is a good choice.
    ///
    /// A handler that still runs 250 ms before the end is dropped and its message reported, so that
    /// it does not take the whole batch with it; its key is free when the lease ends.
    pub fn deadline_margin(mut self, margin: Duration) -> Self {
        self.config.deadline_margin = margin;
        self
    }

    /// Whether failed messages are reported one by one (`batchItemFailures`), or fail the whole
    /// invocation. Default: one by one for SQS, Kinesis and DynamoDB Streams, the invocation for
    /// Kafka; SNS, EventBridge and S3 know nothing else than the invocation.
    ///
    /// **One by one needs `FunctionResponseTypes: [ReportBatchItemFailures]` in the event source
    /// mapping.** Without it, Lambda takes every answer for success and failed messages are lost.
    pub fn partial_response(mut self, partial: bool) -> Self {
        self.config.partial_response = partial;
        self
    }

    /// What a message without a key gets. Default [`MissingKey::Fail`].
    pub fn missing_key(mut self, missing: MissingKey) -> Self {
        self.config.missing_key = missing;
        self
    }

    /// What becomes of a message that cannot be read: a record of another source, an envelope that
    /// is none, a key that is none, a payload that is not JSON where a member of it was asked for.
    /// Default [`Disposal::Report`].
    pub fn malformed(mut self, disposal: Disposal) -> Self {
        self.config.malformed = disposal;
        self
    }

    /// What becomes of a message whose key was used before with another payload. Default
    /// [`Disposal::Report`].
    pub fn mismatched(mut self, disposal: Disposal) -> Self {
        self.config.mismatched = disposal;
        self
    }

    /// What becomes of a message whose attempts are used up, under
    /// [`Failure::Retain`](crate::Failure::Retain) or [`Failure::Replay`](crate::Failure::Replay):
    /// its record stays FAILED. Default [`Disposal::Report`].
    pub fn exhausted(mut self, disposal: Disposal) -> Self {
        self.config.exhausted = disposal;
        self
    }

    /// The service that runs `handler` once for each message; give it to `lambda_runtime::run`.
    ///
    /// The handler takes the message and its [`Execution`]. `Ok` is done; an error is shown in the
    /// log and the message comes again, as it does after a panic. There is nothing to answer to a
    /// message, so no answer is stored but that it is done.
    pub fn handler<F, Fut, E>(self, handler: F) -> MessageService<S, F>
    where
        F: Fn(Message<S::Record>, Execution) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        MessageService { config: Arc::new(self.config), handler: Arc::new(handler) }
    }
}

impl Consumer<Sqs> {
    /// Opens an envelope in which messages come: key, payload and fingerprint are those of what is
    /// inside. A message without the envelope is [`malformed`](Self::malformed).
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.config.envelope = Some(envelope);
        self
    }
}

impl<S: Source> fmt::Debug for Consumer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

impl<S: Source> fmt::Debug for Config<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("source", &S::NAME)
            .field("scope", &self.scope)
            .field("key", &self.key)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
