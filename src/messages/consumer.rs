//! The builder that defines how a source's messages are consumed.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::dynamodb::EventRecord;
use aws_lambda_events::eventbridge::EventBridgeEvent;
use aws_lambda_events::kafka::KafkaRecord;
use aws_lambda_events::kinesis::KinesisEventRecord;
use aws_lambda_events::s3::S3EventRecord;
use aws_lambda_events::sns::SnsRecord;
use aws_lambda_events::sqs::SqsMessage;

use super::envelope::Envelope;
use super::key::MessageKey;
use super::message::Message;
use super::response::Reporting;
use super::settings::{FailureAction, MissingKey, Order};
use super::source::{Source, eventbridge, kafka, records};
use crate::fingerprint::Fingerprint;
use crate::idempotency::Idempotency;
use crate::json_event::JsonEvent;
use crate::operation::OperationConfig;
use crate::policy::Policy;
use crate::store::key::Scope;

/// Default of [`Consumer::concurrency`].
const DEFAULT_CONCURRENCY: usize = 10;
/// Default of [`Consumer::deadline_margin`].
const DEFAULT_DEADLINE_MARGIN: Duration = Duration::from_secs(1);

macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident: $record:ty = $source:path),* $(,)?) => {
        impl Idempotency {$(
            $(#[$doc])*
            pub fn $name(&self, scope: impl Into<Scope>) -> Consumer<$record> {
                Consumer::new(self, $source, scope.into())
            }
        )*}
    };
}

entries! {
    /// Consumes messages of Amazon SQS, from standard and FIFO queues, under `scope`. Default key:
    /// the message attribute `Idempotency-Key`.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let handler = idempotency
    ///     .sqs("payments")
    ///     .key(MessageKey::json("/payment_id"))
    ///     .handler(async |message, _| message.json::<serde_json::Value>().map(drop));
    /// # }
    /// ```
    sqs: SqsMessage = records::SQS,
    /// Consumes records of Amazon Kinesis Data Streams under `scope`. Default key: the broker's id.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let handler = idempotency
    ///     .kinesis("payments")
    ///     .key(MessageKey::broker_id())
    ///     .handler(async |message, _| message.json::<serde_json::Value>().map(drop));
    /// # }
    /// ```
    kinesis: KinesisEventRecord = records::KINESIS,
    /// Consumes records of DynamoDB Streams under `scope`. Default key: the broker's id.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let handler = idempotency
    ///     .dynamodb_streams("payments")
    ///     .key(MessageKey::broker_id())
    ///     .handler(async |message, _| message.json::<serde_json::Value>().map(drop));
    /// # }
    /// ```
    dynamodb_streams: EventRecord = records::DYNAMODB_STREAMS,
    /// Consumes records of Apache Kafka (Amazon MSK or self-managed) under `scope`. Default key:
    /// the header `Idempotency-Key`.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let handler = idempotency
    ///     .kafka("payments")
    ///     .key(MessageKey::attribute("Idempotency-Key"))
    ///     .handler(async |message, _| message.json::<serde_json::Value>().map(drop));
    /// # }
    /// ```
    kafka: KafkaRecord = kafka::SOURCE,
    /// Consumes notifications of Amazon SNS under `scope`. Default key: the message attribute
    /// `Idempotency-Key`.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let handler = idempotency
    ///     .sns("payments")
    ///     .key(MessageKey::json("/payment_id"))
    ///     .handler(async |message, _| message.json::<serde_json::Value>().map(drop));
    /// # }
    /// ```
    sns: SnsRecord = records::SNS,
    /// Consumes events of Amazon EventBridge under `scope`. Default key: the broker's id. The record's
    /// `detail` is JSON text.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let handler = idempotency
    ///     .eventbridge("payments")
    ///     .key(MessageKey::json("/payment_id"))
    ///     .handler(async |message, _| message.json::<serde_json::Value>().map(drop));
    /// # }
    /// ```
    eventbridge: EventBridgeEvent<JsonEvent> = eventbridge::SOURCE,
    /// Consumes event notifications of Amazon S3 under `scope`. Default key: the broker's id.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let handler = idempotency
    ///     .s3("payments")
    ///     .key(MessageKey::broker_id())
    ///     .handler(async |message, _| message.json::<serde_json::Value>().map(drop));
    /// # }
    /// ```
    s3: S3EventRecord = records::S3,
}

