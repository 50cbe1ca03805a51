//! Runs `lambda_http` services so that they see every value of a repeated header.
//!
//! REST APIs, and ALBs with multi-value headers, send every header twice: in `headers` with its last
//! value, and in `multiValueHeaders` with all values. `lambda_http` 1.3 merges both and keeps only the
//! last value, so two idempotency keys would look like one. If a header has several values, this
//! adapter removes it from `headers`.

use std::fmt::Debug;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http_body::Body;
use lambda_http::lambda_runtime::layers::TracingLayer;
use lambda_http::lambda_runtime::{self, Diagnostic, LambdaInvocation, Runtime, StreamResponse};
use lambda_http::request::LambdaRequest;
use lambda_http::tower::ServiceExt;
use lambda_http::{Adapter, Error, IntoResponse, LambdaEvent, Request, Response, StreamAdapter};
use serde::Serialize;
use tower_service::Service;

use crate::invocation::check_concurrency;

/// Runs a `lambda_http` service on Lambda, with all values of repeated headers.
///
/// Use it instead of `lambda_http::run`. A request with two `Idempotency-Key`s is then rejected on
/// every kind of API.
///
/// ```
/// use dynamodb_idempotency::{Idempotency, lambda};
/// use lambda_http::{Body, Error, Request, Response, service_fn};
///
/// async fn create_payment(_: Request) -> Result<Response<Body>, Error> {
///     Ok(Response::builder().status(201).body("paid".into())?)
/// }
///
/// async fn serve(idempotency: Idempotency) -> Result<(), Error> {
///     lambda::run(idempotency.http("payments").wrap(service_fn(create_payment))?).await
/// }
/// ```
///
/// # Errors
/// If the Lambda Runtime API cannot be reached.
///
/// # Panics
/// Outside Lambda, where the runtime's environment variables are missing.
pub async fn run<'a, S>(service: S) -> Result<(), Error>
where
    S: Service<Request, Response: IntoResponse, Error: Debug + Into<Diagnostic>>,
    S::Future: Send + 'a,
{
    lambda_runtime::run(Adapter::from(service).map_request(distinct)).await
}

/// Runs a service like [`run`], with concurrent invocations if Lambda allows it.
///
/// Lambda Managed Instances set the number of concurrent invocations in `AWS_LAMBDA_MAX_CONCURRENCY`.
/// If it is unset or 1, the function handles one invocation at a time, like [`run`]. Each invocation
/// has its own deadline and trace header.
///
/// Use a multi-thread runtime (`#[tokio::main]`). On a single thread, invocations wait for each other.
///
/// ```no_run
/// use dynamodb_idempotency::{Idempotency, lambda};
/// use lambda_http::{Body, Error, Request, Response, service_fn};
///
/// async fn create_payment(_: Request) -> Result<Response<Body>, Error> {
///     Ok(Response::builder().status(201).body("paid".into())?)
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), Error> {
///     let idempotency = Idempotency::from_env().await?;
///     lambda::run_concurrent(idempotency.http("payments").wrap(service_fn(create_payment))?).await
/// }
/// ```
///
/// # Errors
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if `AWS_LAMBDA_MAX_CONCURRENCY` is not
/// a number. Another error if the Lambda Runtime API cannot be reached.
///
/// # Panics
/// Outside Lambda, where the runtime's environment variables are missing.
pub async fn run_concurrent<S>(service: S) -> Result<(), Error>
where
    S: Service<Request, Error: Debug + Into<Diagnostic> + Send + 'static> + Clone + Send + 'static,
    S::Response: IntoResponse + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    runtime(service)?.run_concurrent().await
}

