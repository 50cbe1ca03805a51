//! A lease in its holder's hands: for how long the holder may act, and how the lease is kept.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::PoisonError;
use std::task::Poll;
use std::time::Duration;

use crate::clock::{End, StoreTime, Timestamp};
use crate::error::{Error, ErrorKind};
use crate::execution::Execution;
use crate::fault_injection::{Mutant, mutant};
use crate::idempotency::Core;
use crate::policy::{LeaseExpired, Policy};
use crate::record::{Item, Record, State};
use crate::table::{Reply, Term, Write};

/// To how much a `Date` is exact.
pub(crate) const DATE_RESOLUTION: Duration = Duration::from_secs(1);

/// The time in which the holder of a lease may act.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// What the record says, in store time.
    pub(crate) lease_expires_at: Timestamp,
    /// By this machine's clocks; not after the lease, whatever the store's clock can show by then.
    pub(crate) end: End,
}

/// What an execution knows of its lease.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) window: Window,
    /// Ends that were stamped anew. Never stamped again, or else a late copy of what replaced them
    /// would be in force once more.
    replaced: Vec<Timestamp>,
}

impl From<Window> for Held {
    fn from(window: Window) -> Self {
        Self { window, replaced: Vec::new() }
    }
}

impl Core {
    /// How long an owner that starts or goes on now may hold the record.
    pub(crate) fn term(&self, policy: &Policy, deadline: Option<End>) -> Result<Term, Error> {
        let clock = &self.table.clock;
        let left = deadline.map(|deadline| clock.left(deadline));
        if left.is_some_and(|left| left.is_zero()) {
            let message = "the deadline of the operation is over: nothing was run";
            return Err(Error::new(ErrorKind::DeadlineExceeded, message));
        }
        let now = clock.store_now();
        let lease_expires_at = now.plus(policy.lease.length(left, self.lease_margin()));
        // As long as the retention lasts, what was left unfinished is known as that.
        let begins = if mutant(Mutant::ExpireBeforeLease) { now } else { lease_expires_at };
        let expires_at = begins.plus(policy.retention).seconds_up();
        Ok(Term { lease_expires_at, expires_at })
    }

    /// What a stamp can be wrong by and not be found so: the tolerance, and a `Date`'s resolution.
    fn lease_margin(&self) -> Duration {
        self.clock_tolerance + DATE_RESOLUTION
    }

    /// The window that a response leaves which has shown the lease in our hands. Nothing where it was
    /// stamped wrong, or is over for more than a third: then it has to be stamped anew.
    pub(crate) fn window(
        &self,
        policy: &Policy,
        deadline: Option<End>,
        lease_expires_at: Timestamp,
        time: Option<StoreTime>,
    ) -> Option<Window> {
        let (clock, margin) = (&self.table.clock, self.lease_margin());
        let deadline_left = deadline.map(|deadline| clock.left(deadline));
        let length = policy.lease.length(deadline_left, margin);
        let bounds = Bounds { length, may_lack: policy.lease.may_lack(deadline, margin), margin };
        let (seen, left) = if let Some(time) = time {
            let left = bounds.left(lease_expires_at, time.date, time.latest(), time.elapsed());
            (time.received, left)
        } else {
            let now = clock.store_now();
            (clock.now(), bounds.left(lease_expires_at, now, now, Duration::ZERO))
        };
        let left = if mutant(Mutant::OwnersClock) { length } else { left? };
        Some(Window { lease_expires_at, end: seen.plus(left) })
    }
}

/// What a lease has to be that is to be used.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    length: Duration,
    /// How much of that may be over, or may not be known to be there.
    may_lack: Duration,
    /// What a stamp can be wrong by.
    margin: Duration,
}

impl Bounds {
    /// What is left of a lease for sure, where the store's clock is known to lie between two times, after
    /// a round trip that `took` so long.
    fn left(
        self,
        lease_expires_at: Timestamp,
        earliest: Timestamp,
        latest: Timestamp,
        took: Duration,
    ) -> Option<Duration> {
        let left = lease_expires_at.since(latest);
        let is_enough = !left.is_zero() && self.length.saturating_sub(left) <= self.may_lack;
        let is_too_long = lease_expires_at.since(earliest) > self.length + self.margin + took;
        (is_enough && !is_too_long).then_some(left)
    }
}

impl Term {
    /// The same term, with an end that is none of `others`.
    pub(crate) fn unlike(mut self, others: &[Timestamp]) -> Self {
        while others.contains(&self.lease_expires_at) {
            self = self.not_before(self.lease_expires_at.shifted(1));
        }
        self
    }