/// Defines how the messages of a source are consumed. `R` is the type of the source's record.
///
/// [`Idempotency::sqs`] and similar methods create it.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
/// use dynamodb_idempotency::policy::Failure;
/// use dynamodb_idempotency::messages::{FailureAction, MessageKey};
///
/// let service = idempotency
///     .sqs("payments")
///     .key(MessageKey::json("/payment_id"))
///     .concurrency(20)
///     .policy(|policy| policy.failure(Failure::Retain { max_attempts: 5 }))
///     .on_exhausted(FailureAction::Acknowledge)
///     .handler(async |message, _| message.json::<serde_json::Value>().map(drop));
/// # }
/// ```
#[derive(derive_more::Debug)]
#[debug("Consumer {{ source: {:?}, scope: {:?}, .. }}", source.name, calls.scope)]
#[must_use = "give it a handler"]
pub struct Consumer<R> {
    pub(super) source: Source<R>,
    pub(super) calls: OperationConfig,
    pub(super) key: MessageKey<R>,
    pub(super) envelope: Option<Envelope>,
    pub(super) fingerprint: Option<MessageFingerprint<R>>,
    pub(super) order: Order,
    pub(super) concurrency: usize,
    pub(super) deadline_margin: Duration,
    pub(super) reporting: Reporting,
    pub(super) missing_key: MissingKey,
    pub(super) malformed: FailureAction,
    pub(super) mismatched: FailureAction,
    pub(super) exhausted: FailureAction,
}

type MessageFingerprint<R> = Arc<dyn Fn(&Message<R>) -> Fingerprint + Send + Sync>;

impl<R> Consumer<R> {
    fn new(idempotency: &Idempotency, source: Source<R>, scope: Scope) -> Self {
        Self {
            calls: OperationConfig::new(idempotency, scope),
            key: (source.key)(),
            envelope: None,
            fingerprint: None,
            order: Order::Source,
            concurrency: DEFAULT_CONCURRENCY,
            deadline_margin: DEFAULT_DEADLINE_MARGIN,
            reporting: source.reporting,
            missing_key: MissingKey::Fail,
            malformed: FailureAction::Report,
            mismatched: FailureAction::Report,
            exhausted: FailureAction::Report,
            source,
        }
    }

    /// Sets where a message contains its idempotency key. Default: depends on the source.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let consumer = idempotency.sqs("payments").key(MessageKey::json("/payment_id"));
    /// # Ok(()) });
    /// ```
    pub fn key(mut self, key: MessageKey<R>) -> Self {
        self.key = key;
        self
    }

    /// Sets a function that returns the key of a message, as `String` or `Option<String>`.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// let consumer = idempotency
    ///     .sqs("payments")
    ///     .key_with(|message| message.record().attributes.get("MessageDeduplicationId").cloned());
    /// # }
    /// ```
    pub fn key_with<Key: Into<Option<String>>>(
        self,
        find: impl Fn(&Message<R>) -> Key + Send + Sync + 'static,
    ) -> Self {
        self.key(MessageKey::with(find))
    }

