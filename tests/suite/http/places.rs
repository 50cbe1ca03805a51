//! A service with few places: who takes one, and when.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use dynamodb_idempotency::policy::{Failure, InProgress};
use futures::channel::mpsc;
use http::Response;
use lambda_http::{RequestExt as _, service_fn};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;
use tower::{Layer, Service, ServiceExt};

use super::function::context_of;
use super::message::{by, is_replay, post, problem};
use super::site::has_looked;
use crate::support::gate::patiently;
use crate::support::{Gate, Link, Runs, Store};

/// A service that is ready for as many requests as it has places, from then until they are answered.
struct Places<S> {
    inner: S,
    free: PollSemaphore,
    place: Option<OwnedSemaphorePermit>,
}

impl<S> Places<S> {
    fn new(places: usize, inner: S) -> Self {
        Self { inner, free: PollSemaphore::new(Arc::new(Semaphore::new(places))), place: None }
    }
}

impl<S: Clone> Clone for Places<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), free: self.free.clone(), place: None }
    }
}

impl<S, R> Service<R> for Places<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = futures::future::BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if self.place.is_none() {
            self.place = futures::ready!(self.free.poll_acquire(context));
        }
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let place = self.place.take().expect("it was ready");
        let answering = self.inner.call(request);
        Box::pin(async move {
            let answer = answering.await;
            drop(place);
            answer
        })
    }
}

/// A handler that waits at a gate.
fn held(
    gate: &Gate,
) -> impl Service<Request, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ use<> {
    let gate = gate.clone();
    tower::service_fn(move |_: Request| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            Ok(Response::new(Body::from("paid")))
        }
    })
}

async fn whole(response: Response<impl http_body::Body<Data = Bytes>>) -> Response<Bytes> {
    let (head, body) = response.into_parts();
    let body = http_body_util::BodyExt::collect(body).await.ok().expect("a whole body");
    Response::from_parts(head, body.to_bytes())
}

fn waiting(policy: dynamodb_idempotency::Policy) -> dynamodb_idempotency::Policy {
    policy.in_progress(InProgress::Wait { timeout: super::LONG })
}

#[tokio::test]
async fn who_waits_for_anothers_answer_takes_no_place_below() {
    let (store, link, gate) = (Store::open().await, Link::default(), Gate::default());
    let elsewhere = store.idempotency().http("pay").layer().unwrap().layer(held(&gate));
    let open = Gate::default();
    open.open();
    let here = store.over(&link).http("pay").policy(waiting);
    let here = here.layer().unwrap().layer(Places::new(1, held(&open)));
    let sent = |key: &str| post(key, "{}").map(Body::from);
    let first = tokio::spawn(elsewhere.oneshot(sent("k")));
    gate.reached().await;
    let repeat = tokio::spawn(here.clone().oneshot(sent("k")));
    has_looked(&link).await;
    let other = patiently("another key's answer", here.oneshot(sent("other"))).await.unwrap();
    assert_eq!(other.status(), 200);
    gate.open();
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
    assert!(is_replay(&whole(repeat.await.unwrap().unwrap()).await));
}

#[tokio::test]
async fn who_waits_takes_no_place_of_a_function_either() {
    let (store, link, gate) = (Store::open().await, Link::default(), Gate::default());
    let elsewhere = store.idempotency().http("pay").layer().unwrap().layer(held(&gate));
    let handler = service_fn(async |_: lambda_http::Request| Ok::<_, Infallible>("paid"));
    let here = store.over(&link).http("pay").policy(waiting).wrap(Places::new(1, handler)).unwrap();
    let sent = |key: &str| post(key, "{}").map(|body| lambda_http::Body::Binary(body.into()));
    let first = tokio::spawn(elsewhere.oneshot(post("k", "{}").map(Body::from)));
    gate.reached().await;
    let repeat = tokio::spawn(here.clone().oneshot(sent("k")));
    has_looked(&link).await;
    let other = patiently("another key's answer", here.oneshot(sent("other"))).await.unwrap();
    assert_eq!(other.into_inner().status(), 200);
    gate.open();
    first.await.unwrap().unwrap();
    assert!(
        repeat.await.unwrap().unwrap().into_inner().headers().contains_key("idempotency-replayed")
    );
}

