//! A `tower` layer for long-lived servers and for single routes.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::TaskTracker;
use tower_layer::Layer;
use tower_service::Service;
use tracing::{Instrument, Span};

use super::Config;
use super::exchange::{exchange, render};
use super::problem::{Problem, ProblemKind};
use super::request::{Concern, call, concern};
use crate::acquire::Call;

type BoxError = Box<dyn StdError + Send + Sync>;

/// Makes the requests of the service below it idempotent; made by [`Http::layer`](super::Http::layer).
///
/// The handler runs in a task of its own: a client that hangs up, or a time-out layer above, does
/// not stop the owner of a key half-way. It needs a tokio runtime. A server that shuts down calls
/// [`drain`](Self::drain) before its runtime ends.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
/// use axum::{Router, routing::post};
///
/// let layer = idempotency.http("payments").layer();
/// let router: Router = Router::new().route("/payments", post(async || "paid").route_layer(layer));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct IdempotencyLayer {
    config: Arc<Config>,
    owners: TaskTracker,
}

impl IdempotencyLayer {
    pub(super) fn new(config: Arc<Config>) -> Self {
        Self { config, owners: TaskTracker::new() }
    }

    /// Waits until no handler of this layer's, or of its clones', is running: those too whose
    /// clients have hung up and which no graceful shutdown of a server's waits for.
    ///
    /// ```
    /// # async fn example(idempotency: &dynamodb_idempotency::Idempotency) -> Result<(), Box<dyn std::error::Error>> {
    /// use axum::{Router, routing::post};
    ///
    /// let layer = idempotency.http("payments").layer();
    /// let router = Router::new().route("/payments", post(async || "paid").route_layer(layer.clone()));
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    /// axum::serve(listener, router).with_graceful_shutdown(interrupted).await?;
    /// layer.drain().await; // handlers whose clients have hung up
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drain(&self) {
        self.owners.close();
        self.owners.wait().await;
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService { config: Arc::clone(&self.config), owners: self.owners.clone(), inner }
    }
}

/// A service whose repeats get the same answer; made by [`IdempotencyLayer`].
///
/// ```
/// use bytes::Bytes;
/// use dynamodb_idempotency::Idempotency;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// type Whole = Full<Bytes>;
///
/// async fn handler(_: Request<Whole>) -> Result<Response<Whole>, std::io::Error> {
///     Ok(Response::new("paid".into()))
/// }
///
/// async fn pay(idempotency: &Idempotency, request: Request<Whole>) -> Result<(), std::io::Error> {
///     let service = idempotency.http("payments").layer().layer(service_fn(handler));
///     let response = service.oneshot(request).await?;
///     println!("{}", response.status());
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct IdempotencyService<S> {
    config: Arc<Config>,
    owners: TaskTracker,
    inner: S,
}

/// The handler's own body where a request passed through, else a whole one.
///
/// ```
/// use bytes::Bytes;
/// use dynamodb_idempotency::http::ResponseBody;
/// use http_body_util::{BodyExt, Full};
///
/// async fn read(body: ResponseBody<Full<Bytes>>) -> Option<Bytes> {
///     body.collect().await.ok().map(|body| body.to_bytes())
/// }
/// ```
pub type ResponseBody<B> = Either<B, Full<Bytes>>;

/// The answer of an [`IdempotencyService`] on its way.
///
/// ```
/// # use dynamodb_idempotency::testing::Sandbox;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sandbox = Sandbox::start().await?;
/// # let idempotency = sandbox.idempotency();
/// # use bytes::Bytes;
/// # use http_body_util::Full;
/// use dynamodb_idempotency::http::ResponseFuture;
/// use http::{Request, Response};
/// use tower::{Layer, Service, service_fn};
///
/// let handler = service_fn(async |_: Request<Full<Bytes>>| {
///     Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from("paid"))))
/// });
/// let mut service = idempotency.http("payments").layer().layer(handler);
/// let request = Request::post("/payments").header("idempotency-key", "order-42");
/// let answer: ResponseFuture<_, _> = service.call(request.body(Full::default())?);
/// assert_eq!(answer.await?.status(), 200);
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<B, E>(Running<B, E>);

