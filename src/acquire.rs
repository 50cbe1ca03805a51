//! Becoming the owner of a key, or learning why not.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Backoff, Offset, StoreTime, Timestamp};
use crate::error::{Error, ErrorKind};
use crate::execution::Execution;
use crate::fingerprint::Fingerprint;
use crate::idempotency::Core;
use crate::key::RecordKey;
use crate::policy::{COMPLETION_MARGIN, InProgress, Policy};
use crate::protocol::{Decision, Request, decide};
use crate::record::{Claim, Item, Owner, Record, Version};
use crate::response::Answer;
use crate::table::{Reply, Term, Write};

/// How often one call tries to write before it gives a contended key up.
const MAX_WRITES: u32 = 8;

/// One call of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) key: RecordKey,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) policy: Policy,
    /// When the caller's time is over, by the local clock.
    pub(crate) deadline: Option<Timestamp>,
}

/// What an attempt to become the owner came to. Only the first variant may run the handler.
#[derive(Debug)]
#[must_use]
pub(crate) enum Acquisition {
    Acquired(Execution),
    Replay(Answer),
    ReplayFailure(Option<Answer>),
    Mismatch,
    InProgress { retry_after: Duration },
    Abandoned,
}

/// Tries until the call owns its key or has an answer.
pub(crate) async fn acquire(core: &Arc<Core>, call: Call) -> Result<Acquisition, Error> {
    let owner = Owner::random()?;
    let created_at = core.table.clock.store_now();
    let claim = Claim {
        key: call.key.clone(),
        owner,
        attempt: 1,
        fingerprint: call.fingerprint,
        created_at,
    };
    let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
    let started = core.table.clock.local_now();
    let acquirer = Acquirer {
        core,
        call,
        claim,
        started,
        writes: 0,
        backoff,
        stamped: core.table.clock.offset(),
    };
    acquirer.run().await
}

struct Acquirer<'a> {
    core: &'a Arc<Core>,
    call: Call,
    claim: Claim,
    started: Timestamp,
    writes: u32,
    backoff: Backoff,
    /// The clock offset that the last written lease was stamped with.
    stamped: Offset,
}

/// What to send next.
enum Next {
    Create,
    Replace(Version),
    TakeOver(Version),
    Look,
}

/// What a round trip brought.
enum Found {
    Ours(Term),
    Record(Option<Item>),
    /// The store did not tell: look.
    Nothing,
}

