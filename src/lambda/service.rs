//! The wrappers around a `lambda_http` service.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Either;
use lambda_http::http::StatusCode;
use lambda_http::{Body, IntoResponse, Request, Response, service_fn};
use serde_json::Value;
use tower_service::Service;

use super::payload::Limit;
use crate::answer::{self, BodyKind};
use crate::call::transaction::Transaction;
use crate::call::user_code;
use crate::http::Http;
use crate::http::answer_body::{self, BoxError, ResponseBody};
use crate::http::exchange::{
    HandlerBody, exchange, exchange_transaction, explain_own, oneshot, pass_transaction, render,
};
use crate::http::layer::read_response;
use crate::http::request::whole_call;

impl Http {
    /// Wraps a `lambda_http` handler, such as a [`service_fn`] or an axum `Router`.
    ///
    /// Pass the result to [`lambda::run`](crate::lambda::run) or to `lambda_http::run`. Lambda limits
    /// the [size of a response](crate::lambda). The wrapper is always ready, and waits for the handler
    /// when it is called.
    ///
    /// If the handler returns an error of this crate, also in a box or as the cause of a boxed error, the
    /// client gets its [problem](crate::http::Problem). The handler has failed nevertheless. Any other
    /// error is returned, and the invocation fails.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use lambda_http::{Body, Error, Request, Response, service_fn};
    ///
    /// async fn create_payment(_: Request) -> Result<Response<Body>, Error> {
    ///     Ok(Response::builder().status(201).body("paid".into())?)
    /// }
    ///
    /// let service = idempotency.http("payments").wrap(service_fn(create_payment))?;
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`layer`](Self::layer).
    pub fn wrap<'a, S>(
        self,
        service: S,
    ) -> Result<
        impl Service<Request, Response = LambdaResponse, Error = S::Error, Future: Send + 'a> + Clone,
        crate::Error,
    >
    where
        S: Service<Request, Response: HandlerResponse, Error: Send + 'static, Future: Send>
            + Clone
            + Send
            + 'a,
    {
        let config = self.checked()?;
        Ok(service_fn(move |request: Request| {
            let (config, inner) = (Arc::clone(&config), service.clone());
            Box::pin(async move {
                let (config, limit) = (&*config, Limit::of(request.extensions()));
                let (call, request) = whole_call(config, request).await;
                Ok(LambdaResponse(match call {
                    // Converted into a future at once: the handler's response need not be `Send`.
                    Ok(None) => {
                        match oneshot(inner, request).await.map(IntoResponse::into_response) {
                            Ok(responding) => responding.await,
                            Err(error) => explain_own(config, error)?,
                        }
                    }
                    Ok(Some(call)) => {
                        let read = |response| whole(response, limit);
                        let answered = exchange(config, call, request, inner, read).await;
                        let answered = answered.or_else(|error| explain_own(config, error))?;
                        limit.enforce(config, answered)
                    }
                    Err(problem) => render(config, &problem),
                }))
            })
        }))
    }

    /// Wraps a `lambda_http` handler whose whole effect is one DynamoDB transaction.
    ///
    /// A request takes only **one** round trip, and a repeat takes one too. Apart from the differences
    /// below, the rules are those of [`wrap`](Self::wrap).
    ///
    /// The handler returns a [`Transaction`]: its response and the items to write. The handler runs before
    /// the first request to DynamoDB, also in a repeat, so it must have no effect itself; see
    /// [`Call::run_transaction`](crate::Call::run_transaction). It has no
    /// [`Execution`](crate::Execution).
    ///
    /// The response to a transaction with writes is stored, whatever its final status. A response without
    /// writes, or from [`on_condition_failed`](Transaction::on_condition_failed), is stored only if
    /// [`store_if`](Self::store_if) selects its status. If a response is
    /// [larger than Lambda accepts](crate::lambda), nothing is written, and the client gets
    /// [`ProblemKind::BodyBroken`](crate::http::ProblemKind::BodyBroken).
    ///
    /// A request that passes through is unprotected. If its transaction has writes, nothing is written,
    /// and the client gets a 500.
    ///
    /// ```
    /// use aws_sdk_dynamodb::types::TransactWriteItem;
    /// use dynamodb_idempotency::{Idempotency, Transaction, lambda};
    /// use lambda_http::{Body, Error, Request, Response, service_fn};
    /// # fn debit_and_credit(_: &Request) -> [TransactWriteItem; 2] { unimplemented!() }
    ///
    /// async fn transfer(request: Request) -> Result<Transaction<Response<Body>>, Error> {
    ///     let done = Response::builder().status(201).body(Body::Empty)?;
    ///     let refused = Response::builder().status(402).body(Body::from("insufficient funds"))?;
    ///     Ok(Transaction::new(done)
    ///         .items(debit_and_credit(&request))
    ///         .on_condition_failed(|_| Some(refused)))
    /// }
    ///
    /// async fn serve(idempotency: Idempotency) -> Result<(), Error> {
    ///     lambda::run(idempotency.http("transfers").wrap_transaction(service_fn(transfer))?).await
    /// }
    /// ```
    ///
    /// # Errors
    /// The same as for [`layer`](Self::layer).
    pub fn wrap_transaction<'a, S>(
        self,
        service: S,
    ) -> Result<
        impl Service<Request, Response = LambdaResponse, Error = S::Error, Future: Send + 'a> + Clone,
        crate::Error,
    >
    where
        S: Service<Request, Response = Transaction<Response<Body>>, Future: Send>
            + Service<Request, Error: Send + 'static>
            + Clone
            + Send
            + 'a,
    {
        let config = self.checked()?;
        Ok(service_fn(move |request: Request| {
            let (config, inner) = (Arc::clone(&config), service.clone());
            Box::pin(async move {
                let (config, limit) = (&*config, Limit::of(request.extensions()));
                let (call, request) = whole_call(config, request).await;
                Ok(LambdaResponse(match call {
                    Ok(None) => match oneshot(inner, request).await {
                        Ok(transaction) => pass_transaction(config, transaction),
                        Err(error) => explain_own(config, error)?,
                    },
                    Ok(Some(call)) => {
                        // The call is inside the future, so that its panic is handled too.
                        let handler = async {
                            let transaction = oneshot(inner, request).await?;
                            Ok(match limit.check(&transaction.response) {
                                Ok(()) => transaction.map(|answer| {
                                    answer.map(|body| HandlerBody::Whole(body.into()))
                                }),
                                Err(reason) => Transaction::discard(
                                    transaction
                                        .response
                                        .map(|_| HandlerBody::Unsendable(reason).nothing_written()),
                                ),
                            })
                        };
                        let answered = exchange_transaction(config, call, handler).await;
                        let answered = answered.or_else(|error| explain_own(config, error))?;
                        limit.enforce(config, answered)
                    }
                    Err(problem) => render(config, &problem),
                }))
            })
        }))
    }

    /// Wraps a `lambda_http` service whose bodies stream, for example an axum `Router`.
    ///
    /// Pass the result to
    /// [`lambda::run_with_streaming_response`](crate::lambda::run_with_streaming_response).
    ///
    /// The answer to a request with a key is held back until it is stored. To stream an answer that is
    /// too long to be stored, set [`stream_large_answers`](Self::stream_large_answers).
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
        S: Service<Request, Response = Response<B>, Error: Send + 'static, Future: Send>
            + Clone
            + Send
            + 'static,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let config = self.checked()?;
        Ok(service_fn(move |request: Request| {
            let (config, inner) = (Arc::clone(&config), service.clone());
            Box::pin(async move {
                let (call, request) = whole_call(&config, request).await;
                Ok(match call {
                    Ok(None) => match oneshot(inner, request).await {
                        Ok(response) => response.map(Either::Left),
                        Err(error) => answer_body::whole(explain_own(&config, error)?),
                    },
                    Ok(Some(call)) => {
                        let read = |response| read_response(&config, response, None);
                        let answered = exchange(&config, call, request, inner, read).await;
                        let answered = answered.or_else(|error| explain_own(&config, error))?;
                        answer_body::whole(answered)
                    }
                    Err(problem) => answer_body::whole(render(&config, &problem)),
                })
            })
        }))
    }
}

