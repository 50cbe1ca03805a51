//! Streaming responses: the wrapper around a service with its own body type, and its runtime.

use std::fmt::Debug;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http_body::Body;
use http_body_util::Either;
use lambda_http::lambda_runtime::layers::TracingLayer;
use lambda_http::lambda_runtime::{self, Diagnostic, LambdaInvocation, Runtime, StreamResponse};
use lambda_http::request::LambdaRequest;
use lambda_http::{Error, LambdaEvent, Request, Response, StreamAdapter, service_fn};
use tower_service::Service;

use super::run::distinct;
use crate::http::Http;
use crate::http::answer_body::{BoxError, ResponseBody, whole};
use crate::http::exchange::{exchange, oneshot, render};
use crate::http::layer::read_response;
use crate::http::request::whole_call;
use crate::invocation::check_concurrency;

impl Http {
    /// Wraps a `lambda_http` service whose bodies stream, for example an axum `Router`.
    ///
    /// Pass the result to
    /// [`lambda::run_with_streaming_response`](crate::lambda::run_with_streaming_response).
    ///
    /// Requests that pass through stream without a change. The answer to a request with a key is
    /// held back until it is stored. An answer that is too long to be stored can be sent as it
    /// arrives: [`stream_large_answers`](Self::stream_large_answers).
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use axum::{Router, routing::post};
    ///
    /// let router: Router = Router::new().route("/payments", post(async || "paid"));
    /// let service = idempotency.http("payments").wrap_streaming(router)?;
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`layer`](Self::layer).
    pub fn wrap_streaming<S, B>(
        self,
        service: S,
    ) -> Result<
        impl Service<
            Request,
            Response = Response<ResponseBody<B>>,
            Error = S::Error,
            Future: Send + 'static,
        > + Clone,
        crate::Error,
    >
    where
        S: Service<Request, Response = Response<B>, Error: Send, Future: Send>
            + Clone
            + Send
            + 'static,
        B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let config = self.checked()?;
        Ok(service_fn(move |request: Request| {
            let (config, inner) = (Arc::clone(&config), service.clone());
            Box::pin(async move {
                let (call, request) = whole_call(&config, request);
                Ok(match call {
                    Ok(None) => oneshot(inner, request).await?.map(Either::Left),
                    Ok(Some(call)) => {
                        let read = |response| read_response(&config, response);
                        whole(exchange(&config, call, request, inner, read).await?)
                    }
                    Err(problem) => whole(render(&config, &problem)),
                })
            })
        }))
    }
}

/// Runs a `lambda_http` service with streaming responses on Lambda.
///
/// The same as `lambda_http::run_with_streaming_response`, but with every value of repeated
/// headers, like [`run`](super::run).
///
/// ```no_run
/// use axum::{Router, routing::post};
/// use dynamodb_idempotency::{Idempotency, lambda};
/// use lambda_http::Error;
///
/// #[tokio::main]
/// async fn main() -> Result<(), Error> {
///     let idempotency = Idempotency::from_env().await?;
///     let router: Router = Router::new().route("/payments", post(async || "paid"));
///     let service = idempotency.http("payments").wrap_streaming(router)?;
///     lambda::run_with_streaming_response(service).await
/// }
/// ```
///
/// # Errors
/// If the Lambda Runtime API cannot be reached.
///
/// # Panics
/// Outside Lambda, where the runtime's environment variables are missing, like
/// `lambda_http::run_with_streaming_response`.
pub async fn run_with_streaming_response<S, B>(service: S) -> Result<(), Error>
where
    S: Service<Request, Response = Response<B>, Error: Debug + Into<Diagnostic>>,
    S::Future: Send + 'static,
    B: Body<Data: Into<Bytes> + Send, Error: Into<Error> + Send + Debug> + Unpin + Send + 'static,
{
    lambda_runtime::run(Streamed(service)).await
}

