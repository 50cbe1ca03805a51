//! The setup of the documentation's examples about messages.

use std::future::ready;

use lambda_runtime::{Context, Error, LambdaEvent};
use tower_service::Service;

use crate::json_event::JsonEvent;
use crate::messages::Message;
use crate::messages::events::sqs::SqsMessage;
use crate::run::execution::Execution;

const EVENT: &str = r#"{"Records": [{
    "messageId": "m-1", "body": "{\"amount\": 1200}", "attributes": {}, "eventSource": "aws:sqs",
    "messageAttributes": {"Idempotency-Key": {"dataType": "String", "stringValue": "order-42"}}
}]}"#;

/// Runs an example with an SQS message about a payment of 1200. Not part of the API.
///
/// # Panics
/// If the example fails.
#[track_caller]
pub fn message_example(
    handler: impl Fn(Message<SqsMessage>) -> Result<(), Error> + Send + Sync + 'static,
) {
    super::example(async |_, idempotency| {
        let event = LambdaEvent::new(EVENT.parse::<JsonEvent>()?, Context::default());
        let handler = move |message, _: Execution| ready(handler(message));
        let response = idempotency.sqs("payments").handler(handler)?.call(event).await?;
        assert!(response.batch_item_failures.is_empty(), "{response:?}");
        Ok(())
    });
}
