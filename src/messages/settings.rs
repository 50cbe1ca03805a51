//! The settings of a consumer.

/// What happens to a message without an idempotency key.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
/// use dynamodb_idempotency::messages::MissingKey;
///
/// let consumer = idempotency.sqs("payments").missing_key(MissingKey::RunUnprotected);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKey {
    /// It fails and is reported; a queue's redrive policy moves it to the dead-letter queue.
    Fail,
    /// It runs without a record each time it is delivered. For the time until every producer sends
    /// keys. The crate logs a warning for each such run.
    RunUnprotected,
    /// It is acknowledged without running, and the crate logs an error: **the message is lost.**
    Acknowledge,
}

/// What happens to a message that no further delivery can fix.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
/// use dynamodb_idempotency::messages::FailureAction;
///
/// // A message that no consumer can read must not block its shard.
/// let consumer = idempotency.kinesis("clicks").on_malformed(FailureAction::Acknowledge);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureAction {
    /// It is reported as failed each time it is delivered, until the source's limit moves it to a
    /// dead-letter queue or an on-failure destination. **Without one it blocks its group or shard
    /// until the source's retention ends.**
    Report,
    /// It is acknowledged, and the crate logs an error: the messages behind it can continue, and
    /// **the message is lost**.
    Acknowledge,
}

/// In which order the messages of an event run.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
/// use dynamodb_idempotency::messages::Order;
///
/// let consumer = idempotency.kafka("payments").order(Order::Key);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// The source's order: SQS FIFO by message group, Kinesis and DynamoDB Streams by shard (the
    /// whole batch), Kafka by partition. SQS standard, SNS and S3 have no order.
    Source,
    /// The order of the record's own key; records with different keys run concurrently. Kinesis
    /// uses the partition key, DynamoDB Streams the item's key, Kafka the record key. Other
    /// sources: the same as `Source`.
    Key,
}