/// The type of the services that [`Http::wrap`] and [`Http::wrap_transaction`] return.
///
/// Use it as the return type of a function that creates a service for [`lambda::run`](super::run),
/// [`run_concurrent`](super::run_concurrent) or a test.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use dynamodb_idempotency::Idempotency;
/// use dynamodb_idempotency::lambda::HttpService;
/// use lambda_http::{Body, Error, Request, Response, Service, http, service_fn};
///
/// /// For `main` and for tests.
/// fn payments(
///     idempotency: &Idempotency,
///     currency: &'static str,
/// ) -> Result<impl HttpService, dynamodb_idempotency::Error> {
///     idempotency.http("payments").wrap(service_fn(move |_: Request| async move {
///         Ok::<_, Error>(Response::new(Body::from(currency)))
///     }))
/// }
///
/// let mut service = payments(&idempotency, "eur")?;
/// let request = http::Request::post("/payments").header("idempotency-key", "order-42");
/// let response = service.call(request.body(Body::Empty)?).await?.into_inner();
/// assert_eq!(response.body().as_ref(), b"eur");
/// # Ok(()) });
/// ```
pub trait HttpService<E = lambda_http::Error>:
    Service<Request, Response = LambdaResponse, Error = E, Future: Send + 'static>
    + Clone
    + Send
    + 'static
{
}

