//! The service that receives a source's events. It runs each batch, driven by its [`Schedule`].

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt};
use lambda_runtime::{LambdaEvent, service_fn};
use tower_service::Service;

use super::consumer::Consumer;
use super::error::BatchError;
use super::message::Message;
use super::response::{BatchResponse, ItemIdentifier, report};
use super::run_message::{Times, perform, prepare};
use super::schedule::{Constraints, Schedule, Verdict};
use super::source::Incoming;
use crate::call::execution::Execution;
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind};
use crate::json_event::JsonEvent;

impl<R: Send + 'static> Consumer<R> {
    /// Creates the service that runs `handler` once for each message, for `lambda_runtime::run`.
    ///
    /// The handler takes the message and its [`Execution`]. `Ok` means that the message is done. After
    /// an error or a panic, which the crate logs, the source delivers the message again. Messages have
    /// no answer: the record only stores that the message is done.
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
    /// [`ErrorKind::Configuration`] if the policy or a JSON pointer of the key is invalid.
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
        if let Some(wrong) = &self.key.wrong {
            return Err(Error::new(ErrorKind::Configuration, wrong.as_str()));
        }
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
                let failed = run(consumer, handler, batch.messages, deadline).await;
                report(consumer.reporting, failed, total, state)
            })
        }))
    }
}

/// Runs the messages and returns those that are not done, in order. `None` is a message without an
/// identifier.
async fn run<R, F, Fut, E>(
    consumer: &Consumer<R>,
    handler: &F,
    messages: Vec<Incoming<R>>,
    deadline: Option<Deadline>,
) -> Vec<Option<ItemIdentifier>>
where
    F: Fn(Message<R>, Execution) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: fmt::Display + 'static,
{
    let clock = &consumer.calls.core().table.clock;
    // While idempotency is switched off, messages with the same key all run.
    let is_disabled = consumer.calls.core().is_disabled;
    let times = deadline.map(|deadline| Times::new(clock, deadline, consumer.deadline_margin));
    let (mut items, mut prepared, mut constraints) = (Vec::new(), Vec::new(), Vec::new());
    for Incoming { item, group, parsed } in messages {
        let message = prepare(consumer, parsed);
        let key = message.as_ref().ok().filter(|_| !is_disabled);
        let identity = key.and_then(|(message, of)| message.key.clone().zip(*of));
        constraints.push(Constraints { group, identity });
        prepared.push(Some(message));
        items.push(item);
    }
    let mut schedule = Schedule::new(constraints);
    let mut running = FuturesUnordered::new();
    loop {
        if times.is_some_and(|times| clock.is_over(times.last_start)) {
            schedule.stop();
        }
        while running.len() < consumer.concurrency {
            let Some(index) = schedule.next() else { break };
            // The schedule returns each message once.
            let Some(message) = prepared[index].take() else { continue };
            let performing = perform(consumer, handler, items[index].as_ref(), message, times);
            running.push(performing.map(move |is_done| (index, is_done)));
        }
        let left = times.map_or(Duration::MAX, |times| clock.left(times.cut_off));
        match clock.within(left, running.next()).await {
            Some(Some((index, is_done))) => schedule.ended(index, is_done),
            Some(None) | None => break,
        }
    }
    drop(running);
    let verdicts: Vec<_> = schedule.verdicts().collect();
    log_unfinished(consumer, &verdicts);
    let failed = items.into_iter().zip(verdicts);
    failed.filter(|(_, verdict)| *verdict != Verdict::Done).map(|(item, _)| item).collect()
}

/// Logs the messages that did not finish, because they log nothing themselves.
fn log_unfinished<R>(consumer: &Consumer<R>, verdicts: &[Verdict]) {
    let count = |of: Verdict| verdicts.iter().filter(|verdict| **verdict == of).count();
    let [held, no_turn, cut_off] = [Verdict::Held, Verdict::NoTurn, Verdict::CutOff].map(count);
    if held + no_turn + cut_off > 0 {
        tracing::warn!(
            operation = consumer.calls.scope.operation(),
            source = consumer.source.name,
            held,
            no_turn,
            cut_off,
            "messages of a batch did not run to their end: behind a failed one of their group, \
             without time for their turn, or cut off by the invocation's end; they will be \
             delivered again"
        );
    }
}
