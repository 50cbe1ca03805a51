//! A Lambda function as its runtime sees it: the JSON of an event in, the JSON of an answer out.

use std::fmt::{Debug, Display};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dynamodb_idempotency::Execution;
use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::messages::{BatchError, BatchResponse, Message};
use futures::future::BoxFuture;
use lambda_runtime::{Context, LambdaEvent};
use serde::Serialize;
use serde_json::Value;
use tower::{Service, ServiceExt};

pub(crate) use crate::http::function::{context_of, context_until};
use crate::support::gate::{Gate, patiently};
use crate::support::{Store, made_up_time};

/// Invokes a function with half a minute of time.
pub(crate) async fn invoke<S>(service: &S, event: &Value) -> Value
where
    S: Service<LambdaEvent<JsonEvent>, Response: Serialize, Error: Debug> + Clone,
{
    invoke_in(service, event, context_of(30)).await.expect("the function answers")
}

/// Invokes a function in this invocation's context.
pub(crate) async fn invoke_in<S>(
    service: &S,
    event: &Value,
    context: Context,
) -> Result<Value, S::Error>
where
    S: Service<LambdaEvent<JsonEvent>, Response: Serialize, Error: Debug> + Clone,
{
    let event = event.to_string().parse().expect("it is JSON");
    let answering = service.clone().oneshot(LambdaEvent::new(event, context));
    let answer = patiently("a function's answer", answering).await?;
    Ok(serde_json::to_value(answer).expect("an answer is JSON"))
}

pub(crate) fn context_in(left: Duration) -> Context {
    context_until(made_up_time::now() + left)
}

/// The payloads that a handler ran for, in order; a clone is the same list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ran(Arc<Mutex<Vec<String>>>);

impl Ran {
    pub(crate) fn add(&self, what: impl Into<String>) {
        self.0.lock().expect("no test panics while it holds it").push(what.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().expect("no test panics while it holds it").clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.all().len()
    }
}

/// What the test's own handlers come to.
pub(crate) type Handled = BoxFuture<'static, Result<(), String>>;

/// A handler that notes each payload down. One that is `fail` fails, one that is `panic` panics.
pub(crate) fn noting<R: Send + 'static>(
    ran: &Ran,
) -> impl Fn(Message<R>, Execution) -> Handled + Send + Sync + use<R> + 'static {
    let ran = ran.clone();
    move |message: Message<R>, _| {
        let ran = ran.clone();
        let payload = String::from_utf8_lossy(message.payload()).into_owned();
        Box::pin(async move {
            ran.add(&payload);
            assert!(payload != "panic", "the handler's own words");
            if payload == "fail" { Err("declined".to_owned()) } else { Ok(()) }
        })
    }
}

/// A consumer of a queue, its table, and what its handler has run.
pub(crate) async fn booking() -> (
    Store,
    Ran,
    impl Service<LambdaEvent<JsonEvent>, Response = BatchResponse, Error = BatchError> + Clone,
) {
    let (store, ran) = (Store::open().await, Ran::default());
    let service = store.idempotency().sqs("book").handler(noting(&ran)).unwrap();
    (store, ran, service)
}

/// A handler that waits at a gate and then succeeds.
pub(crate) fn holding<M: Send + 'static>(
    gate: &Gate,
) -> impl Fn(M, Execution) -> Handled + Send + Sync + 'static {
    let gate = gate.clone();
    move |_: M, _| {
        let gate = gate.clone();
        Box::pin(async move {
            gate.pass().await;
            Ok(())
        })
    }
}

/// The `itemIdentifier`s of a batch's answer, which must have no other member but `state`.
pub(crate) fn failures(answer: &Value) -> Vec<String> {
    let failures = answer["batchItemFailures"].as_array().expect("a partial batch response");
    failures
        .iter()
        .map(|failure| {
            assert_eq!(failure.as_object().map(serde_json::Map::len), Some(1), "{failure}");
            let id = failure["itemIdentifier"].as_str().expect("an id");
            assert!(!id.is_empty());
            id.to_owned()
        })
        .collect()
}

/// The error of an invocation that must have failed, as people read it.
pub(crate) fn message<T: Debug, E: Display>(result: Result<T, E>) -> String {
    result.map_err(|error| error.to_string()).expect_err("the invocation fails")
}