impl<S, E> HttpService<E> for S where
    S: Service<Request, Response = LambdaResponse, Error = E, Future: Send + 'static>
        + Clone
        + Send
        + 'static
{
}

/// A response that [`Http::wrap`](crate::http::Http::wrap) accepts from a handler.
///
/// The status decides whether the request is completed. `lambda_http` panics if reading a body fails,
/// and the status is then lost, so this trait provides it before the conversion.
///
/// The trait is implemented for every type for which `lambda_http` implements [`IntoResponse`]. For
/// your own type:
///
/// ```
/// use std::pin::Pin;
///
/// use dynamodb_idempotency::lambda::HandlerResponse;
/// use lambda_http::http::StatusCode;
/// use lambda_http::{Body, IntoResponse, Response};
///
/// struct Created(String);
///
/// impl IntoResponse for Created {
///     fn into_response(self) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
///         (self.status(), self.0).into_response()
///     }
/// }
///
/// impl HandlerResponse for Created {
///     fn status(&self) -> StatusCode {
///         StatusCode::CREATED
///     }
/// }
///
/// assert_eq!((StatusCode::ACCEPTED, "later").status(), 202);
/// ```
pub trait HandlerResponse: IntoResponse {
    /// Returns the status of the response that [`IntoResponse::into_response`] would create.
    ///
    /// ```
    /// use dynamodb_idempotency::lambda::HandlerResponse;
    ///
    /// assert_eq!("paid".status(), 200);
    /// ```
    fn status(&self) -> StatusCode;
}

impl<B> HandlerResponse for Response<B>
where
    Self: IntoResponse,
{
    fn status(&self) -> StatusCode {
        self.status()
    }
}

impl HandlerResponse for LambdaResponse {
    fn status(&self) -> StatusCode {
        self.0.status()
    }
}

impl<T> HandlerResponse for (StatusCode, T)
where
    Self: IntoResponse,
{
    fn status(&self) -> StatusCode {
        self.0
    }
}

macro_rules! always_ok {
    ($($type:ty),*) => {$(
        impl HandlerResponse for $type {
            fn status(&self) -> StatusCode {
                StatusCode::OK
            }
        }
    )*};
}

always_ok!(String, &str, Vec<u8>, &[u8], Value);

/// A response in the form that Lambda accepts.
///
/// `lambda_http` converts other responses into this form by their content type. A second conversion
/// would change a body that is not UTF-8.
///
/// ```
/// use dynamodb_idempotency::lambda::LambdaResponse;
///
/// fn status(response: LambdaResponse) -> u16 {
///     response.into_inner().status().as_u16()
/// }
/// ```
#[derive(Debug)]
pub struct LambdaResponse(Response<Body>);

