//! Becoming the owner of a key, or learning why not.

mod adaptive;
mod give_up;
mod reconcile;
mod together;

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

pub(crate) use self::adaptive::Replays;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::cache::Asked;
use crate::clock::{Backoff, Clock, End, StoreTime, Timestamp, Uptime};
use crate::error::{Error, ErrorKind};
use crate::execution::Execution;
use crate::fault_injection::{Mutant, mutant};
use crate::fingerprint::Fingerprint;
use crate::idempotency::Core;
use crate::key::RecordKey;
use crate::policy::{Acquire, COMPLETION_MARGIN, Completed, InProgress, Policy};
use crate::protocol::{Decision, Orphan, Request, decide};
use crate::reconcile::{Abandoned, Settlement, Verdict};
use crate::record::{Claim, Item, Record, Taken, Version};
use crate::response::{Answer, Answers, Stored};
use crate::signals::{self, Ending, Signals};
use crate::steps::Checkpoints;
use crate::table::{Consistency, Reply, Term, Write};

/// How often one call tries to write before it gives a contended key up.
const MAX_WRITES: u32 = 8;

/// One call of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) key: RecordKey,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) policy: Policy,
    /// When the caller's time is over.
    pub(crate) deadline: Option<End>,
    pub(crate) answers: Answers,
    pub(crate) signals: Signals,
}

impl Call {
    pub(crate) fn new(
        core: &Core,
        key: RecordKey,
        fingerprint: Fingerprint,
        policy: Policy,
        deadline: Option<End>,
        answers: Answers,
    ) -> Self {
        if core.table.is_disabled {
            let operation = key.operation();
            tracing::warn!(operation, "a call runs WITHOUT idempotency: it is switched off");
        }
        let signals = Signals::new(&key, core.log_key);
        Self { key, fingerprint, policy, deadline, answers, signals }
    }

    /// Passes on what the call has come to; tells it, if that is its end.
    pub(crate) fn told(&self, acquired: Result<Acquisition, Error>) -> Result<Acquisition, Error> {
        let ending = match &acquired {
            Ok(acquisition) => Ending::of(acquisition),
            Err(error) => Some(Ending::of_error(error)),
        };
        if let Some(ending) = ending {
            self.ended(ending);
        }
        acquired
    }

    /// Tells that the call has ended without having run anything.
    pub(crate) fn ended(&self, ending: Ending) {
        self.signals.ended(self.key.operation(), ending, None);
    }

    /// By when a round trip must be over, so that the answer gets out before the deadline.
    pub(crate) fn answer_by(&self) -> Option<End> {
        self.deadline.map(|deadline| deadline.minus(COMPLETION_MARGIN))
    }

    /// Runs what the caller does before anything is written, until the deadline: by then it would be
    /// written too late.
    pub(crate) async fn prepare<F: Future>(
        &self,
        clock: &Clock,
        work: F,
    ) -> Result<F::Output, Error> {
        let Some(deadline) = self.deadline else { return Ok(work.await) };
        clock.until(|| Some(deadline), work).await.ok_or_else(|| {
            let message =
                "the deadline of the operation came before its transaction: nothing was written";
            Error::new(ErrorKind::DeadlineExceeded, message)
        })
    }

    /// Waits for the next look at an operation that another owner runs; `false` when policy or time
    /// say no more.
    pub(crate) async fn wait(&self, clock: &Clock, started: Uptime, backoff: &mut Backoff) -> bool {
        let left = self.wait_left(clock, started);
        if left.is_zero() {
            return false;
        }
        clock.sleep(backoff.next().min(left)).await;
        true
    }

    /// How long a call that began at `started` still waits for an operation that another owner runs.
    pub(crate) fn wait_left(&self, clock: &Clock, started: Uptime) -> Duration {
        let InProgress::Wait { timeout } = self.policy.in_progress else { return Duration::ZERO };
        let until = Clock::lasting_from(started, timeout);
        clock.left(self.answer_by().map_or(until, |answer_by| until.or(answer_by)))
    }

