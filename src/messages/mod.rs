//! Consumers of messages and events that are delivered at least once and must have one effect.
//!
//! ```no_run
//! use dynamodb_idempotency::messages::{Message, events::sqs::SqsMessage};
//! use dynamodb_idempotency::{Execution, Idempotency};
//! use lambda_runtime::Error;
//!
//! #[derive(serde::Deserialize)]
//! struct Payment { account: String, amount: u64 }
//!
//! async fn book(message: Message<SqsMessage>, _: Execution) -> Result<(), Error> {
//!     let payment: Payment = message.json()?;
//!     # let _ = (payment.account, payment.amount);
//!     Ok(()) // your business here
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     let idempotency = Idempotency::from_env().await?;
//!     lambda_runtime::run(idempotency.sqs("payments").handler(book)?).await
//! }
//! ```
//!
//! # Sources
//!
//! | source | entry | default key | payload | group of the [order](Order) | a failure is reported as |
//! |---|---|---|---|---|---|
//! | SQS standard | [`sqs`](crate::Idempotency::sqs) | attribute `Idempotency-Key` | body | none | that message |
//! | SQS FIFO | [`sqs`](crate::Idempotency::sqs) | attribute `Idempotency-Key` | body | message group | that message and the rest of its group |
//! | Kinesis | [`kinesis`](crate::Idempotency::kinesis) | broker's id | data | shard; with `Order::Key`, the partition key | the first failed record; it and all later ones are delivered again |
//! | DynamoDB Streams | [`dynamodb_streams`](crate::Idempotency::dynamodb_streams) | broker's id | the record's JSON | shard; with `Order::Key`, the item's key | the first failed record; it and all later ones are delivered again |
//! | Kafka | [`kafka`](crate::Idempotency::kafka) | header `Idempotency-Key` | value | partition; with `Order::Key`, the record's key | a failed invocation; after [`report_each`](Consumer::report_each), that record and the rest of its group |
//! | SNS | [`sns`](crate::Idempotency::sns) | attribute `Idempotency-Key` | `Message` | none | a failed invocation |
//! | EventBridge | [`eventbridge`](crate::Idempotency::eventbridge) | broker's id | `detail` | none, one event per invocation | a failed invocation |
//! | S3 | [`s3`](crate::Idempotency::s3) | broker's id | the record's JSON | none | a failed invocation |
//!
//! # The rules
//!
//! 1. Each message is a separate operation, with the key that [`MessageKey`] finds. A message that
//!    completed before is acknowledged without running.
//! 2. Messages run concurrently, up to [`concurrency`](Consumer::concurrency) at a time. Messages of one
//!    order group run one after the other. After a message that is not done, the rest of its group does
//!    not run.
//! 3. If two messages of a batch have the same key and payload, one runs, and the other gets its result.
//! 4. The response names the messages that are not done, or for a stream only the first of them. A message
//!    is not done if it failed, is in progress elsewhere, follows a message of its group that is not done,
//!    or had no time to run to its end ([`deadline_margin`](Consumer::deadline_margin)).
//! 5. A message that fails, panics, cannot be read or has no key does not affect messages outside its
//!    order group. If its group cannot be read, it is in one group with all messages of its batch or
//!    partition that have an order. If it has no identifier, it cannot be reported, so the whole invocation fails.
//! 6. A message needs two round trips to DynamoDB. The round trips of concurrent messages overlap.
//! 7. An empty batch succeeds. The state of a tumbling window is returned unchanged.
//!
//! **Turn on `ReportBatchItemFailures`** in the event source mapping of SQS, Kinesis and DynamoDB Streams,
//! or call [`report_batch()`](Consumer::report_batch). Otherwise Lambda treats every response as success,
//! and failed messages are lost. For Kafka, `ReportBatchItemFailures` needs provisioned pollers. By default a
//! failed Kafka record therefore fails the whole invocation. Messages that are done do not run again.
//!
//! [`Failure::Retain`](crate::policy::Failure::Retain) in the [`policy`](Consumer::policy) counts the
//! attempts of a message across its deliveries. When no attempt is left,
//! [`on_exhausted`](Consumer::on_exhausted) decides whether the message is acknowledged or left to the
//! dead-letter queue.
//!
//! For JSON events that are not messages, see [`event`](crate::event).

mod batch;
mod consumer;
mod envelope;
mod error;
mod key;
mod message;
mod response;
mod run_message;
mod schedule;
mod settings;
mod source;

/// The types of the events, in the version that this crate uses.
pub use aws_lambda_events as events;

pub use self::consumer::Consumer;
pub use self::envelope::Envelope;
pub use self::error::BatchError;
pub use self::key::MessageKey;
pub use self::message::Message;
pub use self::response::{BatchResponse, ItemIdentifier};
pub use self::settings::{FailureAction, MissingKey, Order};