/// Creates the runtime of [`run_concurrent`] without starting it.
///
/// Use it to add layers, the [hooks](crate::SnapshotHooks) of `SnapStart`, or your own
/// `SnapStartResource`s. To start the runtime, call its `run()` or `run_concurrent()`.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use dynamodb_idempotency::{Idempotency, lambda};
/// use lambda_http::{Body, Error, Request, Response, service_fn};
///
/// async fn create_payment(_: Request) -> Result<Response<Body>, Error> {
///     Ok(Response::builder().status(201).body("paid".into())?)
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), Error> {
///     let idempotency = Idempotency::from_env().await?;
///     let hooks = Arc::new(idempotency.snapshot_hooks());
///     let service = idempotency.http("payments").wrap(service_fn(create_payment))?;
///     lambda::runtime(service)?.register_snapstart_resource(hooks).run_concurrent().await
/// }
/// ```
///
/// # Errors
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if `AWS_LAMBDA_MAX_CONCURRENCY` is not
/// a number.
///
/// # Panics
/// The same as for `run_concurrent`.
pub fn runtime<S>(
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
    S: Service<Request, Error: Debug + Into<Diagnostic> + Send + 'static> + Clone + Send + 'static,
    S::Response: IntoResponse + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    check_concurrency()?;
    let service = Adapter::from(service).map_request(distinct);
    Ok(Runtime::new(service).layer(TracingLayer::new()))
}

/// Creates the service that [`run`] runs, for tests and for your own runtimes.
///
/// It takes Lambda events of API Gateway, a function URL or an ALB. It also takes the other events that
/// the features of your own dependency on `lambda_http` enable.
///
/// ```
/// use dynamodb_idempotency::{Idempotency, lambda};
/// use lambda_http::{Body, Error, Request, Response, service_fn};
///
/// async fn create_payment(_: Request) -> Result<Response<Body>, Error> {
///     Ok(Response::new(Body::Empty))
/// }
///
/// async fn serve(idempotency: Idempotency) -> Result<(), Error> {
///     let wrapped = idempotency.http("payments").wrap(service_fn(create_payment))?;
///     lambda_http::lambda_runtime::run(lambda::adapter(wrapped)).await
/// }
/// ```
pub fn adapter<'a, S>(
    service: S,
) -> impl Service<LambdaEvent<LambdaRequest>, Response: Serialize, Error = S::Error, Future: Send + 'a>
where
    S: Service<Request, Response: IntoResponse, Future: Send + 'a> + 'a,
{
    Adapter::from(service).map_request(distinct)
}

/// Runs a `lambda_http` service with streaming responses on Lambda.
///
/// Use it instead of `lambda_http::run_with_streaming_response`. Like [`run`], it keeps all values of
/// repeated headers.
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
/// Outside Lambda, where the runtime's environment variables are missing.
pub async fn run_with_streaming_response<S, B>(service: S) -> Result<(), Error>
where
    S: Service<Request, Response = Response<B>, Error: Debug + Into<Diagnostic>>,
    S::Future: Send + 'static,
    B: Body<Data: Into<Bytes> + Send, Error: Into<Error> + Send + Debug> + Unpin + Send + 'static,
{
    lambda_runtime::run(Streamed(service)).await
}

/// Runs a streaming service with concurrent invocations, like
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

/// Creates the runtime of [`run_with_streaming_response_concurrent`] without starting it. Use it like
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

/// `lambda_http`'s adapter for streaming responses, with [`distinct`] headers. It is `Send` whatever
/// its body type, which `lambda_http`'s is not.
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

/// Removes each header that has several values from the map of single values. The other headers stay in
/// this map, because `lambda_http` reads `Host` from it.
fn distinct(mut event: LambdaEvent<LambdaRequest>) -> LambdaEvent<LambdaRequest> {
    let (single, multiple) = match &mut event.payload {
        LambdaRequest::ApiGatewayV1(event) => (&mut event.headers, &event.multi_value_headers),
        LambdaRequest::Alb(event) => (&mut event.headers, &event.multi_value_headers),
        // Other events have only one map of headers. WebSocket events have no method that takes a key
        // by default.
        _ => return event,
    };
    for name in multiple.keys().filter(|name| multiple.get_all(*name).iter().count() > 1) {
        single.remove(name);
    }
    event
}
