//! `lambda_http::run` with each of a repeated header's values.
//!
//! REST APIs, and ALBs that are set so, send every header twice: in `headers` with its last value,
//! and in `multiValueHeaders` with all of them. `lambda_http` 1.3 merges the first into the second
//! and keeps the last value alone, so that two idempotency keys would look like one. This adapter
//! drops a single where there are multiples of it.

use std::fmt::Debug;

use lambda_http::lambda_runtime::layers::TracingLayer;
use lambda_http::lambda_runtime::{self, Diagnostic, LambdaInvocation, Runtime};
use lambda_http::request::LambdaRequest;
use lambda_http::tower::ServiceExt;
use lambda_http::{Adapter, Error, IntoResponse, LambdaEvent, Request};
use serde::Serialize;
use tower_service::Service;

use crate::invocation::check_concurrency;

/// Runs a `lambda_http` service on Lambda, as `lambda_http::run` does, but keeps each value of a
/// repeated header: two `Idempotency-Key`s are refused on every kind of API.
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
/// When the Lambda Runtime API cannot be reached.
///
/// # Panics
/// As `lambda_http::run`: outside Lambda, where the runtime's environment variables are missing.
pub async fn run<'a, S>(service: S) -> Result<(), Error>
where
    S: Service<Request, Response: IntoResponse, Error: Debug + Into<Diagnostic>>,
    S::Future: Send + 'a,
{
    lambda_runtime::run(Adapter::from(service).map_request(distinct)).await
}

/// As [`run`], but with as many invocations at once as `AWS_LAMBDA_MAX_CONCURRENCY` says, which
/// Lambda Managed Instances set; one after the other if it is unset or 1. So one binary serves
/// both.
///
/// Each invocation has its own deadline and trace header. Use a multi-thread runtime
/// (`#[tokio::main]`): invocations that share one thread wait for each other, and a warning says
/// so.
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
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if `AWS_LAMBDA_MAX_CONCURRENCY` is
/// not a number; and if the Lambda Runtime API cannot be reached.
///
/// # Panics
/// As `lambda_http::run_concurrent`: outside Lambda, where the runtime's environment variables are
/// missing.
pub async fn run_concurrent<S>(service: S) -> Result<(), Error>
where
    S: Service<Request, Error: Debug + Into<Diagnostic> + Send + 'static> + Clone + Send + 'static,
    S::Response: IntoResponse + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    runtime(service)?.run_concurrent().await
}

/// The runtime of [`run_concurrent`] before it runs: for layers, for the
/// [hooks](crate::SnapshotHooks) of `SnapStart`, and for your own `SnapStartResource`s. Start it
/// with its `run()` or `run_concurrent()`.
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
/// As `run_concurrent`, for the variable.
///
/// # Panics
/// As `run_concurrent`.
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

/// The service that [`run`] runs: it takes Lambda events, for tests and for your own runtimes. They are
/// events of API Gateway, a function URL or an ALB; and of the kinds for which your own dependency on
/// `lambda_http` has a feature (its default features include VPC Lattice and `WebSocket` APIs).
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

/// The event with the values of each header once. Only where the two differ is the last value left out:
/// `lambda_http` reads `Host` from the singles.
pub(super) fn distinct(mut event: LambdaEvent<LambdaRequest>) -> LambdaEvent<LambdaRequest> {
    let (single, multiple) = match &mut event.payload {
        LambdaRequest::ApiGatewayV1(event) => (&mut event.headers, &event.multi_value_headers),
        LambdaRequest::Alb(event) => (&mut event.headers, &event.multi_value_headers),
        // The others have one map of headers; or are events of WebSockets, which are none of the
        // methods that take a key unless they are told to.
        _ => return event,
    };
    for name in multiple.keys().filter(|name| multiple.get_all(*name).iter().count() > 1) {
        single.remove(name);
    }
    event
}