type Running<B, E> = Pin<Box<dyn Future<Output = Result<Response<ResponseBody<B>>, E>> + Send>>;

impl<B, E> Future for ResponseFuture<B, E> {
    type Output = Result<Response<ResponseBody<B>>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<B, E> fmt::Debug for ResponseFuture<B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for IdempotencyService<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    ReqBody: Body + From<Bytes> + Send + 'static,
    ReqBody::Data: Send,
    ReqBody::Error: Into<BoxError>,
    ResBody: Body + Send + 'static,
    ResBody::Data: Send,
    ResBody::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<ResBody, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // The one that said it is ready is the one to call.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let (config, owners) = (Arc::clone(&self.config), self.owners.clone());
        let (parts, body) = request.into_parts();
        let key = match concern(&config, &parts) {
            Ok(Concern::Key(key)) => key,
            Ok(Concern::None) => {
                let passing = inner.call(Request::from_parts(parts, body));
                return ResponseFuture(Box::pin(async { Ok(passing.await?.map(Either::Left)) }));
            }
            Err(problem) => {
                let response = render::<Bytes>(&config, &problem);
                return ResponseFuture(Box::pin(async { Ok(whole(response)) }));
            }
        };
        ResponseFuture(Box::pin(async move {
            let body = match read(body, config.max_body_bytes).await {
                Ok(body) => body,
                Err(problem) => return Ok(whole(render(&config, &problem))),
            };
            match call(&config, &parts, &key, &body) {
                Ok(call) => {
                    let owner = own(config, call, parts, body, inner);
                    join(owners.spawn(owner.instrument(Span::current()))).await.map(whole)
                }
                Err(problem) => Ok(whole(render(&config, &problem))),
            }
        }))
    }
}

fn whole<B: Body>(response: Response<Bytes>) -> Response<ResponseBody<B>> {
    response.map(|body| Either::Right(Full::new(body)))
}

async fn read<B>(body: B, limit: usize) -> Result<Bytes, Problem>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let detail = format!("The largest body that is accepted has {limit} bytes.");
            Err(Problem::new(ProblemKind::BodyTooLarge, detail))
        }
        Err(error) => {
            tracing::debug!(%error, "a request body could not be read");
            Err(Problem::new(ProblemKind::BodyUnreadable, "The body ended with an error."))
        }
    }
}

/// Why there is no response to store.
enum Broken<E> {
    Service(E),
    Body(BoxError),
}

/// Takes the call through the protocol.
async fn own<S, ReqBody, ResBody>(
    config: Arc<Config>,
    call: Call,
    mut parts: Parts,
    body: Bytes,
    mut inner: S,
) -> Result<Response<Bytes>, S::Error>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Send,
    S::Future: Send,
    S::Error: Send,
    ReqBody: From<Bytes> + Send,
    ResBody: Body + Send,
    ResBody::Data: Send,
    ResBody::Error: Into<BoxError>,
{
    let answered = exchange(&config, call, |execution| {
        parts.extensions.insert(execution);
        let request = Request::from_parts(parts, ReqBody::from(body));
        async move {
            let response = inner.call(request).await.map_err(Broken::Service)?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| Broken::Body(error.into()))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        }
    });
    match answered.await {
        Ok(response) => Ok(response),
        Err(Broken::Service(error)) => Err(error),
        Err(Broken::Body(error)) => {
            tracing::error!(%error, "the body of a handler's response ended with an error");
            let detail = "The response could not be produced.";
            Ok(render(&config, &Problem::new(ProblemKind::BodyBroken, detail)))
        }
    }
}

/// The task's answer; its panic goes on here.
async fn join<T>(task: JoinHandle<T>) -> T {
    match task.await.map_err(JoinError::try_into_panic) {
        Ok(answer) => answer,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime shuts down: nobody is left to answer to.
        Err(Err(_)) => std::future::pending().await,
    }
}