    /// Whether its policy has it wait for another owner.
    const fn is_waiting(&self) -> bool {
        matches!(self.policy.in_progress, InProgress::Wait { .. })
    }

    /// Whether what another call of the same request is told holds for this one too.
    fn may_share(&self) -> bool {
        self.policy.completed == Completed::Replay
    }
}

/// What an attempt to become the owner came to. Only the first variant may run the handler.
#[derive(Debug)]
#[must_use]
pub(crate) enum Acquisition {
    Acquired(Execution),
    Replay(Arc<Answer>),
    ReplayFailure(Option<Answer>),
    Mismatch,
    InProgress {
        retry_after: Duration,
    },
    Abandoned,
    /// A hook has to judge: [`Acquirer::resume`] with its word. Only where it was asked for.
    Reconcile(Box<Abandoned>),
    /// The hook's word is in the record.
    Reconciled,
}

/// Tries until the call owns its key or has an answer; where the policy wants that of an outage,
/// the call may own its key without a record. Boxed: the callers' own futures stay small, and are
/// compiled without what is in this one.
pub(crate) fn acquire(core: &Arc<Core>, call: Call) -> BoxFuture<'_, Result<Acquisition, Error>> {
    let acquiring = async move {
        let mut acquirer = Acquirer::new(core, call)?;
        let found = match core.flights.as_ref().filter(|_| acquirer.call.may_share()) {
            None => acquirer.acquire().await,
            Some(flights) => acquirer.together(flights).await,
        };
        acquirer.call.told(found)
    };
    acquiring.boxed()
}

/// A call on its way to its key.
pub(crate) struct Acquirer<'a> {
    core: &'a Arc<Core>,
    call: Call,
    claim: Claim,
    /// Whether a hook judges an abandoned operation: then the call may come to
    /// [`Acquisition::Reconcile`].
    pub(crate) reconciles: bool,
    started: Uptime,
    /// When all that is sent must have had its answer.
    budget: End,
    writes: u32,
    backoff: Backoff,
    /// For the answer that the record may be found to have.
    asked: Option<Asked>,
    /// Ends of leases that were stamped anew, and it is not known whether they were replaced.
    in_doubt: Vec<Timestamp>,
    /// A write of ours is in the table, or may be, or may yet arrive there.
    may_hold: bool,
    /// What keeps it from running without a record.
    seen: Seen,
    /// What the record that we own, or are about to, has of earlier attempts' steps.
    steps: Option<Checkpoints>,
    /// The abandoned operation that the hook is asked about.
    orphan: Option<Orphan>,
    /// What the hook said of an abandoned record, as long as that does not change.
    verdict: Option<(Version, Verdict)>,
    /// What the steps of the record take that the hook judged, in bytes.
    steps_bytes: usize,
    /// The form in which the hook's answer is stored.
    word: Option<Word>,
}

/// What a call has seen that counts even where the store is gone from then on.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// Nothing, or nothing any more.
    Nothing,
    /// Another owner at work.
    Running(Sighting),
    /// That the operation is over, or that this call must not run it; or, by a read that may show what
    /// was there before, that this may be so.
    Barrier,
}

/// Another owner, as it was seen at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting {
    pub(crate) lease_left: Duration,
    pub(crate) at: Uptime,
}

/// A hook's answer, ready to be put into the record.
#[derive(Clone, Debug)]
struct Word {
    completed_at: Timestamp,
    /// Epoch seconds.
    expires_at: i64,
    response: AttributeValue,
}

/// What to send next.
enum Next {
    Own(Way),
    /// The hook's word, over the record that it was said of.
    Reconcile(Version, Settlement),
    Look,
    /// A read before any write.
    Glance(Consistency),
    /// Nothing: this is what a refused write has shown.
    Shown(Item, Option<StoreTime>),
}

/// How to become the owner.
enum Way {
    Create,
    Replace(Version),
    TakeOver(Version),
}

/// What a round trip brought.
enum Found {
    Ours(Term),
    /// The hook's word is in the record.
    Reconciled,
    Record(Option<Item>),
    /// What may have been there a moment ago.
    Glimpse(Option<Item>),
    /// The store did not tell: look.
    Nothing,
}

