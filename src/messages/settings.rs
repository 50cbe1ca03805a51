//! The settings of a consumer.

/// What a message without an idempotency key gets.
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
    /// It runs without a record, each time that it is delivered. For the time until every producer
    /// sends keys. Each such run is a warning in the log.
    RunUnprotected,
    /// It is acknowledged and does not run, with an error in the log: **it is lost.**
    Acknowledge,
}

/// What happens to a message that no further delivery would fix.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
/// use dynamodb_idempotency::messages::FailureAction;
///
/// // What nobody can read must not hold up its shard.
/// let consumer = idempotency.kinesis("clicks").malformed(FailureAction::Acknowledge);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureAction {
    /// It is reported as failed, each time it is delivered, until the source's own limit ends that:
    /// a dead-letter queue or an on-failure destination. **Without one it blocks its group or shard
    /// until the source's retention is over.**
    Report,
    /// It is acknowledged, with an error in the log: the messages behind it can go on, and **it is
    /// lost**.
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
    /// The source's order: SQS FIFO by message group, Kinesis and DynamoDB Streams by shard (which
    /// is the whole batch), Kafka by partition; SQS standard, SNS and S3 have none.
    Source,
    /// By the record's own key, with different keys side by side: Kinesis by partition key,
    /// DynamoDB Streams by the item's key, Kafka by record key. For the others, as `Source`.
    Key,
}