impl LambdaResponse {
    /// Returns the inner response.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use lambda_http::{Body, Error, Request, Response, Service, http, service_fn};
    ///
    /// let handler = service_fn(async |_: Request| Ok::<_, Error>(Response::new(Body::from("paid"))));
    /// let mut service = idempotency.http("payments").wrap(handler)?;
    /// let request = http::Request::post("/payments").header("idempotency-key", "order-42");
    /// let request: Request = request.body(Body::Empty)?;
    /// let response = service.call(request).await?.into_inner();
    /// assert_eq!(response.body().as_ref(), b"paid");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn into_inner(self) -> Response<Body> {
        self.0
    }
}

/// Use it if your handler builds its bodies: text as [`Body::Text`], other bytes as [`Body::Binary`],
/// which is sent in Base64. `lambda_http` decodes and copies other types of response. If a function uses
/// only this type, its executable does not contain the tables of all text encodings.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use dynamodb_idempotency::lambda::LambdaResponse;
/// use lambda_http::{Body, Error, Request, Response, Service, http, service_fn};
///
/// async fn create_payment(_: Request) -> Result<LambdaResponse, Error> {
///     let response = Response::builder().status(201).body(Body::from(r#"{"status":"paid"}"#))?;
///     Ok(response.into())
/// }
///
/// let mut service = idempotency.http("payments").wrap(service_fn(create_payment))?;
/// for _ in 0..2 {
///     let request = http::Request::post("/payments").header("idempotency-key", "order-42");
///     let response = service.call(request.body(Body::Empty)?).await?.into_inner();
///     assert_eq!(response.body().as_ref(), br#"{"status":"paid"}"#);
/// }
/// # Ok(()) });
/// ```
impl From<Response<Body>> for LambdaResponse {
    fn from(response: Response<Body>) -> Self {
        Self(response)
    }
}

impl IntoResponse for LambdaResponse {
    fn into_response(self) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        Box::pin(std::future::ready(self.0))
    }
}

/// Reads the whole response of a handler. If `lambda_http` panics because the body failed, only the
/// response is lost. The conversion starts at once, because the response type need not be `Send`.
fn whole(
    response: impl HandlerResponse,
    limit: Limit,
) -> impl Future<Output = Response<HandlerBody<Body>>> + Send {
    // The handler has run, so the request counts as completed if its status is unknown.
    let status = user_code::call(|| response.status()).unwrap_or(StatusCode::OK);
    let converting = user_code::call(|| response.into_response());
    async move {
        let converted = match converting {
            Ok(converting) => user_code::run(converting).await,
            Err(panic) => Err(panic),
        };
        match converted.map(|response| (limit.check(&response), response)) {
            Ok((Ok(()), response)) => response.map(|body| HandlerBody::Whole(body.into())),
            Ok((Err(reason), response)) => response.map(|_| HandlerBody::Unsendable(reason)),
            Err(panic) => {
                let mut broken = Response::new(HandlerBody::broken(panic.text()));
                *broken.status_mut() = status;
                broken
            }
        }
    }
}

impl From<Body> for answer::Body {
    fn from(body: Body) -> Self {
        let (kind, bytes) = match body {
            Body::Text(text) => (BodyKind::Text, text.into()),
            Body::Binary(bytes) => (BodyKind::Binary, bytes.into()),
            // An empty body, or a kind that a later version adds.
            _ => (BodyKind::Empty, Bytes::new()),
        };
        Self { kind, bytes }
    }
}

/// Nothing is copied if the bytes are not shared.
impl From<answer::Body> for Body {
    fn from(body: answer::Body) -> Self {
        match body.kind {
            BodyKind::Empty => Self::Empty,
            BodyKind::Text => String::from_utf8(body.bytes.into())
                .map_or_else(|error| Self::Binary(error.into_bytes()), Self::Text),
            BodyKind::Binary => Self::Binary(body.bytes.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_becomes_an_answer_and_a_body_again_without_a_copy() {
        for body in [Body::Text("x".repeat(100)), Body::Binary(vec![0xff; 100])] {
            let (kind, bytes) = (format!("{body:?}"), body.as_ref().as_ptr());
            let answer = answer::Body::from(body);
            // The stored answer shares the bytes until it is written.
            drop(answer.clone());
            let again = Body::from(answer);
            assert_eq!((format!("{again:?}"), again.as_ref().as_ptr()), (kind, bytes));
        }
    }
}