/// Whether a lease that we have may be used.
enum Settled {
    Granted(Execution),
    /// The record may have changed meanwhile.
    Changed(Next),
}

impl<'a> Acquirer<'a> {
    pub(crate) fn new(core: &'a Arc<Core>, call: Call) -> Result<Self, Error> {
        call.policy.validate(core.clock_tolerance)?;
        let clock = &core.table.clock;
        let claim = Claim::first(call.key.clone(), call.fingerprint, clock.store_now())?;
        Ok(Self {
            core,
            call,
            claim,
            reconciles: false,
            started: clock.now().uptime,
            budget: clock.lasting(core.table.request_timeout),
            writes: 0,
            asked: None,
            backoff: Backoff::new(Duration::from_millis(50), Duration::from_secs(1)),
            in_doubt: Vec::new(),
            may_hold: false,
            seen: Seen::Nothing,
            steps: None,
            orphan: None,
            verdict: None,
            steps_bytes: 0,
            word: None,
        })
    }

    pub(crate) fn call(&self) -> &Call {
        &self.call
    }

    pub(crate) async fn acquire(&mut self) -> Result<Acquisition, Error> {
        if let Some(answer) = self.core.cached(&self.call) {
            return Ok(Acquisition::Replay(answer));
        }
        let first = match self.core.replays.strategy(self.call.policy.acquire) {
            Acquire::ReadFirst { consistent: true } => Next::Glance(Consistency::Strong),
            Acquire::ReadFirst { consistent: false } => Next::Glance(Consistency::Eventual),
            Acquire::WriteFirst | Acquire::Adaptive => Next::Own(Way::Create),
        };
        let acquisition = self.go_on(first).await;
        let is_replay = matches!(acquisition, Ok(Acquisition::Replay(_)));
        self.core.replays.note(self.call.policy.acquire, is_replay);
        acquisition
    }

    /// Waits for an operation that was seen to run.
    async fn wait_for(&mut self, seen: Sighting) -> Result<Acquisition, Error> {
        if !self.wait().await {
            return Ok(in_progress(seen.lease_left));
        }
        self.go_on(Next::Look).await
    }

    async fn go_on(&mut self, next: Next) -> Result<Acquisition, Error> {
        let acquisition = match self.run(next).await {
            Err(error) => self.give_up(error).await,
            answer => answer,
        };
        if let Ok(Acquisition::Acquired(_) | Acquisition::Reconciled) = acquisition {
            self.core.forget(&self.call.key);
        }
        acquisition
    }

    async fn run(&mut self, mut next: Next) -> Result<Acquisition, Error> {
        loop {
            let Some((found, time)) = self.send(next).await? else {
                return Ok(self.contended().await);
            };
            let settled = match found {
                Found::Nothing => Settled::Changed(Next::Look),
                Found::Reconciled => return Ok(Acquisition::Reconciled),
                Found::Glimpse(item) => {
                    if let Some((stored, expires_at)) = self.glimpse(item, time) {
                        return self.replay(stored, expires_at).await;
                    }
                    next = self.anew(Way::Create, 0);
                    continue;
                }
                Found::Ours(term) => {
                    self.is_ours();
                    self.settle(term.lease_expires_at, time).await?
                }
                Found::Record(item) => match self.decide(item, time)? {
                    Decision::Acquired {
                        attempt,
                        created_at,
                        lease_expires_at,
                        steps,
                        released_attempts,
                    } => {
                        (self.claim.attempt, self.claim.created_at) = (attempt, created_at);
                        self.claim.released_attempts = released_attempts;
                        self.steps = steps;
                        self.is_ours();
                        self.settle(lease_expires_at, time).await?
                    }
                    Decision::Create => {
                        next = self.anew(Way::Create, 0);
                        continue;
                    }
                    Decision::Replace { version, attempts } => {
                        next = self.anew(Way::Replace(version), attempts);
                        continue;
                    }
                    Decision::TakeOver(orphan) => {
                        next = self.take_over(orphan)?;
                        continue;
                    }
                    Decision::Reconcile { orphan, lease_ended_at } => {
                        let Some(verdict) = self.verdict_on(&orphan.version) else {
                            return Ok(self.put_to_hook(orphan, lease_ended_at));
                        };
                        let Some(carried_out) = self.carry_out(orphan, verdict)? else {
                            return Ok(Acquisition::Abandoned);
                        };
                        next = carried_out;
                        continue;
                    }
                    Decision::Reconciled => return Ok(Acquisition::Reconciled),
                    Decision::InProgress { lease_left } => {
                        self.runs(lease_left);
                        if !self.wait().await {
                            return Ok(in_progress(lease_left));
                        }
                        Settled::Changed(Next::Look)
                    }
                    Decision::Replay { answer, expires_at } => {
                        return self.replay(answer, expires_at).await;
                    }
                    Decision::ReplayFailure(None) => return Ok(Acquisition::ReplayFailure(None)),
                    Decision::ReplayFailure(Some(stored)) => {
                        let failure = self.open(stored).await?.if_to_be_had();
                        return Ok(Acquisition::ReplayFailure(failure));
                    }
                    Decision::Mismatch => return Ok(Acquisition::Mismatch),
                    Decision::Abandoned => return Ok(Acquisition::Abandoned),
                },
            };
            next = match settled {
                Settled::Granted(execution) => return Ok(Acquisition::Acquired(execution)),
                Settled::Changed(next) => next,
            };
        }
    }

