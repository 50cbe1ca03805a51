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
    /// The message fails and is reported. A redrive policy can move it to a dead-letter queue.
    Fail,
    /// The message runs without a record at each delivery, and the crate logs a warning. Use this
    /// only until every producer sends keys.
    RunUnprotected,
    /// The message is acknowledged without running, and the crate logs an error: **it is lost.**
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
    /// The message is reported as failed at each delivery, until the source moves it to a
    /// dead-letter queue or an on-failure destination. **Without one, the message blocks its group
    /// or shard until the source's retention ends.**
    Report,
    /// The message is acknowledged, and the crate logs an error. Later messages can continue, but
    /// **this message is lost**.
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
    /// The order of the record's own key: the partition key for Kinesis, the item's key for
    /// DynamoDB Streams, and the record key for Kafka. Records with different keys run
    /// concurrently. For other sources this is the same as `Source`.
    Key,
}