/// Runs a streaming service with as many concurrent invocations as
/// [`run_concurrent`](super::run_concurrent).
///
/// ```no_run
/// use axum::{Router, routing::post};
/// use dynamodb_idempotency::{Idempotency, lambda};
/// use lambda_http::Error;
///
/// #[tokio::main]
/// async fn main() -> Result<(), Error> {
///     let idempotency = Idempotency::from_env().await?;
///     let router: Router = Router::new().route("/payments", post(async || "paid"));
///     let service = idempotency.http("payments").wrap_streaming(router)?;
///     lambda::run_with_streaming_response_concurrent(service).await
/// }
/// ```
///
/// # Errors
/// The same as for `run_concurrent`.
///
/// # Panics
/// The same as for `run_concurrent`.
pub async fn run_with_streaming_response_concurrent<S, B>(service: S) -> Result<(), Error>
where
    S: Service<Request, Response = Response<B>, Error: Debug + Into<Diagnostic> + Send + 'static>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data: Into<Bytes> + Send, Error: Into<Error> + Send + Debug> + Unpin + Send + 'static,
{
    streaming_runtime(service)?.run_concurrent().await
}

/// Creates the runtime of [`run_with_streaming_response_concurrent`] without starting it, like
/// [`runtime`](super::runtime).
///
/// ```no_run
/// use std::sync::Arc;
///
/// use axum::{Router, routing::post};
/// use dynamodb_idempotency::{Idempotency, lambda};
/// use lambda_http::Error;
///
/// #[tokio::main]
/// async fn main() -> Result<(), Error> {
///     let idempotency = Idempotency::from_env().await?;
///     let hooks = Arc::new(idempotency.snapshot_hooks());
///     let router: Router = Router::new().route("/payments", post(async || "paid"));
///     let runtime = lambda::streaming_runtime(idempotency.http("payments").wrap_streaming(router)?)?;
///     runtime.register_snapstart_resource(hooks).run_concurrent().await
/// }
/// ```
///
/// # Errors
/// The same as for `runtime`.
///
/// # Panics
/// The same as for `run_concurrent`.
pub fn streaming_runtime<S, B>(
    service: S,
) -> Result<
    Runtime<
        impl Service<LambdaInvocation, Response = (), Error = Error, Future: Send>
        + Clone
        + Send
        + 'static,
    >,
    Error,
>
where
    S: Service<Request, Response = Response<B>, Error: Debug + Into<Diagnostic> + Send + 'static>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data: Into<Bytes> + Send, Error: Into<Error> + Send + Debug> + Unpin + Send + 'static,
{
    check_concurrency()?;
    Ok(Runtime::new(Streamed(service)).layer(TracingLayer::new()))
}

/// Creates a service like [`adapter`](super::adapter), with streaming responses.
///
/// ```
/// use axum::Router;
/// use dynamodb_idempotency::lambda;
///
/// # fn example(router: Router) {
/// let service = lambda::streaming_adapter(router);
/// # }
/// ```
pub fn streaming_adapter<S, B>(
    service: S,
) -> impl Service<
    LambdaEvent<LambdaRequest>,
    Response = StreamResponse<impl Stream<Item = Result<B::Data, B::Error>>>,
    Error = S::Error,
    Future: Send,
>
where
    S: Service<Request, Response = Response<B>>,
    S::Future: Send + 'static,
    B: Body<Data: Into<Bytes> + Send, Error: Into<Error> + Send + Debug> + Unpin + Send + 'static,
{
    Streamed(service)
}

/// `lambda_http`'s adapter for streaming responses, for [`distinct`] headers. Unlike that adapter, it is
/// `Send` whatever its body type.
#[derive(Clone)]
struct Streamed<S>(S);

impl<S, B> Service<LambdaEvent<LambdaRequest>> for Streamed<S>
where
    S: Service<Request, Response = Response<B>>,
    S::Future: Send + 'static,
    B: Body<Data: Into<Bytes> + Send, Error: Into<Error> + Send + Debug> + Unpin + Send + 'static,
{
    type Response = <StreamAdapter<'static, S, B> as Service<LambdaEvent<LambdaRequest>>>::Response;
    type Error = S::Error;
    type Future = <StreamAdapter<'static, S, B> as Service<LambdaEvent<LambdaRequest>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, event: LambdaEvent<LambdaRequest>) -> Self::Future {
        StreamAdapter::from(&mut self.0).call(distinct(event))
    }
}