    /// The answer in what an eventually consistent read has shown: a completed operation stays what
    /// it is. Of anything else there may be something newer, which the write brings; where it does
    /// not, because the store is gone by then, what was seen here counts.
    fn glimpse(&mut self, item: Option<Item>, time: Option<StoreTime>) -> Option<(Stored, i64)> {
        match self.decide(item, time) {
            Ok(Decision::Replay { answer, expires_at }) => return Some((answer, expires_at)),
            _ if mutant(Mutant::ForgetGlimpses) => {}
            Ok(Decision::Create | Decision::Replace { .. } | Decision::TakeOver(_)) => {}
            // Whoever was at work may have ended long ago: nobody is told of it.
            Ok(
                Decision::InProgress { .. }
                | Decision::Mismatch
                | Decision::ReplayFailure(_)
                | Decision::Abandoned
                | Decision::Reconcile { .. }
                | Decision::Reconciled
                | Decision::Acquired { .. },
            )
            | Err(_) => self.seen = Seen::Barrier,
        }
        None
    }

    /// Another owner runs it, with so much of its lease left.
    fn runs(&mut self, lease_left: Duration) {
        let at = self.core.table.clock.now().uptime;
        self.seen = Seen::Running(Sighting { lease_left, at });
    }

    /// The other owner that was seen at work, if nothing newer was seen.
    const fn running(&self) -> Option<Sighting> {
        match self.seen {
            Seen::Running(seen) => Some(seen),
            Seen::Nothing | Seen::Barrier => None,
        }
    }

    /// The record is this call's: whatever was seen before is gone.
    fn is_ours(&mut self) {
        self.seen = Seen::Nothing;
    }

    async fn replay(&mut self, stored: Stored, expires_at: i64) -> Result<Acquisition, Error> {
        let answer = Arc::new(self.open(stored).await?);
        let Call { key, fingerprint, policy, .. } = &self.call;
        self.core.remember(self.asked, (key, fingerprint), policy, expires_at, &answer);
        Ok(Acquisition::Replay(answer))
    }

    /// Reads the answer of an operation that is over: whatever becomes of that, nothing runs.
    async fn open(&mut self, stored: Stored) -> Result<Answer, Error> {
        self.seen = Seen::Barrier;
        let Call { key, policy, .. } = &self.call;
        let until = self.call.answer_by().map_or(self.budget, |by| by.or(self.budget));
        self.core.open(stored, key, policy, Some(until)).await
    }

    /// The operation starts from its beginning, after so many attempts that have left nothing.
    fn anew(&mut self, way: Way, attempts: u32) -> Next {
        self.claim.attempt = attempts.saturating_add(1);
        (self.claim.released_attempts, self.claim.taken) = (attempts, Taken::Nothing);
        self.claim.created_at = self.core.table.clock.store_now();
        self.steps = None;
        Next::Own(way)
    }

