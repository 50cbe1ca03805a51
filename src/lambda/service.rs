//! The wrapper around a `lambda_http` service.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use lambda_http::{Body, IntoResponse, Request, Response};
use tower_service::Service;

use crate::answer::{BodyRef, HttpBody};
use crate::engine::runner::panic_text;
use crate::http::{
    Applicability, Config, Handled, Http, WholeBody, applicability, call, exchange, ready, render,
};

impl Http {
    /// Wraps a `lambda_http` handler: a [`service_fn`](lambda_http::service_fn), an axum `Router`,
    /// any service of `lambda_http` requests. Give the result to
    /// [`lambda::run`](crate::lambda::run) or to `lambda_http::run`.
    pub fn wrap<'a, S>(self, service: S) -> Idempotent<'a, S>
    where
        S: Service<Request> + 'a,
    {
        Idempotent { config: self.without_trailers(), inner: service, lifetime: PhantomData }
    }
}

/// A `lambda_http` service whose repeats get the same answer; made by [`Http::wrap`].
///
/// ```
/// use dynamodb_idempotency::lambda::Idempotent;
/// use lambda_http::{Body, Error, Request, Response, Service, service_fn};
///
/// async fn create_payment(_: Request) -> Result<Response<Body>, Error> {
///     Ok(Response::builder().status(201).body("paid".into())?)
/// }
///
/// // In a test, without Lambda.
/// async fn pay<S>(mut service: Idempotent<'_, S>, request: Request) -> Result<Response<Body>, Error>
/// where
///     S: Service<Request, Response = Response<Body>, Error = Error> + Clone + Send,
///     S::Future: Send,
/// {
///     Ok(service.call(request).await?.into_inner())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Idempotent<'a, S> {
    config: Arc<Config>,
    inner: S,
    /// Of what the service borrows.
    lifetime: PhantomData<fn() -> &'a ()>,
}

/// What [`lambda::run`](super::run) and [`run_concurrent`](super::run_concurrent) run, and what
/// tests call. Use it as the return type of a function that makes a service. Each [`Idempotent`]
/// and [`IdempotentTransaction`] implements it.
///
/// [`IdempotentTransaction`]: super::IdempotentTransaction
///
/// ```
/// # dynamodb_idempotency::testing::example(async |_, idempotency| {
/// use dynamodb_idempotency::Idempotency;
/// use dynamodb_idempotency::lambda::HttpService;
/// use lambda_http::{Body, Error, Request, Response, Service, http, service_fn};
///
/// /// For `main` and for tests.
/// fn payments(idempotency: &Idempotency, currency: &'static str) -> impl HttpService {
///     idempotency.http("payments").wrap(service_fn(move |_: Request| async move {
///         Ok::<_, Error>(Response::new(Body::from(currency)))
///     }))
/// }
///
/// let mut service = payments(&idempotency, "eur");
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

/// A response in the form in which Lambda accepts it.
///
/// It is a separate type, because `lambda_http` converts every other response into that form
/// itself, by its content type. Converting twice would change a body that is not in UTF-8.
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
    /// The response itself.
    #[must_use]
    pub fn into_inner(self) -> Response<Body> {
        self.0
    }
}

/// For a handler that builds its bodies itself: text as [`Body::Text`], anything else as
/// [`Body::Binary`], which is sent in Base64. `lambda_http` reads other types of response, decodes
/// them by the charset of their `Content-Type` and copies them. A function that uses only this
/// conversion also does without the tables of all encodings.
///
/// ```
/// # dynamodb_idempotency::testing::example(async |_, idempotency| {
/// use dynamodb_idempotency::lambda::LambdaResponse;
/// use lambda_http::{Body, Error, Request, Response, Service, http, service_fn};
///
/// async fn create_payment(_: Request) -> Result<LambdaResponse, Error> {
///     let response = Response::builder().status(201).body(Body::from(r#"{"status":"paid"}"#))?;
///     Ok(response.into())
/// }
///
/// let mut service = idempotency.http("payments").wrap(service_fn(create_payment));
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

/// The future of an [`Idempotent`] service's answer.
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<'a, E>(Running<'a, E>);

type Running<'a, E> = Pin<Box<dyn Future<Output = Result<LambdaResponse, E>> + Send + 'a>>;

impl<'a, E> ResponseFuture<'a, E> {
    pub(super) fn new(
        answering: impl Future<Output = Result<Response<Body>, E>> + Send + 'a,
    ) -> Self {
        Self(Box::pin(answering.map(|answer| answer.map(LambdaResponse))))
    }
}

