//! Runs a handler under its lease: renews the lease, and stops the handler at the end of its window, which is
//! never after the end of the lease. `Window` is in `crates/protocol/src/lease.rs`.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::fault_injection::{FaultPoint, is_broken};
use crate::policy::LeaseExpired;
use crate::protocol::{Renewal, Write};
use crate::run::execution::Execution;

impl Execution {
    /// Runs `work` (the handler and the completion), and meanwhile renews the lease if the policy says
    /// so.
    pub(crate) async fn run_with_renewals<F: Future>(&self, work: F) -> F::Output {
        let renewal = self.policy().lease.renewed(self.inner.call.deadline);
        let Some(length) = renewal.filter(|_| self.is_protected()) else { return work.await };
        tokio::select! {
            biased;
            // First, because a renewal that has lost the lease must stop the handler before its next poll.
            never = self.keep_alive(length) => match never {},
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
            self.finish().stop();
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

    /// Renews a lease of `length` after a third of it, or after half of what is left if that is sooner.
    /// Each request of a renewal takes at most a sixth of `length`, so that time is left for another one.
    async fn keep_alive(&self, length: Duration) -> Infallible {
        let clock = &self.inner.core.table.clock;
        let pause = || (length / 3).min(self.lease_left() / 2);
        let mut next = pause();
        loop {
            clock.sleep(next).await;
            next = match self.renew(length / 6).await {
                Renewal::Renewed => pause(),
                Renewal::Failed | Renewal::Wrong(_) => length / 24,
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
    fn renew(&self, limit: Duration) -> BoxFuture<'_, Renewal> {
        let renewing = async move {
            let clock = &self.inner.core.table.clock;
            let renewal = self.finish().renewal(clock.moment());
            match self.stamp(renewal, limit).await {
                Renewal::Wrong(wrong) => {
                    let restamp = self.finish().restamp(clock.moment(), wrong);
                    self.stamp(restamp, limit).await
                }
                renewal => renewal,
            }
        };
        renewing.boxed()
    }

    async fn stamp(&self, write: Option<Write>, limit: Duration) -> Renewal {
        let Some(write) = write else { return Renewal::Ended };
        let mut session = self.session();
        let reply = session.write(&write, limit).await;
        let renewal = self.finish().renewed(self.inner.core.table.clock.moment(), &write, &reply);
        if renewal == Renewal::Failed {
            let error = session.take_error();
            tracing::warn!(operation = self.operation(), %error, "a lease was not renewed");
        }
        renewal
    }
}
