//! AWS Lambda: the wrapper for `lambda_http` handlers.
//!
//! ```no_run
//! use dynamodb_idempotency::{Idempotency, lambda};
//! use lambda_http::{Body, Error, Request, Response, service_fn};
//!
//! async fn create_payment(request: Request) -> Result<Response<Body>, Error> {
//!     # let _ = request;
//!     Ok(Response::builder().status(201).body("paid".into())?)
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     let idempotency = Idempotency::from_env().await?;
//!     lambda::run(idempotency.http("payments").wrap(service_fn(create_payment))?).await
//! }
//! ```
//!
//! The rules are those of [`http`](crate::http). The lease follows the deadline of the invocation, from
//! its `Context`.
//!
//! Lambda accepts a response of at most 6,291,556 bytes of JSON, and an ALB accepts at most 1 MiB. Binary
//! bodies are sent in Base64, so about 4.5 MB fit into Lambda's limit. Instead of a larger response, the
//! client gets [`ProblemKind::BodyBroken`](crate::http::ProblemKind::BodyBroken). If the larger response
//! has a status that is stored, the request counts as completed, and repeats get
//! [`ProblemKind::AnswerUnavailable`](crate::http::ProblemKind::AnswerUnavailable).
//! [`Http::wrap_streaming`](crate::http::Http::wrap_streaming) has no such limit.

mod payload;
mod run;
mod service;
pub mod tenant;

pub use self::run::{
    adapter, run, run_concurrent, run_with_streaming_response,
    run_with_streaming_response_concurrent, runtime, streaming_adapter, streaming_runtime,
};
pub use self::service::{HandlerResponse, HttpService, LambdaResponse};
