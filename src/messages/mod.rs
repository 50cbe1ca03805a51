//! Messages and events of AWS services: at-least-once delivery in, one effect out.
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
//!     lambda_runtime::run(idempotency.sqs("payments").handler(book)).await
//! }
//! ```
//!
//! # Sources
//!
//! | source | entry | default key | payload | order | a failure is reported as |
//! |---|---|---|---|---|---|
//! | SQS standard | [`sqs`](crate::Idempotency::sqs) | attribute `Idempotency-Key` | body | none | that message |
//! | SQS FIFO | [`sqs`](crate::Idempotency::sqs) | attribute `Idempotency-Key` | body | message group | that message and the rest of its group |
//! | Kinesis | [`kinesis`](crate::Idempotency::kinesis) | broker's id | data | shard, or partition key | the first; what follows it comes again |
//! | DynamoDB Streams | [`dynamodb_streams`](crate::Idempotency::dynamodb_streams) | broker's id | the record's JSON | shard, or item | the first; what follows it comes again |
//! | Kafka | [`kafka`](crate::Idempotency::kafka) | header `Idempotency-Key` | value | partition, or record key | the invocation; by choice that record and the rest of its order |
//! | SNS | [`sns`](crate::Idempotency::sns) | attribute `Idempotency-Key` | `Message` | none | the invocation |
//! | EventBridge | [`eventbridge`](crate::Idempotency::eventbridge) | broker's id | `detail` | – | the invocation |
//! | S3 | [`s3`](crate::Idempotency::s3) | broker's id | the record's JSON | none | the invocation |
//!
//! # The rules
//!
//! 1. Each message is an operation of its own, under the key that [`MessageKey`] finds. One that
//!    completed before is done without running.
//! 2. Messages run side by side, up to [`concurrency`](Consumer::concurrency) at once, those of one
//!    order one after the other. After one that is not done, the rest of its order does not run.
//! 3. Two messages of a batch with one key and one payload run once; the second counts as the first.
//! 4. The answer names exactly those that are not done: failed, in progress elsewhere, behind one
//!    of these in their order, or without time for their turn
//!    ([`deadline_margin`](Consumer::deadline_margin)). Of a stream, the first of them.
//! 5. A message that fails, panics, cannot be read or has no key harms no other one. One that fails
//!    and carries no identifier fails the invocation, so that nothing is lost.
//! 6. A batch of distinct messages costs two round trips of latency for each
//!    [`concurrency`](Consumer::concurrency) of them, not two for each message.
//! 7. An empty batch is a success. The state of a tumbling window is handed back as it came.
//!
//! **Turn on `ReportBatchItemFailures`** in the event source mapping of SQS, Kinesis and DynamoDB
//! Streams, or call [`partial_response(false)`](Consumer::partial_response): otherwise Lambda takes
//! every answer for success. For Kafka, where that setting needs provisioned pollers, it is off by
//! default and the invocation fails as a whole; what is done by then is not run again.
//!
//! [`Failure::Retain`](crate::Failure::Retain) in the [`policy`](Consumer::policy) counts attempts in
//! the record, across deliveries; when they are used up, [`exhausted`](Consumer::exhausted) says
//! whether the message is acknowledged or left to the dead-letter queue.
//!
//! For JSON events that are no messages, see [`event`](crate::event).

mod batch;
mod consumer;
mod envelope;
mod error;
#[cfg(feature = "jmespath")]
mod jmespath;
mod key;
mod message;
mod object;
mod response;
mod schedule;
mod service;
mod settings;
mod source;
mod work;

/// The events' types, of the version that this crate uses.
pub use aws_lambda_events as events;

pub use self::consumer::Consumer;
pub use self::envelope::Envelope;
pub use self::error::BatchError;
pub use self::key::MessageKey;
pub use self::message::Message;
pub use self::response::{BatchItemFailure, BatchResponse, ItemIdentifier};
pub use self::service::{BatchFuture, MessageService};
pub use self::settings::{Disposal, MissingKey, Order};
pub use self::source::{DynamoDbStreams, EventBridge, Kafka, Kinesis, S3, Sns, Source, Sqs};
