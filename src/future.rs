//! The future of the crate's services.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of an answer of one of the crate's services: of [`http`](crate::http) or of
/// [`event`](crate::event).
///
/// ```
/// # dynamodb_idempotency::testing::example(async |_, idempotency| {
/// use dynamodb_idempotency::event::JsonEvent;
/// use dynamodb_idempotency::{ResponseFuture, RunError};
/// use lambda_runtime::{Context, LambdaEvent, Service};
///
/// let handler = async |file: LambdaEvent<String>, _| Ok::<_, std::io::Error>(file.payload.len());
/// let mut service = idempotency.event("import", |file: &String| file.clone(), handler);
/// let event = LambdaEvent::new(JsonEvent::of("a.csv")?, Context::default());
/// let answer: ResponseFuture<usize, RunError<std::io::Error>> = service.call(event);
/// assert_eq!(answer.await?, 5);
/// # Ok(()) });
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<T, E>(Pin<Box<dyn Future<Output = Result<T, E>> + Send>>);

impl<T, E> ResponseFuture<T, E> {
    pub(crate) fn new(answering: impl Future<Output = Result<T, E>> + Send + 'static) -> Self {
        Self(Box::pin(answering))
    }
}

impl<T, E> Future for ResponseFuture<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<T, E> fmt::Debug for ResponseFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
