//! A consumer of payment events, which books each one into the ledger.

use std::time::Duration;

use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{Consumer, Message, MessageKey};
use dynamodb_idempotency::{Execution, Idempotency};
use lambda_http::Error;
use serde::Deserialize;

use crate::ledger::Ledger;

/// The body of a message.
#[derive(Debug, Deserialize)]
pub(crate) struct PaymentEvent {
    /// The key: a producer that sends an event again names the same payment.
    pub(crate) payment: String,
    pub(crate) account: String,
    pub(crate) amount: i64,
}

/// Longer than a message can live: at most 14 days in the queue, and again in its dead-letter queue, from
/// which it may be sent back.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// The scope of payment events.
pub const PAYMENT_EVENTS_SCOPE: &str = "payment-events";

/// The consumer of the queue. The key is the payment in the body.
pub fn payment_events(idempotency: &Idempotency) -> Consumer<SqsMessage> {
    let consumer = idempotency.sqs(PAYMENT_EVENTS_SCOPE).key(MessageKey::json("/payment"));
    consumer.policy(|policy| policy.retention(RETENTION))
}

/// Books the event of a message in one transaction with its record, so that it is booked once, wherever
/// the function crashes.
///
/// # Errors
/// If the message is not a payment event, or the booking cannot be committed.
pub async fn book(
    ledger: Ledger,
    message: Message<SqsMessage>,
    execution: Execution,
) -> Result<(), Error> {
    let event: PaymentEvent = message.json()?;
    Ok(execution.commit(&(), [ledger.booking(&event)?]).await?)
}