    /// The operation goes on in our hands, unless it has steps that another codec than ours wrote: who
    /// has that one can go on with it.
    fn take_over(&mut self, orphan: Orphan) -> Result<Next, Error> {
        let Orphan { version, attempt, created_at, steps, released_attempts, taken } = orphan;
        if let Some(steps) = &steps {
            steps.check(self.core.coding.of(&self.call.key))?;
        }
        let next = u32::from(!mutant(Mutant::AttemptStays));
        (self.claim.attempt, self.claim.created_at) = (attempt.saturating_add(next), created_at);
        (self.claim.released_attempts, self.claim.taken) = (released_attempts, taken);
        self.steps = steps;
        Ok(Next::Own(Way::TakeOver(version)))
    }

    fn decide(&self, item: Option<Item>, time: Option<StoreTime>) -> Result<Decision, Error> {
        let table = &self.core.table;
        let record = item.map(|item| Record::decode(&table.schema, item)).transpose()?;
        let now = table.clock.judging_time(time, self.core.clock_tolerance);
        let request = Request {
            owner: &self.claim.owner,
            fingerprint: &self.call.fingerprint,
            policy: &self.call.policy,
            reconciles: self.reconciles,
        };
        Ok(decide(record, now, request))
    }

    /// One round trip; `None` when no further write makes sense.
    async fn send(&mut self, next: Next) -> Result<Option<(Found, Option<StoreTime>)>, Error> {
        if self.core.table.clock.is_over(self.budget) {
            let message = "DynamoDB did not answer within request_timeout";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        if !matches!(next, Next::Shown(..)) {
            self.asked = self.core.ask(&self.call.key);
        }
        match next {
            Next::Look => self.look().await.map(Some),
            Next::Glance(consistency) => Ok(Some(self.glance(consistency).await)),
            Next::Shown(item, time) => Ok(Some((Found::Record(Some(item)), time))),
            _ if !self.pace().await => Ok(None),
            Next::Own(way) => self.own(way).await.map(Some),
            Next::Reconcile(seen, word) => self.write_word(seen, word).await.map(Some),
        }
    }

    async fn own(&mut self, way: Way) -> Result<(Found, Option<StoreTime>), Error> {
        let term = self.term()?;
        let limit = self.limit();
        let (table, claim) = (&self.core.table, &self.claim);
        let Reply { outcome, time } = match &way {
            Way::Create => table.create(claim, term, limit).await,
            Way::Replace(seen) => table.replace(claim, term, seen, limit).await,
            Way::TakeOver(seen) => table.take_over(claim, term, seen, limit).await,
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
        Ok((found, time))
    }

    /// What it does not show, the write does.
    async fn glance(&mut self, consistency: Consistency) -> (Found, Option<StoreTime>) {
        let read = self.core.table.read(&self.call.key, consistency, self.limit());
        let Reply { outcome, time } = read.await;
        let found = match (outcome, consistency) {
            (Ok(item), Consistency::Strong) => Found::Record(item),
            (Ok(item), Consistency::Eventual) if mutant(Mutant::TrustStaleReads) => {
                Found::Record(item)
            }
            (Ok(item), Consistency::Eventual) => Found::Glimpse(item),
            (Err(_), _) => Found::Glimpse(None),
        };
        (found, time)
    }

    async fn look(&mut self) -> Result<(Found, Option<StoreTime>), Error> {
        loop {
            let Reply { outcome, time } = self.core.table.get(&self.call.key, self.limit()).await;
            match outcome {
                Ok(item) => return Ok((Found::Record(item), time)),
                // Somebody runs it: one failed look is no reason to stop waiting.
                Err(_) if self.running().is_some() && self.wait().await => {}
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

    /// How long the next request may last: half of what is left, so that whatever becomes of it, there
    /// is time to look, and to give back what it has left; and the answer has to get out before the
    /// deadline.
    fn limit(&self) -> Duration {
        let half = self.core.table.clock.left(self.budget) / 2;
        half.min(self.core.time_until(self.call.answer_by()))
    }

    /// The store's time begins anew: what came in between was not its own.
    fn begin_budget(&mut self) {
        let table = &self.core.table;
        self.budget = table.clock.lasting(table.request_timeout);
    }

    /// The lease and the retention of a record written now.
    fn term(&self) -> Result<Term, Error> {
        let term = self.core.term(&self.call.policy, self.call.deadline)?;
        Ok(term.unlike(&self.in_doubt))
    }

    /// Makes sure, before anything runs, that the lease we hold was stamped right and that not too
    /// much of it is over.
    async fn settle(
        &mut self,
        lease_expires_at: Timestamp,
        time: Option<StoreTime>,
    ) -> Result<Settled, Error> {
        let (mut lease_expires_at, mut time) = (lease_expires_at, time);
        let window = loop {
            let fresh = self.term()?;
            let (policy, deadline) = (&self.call.policy, self.call.deadline);
            let window = self.core.window(policy, deadline, lease_expires_at, time);
            // A stamp that may yet be replaced is nothing to run by.
            let is_settled = !self.in_doubt.contains(&lease_expires_at);
            if let Some(window) = window.filter(|_| is_settled) {
                break window;
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
                    lease_expires_at = fresh.lease_expires_at;
                    time = reply.time;
                }
                // Who holds it now is not asked for again: the store may be gone by then.
                Write::Refused(Some(item)) => {
                    return Ok(Settled::Changed(Next::Shown(item, reply.time)));
                }
                Write::Unknown(_) => {
                    self.in_doubt.push(lease_expires_at);
                    return Ok(Settled::Changed(Next::Look));
                }
                Write::Refused(None) | Write::Conflict(_) => {
                    return Ok(Settled::Changed(Next::Look));
                }
                Write::Invalid(error) | Write::NotApplied(error) => return Err(error),
            }
        };
        let start = self.start();
        let (claim, call, steps) = (self.claim.clone(), self.call.clone(), self.steps.take());
        let execution = Execution::protected(self.core, claim, call, window, steps, start);
        Ok(Settled::Granted(execution))
    }

    /// What the execution that starts now comes to if all goes well.
    fn start(&self) -> Ending {
        let Claim { attempt, released_attempts, ref taken, .. } = self.claim;
        match taken {
            Taken::Nothing if attempt.saturating_sub(released_attempts) <= 1 => {
                return Ending::First;
            }
            Taken::Nothing | Taken::Failed { .. } => return Ending::Retry,
            Taken::Abandoned { .. } => {}
        }
        let (operation, attempt) = (self.call.key.operation(), self.claim.attempt);
        tracing::warn!(operation, attempt, "an abandoned operation is taken over");
        signals::takeover(operation);
        Ending::Takeover
    }

    /// Waits for the next look at a running operation; `false` when policy or time say no more.
    async fn wait(&mut self) -> bool {
        let waited = self.call.wait(&self.core.table.clock, self.started, &mut self.backoff).await;
        if waited {
            self.begin_budget();
        }
        waited
    }

    /// Others write to this key all the time, or DynamoDB lets nobody through.
    async fn contended(&self) -> Acquisition {
        if self.may_hold {
            self.let_go().await;
        }
        in_progress(self.running().map(|seen| seen.lease_left).unwrap_or_default())
    }
}

/// A retry makes sense when the lease is over at the latest; owners mostly finish much earlier.
pub(crate) fn in_progress(lease_left: Duration) -> Acquisition {
    let retry_after = lease_left.clamp(Duration::from_secs(1), Duration::from_secs(5));
    Acquisition::InProgress { retry_after }
}

/// What even a call gets that has no time left: long enough for an answer to come.
pub(crate) const LEAST_LIMIT: Duration = Duration::from_millis(100);

impl Core {
    /// How long a call may last that has to be back by `until`.
    pub(crate) fn time_until(&self, until: Option<End>) -> Duration {
        until.map_or(Duration::MAX, |until| self.table.clock.left(until).max(LEAST_LIMIT))
    }
}