impl Acquirer<'_> {
    async fn run(mut self) -> Result<Acquisition, Error> {
        let mut next = Next::Create;
        loop {
            let (found, time) = self.send(next).await?;
            let item = match found {
                Found::Nothing => {
                    next = Next::Look;
                    continue;
                }
                Found::Ours(term) => match self.settle(term.lease_expires_at, time).await? {
                    Settled::Granted(execution) => return Ok(Acquisition::Acquired(execution)),
                    Settled::Lost => {
                        next = Next::Look;
                        continue;
                    }
                },
                Found::Record(item) => item,
            };
            next = match self.decide(item, time)? {
                Decision::Acquired { attempt, created_at, lease_expires_at } => {
                    (self.claim.attempt, self.claim.created_at) = (attempt, created_at);
                    match self.settle(lease_expires_at, time).await? {
                        Settled::Granted(execution) => return Ok(Acquisition::Acquired(execution)),
                        Settled::Lost => Next::Look,
                    }
                }
                Decision::Create => {
                    (self.claim.attempt, self.claim.created_at) =
                        (1, self.core.table.clock.store_now());
                    Next::Create
                }
                Decision::Replace(version) => {
                    (self.claim.attempt, self.claim.created_at) =
                        (1, self.core.table.clock.store_now());
                    Next::Replace(version)
                }
                Decision::TakeOver { version, attempt, created_at } => {
                    (self.claim.attempt, self.claim.created_at) = (attempt, created_at);
                    Next::TakeOver(version)
                }
                Decision::InProgress { lease_left } => {
                    if !self.wait().await {
                        return Ok(Acquisition::InProgress {
                            retry_after: retry_after(lease_left),
                        });
                    }
                    Next::Look
                }
                Decision::Replay(answer) => return Ok(Acquisition::Replay(answer)),
                Decision::ReplayFailure(answer) => return Ok(Acquisition::ReplayFailure(answer)),
                Decision::Mismatch => return Ok(Acquisition::Mismatch),
                Decision::Abandoned => return Ok(Acquisition::Abandoned),
            };
        }
    }

    fn decide(&self, item: Option<Item>, time: Option<StoreTime>) -> Result<Decision, Error> {
        let table = &self.core.table;
        let record = item.map(|item| Record::decode(&table.schema, item)).transpose()?;
        let now = table.clock.judging_time(time, self.core.clock_tolerance);
        let request = Request {
            owner: &self.claim.owner,
            fingerprint: &self.call.fingerprint,
            policy: &self.call.policy,
        };
        Ok(decide(record, now, request))
    }

    async fn send(&mut self, next: Next) -> Result<(Found, Option<StoreTime>), Error> {
        if let Next::Look = next {
            let Reply { outcome, time } = self.core.table.get(&self.call.key).await;
            return Ok((Found::Record(outcome?), time));
        }
        self.pace().await?;
        let term = self.term()?;
        let (table, claim) = (&self.core.table, &self.claim);
        let Reply { outcome, time } = match &next {
            Next::Create | Next::Look => table.create(claim, term).await,
            Next::Replace(seen) => table.replace(claim, term, seen).await,
            Next::TakeOver(seen) => table.take_over(claim, term, seen).await,
        };
        let found = match outcome {
            Write::Applied => Found::Ours(term),
            Write::Refused(Some(item)) => Found::Record(Some(item)),
            Write::Refused(None) | Write::Unknown(_) => Found::Nothing,
            Write::NotApplied(error) => return Err(error),
        };
        Ok((found, time))
    }

    /// Waits before the third write and each later one, and ends a race that nobody wins.
    async fn pace(&mut self) -> Result<(), Error> {
        self.writes += 1;
        if self.writes > MAX_WRITES {
            let message = "the key is contended, or DynamoDB answers no write: try again";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        if self.writes > 2 {
            let pause = self.backoff.next();
            self.core.table.clock.sleep(pause).await;
        }
        Ok(())
    }

    /// The lease and the retention of a record written now.
    fn term(&mut self) -> Result<Term, Error> {
        self.stamped = self.core.table.clock.offset();
        self.core.term(&self.call.policy, self.call.deadline, self.stamped)
    }

    /// Makes sure, before anything runs, that the lease we hold was stamped right and is not over.
    async fn settle(
        &mut self,
        lease_expires_at: Timestamp,
        time: Option<StoreTime>,
    ) -> Result<Settled, Error> {
        let tolerance = self.core.clock_tolerance;
        let mut lease_expires_at = lease_expires_at;
        let misstamped = time.is_some_and(|time| self.stamped.is_off(time, tolerance));
        if misstamped || lease_expires_at <= self.core.table.clock.store_now() {
            match self.restamp().await {
                Ok(Some(restamped)) => lease_expires_at = restamped,
                Ok(None) => return Ok(Settled::Lost),
                Err(error) => {
                    self.let_go().await;
                    return Err(error);
                }
            }
        }
        let (claim, call) = (self.claim.clone(), &self.call);
        let execution =
            Execution::new(self.core, claim, call.policy.clone(), call.deadline, lease_expires_at);
        Ok(Settled::Granted(execution))
    }

    /// Stamps our lease by the clock as it is known now; `None` if the record is no longer ours.
    async fn restamp(&mut self) -> Result<Option<Timestamp>, Error> {
        loop {
            self.pace().await?;
            let term = self.term()?;
            let Reply { outcome, .. } = self.core.table.restamp(&self.claim, term).await;
            match outcome {
                Write::Applied => return Ok(Some(term.lease_expires_at)),
                Write::Refused(_) => return Ok(None),
                Write::Unknown(_) => {}
                Write::NotApplied(error) => return Err(error),
            }
        }
    }

    /// Frees a key that we hold and shall not use; nothing ran. If that fails, the lease frees it.
    async fn let_go(&self) {
        match self.core.table.release(&self.claim).await.outcome {
            Write::Applied | Write::Refused(_) => {}
            Write::NotApplied(error) | Write::Unknown(error) => {
                tracing::warn!(
                    operation = self.call.key.operation(), %error,
                    "an unused lease could not be released: the key is free when it ends"
                );
            }
        }
    }

    /// Waits for the next look at a running operation; `false` when policy or time say no more.
    async fn wait(&mut self) -> bool {
        let InProgress::Wait { timeout } = self.call.policy.in_progress else { return false };
        let clock = &self.core.table.clock;
        let mut until = self.started.plus(timeout);
        if let Some(deadline) = self.call.deadline {
            until = until.min(deadline.minus(COMPLETION_MARGIN));
        }
        let left = until.since(clock.local_now());
        if left.is_zero() {
            return false;
        }
        clock.sleep(self.backoff.next().min(left)).await;
        true
    }
}

enum Settled {
    Granted(Execution),
    /// Somebody else changed the record meanwhile: look again.
    Lost,
}

/// A retry makes sense when the lease is over at the latest; owners mostly finish much earlier.
fn retry_after(lease_left: Duration) -> Duration {
    lease_left.clamp(Duration::from_secs(1), Duration::from_secs(5))
}

impl Core {
    /// How long an owner that starts or goes on now may hold the record.
    pub(crate) fn term(
        &self,
        policy: &Policy,
        deadline: Option<Timestamp>,
        offset: Offset,
    ) -> Result<Term, Error> {
        let now = offset.to_store(self.table.clock.local_now());
        let deadline = deadline.map(|deadline| offset.to_store(deadline));
        if deadline.is_some_and(|deadline| deadline <= now) {
            let message = "the deadline of the operation is over: nothing was run";
            return Err(Error::new(ErrorKind::DeadlineExceeded, message));
        }
        let lease_expires_at = policy.lease.end(now, deadline);
        let expires_at = now.plus(policy.retention).max(lease_expires_at).seconds_up();
        Ok(Term { lease_expires_at, expires_at })
    }
}
