//! Requests whose client has gone: a handler goes on, and a wait or an endless response ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse;
use bytes::Bytes;
use dynamodb_idempotency::Transaction;
use dynamodb_idempotency::http::{Http, IdempotencyLayer};
use dynamodb_idempotency::policy::InProgress;
use futures::{StreamExt, stream};
use http::Response;
use tower::{Layer, ServiceExt, service_fn};

use super::message::{post, problem, through};
use super::site::has_looked;
use crate::support::effects::count;
use crate::support::gate::patiently;
use crate::support::{Act, Gate, Link, Runs, Store};

fn waiting(http: Http) -> Http {
    http.policy(|policy| policy.in_progress(InProgress::Wait { timeout: super::LONG }))
}

/// The bytes of a body, which tell when they are freed.
struct Held {
    _kept: Arc<()>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        b"{}"
    }
}

#[tokio::test]
async fn a_wait_that_has_run_nothing_ends_with_its_client() {
    let (store, link, gate) = (Store::open().await, Link::default(), Gate::default());
    let (held, runs) = (gate.clone(), Runs::default());
    let counted = runs.clone();
    let handler = service_fn(move |_: Request| {
        let (gate, run) = (held.clone(), counted.add());
        async move {
            gate.pass_at_last().await;
            Ok::<_, Infallible>(Response::new(Body::from(format!("run {run}"))))
        }
    });
    let elsewhere = store.idempotency().http("pay").layer().unwrap().layer(handler.clone());
    let first = tokio::spawn(elsewhere.oneshot(post("k", "{}").map(Body::from)));
    gate.reached().await;

    let layer = waiting(store.over(&link).http("pay")).layer().unwrap();
    let bytes = Arc::new(());
    let body = Body::from(Bytes::from_owner(Held { _kept: Arc::clone(&bytes) }));
    let repeat = tokio::spawn(layer.layer(handler).oneshot(post("k", "").map(|_| body)));
    has_looked(&link).await;
    assert_eq!(Arc::strong_count(&bytes), 2, "it may have to run itself");
    let looked = link.wire.requests().len();
    repeat.abort();
    patiently("the end of the wait", layer.drain()).await;
    assert!(link.wire.requests().len() <= looked + 1, "{:?}", link.wire.requests());
    assert_eq!((Arc::strong_count(&bytes), runs.count()), (1, 1));

    gate.open();
    let response = first.await.unwrap().unwrap().into_body();
    assert_eq!(axum::body::to_bytes(Body::new(response), 100).await.unwrap(), "run 1");
}

/// A request that is not waiting goes on: it may own the key already.
#[tokio::test]
async fn an_acquisition_goes_on_without_its_client() {
    let (store, link, gate) = (Store::open().await, Link::default(), Gate::default());
    let runs = Runs::default();
    let counted = runs.clone();
    let handler = service_fn(move |_: Request| {
        let run = counted.add();
        std::future::ready(Ok::<_, Infallible>(Response::new(Body::from(format!("run {run}")))))
    });
    let layer = waiting(store.over(&link).http("pay")).layer().unwrap();
    link.wire.next("PutItem", Act::HoldResponse(gate.clone()));
    let sent = tokio::spawn(layer.layer(handler).oneshot(post("k", "{}").map(Body::from)));
    gate.reached().await;
    sent.abort();
    assert!(sent.await.unwrap_err().is_cancelled());
    gate.open();
    patiently("the end of the handlers", layer.drain()).await;
    assert_eq!(runs.count(), 1);
    assert_eq!(store.status("pay#k").await.as_deref(), Some("COMPLETED"));
}

const LIMIT: usize = 1024;

fn short(http: Http) -> Http {
    http.policy(|policy| policy.max_answer_bytes(LIMIT))
}

/// A body without an end. `pause` comes before each chunk.
fn endless<F>(pause: fn() -> F) -> (Body, Arc<AtomicU32>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let chunks = Arc::new(AtomicU32::new(0));
    let made = Arc::clone(&chunks);
    let body = stream::repeat(()).then(move |()| {
        let made = Arc::clone(&made);
        async move {
            pause().await;
            made.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 128]))
        }
    });
    (Body::from_stream(body), chunks)
}

/// Sends a request, and hangs up when its handler's body has had so many chunks. Returns how many are
/// read after that.
async fn hang_up_after(
    chunks: u32,
    layer: &IdempotencyLayer,
    response: Response<Body>,
    made: &AtomicU32,
) -> u32 {
    let response = Arc::new(std::sync::Mutex::new(Some(response)));
    let handler = service_fn(move |_: Request| {
        let response = response.lock().unwrap().take().expect("it runs once");
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let sent = tokio::spawn(layer.layer(handler).oneshot(post("k", "{}").map(Body::from)));
    let reading = async {
        while made.load(Ordering::SeqCst) < chunks {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    patiently("chunks of a body", reading).await;
    sent.abort();
    let before = made.load(Ordering::SeqCst);
    patiently("the end of the handlers", layer.drain()).await;
    made.load(Ordering::SeqCst) - before
}

async fn assert_done_without_answer(store: &Store) {
    assert_eq!(store.status("pay#k").await.as_deref(), Some("COMPLETED"));
    let handler = service_fn(async |_: Request| Ok::<_, Infallible>(Response::new(Body::empty())));
    let again = store.idempotency().http("pay").layer().unwrap().layer(handler);
    problem(&through(&again, post("k", "{}")).await, 500, "AnswerUnavailable");
}

/// As long as its client is there, it gets the whole body, however long.
#[tokio::test]
async fn without_a_client_no_more_of_a_body_is_read_than_can_be_stored() {
    let store = Store::open_in_real_time().await;
    let layer = short(store.idempotency().http("pay")).layer().unwrap();
    let (body, made) = endless(tokio::task::yield_now);
    let chunks = hang_up_after(20, &layer, Response::new(body), &made).await;
    assert!(chunks <= 128, "{chunks}");
    assert_done_without_answer(&store).await;
}

#[tokio::test]
async fn without_a_client_a_slow_body_is_read_for_the_length_of_a_lease() {
    let store = Store::open().await;
    let layer = short(store.idempotency().http("pay")).layer().unwrap();
    let (body, made) = endless(|| tokio::time::sleep(Duration::from_secs(20)));
    let chunks = hang_up_after(1, &layer, Response::new(body), &made).await;
    assert!(chunks <= 3, "{chunks}");
    assert_done_without_answer(&store).await;
}

#[tokio::test]
async fn a_transaction_with_an_endless_response_is_not_written() {
    let store = Store::open().await;
    let layer = short(store.idempotency().http("pay")).transaction_layer().unwrap();
    let (body, made) = endless(|| tokio::time::sleep(Duration::from_secs(20)));
    let transaction = Transaction::new(body).items([count(store.table(), "effect")]);
    hang_up_after(1, &layer, transaction.into_response(), &made).await;
    assert_eq!(store.counted("effect").await, 0);
    assert!(store.item("pay#k").await.is_none());
}
