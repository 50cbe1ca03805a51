//! A `tower` layer for long-lived servers and for single routes.

use std::error::Error as StdError;
use std::iter;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{TRAILER, TRANSFER_ENCODING};
use http::response::Parts;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use http_body_util::{Either, LengthLimitError};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::TaskTracker;
use tower_layer::Layer;
use tower_service::Service;
use tracing::{Instrument, Span};

use super::answer_body::{AnswerBody, BoxError, ResponseBody, content_length, whole};
use super::client::Client;
use super::exchange::{
    HandlerBody, exchange, exchange_transaction, oneshot, read_of_handler, render,
};
use super::problem::{self, Problem, ProblemKind};
use super::request::{self, call};
use super::{Http, handler_transaction};
use crate::answer::reason::http as reason;
use crate::error::Error;

/// Makes the requests of a service idempotent.
///
/// [`Http::layer`](super::Http::layer) creates it. It needs a tokio runtime.
///
/// The handler runs in a separate task. It continues if the client disconnects or a layer above times
/// out. Before a server's runtime ends, the server must call [`drain`](Self::drain). A request that waits
/// for another request's answer ends with its client. After the client has left, at most
/// [`max_answer_bytes`](crate::Policy::max_answer_bytes) of a response are read, for at most the length of
/// a lease. If the response is longer, repeats get
/// [`AnswerUnavailable`](ProblemKind::AnswerUnavailable).
///
/// The service is always ready, and waits for the inner service right before it calls it. A request
/// whose body is still arriving, or which waits for another request's answer, therefore occupies no slot of
/// a concurrency-limit layer inside this one. A request that waits for a slot holds its key under its lease.
///
/// Put a load-shedding layer inside this one. When that layer rejects a request, call
/// [`discard`](crate::Execution::discard), as in `docs/guide/axum.md`. Otherwise the rejection counts
/// as a failed attempt.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) -> Result<(), dynamodb_idempotency::Error> {
/// use axum::{Router, routing::post};
///
/// let layer = idempotency.http("payments").layer()?;
/// let router: Router = Router::new().route("/payments", post(async || "paid").route_layer(layer));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct IdempotencyLayer {
    config: Arc<Http>,
    effect: Effect,
    tasks: TaskTracker,
}

impl Http {
    /// Creates a [`tower_layer::Layer`] for a route or a router of a long-lived server.
    ///
    /// Inside axum's `nest`, the path of a request lacks the prefix. With the feature `axum`, the
    /// fingerprint still contains the whole path. Without that feature, put the layer around the outer
    /// router, or include the prefix in your own [`fingerprint`](Self::fingerprint).
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use axum::{Router, routing::post};
    ///
    /// let layer = idempotency.http("payments").layer()?;
    /// let router: Router = Router::new().route("/payments", post(async || "paid").route_layer(layer));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if the policy is invalid, if settings
    /// contradict each other (such as two key rules), or if a webhook has no usable secret.
    pub fn layer(self) -> Result<IdempotencyLayer, Error> {
        Ok(IdempotencyLayer::new(self.checked()?, Effect::Handler))
    }
}

/// What produces the effect of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// The handler, which runs once.
    Handler,
    /// The transaction that the handler [passes](handler_transaction) to the layer, which is written once.
    #[cfg_attr(not(feature = "axum"), expect(dead_code, reason = "axum's handlers return them"))]
    Transaction,
}

impl IdempotencyLayer {
    pub(super) fn new(config: Arc<Http>, effect: Effect) -> Self {
        Self { config, effect, tasks: TaskTracker::new() }
    }

    /// Rejects new requests, and waits until no handler of this layer or its clones runs.
    ///
    /// Call it when the server shuts down: a graceful shutdown does not wait for handlers whose clients
    /// have disconnected. It waits for the rest of a response whose client has left for at most the
    /// length of a lease. As soon as it is called, a request with a key gets a 503
    /// ([`ProblemKind::ShuttingDown`]), even if its body is still arriving. Requests that pass through
    /// still reach the handler. No handler of a request with a key starts after this method has returned.
    ///
    /// ```
    /// use axum::Router;
    /// use dynamodb_idempotency::http::IdempotencyLayer;
    /// use tokio::net::TcpListener;
    ///
    /// async fn serve(listener: TcpListener, router: Router, layer: IdempotencyLayer) -> std::io::Result<()> {
    ///     let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    ///     axum::serve(listener, router).with_graceful_shutdown(interrupted).await?;
    ///     layer.drain().await; // handlers whose clients have disconnected
    ///     Ok(())
    /// }
    /// ```
    pub async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService { layer: self.clone(), inner }
    }
}