impl<E> Future for ResponseFuture<'_, E> {
    type Output = Result<LambdaResponse, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<E> fmt::Debug for ResponseFuture<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

impl<'a, S> Service<Request> for Idempotent<'a, S>
where
    S: Service<Request> + Clone + Send + 'a,
    S::Response: IntoResponse,
    S::Future: Send + 'a,
    S::Error: Send + 'a,
{
    type Response = LambdaResponse;
    type Error = S::Error;
    type Future = ResponseFuture<'a, S::Error>;

    /// Always: the handler is waited for when it is called.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        ResponseFuture::new(answer(Arc::clone(&self.config), self.inner.clone(), request))
    }
}

async fn answer<S>(
    config: Arc<Config>,
    mut inner: S,
    request: Request,
) -> Result<Response<Body>, S::Error>
where
    S: Service<Request> + Send,
    S::Response: IntoResponse,
    S::Future: Send,
    S::Error: Send,
{
    let (mut parts, body) = request.into_parts();
    let called = match applicability(&config, &parts) {
        Ok(Applicability::None) => {
            ready(&mut inner).await?;
            // Turned into a future at once: the handler's own type of response need not be `Send`.
            let passing = inner.call(Request::from_parts(parts, body));
            return Ok(passing.await.map(IntoResponse::into_response)?.await);
        }
        Ok(Applicability::Key(key)) => call(&config, &parts, &key, bytes_of(&body)),
        Err(problem) => Err(problem),
    };
    let called = match called {
        Ok(called) => called,
        Err(problem) => return Ok(render(&config, &problem)),
    };
    exchange(&config, called, |execution| {
        parts.extensions.insert(execution.clone());
        let request = Request::from_parts(parts, body);
        async move {
            if let Err(error) = ready(&mut inner).await {
                execution.nothing_executed();
                return Err(error);
            }
            let answering = inner.call(request);
            Ok(whole(answering.await.map(Turning::of)?).await)
        }
    })
    .await
}

/// A handler's answer on its way into the form in which Lambda takes it; the panic, where turning it
/// has panicked at once.
enum Turning {
    Under(Pin<Box<dyn Future<Output = Response<Body>> + Send>>),
    Panicked(Box<dyn Any + Send>),
}

impl Turning {
    fn of(answer: impl IntoResponse) -> Self {
        match std::panic::catch_unwind(AssertUnwindSafe(|| answer.into_response())) {
            Ok(turning) => Self::Under(turning),
            Err(panic) => Self::Panicked(panic),
        }
    }
}

/// Holds the handler's answer whole. `lambda_http` panics where its body ends with an error: the
/// handler has run, and only its answer is lost.
async fn whole(turning: Turning) -> Handled<Body> {
    let turned = match turning {
        Turning::Under(turning) => AssertUnwindSafe(turning).catch_unwind().await,
        Turning::Panicked(panic) => Err(panic),
    };
    match turned {
        Ok(response) => Handled::Response(response),
        Err(panic) => {
            let error = panic_text(panic.as_ref());
            tracing::error!(error, "the body of a handler's response ended with an error");
            Handled::Broken(None)
        }
    }
}

pub(super) fn bytes_of(body: &Body) -> &[u8] {
    match body {
        Body::Text(text) => text.as_bytes(),
        Body::Binary(bytes) => bytes,
        // Nothing, or a kind that does not exist yet.
        _ => &[],
    }
}

/// Text stays text and bytes stay bytes: API Gateway and ALB encode them differently.
impl WholeBody for Body {
    fn as_stored(&self) -> BodyRef<'_> {
        match self {
            Self::Text(text) => BodyRef::Text(text),
            Self::Binary(bytes) => BodyRef::Binary(bytes),
            _ => BodyRef::Empty,
        }
    }

    fn from_stored(body: HttpBody) -> Self {
        match body {
            HttpBody::Empty => Self::Empty,
            HttpBody::Text(text) => Self::Text(text),
            HttpBody::Binary(bytes) => Self::Binary(bytes),
        }
    }

    fn from_text(text: Bytes) -> Self {
        match String::from_utf8(text.into()) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Binary(error.into_bytes()),
        }
    }
}

#[expect(private_interfaces, reason = "nobody else calls it")]
impl crate::http::Sealed for Body {
    fn stored(&self) -> BodyRef<'_> {
        self.as_stored()
    }
}
