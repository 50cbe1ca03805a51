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
use tokio::task::JoinHandle;
use tokio_util::sync::PollSemaphore;
use tower::{Layer, Service, ServiceExt};

use super::function::context_of;
use super::message::{by, outcome, post, problem, through, whole};
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

/// Takes a key elsewhere, with a handler that waits at the gate.
async fn take_elsewhere(store: &Store, gate: &Gate) -> JoinHandle<Response<Bytes>> {
    let held = gate.clone();
    let handler = tower::service_fn(move |_: Request| {
        let held = held.clone();
        async move {
            held.pass().await;
            Ok::<_, Infallible>(Response::new(Body::from("paid")))
        }
    });
    let elsewhere = store.idempotency().http("pay").layer().unwrap().layer(handler);
    let first = tokio::spawn(async move { through(&elsewhere, post("k", "{}")).await });
    gate.reached().await;
    first
}

fn paying() -> impl Service<Request, Response = Response<Body>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ use<> {
    tower::service_fn(async |_: Request| Ok(Response::new(Body::from("paid"))))
}

fn waiting(policy: dynamodb_idempotency::Policy) -> dynamodb_idempotency::Policy {
    policy.in_progress(InProgress::Wait { timeout: super::LONG })
}

#[tokio::test]
async fn who_waits_for_anothers_answer_takes_no_place_below() {
    let (store, link, gate) = (Store::open().await, Link::default(), Gate::default());
    let here = store.over(&link).http("pay").policy(waiting);
    let here = here.layer().unwrap().layer(Places::new(1, paying()));
    let first = take_elsewhere(&store, &gate).await;
    let repeat = tokio::spawn({
        let here = here.clone();
        async move { through(&here, post("k", "{}")).await }
    });
    has_looked(&link).await;
    let other = patiently("another key's answer", through(&here, post("other", "{}"))).await;
    assert_eq!(outcome(&other), "200");
    gate.open();
    assert_eq!(outcome(&first.await.unwrap()), "200");
    assert_eq!(outcome(&repeat.await.unwrap()), "200 replay");
}

#[tokio::test]
async fn who_waits_takes_no_place_of_a_function_either() {
    let (store, link, gate) = (Store::open().await, Link::default(), Gate::default());
    let handler = service_fn(async |_: lambda_http::Request| Ok::<_, Infallible>("paid"));
    let here = store.over(&link).http("pay").policy(waiting).wrap(Places::new(1, handler)).unwrap();
    let sent = |key: &str| {
        let request = post(key, "{}").map(|body| lambda_http::Body::Binary(body.into()));
        let answering = here.clone().oneshot(request);
        async { whole(answering.await.unwrap().into_inner()).await }
    };
    let first = take_elsewhere(&store, &gate).await;
    let (repeat, ()) = tokio::join!(sent("k"), async {
        has_looked(&link).await;
        let other = patiently("another key's answer", sent("other")).await;
        assert_eq!(outcome(&other), "200");
        gate.open();
    });
    assert_eq!(outcome(&first.await.unwrap()), "200");
    assert_eq!(outcome(&repeat), "200 replay");
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
    let store = Store::open().await;
    let service = store.idempotency().http("pay").layer().unwrap().layer(Places::new(1, paying()));
    let (request, rest) = slow("slow");
    let arriving = service.clone().oneshot(request);
    tokio::pin!(arriving);
    assert!(futures::poll!(arriving.as_mut()).is_pending());
    let other = through(&service, post("other", "{}"));
    assert_eq!(patiently("another key's answer", other).await.status(), 200);
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
    problem(&through(&service, post("late", "{}")).await, 503, "ShuttingDown");
    assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
    let passing = through(&service, by("GET", post("k", ""))).await;
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
