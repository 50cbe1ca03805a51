//! Runs a handler under its lease: renews the lease, and stops the handler at the end of its window, which is
//! never after the end of the lease. `Window` is in `crates/protocol/src/lease.rs`.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::fault_injection::{FaultPoint, is_broken};
use crate::policy::LeaseExpired;
use crate::protocol::time::Now;
use crate::protocol::{Command, Machine, Renewal, Renewals, Reply, Tenure};
use crate::run::execution::Execution;

impl Execution {
    /// Runs `work` (the handler and the completion), and meanwhile renews the lease if the policy says
    /// so.
    pub(crate) async fn run_with_renewals<F: Future>(&self, work: F) -> F::Output {
        let renewals = Renewals::new(&self.tenure(), self.inner.core.table.clock.moment());
        let Some((renewals, first)) = renewals else { return work.await };
        tokio::select! {
            biased;
            // First, because a renewal that has lost the lease must stop the handler before its next poll.
            never = self.keep_alive(renewals, first) => match never {},
            output = work => output,
        }
    }

    /// Runs a handler until its lease expires or is lost. Then the handler is dropped, `None` is returned,
    /// and the record stays PENDING, because it is unknown what the handler has done.
    pub(crate) async fn run_until_lease_ends<F: Future>(&self, handler: F) -> Option<F::Output> {
        let continues = self.policy().lease_expired == LeaseExpired::Continue;
        if !self.is_protected() || continues || is_broken(FaultPoint::PollAfterTheLease) {
            return Some(handler.await);
        }
        let end = || self.lease_ends();
        let mut handler = pin!(handler);
        let woken = poll_fn(|context| {
            self.inner.handler.register(context.waker());
            handler.as_mut().poll(context)
        });
        let returned = self.inner.core.table.clock.until(end, woken).await;
        if returned.is_none() {
            // The lease is not renewed any longer.
            let is_lost = self.is_lease_lost();
            self.tenure().stop();
            tracing::error!(
                operation = self.operation(),
                attempt = self.attempt(),
                is_lost,
                "the lease ended while the handler ran: the handler was stopped, and its effect may \
                 have happened in part"
            );
        }
        returned
    }

    /// Yields once, so that a handler that has found its lease expired is stopped here.
    pub(crate) async fn halt(&self) {
        tokio::task::yield_now().await;
    }

    async fn keep_alive(&self, mut renewals: Renewals, first: Duration) -> Infallible {
        let mut next = first;
        loop {
            self.inner.core.table.clock.sleep(next).await;
            next = match self.renew(&mut renewals).await {
                Renewal::Next(next) => next,
                Renewal::Ended => return std::future::pending().await,
                Renewal::Lost => {
                    self.inner.handler.wake();
                    tracing::error!(
                        operation = self.operation(),
                        attempt = self.attempt(),
                        "the lease is lost while the handler runs: another execution owns the key"
                    );
                    return std::future::pending().await;
                }
            }
        }
    }

    /// Boxed, as [`acquire`](crate::run::caller::acquire) is.
    fn renew<'a>(&'a self, renewals: &'a mut Renewals) -> BoxFuture<'a, Renewal> {
        let renewing = async move {
            let begun = renewals.begin(&self.tenure(), self.inner.core.table.clock.moment());
            let mut renewing = Renewing { tenure: &self.inner.tenure, renewals };
            self.session().drive(&mut renewing, begun).await
        };
        renewing.boxed()
    }
}

/// A renewal and the tenure that it belongs to.
struct Renewing<'a> {
    tenure: &'a Mutex<Tenure>,
    renewals: &'a mut Renewals,
}

impl Renewing<'_> {
    fn with<T>(&mut self, act: impl FnOnce(&mut Renewals, &mut Tenure) -> T) -> T {
        let mut tenure = self.tenure.lock().unwrap_or_else(PoisonError::into_inner);
        act(self.renewals, &mut tenure)
    }
}

impl Machine for Renewing<'_> {
    type Output = Renewal;

    fn replied(&mut self, now: Now, reply: &Reply) -> Command<Renewal> {
        self.with(|renewals, tenure| renewals.replied(tenure, now, reply))
    }

    /// A renewal has no pauses.
    fn woke(&mut self, now: Now) -> Command<Renewal> {
        self.with(|renewals, tenure| renewals.begin(tenure, now))
    }
}
