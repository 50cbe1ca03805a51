//! axum: [`Execution`] as an extractor, and the crate's errors as responses.
//!
//! Needs the feature `axum`.
//!
//! 1. A handler below an [`IdempotencyLayer`](super::IdempotencyLayer) takes its [`Execution`] as an
//!    argument. A request without an `Execution`, for example a request that passed through, gets a 500.
//!    If such requests reach the handler, take an `Option<Execution>`.
//! 2. [`Problem`], [`Error`] and [`RunError`] implement `IntoResponse`, so a handler can return them
//!    with `?`. The client gets the same problems that the layer sends. If the handler's error does not
//!    implement `IntoResponse`, use [`RunError::into_response_with`].
//! 3. [`Execution::commit_into_response`] and [`Execution::step_into_response`] accept every type that
//!    axum can convert into a response.
//! 4. A handler whose whole effect is one transaction returns that transaction; see
//!    [`Http::transaction_layer`](super::Http::transaction_layer).
//! 5. If an extractor rejects a request (400, 415, 422), the key stays free; see
//!    [`Http::store_if`](super::Http::store_if).
//!
//! ```
//! # doc_examples::run(async |_, idempotency| {
//! use axum::body::Body;
//! use axum::extract::{Request, State};
//! use axum::http::StatusCode;
//! use axum::routing::{get, post};
//! use axum::{Json, Router};
//! use dynamodb_idempotency::{Execution, Idempotency, RunError};
//! use tower::ServiceExt;
//!
//! async fn pay(execution: Execution, Json(amount): Json<u32>) -> (StatusCode, String) {
//!     (StatusCode::CREATED, format!("{amount} in attempt {}", execution.attempt()))
//! }
//!
//! /// A separate function: the crate's errors become problems, the handler's its own responses.
//! async fn report(State(idempotency): State<Idempotency>) -> Result<String, RunError<StatusCode>> {
//!     let report = idempotency.operation("report").key("2026-11").no_payload();
//!     report.run(async |_| Err(StatusCode::SERVICE_UNAVAILABLE)).await
//! }
//!
//! let pay = post(pay).route_layer(idempotency.http("payments").layer()?);
//! let router = Router::new().route("/payments", pay).route("/report", get(report));
//! let router = router.with_state(idempotency);
//!
//! let request = Request::post("/payments").header("idempotency-key", "order-42");
//! let request = request.header("content-type", "application/json").body(Body::from("5"))?;
//! assert_eq!(router.clone().oneshot(request).await?.status(), StatusCode::CREATED);
//! let report = router.oneshot(Request::get("/report").body(Body::empty())?).await?;
//! assert_eq!(report.status(), StatusCode::SERVICE_UNAVAILABLE);
//! # Ok(()) });
//! ```
//!
//! Add the layer with the method `route_layer` of a route or of a whole `Router`. `Router::layer` also covers
//! the fallback of the router: a `POST` without a key to an unknown path then gets a 400 instead of a 404.

mod step;
mod transaction;

use std::convert::Infallible;

use ::axum::body::Body;
use ::axum::extract::{FromRequestParts, OptionalFromRequestParts};
use ::axum::response::{IntoResponse, Response};
use aws_sdk_dynamodb::types::TransactWriteItem;
use http::request::Parts;
use http_body_util::BodyExt;

use super::problem::{self, Problem, ProblemKind};
use crate::call::execution::Execution;
use crate::call::transaction::not_serializable;
use crate::error::{Error, RunError};

/// Extracts the running execution. A request without one gets [`ProblemKind::Misconfigured`].
impl<S: Sync> FromRequestParts<S> for Execution {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let found = parts.extensions.get().cloned();
        found.ok_or_else(|| {
            tracing::error!("a handler needs an Execution, but its request has none");
            let detail = "The handler needs an Execution, but this request has none: its route has no \
                          idempotency layer, the layer does not handle its method, or it has no key \
                          and none is required.";
            Problem::new(ProblemKind::Misconfigured, detail)
        })
    }
}

/// Extracts the running execution, or `None` if the request passed through.
impl<S: Sync> OptionalFromRequestParts<S> for Execution {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get().cloned())
    }
}

impl Execution {
    /// Commits items like [`commit_response`](Self::commit_response), with any axum response.
    ///
    /// Returns the response, which the handler should return. The body is read into memory before
    /// anything is sent.
    ///
    /// ```no_run
    /// use aws_sdk_dynamodb::types::TransactWriteItem;
    /// use axum::http::StatusCode;
    /// use axum::response::Response;
    /// use dynamodb_idempotency::{Error, Execution};
    ///
    /// async fn book(execution: Execution, row: TransactWriteItem) -> Result<Response, Error> {
    ///     execution.commit_into_response((StatusCode::CREATED, "booked"), [row]).await
    /// }
    /// ```
    ///
    /// # Errors
    /// The same as for `commit_response`. Also
    /// [`ErrorKind::InvalidTransaction`](crate::ErrorKind::InvalidTransaction) if the body of the
    /// response cannot be read.
    pub async fn commit_into_response(
        &self,
        response: impl IntoResponse,
        items: impl IntoIterator<Item = TransactWriteItem>,
    ) -> Result<Response, Error> {
        let (head, body) = response.into_response().into_parts();
        let body = body.collect().await.map_err(|error| {
            not_serializable(&format!("reading the response's body failed: {error}"))
        })?;
        let response = http::Response::from_parts(head, body.to_bytes());
        self.commit_response(&response, items).await?;
        Ok(response.map(Body::from))
    }
}

/// The same as [`Problem::to_response`].
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.to_response().map(Body::from)
    }
}

/// Responds with the [problem](Problem) of the error. Details that the client must not see go to the
/// log.
///
/// For example, an unavailable DynamoDB is a 503 ([`ProblemKind::Unavailable`]), and a failed condition
/// is a 409 ([`ProblemKind::ConditionFailed`]). A wrong use of the crate by the handler is a 500
/// ([`ProblemKind::Misconfigured`]).
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        problem::explain(None, self.details()).into_response()
    }
}

/// Responds with the handler's own error, or with the [problem](Problem) of the crate's error.
impl<E: IntoResponse> IntoResponse for RunError<E> {
    fn into_response(self) -> Response {
        self.into_response_with(E::into_response)
    }
}

impl<E> RunError<E> {
    /// Converts the error into a response, with `respond` for the handler's own error.
    ///
    /// The crate's error becomes its [problem](Problem). Use this method if the handler's error does not
    /// implement `IntoResponse`.
    ///
    /// ```
    /// use axum::http::StatusCode;
    /// use axum::response::Response;
    /// use dynamodb_idempotency::RunError;
    ///
    /// fn respond(error: RunError<std::io::Error>) -> Response {
    ///     error.into_response_with(|error| (StatusCode::BAD_GATEWAY, error.to_string()))
    /// }
    ///
    /// let error = std::io::Error::other("the bank does not answer");
    /// assert_eq!(respond(RunError::Handler(error)).status(), 502);
    /// ```
    pub fn into_response_with<R: IntoResponse>(self, respond: impl FnOnce(E) -> R) -> Response {
        match self {
            Self::Handler(error) => respond(error).into_response(),
            Self::Idempotency(error) => error.into_response(),
        }
    }
}
