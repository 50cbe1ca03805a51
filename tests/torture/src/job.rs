//! One call of an operation, and a handler that logs its effects.

use std::time::Duration;

use anyhow::Result;
use dynamodb_idempotency::policy::{Failure, InProgress, Lease, LeaseExpired};
use dynamodb_idempotency::{ErrorKind, Execution, Idempotency, Outcome, Policy, RunError};
use fastrand::Rng;
use tokio::time::sleep;

use crate::event::{Answer, Event, How, Log};
use crate::store::{Effect, SCOPE, Store, effect_to_commit};
use crate::{millis, now};

/// Shorter than the lease: a completion without a response is given up while its lease is live.
const COMPLETION_TIMEOUT: Duration = Duration::from_millis(1_200);
/// How often a running handler checks whether its lease was renewed.
const LOOK: Duration = Duration::from_millis(100);
/// A lease that expires at least this much later was renewed; a smaller difference is rounding.
const RENEWED_BY: i64 = 300;

/// What a process needs for its calls.
#[derive(Debug)]
pub(crate) struct Caller {
    idempotency: Idempotency,
    store: Store,
    log: Log,
}

/// The work of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    lease: Lease,
    in_progress: InProgress,
    /// What happens to a handler that runs longer than its lease.
    lease_expired: LeaseExpired,
    work: Duration,
    /// The handler fails before it has any effect.
    fails: bool,
}

/// The handler's own error.
#[derive(Debug)]
struct Failing;

impl Plan {
    /// A random job. The kind of lease depends on the worker.
    pub(crate) fn random(index: usize, rng: &mut Rng) -> Self {
        let wait = InProgress::Wait { timeout: Duration::from_secs(2) };
        let (lease, in_progress) = match index % 4 {
            0 => (Lease::Fixed(Duration::from_secs(3)), InProgress::Reject),
            1 => (Lease::Fixed(Duration::from_secs(3)), wait),
            2 => (Lease::Renewed(Duration::from_secs(3)), InProgress::Reject),
            _ => (Lease::Fixed(Duration::from_secs(4)), wait),
        };
        let fails = rng.u8(..16) == 0;
        // Some handlers run longer than their lease. A renewed lease allows that; with a fixed one the
        // owner is stopped, or continues while another owner takes over. More of those that fail run
        // long, because a failure after the lease has expired is the most interesting case.
        let lease_expired = if rng.bool() { LeaseExpired::Continue } else { LeaseExpired::Stop };
        let is_long = rng.u8(..if fails { 2 } else { 8 }) == 0;
        let work = Duration::from_millis(rng.u64(if is_long { 3_000..5_000 } else { 20..800 }));
        Self { lease, in_progress, lease_expired, work, fails }
    }

    /// A job without delay.
    pub(crate) fn quick() -> Self {
        let wait = InProgress::Wait { timeout: Duration::from_secs(5) };
        let lease = Lease::Fixed(Duration::from_secs(3));
        let lease_expired = LeaseExpired::Stop;
        Self { lease, in_progress: wait, lease_expired, work: Duration::ZERO, fails: false }
    }

    fn policy(self, key: &str) -> impl FnOnce(Policy) -> Policy {
        // Every fourth key retains its failures, so that its attempts are counted from the first.
        let failure = if keeps_failures(key) {
            Failure::Retain { max_attempts: u32::MAX }
        } else {
            Failure::Release
        };
        move |policy| {
            policy
                .lease(self.lease)
                .in_progress(self.in_progress)
                .lease_expired(self.lease_expired)
                .failure(failure)
                .completion_timeout(COMPLETION_TIMEOUT)
        }
    }
}

/// Whether failures of this key are kept.
pub(crate) fn keeps_failures(key: &str) -> bool {
    key.trim_start_matches('k').parse::<u64>().is_ok_and(|number| number % 4 == 0)
}

/// Whether the effect of this key is committed with its answer. There must then be exactly one effect.
pub(crate) fn commits_effect(key: &str) -> bool {
    key.trim_start_matches('k').parse::<u64>().is_ok_and(|number| number % 4 == 2)
}

impl Caller {
    pub(crate) fn new(store: Store, log: Log) -> Result<Self> {
        Ok(Self { idempotency: store.idempotency()?, store, log })
    }