    /// Changes the inherited policy for these messages.
    ///
    /// [`Failure::Retain`](crate::policy::Failure::Retain) counts the attempts of a message across its
    /// deliveries; see [`on_exhausted`](Self::on_exhausted).
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::policy::Failure;
    ///
    /// let consumer = idempotency
    ///     .sqs("payments")
    ///     .policy(|policy| policy.failure(Failure::Retain { max_attempts: 5 }));
    /// # Ok(()) });
    /// ```
    pub fn policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.calls = self.calls.change_policy(change);
        self
    }

    /// Sets which part of a message must be the same in a repeat. Default: the JSON value of its
    /// payload.
    ///
    /// Choose a part if the payload contains, for example, the time of sending.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::Fingerprint;
    ///
    /// // Only the order id identifies the request.
    /// let consumer = idempotency.sqs("payments").fingerprint(|message| {
    ///     let body: serde_json::Value = message.json().unwrap_or_default();
    ///     Fingerprint::builder().json(body["order"].to_string().as_bytes()).finish()
    /// });
    /// # }
    /// ```
    pub fn fingerprint(
        mut self,
        fingerprint: impl Fn(&Message<R>) -> Fingerprint + Send + Sync + 'static,
    ) -> Self {
        self.fingerprint = Some(Arc::new(fingerprint));
        self
    }

    /// Sets how many messages of a batch run at the same time. Default: 10. 0 counts as 1.
    ///
    /// Their futures share one task, so a handler that blocks its thread delays the others.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let consumer = idempotency.sqs("payments").concurrency(20);
    /// # Ok(()) });
    /// ```
    pub fn concurrency(mut self, limit: usize) -> Self {
        self.concurrency = limit.max(1);
        self
    }

    /// Sets the order in which messages run. Default: [`Order::Source`].
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::messages::Order;
    ///
    /// let consumer = idempotency.kinesis("payments").order(Order::Key);
    /// # Ok(()) });
    /// ```
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets how much time of the invocation must be left for a message to start. Default: 1 s.
    ///
    /// Messages without enough time are reported and delivered again. A good choice is the usual
    /// duration of a handler. The margin is at most half of the invocation's time.
    ///
    /// A handler that still runs 250 ms before the end of the invocation is dropped, so that the response
    /// with the results of the whole batch is sent in time. The handler's message is reported, and its key
    /// stays locked until the lease expires.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use std::time::Duration;
    ///
    /// let consumer = idempotency.sqs("payments").deadline_margin(Duration::from_secs(3));
    /// # Ok(()) });
    /// ```
    pub fn deadline_margin(mut self, margin: Duration) -> Self {
        self.deadline_margin = margin;
        self
    }

    /// Fails the whole invocation if a message fails, instead of [reporting it](Self::report_each).
    ///
    /// This is the default for Kafka. SQS, Kinesis and DynamoDB Streams report failed messages by
    /// default. SNS, EventBridge and S3 always fail the invocation.
    ///
    /// **Individual reports need `FunctionResponseTypes: [ReportBatchItemFailures]` in the event
    /// source mapping.** Without it, Lambda treats every response as success, and failed messages
    /// are lost.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// // The event source mapping of this queue has no `ReportBatchItemFailures`.
    /// let consumer = idempotency.sqs("payments").report_batch();
    /// # Ok(()) });
    /// ```
    pub fn report_batch(mut self) -> Self {
        self.reporting = Reporting::Event;
        self
    }

    /// Reports failed messages individually (`batchItemFailures`), if the source supports that. See
    /// [`report_batch`](Self::report_batch) for the setting that the event source mapping needs.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// // Provisioned pollers, whose mapping has `ReportBatchItemFailures`.
    /// let consumer = idempotency.kafka("payments").report_each();
    /// # Ok(()) });
    /// ```
    pub fn report_each(mut self) -> Self {
        self.reporting = match self.source.reporting {
            Reporting::ItemsIfAsked => Reporting::Items,
            other => other,
        };
        self
    }

    /// Sets what happens to a message without a key. Default: [`MissingKey::Fail`].
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::messages::MissingKey;
    ///
    /// let consumer = idempotency.sqs("payments").missing_key(MissingKey::RunUnprotected);
    /// # Ok(()) });
    /// ```
    pub fn missing_key(mut self, missing: MissingKey) -> Self {
        self.missing_key = missing;
        self
    }

    /// Sets what happens to a message that cannot be read. Default: [`FailureAction::Report`].
    ///
    /// Such a message is a record of another source in the batch, lacks the envelope, or has an invalid
    /// key. If the key is a part of the payload, a payload that is not JSON cannot be read either.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::messages::FailureAction;
    ///
    /// let consumer = idempotency.sqs("payments").on_malformed(FailureAction::Acknowledge);
    /// # Ok(()) });
    /// ```
    pub fn on_malformed(mut self, action: FailureAction) -> Self {
        self.malformed = action;
        self
    }

    /// Sets what happens to a message whose key was used with another payload. Default:
    /// [`FailureAction::Report`].
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::messages::FailureAction;
    ///
    /// let consumer = idempotency.sqs("payments").on_mismatch(FailureAction::Acknowledge);
    /// # Ok(()) });
    /// ```
    pub fn on_mismatch(mut self, action: FailureAction) -> Self {
        self.mismatched = action;
        self
    }

    /// Sets what happens to a message that must not run again. Default: [`FailureAction::Report`].
    ///
    /// Such a message has no attempts left ([`Failure::Retain`](crate::policy::Failure::Retain)), has failed
    /// ([`Failure::Replay`](crate::policy::Failure::Replay)), or is abandoned
    /// ([`Takeover::Reject`](crate::policy::Takeover::Reject)). Its record is kept.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::policy::Failure;
    /// use dynamodb_idempotency::messages::FailureAction;
    ///
    /// let consumer = idempotency
    ///     .sqs("payments")
    ///     .policy(|policy| policy.failure(Failure::Retain { max_attempts: 5 }))
    ///     .on_exhausted(FailureAction::Acknowledge);
    /// # Ok(()) });
    /// ```
    pub fn on_exhausted(mut self, action: FailureAction) -> Self {
        self.exhausted = action;
        self
    }
}

impl Consumer<SqsMessage> {
    /// Removes an envelope from each message. Key, payload and fingerprint are those of the content of the
    /// envelope.
    ///
    /// [`on_malformed`](Self::on_malformed) decides about a message without this envelope.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::messages::Envelope;
    ///
    /// let consumer = idempotency.sqs("payments").envelope(Envelope::Sns);
    /// # Ok(()) });
    /// ```
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = Some(envelope);
        self
    }
}
