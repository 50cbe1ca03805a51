//! The service that accepts a source's events.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use lambda_runtime::LambdaEvent;
use tower_service::Service;

use super::consumer::{Config, Consumer};
use super::error::BatchError;
use super::message::Message;
use super::source::Source;
use super::{batch, response};
use crate::engine::execution::Execution;
use crate::future::ResponseFuture;
use crate::invocation::deadline;
use crate::json_event::JsonEvent;

/// A handler that runs once for each message of a source's events; made by
/// [`Consumer::handler`](super::Consumer::handler).
///
/// ```
/// # dynamodb_idempotency::testing::example(async |_, idempotency| {
/// use dynamodb_idempotency::event::JsonEvent;
/// use dynamodb_idempotency::messages::{ItemIdentifier, Message, events::sqs::SqsMessage};
/// use lambda_runtime::{Context, Error, LambdaEvent, Service};
///
/// // In a test, without Lambda.
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
/// });
/// let response = service.call(LambdaEvent::new(event, Context::default())).await?;
/// let again: Vec<_> = response.item_identifiers().collect();
/// assert_eq!(again, [&ItemIdentifier::Id("m-1".to_owned())]);
/// # Ok(()) });
/// ```
pub struct MessageService<S: Source, F> {
    pub(super) config: Arc<Config<S>>,
    pub(super) handler: Arc<F>,
}

impl<S: Source> Consumer<S> {
    /// The service that runs `handler` once for each message; give it to `lambda_runtime::run`.
    ///
    /// The handler takes the message and its [`Execution`]. `Ok` means done. After an error, which
    /// is logged, or a panic, the message is delivered again. Messages have no answer, so the
    /// record only stores that it is done.
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
    ///     lambda_runtime::run(idempotency.sqs("payments").handler(book)).await
    /// }
    /// ```
    pub fn handler<F, Fut, E>(self, handler: F) -> MessageService<S, F>
    where
        F: Fn(Message<S::Record>, Execution) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        MessageService { config: Arc::new(self.config), handler: Arc::new(handler) }
    }
}

impl<S: Source, F> Clone for MessageService<S, F> {
    fn clone(&self) -> Self {
        Self { config: Arc::clone(&self.config), handler: Arc::clone(&self.handler) }
    }
}

impl<S: Source, F> fmt::Debug for MessageService<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

impl<S, F, Fut, E> Service<LambdaEvent<JsonEvent>> for MessageService<S, F>
where
    S: Source,
    F: Fn(Message<S::Record>, Execution) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: fmt::Display + Send + 'static,
{
    type Response = S::Response;
    type Error = BatchError;
    type Future = ResponseFuture<S::Response, BatchError>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, event: LambdaEvent<JsonEvent>) -> Self::Future {
        let (config, handler) = (Arc::clone(&self.config), Arc::clone(&self.handler));
        ResponseFuture::new(async move { answer(&config, &*handler, event).await })
    }
}

async fn answer<S, F, Fut, E>(
    config: &Config<S>,
    handler: &F,
    event: LambdaEvent<JsonEvent>,
) -> Result<S::Response, BatchError>
where
    S: Source,
    F: Fn(Message<S::Record>, Execution) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: fmt::Display + 'static,
{
    let clock = &config.idempotency.core.table.clock;
    let deadline = deadline(&event.context).map(|deadline| clock.at(deadline));
    let batch = S::split(event.payload.get(), config.order)?;
    // The records have been read out of it, and it may be some megabytes.
    drop(event);
    let (total, state) = (batch.messages.len(), batch.state);
    let failed = batch::run(config, handler, batch.messages, deadline).await;
    let reporting = if config.partial_response { S::REPORTING } else { response::Reporting::Event };
    response::report(reporting, failed, total, state).map(S::respond)
}