    /// Makes one call and logs its outcome. Returns whether it was a replay.
    pub(crate) async fn call(&self, key: &str, plan: Plan) -> Result<bool> {
        let operation =
            self.idempotency.operation(SCOPE).policy(plan.policy(key))?.key(key).payload(key);
        let handler = async |execution: Execution| self.handle(key, &execution, plan).await;
        let event = match Box::pin(operation.run_with_outcome(handler)).await {
            Ok(outcome) => answered(outcome),
            Err(RunError::Handler(Failing)) => Event::Refused { kind: "Handler".into() },
            Err(RunError::Idempotency(error)) => Event::Refused { kind: name(error.kind()) },
        };
        let stored = matches!(event, Event::Answered { how: How::Executed | How::Replayed, .. });
        self.log.write(key, event)?;
        Ok(stored)
    }

    async fn handle(
        &self,
        key: &str,
        execution: &Execution,
        plan: Plan,
    ) -> Result<Answer, Failing> {
        // Read the time first: a pause between the two makes the lease look shorter, never longer.
        let started = now();
        let lease_ends = started + millis(execution.lease_remaining());
        let (owner, attempt) = (execution.owner().to_owned(), execution.attempt());
        let event = Event::Started { owner: owner.clone(), attempt, lease_ends };
        self.note(started, key, event)?;
        let key = key.to_owned();
        let effect = Effect { key, owner, attempt, started, lease_ends };
        if plan.fails {
            self.work(&effect, execution, plan.work).await?;
            let Effect { key, owner, .. } = effect;
            self.note(now(), &key, Event::Failing { owner })?;
            return Err(Failing);
        }
        if commits_effect(&effect.key) {
            self.work(&effect, execution, plan.work).await?;
            return self.commit(effect, execution).await;
        }
        // Repeat until it is written: an effect that may have happened must not end as a failure.
        while self.store.put_effect(&effect).await.is_err() {
            sleep(LOOK).await;
        }
        self.work(&effect, execution, plan.work).await?;
        let Effect { key, owner, attempt, .. } = effect;
        Ok(Answer { key, owner, attempt })
    }

    /// Commits the effect with the answer, if this call is still the owner. What the handler returns after
    /// a commit that was not applied is not an answer.
    async fn commit(&self, effect: Effect, execution: &Execution) -> Result<Answer, Failing> {
        let row = effect_to_commit(&effect).map_err(|error| {
            eprintln!("an effect cannot be committed: {error}");
            std::process::exit(1)
        })?;
        let Effect { key, owner, attempt, .. } = effect;
        // From now on the record may be released.
        self.note(now(), &key, Event::Committing { owner: owner.clone() })?;
        let answer = Answer { key, owner, attempt };
        match execution.commit(&answer, [row]).await {
            Ok(()) => Ok(answer),
            Err(_) => Err(Failing),
        }
    }

    async fn work(
        &self,
        effect: &Effect,
        execution: &Execution,
        work: Duration,
    ) -> Result<(), Failing> {
        let mut lease_ends = effect.lease_ends;
        let mut left = work;
        while !left.is_zero() {
            let pause = left.min(LOOK);
            sleep(pause).await;
            left -= pause;
            let at = now();
            let seen = at + millis(execution.lease_remaining());
            let is_live = seen > at;
            if is_live && seen > lease_ends + RENEWED_BY {
                lease_ends = seen;
                let event = Event::Renewed { owner: effect.owner.clone(), lease_ends };
                self.note(at, &effect.key, event)?;
            }
        }
        Ok(())
    }

    /// A handler that cannot write its log ends the process, which the run reports.
    fn note(&self, at: i64, key: &str, event: Event) -> Result<(), Failing> {
        self.log.write_at(at, key, event).map_err(|error| {
            eprintln!("the log cannot be written: {error}");
            std::process::exit(1)
        })
    }
}

fn answered(outcome: Outcome<Answer>) -> Event {
    match outcome {
        Outcome::Executed(answer) => Event::Answered { how: How::Executed, answer },
        Outcome::Replayed(answer) => Event::Answered { how: How::Replayed, answer },
        Outcome::Unconfirmed(answer) => Event::Answered { how: How::Unconfirmed, answer },
        other => Event::Refused { kind: format!("{other:?}") },
    }
}

/// `InProgress`, without its fields.
fn name(kind: ErrorKind) -> String {
    let name = format!("{kind:?}");
    name.split([' ', '{']).next().unwrap_or_default().to_owned()
}