    /// So much longer, the retention after it included.
    fn not_before(mut self, lease_expires_at: Timestamp) -> Self {
        let longer = lease_expires_at.since(self.lease_expires_at);
        let expires_at = Timestamp::from_millis(self.expires_at.saturating_mul(1000));
        self.expires_at = expires_at.plus(longer).seconds_up();
        self.lease_expires_at = self.lease_expires_at.plus(longer);
        self
    }
}

/// What became of a renewal.
enum Renewal {
    Renewed,
    Failed,
    /// The operation has ended: there is no lease any more.
    Ended,
    Lost,
}

impl Execution {
    /// Sees `work` to its end, the handler and what its answer does to the record, and renews the
    /// lease beside it where the policy says so.
    pub(crate) async fn drive<F: Future>(&self, work: F) -> F::Output {
        let renewal = self.inner.policy.lease.renewed(self.inner.deadline);
        let Some(length) = renewal.filter(|_| self.is_protected()) else { return work.await };
        tokio::select! {
            biased;
            output = work => output,
            never = self.keep_alive(length) => match never {},
        }
    }

    /// Runs a handler for as long as its lease holds, and no further: `None` if that was over, or lost,
    /// before the handler had ended. It is dropped then where it stands, and the record stays as it is,
    /// because nobody knows what the handler had done.
    pub(crate) async fn guard<F: Future>(&self, handler: F) -> Option<F::Output> {
        let goes_on = self.inner.policy.lease_expired == LeaseExpired::Continue;
        if !self.is_protected() || goes_on || mutant(Mutant::PollAfterTheLease) {
            return Some(handler.await);
        }
        let end = || self.window().map(|window| window.end).filter(|_| !self.is_lease_lost());
        let mut handler = pin!(handler);
        let woken = poll_fn(|context| {
            self.inner.handler.register(context.waker());
            handler.as_mut().poll(context)
        });
        let returned = self.inner.core.table.clock.until(end, woken).await;
        if returned.is_none() {
            // Nor is the lease renewed any more.
            *self.inner.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
            tracing::error!(
                operation = self.operation(),
                attempt = self.attempt(),
                is_lost = self.is_lease_lost(),
                "the lease ended while the handler ran: the handler was stopped, and its effect may \
                 have happened in part"
            );
        }
        returned
    }

