//! Becoming the owner of a key, or learning why not.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Backoff, Offset, StoreTime, Timestamp};
use crate::error::{Error, ErrorKind};
use crate::execution::Execution;
use crate::fault_injection::{Mutant, mutant};
use crate::fingerprint::Fingerprint;
use crate::idempotency::Core;
use crate::key::RecordKey;
use crate::policy::{COMPLETION_MARGIN, InProgress, Outage, Policy};
use crate::protocol::{Decision, Request, decide};
use crate::record::{Claim, Item, Owner, Record, Version};
use crate::response::{Answer, AnswerKind};
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
    pub(crate) answers: AnswerKind,
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

/// Tries until the call owns its key or has an answer; where the policy wants that of an outage,
/// the call may own its key without a record.
pub(crate) async fn acquire(core: &Arc<Core>, call: Call) -> Result<Acquisition, Error> {
    call.policy.validate()?;
    let clock = &core.table.clock;
    let claim = Claim {
        key: call.key.clone(),
        owner: Owner::random()?,
        attempt: 1,
        fingerprint: call.fingerprint,
        created_at: clock.store_now(),
    };
    let mut acquirer = Acquirer {
        core,
        call,
        claim,
        started: clock.local_now(),
        writes: 0,
        backoff: Backoff::new(Duration::from_millis(50), Duration::from_secs(1)),
        stamped: clock.offset(),
        may_hold: false,
        running: None,
    };
    match acquirer.run().await {
        Err(error) => acquirer.give_up(error).await,
        answer => answer,
    }
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
    /// A write of ours is in the table, or may be, or may yet arrive there.
    may_hold: bool,
    /// Another owner was seen at work, with so much of its lease left.
    running: Option<Duration>,
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

/// Whether a lease that we have may be used.
enum Settled {
    Granted(Execution),
    /// The record may have changed meanwhile: look again.
    Look,
}

impl Acquirer<'_> {
    async fn run(&mut self) -> Result<Acquisition, Error> {
        let mut next = Next::Create;
        loop {
            let Some((found, time)) = self.send(next).await? else {
                return Ok(self.contended());
            };
            let settled = match found {
                Found::Nothing => Settled::Look,
                Found::Ours(term) => {
                    let misstamped = self.is_misstamped(time);
                    self.settle(term.lease_expires_at, misstamped).await?
                }
                Found::Record(item) => match self.decide(item, time)? {
                    Decision::Acquired { attempt, created_at, lease_expires_at } => {
                        (self.claim.attempt, self.claim.created_at) = (attempt, created_at);
                        // Whoever ran is gone.
                        self.running = None;
                        // Which of several writes it was, and so its offset, is not known.
                        let misstamped = self.writes > 1 || self.is_misstamped(time);
                        self.settle(lease_expires_at, misstamped).await?
                    }
                    Decision::Create => {
                        next = self.anew(Next::Create);
                        continue;
                    }
                    Decision::Replace(version) => {
                        next = self.anew(Next::Replace(version));
                        continue;
                    }
                    Decision::TakeOver { version, attempt, created_at } => {
                        (self.claim.attempt, self.claim.created_at) = (attempt, created_at);
                        next = Next::TakeOver(version);
                        continue;
                    }
                    Decision::InProgress { lease_left } => {
                        self.running = Some(lease_left);
                        if !self.wait().await {
                            return Ok(in_progress(lease_left));
                        }
                        Settled::Look
                    }
                    Decision::Replay(answer) => return Ok(Acquisition::Replay(answer)),
                    Decision::ReplayFailure(answer) => {
                        return Ok(Acquisition::ReplayFailure(answer));
                    }
                    Decision::Mismatch => return Ok(Acquisition::Mismatch),
                    Decision::Abandoned => return Ok(Acquisition::Abandoned),
                },
            };
            next = match settled {
                Settled::Granted(execution) => return Ok(Acquisition::Acquired(execution)),
                Settled::Look => Next::Look,
            };
        }
    }

    /// The operation starts from its beginning.
    fn anew(&mut self, next: Next) -> Next {
        (self.claim.attempt, self.claim.created_at) = (1, self.core.table.clock.store_now());
        next
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

    /// One round trip; `None` when no further write makes sense.
    async fn send(&mut self, next: Next) -> Result<Option<(Found, Option<StoreTime>)>, Error> {
        if let Next::Look = next {
            return self.look().await.map(Some);
        }
        if !self.pace().await {
            return Ok(None);
        }
        let term = self.term()?;
        let limit = self.limit();
        let (table, claim) = (&self.core.table, &self.claim);
        let Reply { outcome, time } = match &next {
            Next::Create | Next::Look => table.create(claim, term, limit).await,
            Next::Replace(seen) => table.replace(claim, term, seen, limit).await,
            Next::TakeOver(seen) => table.take_over(claim, term, seen, limit).await,
        };
        let found = match outcome {
            Write::Applied => {
                self.may_hold = true;
                Found::Ours(term)
            }
            Write::Refused(Some(item)) => Found::Record(Some(item)),
            Write::Refused(None) | Write::Conflict(_) => Found::Nothing,
            Write::Unknown(_) => {
                self.may_hold = true;
                Found::Nothing
            }
            Write::Invalid(error) | Write::NotApplied(error) => return Err(error),
        };
        Ok(Some((found, time)))
    }

    async fn look(&mut self) -> Result<(Found, Option<StoreTime>), Error> {
        loop {
            let Reply { outcome, time } = self.core.table.get(&self.call.key, self.limit()).await;
            match outcome {
                Ok(item) => return Ok((Found::Record(item), time)),
                // Somebody runs it: one failed look is no reason to stop waiting.
                Err(_) if self.running.is_some() && self.wait().await => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits before the third write and each later one; `false` in a race that nobody wins.
    async fn pace(&mut self) -> bool {
        self.writes += 1;
        if self.writes > 2 {
            let pause = self.backoff.next().min(self.limit());
            self.core.table.clock.sleep(pause).await;
        }
        self.writes <= MAX_WRITES
    }

    /// How long the next call may last: the answer has to get out before the deadline.
    fn limit(&self) -> Duration {
        self.core.time_until(self.call.deadline.map(|deadline| deadline.minus(COMPLETION_MARGIN)))
    }

    /// The lease and the retention of a record written now.
    fn term(&mut self) -> Result<Term, Error> {
        self.stamped = self.core.table.clock.offset();
        self.core.term(&self.call.policy, self.call.deadline, self.stamped)
    }

    fn is_misstamped(&self, time: Option<StoreTime>) -> bool {
        time.is_some_and(|time| self.stamped.is_off(time, self.core.clock_tolerance))
    }

    /// Makes sure, before anything runs, that the lease we hold was stamped right and that not too
    /// much of it is over.
    async fn settle(
        &mut self,
        lease_expires_at: Timestamp,
        misstamped: bool,
    ) -> Result<Settled, Error> {
        let (mut lease_expires_at, mut misstamped) = (lease_expires_at, misstamped);
        loop {
            let fresh = self.term()?;
            let length = fresh.lease_expires_at.since(self.core.table.clock.store_now());
            let lost = fresh.lease_expires_at.since(lease_expires_at);
            if (!misstamped && lost <= length / 3) || mutant(Mutant::OwnersClock) {
                break;
            }
            if !self.pace().await {
                let message = "DynamoDB confirms no lease: try again";
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            let limit = self.limit();
            let reply = self.core.table.restamp(&self.claim, fresh, lease_expires_at, limit).await;
            match reply.outcome {
                // This response too may have been under way for long, or tell more of the clock.
                Write::Applied => {
                    misstamped = self.is_misstamped(reply.time);
                    lease_expires_at = fresh.lease_expires_at;
                }
                Write::Refused(_) | Write::Conflict(_) | Write::Unknown(_) => {
                    return Ok(Settled::Look);
                }
                Write::Invalid(error) | Write::NotApplied(error) => return Err(error),
            }
        }
        let (claim, call) = (self.claim.clone(), self.call.clone());
        Ok(Settled::Granted(Execution::protected(self.core, claim, call, lease_expires_at)))
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

    /// Others write to this key all the time, or DynamoDB lets nobody through.
    fn contended(&self) -> Acquisition {
        in_progress(self.running.unwrap_or_default())
    }

    /// What an error leaves behind, and what becomes of the call.
    async fn give_up(&mut self, error: Error) -> Result<Acquisition, Error> {
        let is_outage = error.kind() == ErrorKind::Unavailable;
        if let Some(lease_left) = self.running.filter(|_| is_outage) {
            // What was seen may be long ago, and the record ours by now.
            if self.may_hold {
                self.let_go().await;
            }
            return Ok(in_progress(lease_left));
        }
        if is_outage && self.call.policy.outage == Outage::Open {
            tracing::error!(
                operation = self.call.key.operation(), %error,
                "DynamoDB is out of reach: the handler runs WITHOUT idempotency (Outage::Open)"
            );
            let (claim, call) = (self.claim.clone(), self.call.clone());
            return Ok(Acquisition::Acquired(Execution::unprotected(self.core, claim, call)));
        }
        if self.may_hold {
            self.let_go().await;
        }
        Err(error)
    }

    /// Frees a key that we may hold and shall not use; nothing ran. If that fails, the lease frees
    /// it.
    async fn let_go(&self) {
        match self.core.table.release(&self.claim, self.limit()).await.outcome {
            Write::Applied | Write::Refused(_) => {}
            Write::Conflict(error)
            | Write::Invalid(error)
            | Write::NotApplied(error)
            | Write::Unknown(error) => {
                tracing::warn!(
                    operation = self.call.key.operation(), %error,
                    "an unused lease could not be released: the key is free when it ends"
                );
            }
        }
    }
}

/// A retry makes sense when the lease is over at the latest; owners mostly finish much earlier.
pub(crate) fn in_progress(lease_left: Duration) -> Acquisition {
    let retry_after = lease_left.clamp(Duration::from_secs(1), Duration::from_secs(5));
    Acquisition::InProgress { retry_after }
}

/// What even a call gets that has no time left: long enough for an answer to come.
const LEAST_LIMIT: Duration = Duration::from_millis(100);

impl Core {
    /// How long a call may last that has to be back by `until`, in local time.
    pub(crate) fn time_until(&self, until: Option<Timestamp>) -> Duration {
        let now = self.table.clock.local_now();
        until.map_or(Duration::MAX, |until| until.since(now).max(LEAST_LIMIT))
    }

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
        let floor = if mutant(Mutant::ExpireBeforeLease) { now } else { lease_expires_at };
        let expires_at = now.plus(policy.retention).max(floor).seconds_up();
        Ok(Term { lease_expires_at, expires_at })
    }
}
