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
//! The rules are those of [`http`](crate::http). The lease ends with the request's own invocation,
//! by its `Context`.

mod run;
mod service;
mod streaming;
pub mod tenant;
mod transaction;

pub use self::run::{adapter, run, run_concurrent, runtime};
pub use self::service::{HttpService, LambdaResponse};
pub use self::streaming::{
    run_with_streaming_response, run_with_streaming_response_concurrent, streaming_adapter,
    streaming_runtime,
};