/// An idempotent service. [`IdempotencyLayer`] creates it.
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
/// async fn pay(
///     idempotency: &Idempotency,
///     request: Request<Whole>,
/// ) -> Result<(), Box<dyn std::error::Error>> {
///     let service = idempotency.http("payments").layer()?.layer(service_fn(handler));
///     let response = service.oneshot(request).await?;
///     println!("{}", response.status());
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct IdempotencyService<S> {
    layer: IdempotencyLayer,
    inner: S,
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for IdempotencyService<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    S: Service<Request<ReqBody>, Error: Send + 'static, Future: Send>,
    ReqBody: Body<Data: Send, Error: Into<BoxError>> + From<Bytes> + Send + 'static,
    ResBody: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    /// Returns `Ready` always, because `call` waits for the inner service.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (layer, inner) = (self.layer.clone(), self.inner.clone());
        Box::pin(async move {
            let IdempotencyLayer { config, effect, tasks } = layer;
            let (parts, body) = request.into_parts();
            let key = match request::key(&config, &parts) {
                Ok(Some(key)) => key,
                Ok(None) => {
                    let response = oneshot(inner, Request::from_parts(parts, body)).await?;
                    return Ok(match effect {
                        Effect::Handler => response.map(Either::Left),
                        Effect::Transaction => handler_transaction::passed(&config, response).await,
                    });
                }
                Err(problem) => return Ok(whole(render(&config, &problem))),
            };
            let prepared = if config.is_signed() || !config.is_off() {
                match read(&parts.headers, body, config.body_limit()).await {
                    Ok(body) => {
                        let call = call(&config, &parts, key, &body).await;
                        call.map(|call| (call, body.into()))
                    }
                    Err(problem) => Err(problem),
                }
            } else {
                call(&config, &parts, key, &[]).await.map(|call| (call, body))
            };
            // Take the token before checking. Then either a drain waits for this request, or this
            // request sees the drain.
            let arrival = tasks.token();
            let prepared = if tasks.is_closed() {
                let detail = "Nothing ran. Send it to another server.";
                Err(Problem::new(ProblemKind::ShuttingDown, detail))
            } else {
                prepared
            };
            let (mut call, body) = match prepared {
                Ok(prepared) => prepared,
                Err(problem) => return Ok(whole(render(&config, &problem))),
            };
            let request = Request::from_parts(parts, body);
            // The server drops this future, and the connection with it, when the client is gone.
            let (client, _connection) = Client::of(&config, &mut call);
            let task = async move {
                let answering = async {
                    match effect {
                        Effect::Handler => {
                            let read = |response| read_response(&config, response, Some(&client));
                            exchange(&config, call, request, inner, read).await
                        }
                        Effect::Transaction => {
                            let handler = async {
                                let response = oneshot(inner, request).await?;
                                Ok(handler_transaction::transaction(&config, response, &client)
                                    .await)
                            };
                            exchange_transaction(&config, call, handler).await
                        }
                    }
                };
                client.run(pin!(answering)).await
            };
            let task = tasks.spawn(task.instrument(Span::current()));
            drop(arrival);
            match join(task).await {
                Some(response) => response.map(|response| response.map(Either::Right)),
                // Only a request without a client ends so.
                None => std::future::pending().await,
            }
        })
    }
}

async fn read<B: Body<Error: Into<BoxError>>>(
    headers: &HeaderMap,
    body: B,
    limit: usize,
) -> Result<Bytes, Problem> {
    match AnswerBody::read(body, content_length(headers), || limit).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(problem::body_too_large(limit)),
        Err(error) if is_over_a_limit(&*error) => {
            let detail = "The body is larger than this server accepts.";
            Err(Problem::new(ProblemKind::BodyTooLarge, detail))
        }
        Err(error) => {
            let error = error.to_string();
            tracing::debug!(error, "a request body could not be read");
            let detail = "The body ended with an error, or too early.";
            Err(Problem::new(ProblemKind::BodyUnreadable, detail))
        }
    }
}

/// Returns whether a layer above limited the body, such as tower-http's `RequestBodyLimitLayer`.
fn is_over_a_limit(error: &(dyn StdError + 'static)) -> bool {
    let mut causes = iter::successors(Some(error), |&error| error.source());
    causes.any(<dyn StdError>::is::<LengthLimitError>)
}

/// Reads a handler's response, as far as it can be stored. What cannot be stored is read only for the
/// client, if there is one.
pub(crate) async fn read_response<B: Body<Error: Into<BoxError>>>(
    config: &Http,
    response: Response<B>,
    client: Option<&Client>,
) -> Response<HandlerBody<AnswerBody<B>>> {
    let (mut head, body) = response.into_parts();
    let body = read_body(config, &head, body, config.stream_large, client).await;
    if let HandlerBody::Whole(_) = body {
        // Transfer encoding is the server's choice. Trailers are not sent.
        head.headers.remove(TRANSFER_ENCODING);
        head.headers.remove(TRAILER);
    }
    Response::from_parts(head, body)
}

/// Reads the body of a handler's response. If `may_stream`, a body that is too long to be stored is read
/// only in part.
pub(super) async fn read_body<B: Body<Error: Into<BoxError>>>(
    config: &Http,
    head: &Parts,
    body: B,
    may_stream: bool,
    client: Option<&Client>,
) -> HandlerBody<AnswerBody<B>> {
    // The response to a `HEAD` announces a body that it does not have.
    let announced = content_length(&head.headers).filter(|_| !body.is_end_stream());
    let has_left = || client.is_some_and(Client::is_gone);
    let storable = config.calls.policy.max_answer_bytes;
    let limit = || if may_stream || has_left() { storable } else { usize::MAX };
    let reading = read_of_handler(AnswerBody::read(body, announced, limit));
    let read = match client {
        None => Some(reading.await),
        Some(client) => tokio::select! {
            biased;
            read = reading => Some(read),
            () = client.has_left(&config.calls.core().table.clock) => None,
        },
    };
    match read {
        Some(Ok(Ok(body))) => HandlerBody::Whole(body.into()),
        Some(Ok(Err(streaming))) if may_stream => HandlerBody::Streaming(streaming),
        Some(Ok(Err(_))) | None => HandlerBody::Unsendable(reason::CLIENT_LEFT.into()),
        Some(Err(error)) => HandlerBody::broken(&error),
    }
}

/// Returns the task's answer, or resumes its panic.
async fn join<T>(task: JoinHandle<T>) -> T {
    match task.await.map_err(JoinError::try_into_panic) {
        Ok(answer) => answer,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime shuts down, so no client waits for an answer.
        Err(Err(_)) => std::future::pending().await,
    }
}
