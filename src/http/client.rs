//! The client of a request whose handler runs in a separate task.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;

use super::Http;
use crate::call::context::CallContext;
use crate::clock::Clock;

/// Whether a request's client is still there.
pub(crate) struct Client {
    /// Closed when the client is gone.
    connection: watch::Sender<()>,
    /// Whether the request has run nothing and waits for another request's answer.
    is_waiting: Arc<AtomicBool>,
    /// The length of the call's lease.
    lease: Duration,
}

impl Client {
    /// The client of a call. It is gone when the second value is dropped.
    pub(super) fn of(config: &Http, call: &mut Arc<CallContext>) -> (Self, watch::Receiver<()>) {
        let (connection, held) = watch::channel(());
        let is_waiting = Arc::clone(Arc::make_mut(call).is_waiting.insert(Arc::default()));
        let lease = call.rules(config.calls.core(), false).renewed_length();
        (Self { connection, is_waiting, lease }, held)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.connection.is_closed()
    }

    /// Waits until the client has been gone for the length of a lease.
    pub(super) async fn has_left(&self, clock: &Clock) {
        self.connection.closed().await;
        clock.sleep(self.lease).await;
    }

    /// Runs a request to its end. If its client is gone while it waits for another request's answer, it
    /// is dropped with its body, and the result is `None`. It has run nothing then, and a client that
    /// sends it again finds the key as if it had never come.
    pub(super) async fn run<F: Future>(&self, mut request: Pin<&mut F>) -> Option<F::Output> {
        let (mut gone, mut is_gone) = (pin!(self.connection.closed()), false);
        poll_fn(|context| {
            if let Poll::Ready(output) = request.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            is_gone = is_gone || gone.as_mut().poll(context).is_ready();
            let ends = is_gone && self.is_waiting.load(Ordering::Relaxed);
            if ends { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}
