//! A Lambda function as its runtime sees it: the JSON of an event in, the JSON of an answer out.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dynamodb_idempotency::lambda;
use futures::FutureExt;
use futures::future::BoxFuture;
use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Context, IntoResponse, LambdaEvent, Request};
use serde::Serialize;
use serde_json::Value;
use tower::{Service, ServiceExt};

use crate::support::gate::patiently;
use crate::support::made_up_time;

type Invoke = dyn Fn(String, Context) -> BoxFuture<'static, Result<Value, String>> + Send + Sync;

/// A deployed function; a clone is the same one, warm.
#[derive(Clone)]
pub(crate) struct Function(Arc<Invoke>);

impl Function {
    /// Under `dynamodb_idempotency::lambda::run`.
    pub(crate) fn new<S, R>(service: S) -> Self
    where
        S: Service<Request, Response = R> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Debug + 'static,
        R: IntoResponse + 'static,
    {
        Self::of(move || lambda::adapter(service.clone()))
    }

    /// Under `lambda_http::run`.
    pub(crate) fn under_lambda_http<S, R>(service: S) -> Self
    where
        S: Service<Request, Response = R> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Debug + 'static,
        R: IntoResponse + 'static,
    {
        Self::of(move || Adapter::from(service.clone()))
    }

    fn of<S, A>(adapter: A) -> Self
    where
        S: Service<LambdaEvent<LambdaRequest>, Response: Serialize, Error: Debug>,
        S::Future: Send + 'static,
        A: Fn() -> S + Send + Sync + 'static,
    {
        Self(Arc::new(move |event, context| {
            let event = serde_json::from_str(&event).expect("lambda_http knows it");
            let mut service = adapter();
            let ready = service.ready().now_or_never().expect("it is ready at once");
            let answering = ready.map(|service| service.call(LambdaEvent::new(event, context)));
            let answering = answering.unwrap_or_else(|error| panic!("not ready: {error:?}"));
            let answering = answering.map(|answer| match answer {
                Ok(answer) => Ok(serde_json::to_value(answer).expect("an answer is JSON")),
                Err(error) => Err(format!("{error:?}")),
            });
            answering.boxed()
        }))
    }

    /// Invokes it with half a minute of time.
    pub(crate) async fn invoke(&self, event: &Value) -> Value {
        self.invoke_in(event, context_of(30)).await.expect("the function answers")
    }

    /// Invokes it in this invocation's context; an error is the function's own.
    pub(crate) async fn invoke_in(&self, event: &Value, context: Context) -> Result<Value, String> {
        patiently("a function's answer", (self.0)(event.to_string(), context)).await
    }
}

/// The context of an invocation whose time is over in so many seconds.
pub(crate) fn context_of(seconds: u64) -> Context {
    context_until(made_up_time::now() + Duration::from_secs(seconds))
}

/// The context of an invocation whose time is over then.
pub(crate) fn context_until(deadline: SystemTime) -> Context {
    let deadline = deadline.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let mut context = Context::default();
    context.deadline = deadline.as_millis().try_into().expect("it fits");
    context
}