#[tokio::test]
async fn no_handler_starts_if_its_place_is_free_too_late() {
    let (store, runs, gate) = (Store::open().await, Runs::default(), Gate::default());
    let handler = {
        let (runs, gate) = (runs.clone(), gate.clone());
        service_fn(move |_: lambda_http::Request| {
            let (run, gate) = (runs.add(), gate.clone());
            async move {
                if run == 1 {
                    gate.pass().await;
                }
                Ok::<_, Infallible>("paid")
            }
        })
    };
    let service = store.idempotency().http("pay").wrap(Places::new(1, handler)).unwrap();
    let invoke = |key: &str, seconds| {
        let request = post(key, "{}").map(|body| lambda_http::Body::Binary(body.into()));
        service.clone().oneshot(request.with_lambda_context(context_of(seconds)))
    };
    let first = invoke("first", 60);
    let second = async {
        gate.reached().await;
        let late = invoke("late", 3);
        let ((), late) = tokio::join!(
            async {
                tokio::time::sleep(Duration::from_millis(2700)).await;
                gate.open();
            },
            late
        );
        late
    };
    let (first, late) = tokio::join!(first, second);
    assert_eq!(first.unwrap().into_inner().status(), 200);
    let late = late.unwrap().into_inner().map(|body| Bytes::copy_from_slice(body.as_ref()));
    problem(&late, 503, "DeadlineExceeded");
    assert_eq!(runs.count(), 1);
    let again = invoke("late", 60).await.unwrap().into_inner();
    assert_eq!((again.status().as_u16(), runs.count()), (200, 2));
}

/// A request whose body arrives bit by bit, and the rest of it.
fn slow(key: &str) -> (Request, mpsc::UnboundedSender<Result<&'static str, Infallible>>) {
    let (rest, body) = mpsc::unbounded();
    rest.unbounded_send(Ok("{")).expect("it is read");
    (post(key, "").map(|_| Body::from_stream(body)), rest)
}

#[tokio::test]
async fn a_request_that_is_still_arriving_takes_no_place_below() {
    let (store, open) = (Store::open().await, Gate::default());
    open.open();
    let service =
        store.idempotency().http("pay").layer().unwrap().layer(Places::new(1, held(&open)));
    let (request, rest) = slow("slow");
    let arriving = service.clone().oneshot(request);
    tokio::pin!(arriving);
    assert!(futures::poll!(arriving.as_mut()).is_pending());
    let other = service.oneshot(post("other", "{}").map(Body::from));
    assert_eq!(patiently("another key's answer", other).await.unwrap().status(), 200);
    rest.unbounded_send(Ok("}")).unwrap();
    drop(rest);
    assert_eq!(patiently("the slow one", arriving).await.unwrap().status(), 200);
}

#[tokio::test]
async fn no_handler_starts_once_a_layer_is_drained() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let counted = runs.clone();
    let handler = tower::service_fn(move |_: Request| {
        counted.add();
        std::future::ready(Ok::<_, Infallible>(Response::new(Body::from("paid"))))
    });
    let layer = store.over(&link).http("pay").layer().unwrap();
    let service = layer.layer(handler);
    let (request, rest) = slow("slow");
    let arriving = service.clone().oneshot(request);
    tokio::pin!(arriving);
    assert!(futures::poll!(arriving.as_mut()).is_pending());
    patiently("the end of the handlers", layer.drain()).await;
    rest.unbounded_send(Ok("}")).unwrap();
    drop(rest);
    let arrived = whole(patiently("the slow one", arriving).await.unwrap()).await;
    problem(&arrived, 503, "ShuttingDown");
    assert_eq!(arrived.headers()["retry-after"], "1");
    let late = service.clone().oneshot(post("late", "{}").map(Body::from)).await.unwrap();
    problem(&whole(late).await, 503, "ShuttingDown");
    assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
    let passing = service.oneshot(by("GET", post("k", "")).map(Body::from)).await.unwrap();
    assert_eq!((passing.status().as_u16(), runs.count()), (200, 1));
}

/// A service that is not ready once.
#[derive(Clone)]
struct Away(Runs);

impl<R> Service<R> for Away {
    type Response = Response<Body>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Response<Body>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(if self.0.add() == 1 { Err("away") } else { Ok(()) })
    }

    fn call(&mut self, _: R) -> Self::Future {
        std::future::ready(Ok(Response::new(Body::from("paid"))))
    }
}

/// The handler has not begun: the key is free, and no attempt is used up.
#[tokio::test]
async fn a_service_that_cannot_be_called_has_executed_nothing() {
    for failure in [Failure::Release, Failure::Replay, Failure::Retain { max_attempts: 1 }] {
        let store = Store::open().await;
        let http = || store.idempotency().http("pay").policy(|policy| policy.failure(failure));
        let service = http().layer().unwrap().layer(Away(Runs::default()));
        let sent = |body| post("k", body).map(Body::from);
        assert_eq!(service.clone().oneshot(sent("1")).await.err(), Some("away"));
        assert_eq!(service.oneshot(sent("2")).await.unwrap().status(), 200);
    }
}
