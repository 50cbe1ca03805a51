//! The service that receives a source's events.

use std::fmt;
use std::sync::Arc;

use lambda_runtime::{LambdaEvent, service_fn};
use tower_service::Service;

use super::batch;
use super::consumer::Consumer;
use super::error::BatchError;
use super::message::Message;
use super::response::{BatchResponse, report};
use crate::error::Error;
use crate::json_event::JsonEvent;
use crate::run::execution::Execution;

impl<R: Send + 'static> Consumer<R> {
    /// Creates the service that runs `handler` once for each message, for `lambda_runtime::run`.
    ///
    /// The handler takes the message and its [`Execution`]. `Ok` means done. After an error, which
    /// is logged, or a panic, the message is delivered again. Messages have no answer, so the
    /// record only stores that the message is done.
    ///
    /// ```
    /// use dynamodb_idempotency::messages::{Message, events::sqs::SqsMessage};
    /// use dynamodb_idempotency::{Error, Execution, Idempotency};
    ///
    /// async fn book(message: Message<SqsMessage>, execution: Execution) -> Result<(), Error> {
    ///     let payment: serde_json::Value = message.json()?;
    ///     println!("{payment}, attempt {}", execution.attempt()); // your business here
    ///     Ok(())
    /// }
    ///
    /// async fn serve(idempotency: Idempotency) -> Result<(), lambda_runtime::Error> {
    ///     lambda_runtime::run(idempotency.sqs("payments").handler(book)?).await
    /// }
    /// ```
    ///
    /// In a test, without Lambda:
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::event::JsonEvent;
    /// use dynamodb_idempotency::messages::{ItemIdentifier, Message, events::sqs::SqsMessage};
    /// use lambda_runtime::{Context, Error, LambdaEvent, Service};
    ///
    /// let event: JsonEvent = r#"{"Records": [{
    ///     "messageId": "m-1", "body": "{\"amount\": 1200}", "attributes": {}, "eventSource": "aws:sqs",
    ///     "messageAttributes": {"Idempotency-Key": {"dataType": "String", "stringValue": "order-42"}}
    /// }]}"#.parse()?;
    /// let mut service = idempotency.sqs("payments").handler(async |message: Message<SqsMessage>, _| {
    ///     assert_eq!(message.key(), Some("order-42"));
    ///     assert_eq!(message.payload(), br#"{"amount": 1200}"#);
    ///     assert_eq!(message.json::<serde_json::Value>()?["amount"], 1200);
    ///     assert_eq!(message.into_record().message_id.as_deref(), Some("m-1"));
    ///     Err::<(), Error>("declined".into())
    /// })?;
    /// let response = service.call(LambdaEvent::new(event, Context::default())).await?;
    /// assert_eq!(response.batch_item_failures, [ItemIdentifier::Id("m-1".to_owned())]);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if the policy is invalid.
    pub fn handler<F, Fut, E>(
        self,
        handler: F,
    ) -> Result<
        impl Service<
            LambdaEvent<JsonEvent>,
            Response = BatchResponse,
            Error = BatchError,
            Future: Send + Unpin,
        > + Clone,
        Error,
    >
    where
        F: Fn(Message<R>, Execution) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        let calls = self.calls.checked()?;
        let consumer = Arc::new((Self { calls, ..self }, handler));
        Ok(service_fn(move |event: LambdaEvent<JsonEvent>| {
            let consumer = Arc::clone(&consumer);
            Box::pin(async move {
                let (consumer, handler) = &*consumer;
                let clock = &consumer.calls.core().table.clock;
                let deadline = clock.deadline(event.context.deadline());
                let batch = (consumer.source.split)(
                    consumer.source.name,
                    event.payload.get(),
                    consumer.order,
                )?;
                // Frees memory: the records have been read, and an event may have some megabytes.
                drop(event);
                let (total, state) = (batch.messages.len(), batch.state);
                let failed = batch::run(consumer, handler, batch.messages, deadline).await;
                report(consumer.reporting, failed, total, state)
            })
        }))
    }
}