    /// Where the handler itself has found out that its lease is over, it goes no further than here.
    pub(crate) async fn halt(&self) {
        let mut has_paused = false;
        poll_fn(|context| {
            if std::mem::replace(&mut has_paused, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Renews a lease of `length` when a third of it is over. A renewal that fails or hangs leaves
    /// time for more.
    async fn keep_alive(&self, length: Duration) -> Infallible {
        let clock = &self.inner.core.table.clock;
        let pause = || (length / 3).min(self.lease_remaining() / 2);
        let mut next = pause();
        loop {
            clock.sleep(next).await;
            next = match self.renew(length / 6).await {
                Renewal::Renewed => pause(),
                Renewal::Failed => length / 24,
                Renewal::Ended => return std::future::pending().await,
                Renewal::Lost if self.is_ending() => return std::future::pending().await,
                Renewal::Lost => {
                    self.note_lost_lease();
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

    async fn renew(&self, limit: Duration) -> Renewal {
        let Some(term) = self.next_term() else { return Renewal::Failed };
        let reply = self.inner.core.table.renew(&self.inner.claim, term, limit).await;
        let Err(seen) = self.stamped(term, reply) else { return Renewal::Renewed };
        // It is ours, and stamped wrong: by a clock that has jumped since.
        match seen {
            Unsound::Stamp(wrong) => {
                let Some(term) = self.replacing(wrong) else { return Renewal::Failed };
                let (core, claim) = (&self.inner.core, &self.inner.claim);
                let reply = core.table.restamp(claim, term, wrong, limit).await;
                match self.stamped(term, reply) {
                    Ok(()) => Renewal::Renewed,
                    Err(Unsound::Stamp(_)) => Renewal::Failed,
                    Err(Unsound::Other(renewal)) => renewal,
                }
            }
            Unsound::Other(renewal) => renewal,
        }
    }

    /// What a lease is renewed to: an invocation's is not, so that no deadline bounds it.
    fn next_term(&self) -> Option<Term> {
        let term = self.inner.core.term(&self.inner.policy, None).ok()?;
        let held = self.inner.held.lock().unwrap_or_else(PoisonError::into_inner);
        Some(term.unlike(&held.as_ref()?.replaced))
    }

    /// What takes the place of a wrong stamp: never less than what the holder goes by, however late it
    /// arrives.
    fn replacing(&self, wrong: Timestamp) -> Option<Term> {
        let term = self.inner.core.term(&self.inner.policy, None).ok()?;
        let mut held = self.inner.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.as_mut()?;
        if !held.replaced.contains(&wrong) {
            held.replaced.push(wrong);
        }
        Some(term.not_before(held.window.lease_expires_at).unlike(&held.replaced))
    }

    /// Goes by what a stamp has come to, if the store's time on its response says that it is right.
    fn stamped(&self, term: Term, Reply { outcome, time }: Reply<Write>) -> Result<(), Unsound> {
        let lease_expires_at = match outcome {
            Write::Applied => term.lease_expires_at,
            Write::Refused(Some(item)) => self.held_by(item)?,
            Write::Refused(None) => return Err(Unsound::Other(Renewal::Lost)),
            Write::Conflict(error)
            | Write::Invalid(error)
            | Write::NotApplied(error)
            | Write::Unknown(error) => {
                tracing::warn!(operation = self.operation(), %error, "a lease was not renewed");
                return Err(Unsound::Other(Renewal::Failed));
            }
        };
        let core = &self.inner.core;
        let Some(window) = core.window(&self.inner.policy, None, lease_expires_at, time) else {
            if mutant(Mutant::RenewalUnverified) {
                return Ok(());
            }
            return Err(Unsound::Stamp(lease_expires_at));
        };
        let mut held = self.inner.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = held.as_mut() {
            held.window = window;
        }
        Ok(())
    }

    /// The end of the lease in the record that a stamp lost to: a longer one of our own, from an earlier
    /// try. It may be our completion too, or another owner's.
    fn held_by(&self, item: Item) -> Result<Timestamp, Unsound> {
        let renewal = match Record::decode(&self.inner.core.table.schema, item) {
            Ok(record) if record.owner == self.inner.claim.owner => match record.state {
                State::Pending { lease_expires_at } => return Ok(lease_expires_at),
                State::Completed { .. } | State::Failed { .. } | State::Released => Renewal::Ended,
            },
            Ok(_) | Err(_) => Renewal::Lost,
        };
        Err(Unsound::Other(renewal))
    }
}

/// Why a stamp is nothing to go by.
enum Unsound {
    /// It is in the record, and wrong.
    Stamp(Timestamp),
    Other(Renewal),
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(60);

    /// What is left of a lease that was stamped by a clock ahead of the store's, where the request took
    /// so long to the store and back; all in ms.
    fn left(store: i64, ahead: i64, there: i64, back: i64) -> Option<Duration> {
        let margin = Duration::from_secs(2);
        let bounds = Bounds { length: LENGTH, may_lack: LENGTH / 3, margin };
        let at = Timestamp::from_millis;
        let lease_expires_at = at(store - there + ahead).plus(LENGTH);
        let took = at(there + back).since(at(0));
        let date = at(store.div_euclid(1000) * 1000);
        bounds.left(lease_expires_at, date, date.shifted(999).plus(took), took)
    }

    #[test]
    fn the_lease_of_an_exact_clock_is_used_and_never_for_longer_than_it_lasts() {
        for store in (100_000..101_000).step_by(37) {
            for (there, back) in [(0, 0), (40, 60), (0, 1000), (1000, 7000), (900, 0)] {
                let left = left(store, 0, there, back).expect("it is right");
                let truly =
                    LENGTH.saturating_sub(Duration::from_millis((there + back).unsigned_abs()));
                assert!(left <= truly, "{store} {there} {back}: {left:?}");
                let lost = Duration::from_millis(1_000 + there.unsigned_abs());
                assert!(left + lost >= truly, "{store} {there} {back}: {left:?}");
            }
        }
    }

    #[test]
    fn the_stamp_of_a_clock_that_is_far_off_is_not_used() {
        for ahead in [-60_000, -21_000, 3_100, 60_000, 3_600_000] {
            assert_eq!(left(100_300, ahead, 50, 50), None, "{ahead}");
        }
    }

    #[test]
    fn a_slow_clock_does_not_hide_behind_a_slow_response() {
        let left = left(104_000, -4_000, 0, 13_000).expect("two thirds of it");
        assert!(left <= Duration::from_secs(43), "{left:?}");
    }
}
