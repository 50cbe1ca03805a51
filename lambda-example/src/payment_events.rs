//! A consumer of payment events: each one is booked into the ledger.

use std::time::Duration;

use aws_sdk_dynamodb::types::TransactWriteItem;
use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{Consumer, Message, MessageKey};
use dynamodb_idempotency::{Execution, Idempotency};
use lambda_http::Error;
use serde::Deserialize;

use crate::ledger::Ledger;

/// The body of a message.
#[derive(Debug, Deserialize)]
pub(crate) struct PaymentEvent {
    /// Its key: a producer that sends an event again names the same payment.
    pub(crate) payment: String,
    pub(crate) account: String,
    pub(crate) amount: i64,
}

/// Longer than a message can live: 14 days at most in the queue, and as long again in its dead-letter
/// queue, from which it may be sent back.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Whose keys those of payment events are.
pub const PAYMENT_EVENTS_SCOPE: &str = "payment-events";

/// How the queue is consumed: the key is the payment that the body names.
pub fn payment_events(idempotency: &Idempotency) -> Consumer<SqsMessage> {
    let consumer = idempotency.sqs(PAYMENT_EVENTS_SCOPE).key(MessageKey::json("/payment"));
    consumer.policy(|policy| policy.retention(RETENTION))
}

/// Books the event of a message: in one transaction with the record that says so, so that it is
/// booked once, wherever the function dies.
///
/// # Errors
/// When the message is no payment event, or the booking cannot be committed.
pub async fn book(
    ledger: Ledger,
    message: Message<SqsMessage>,
    execution: Execution,
) -> Result<(), Error> {
    let event: PaymentEvent = message.json()?;
    let booking = TransactWriteItem::builder().put(ledger.booking(&event)?).build();
    Ok(execution.commit(&(), [booking]).await?)
}
