//! What is searched: one line a policy. A new way to run an operation is one more [`RunCall`].

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use dynamodb_idempotency::{
    Acquire, Call, Execution, Failure, Idempotency, InProgress, LargeAnswers, Lease, LeaseExpired,
    Outage, Outcome, Policy, Reconciled, RunError, Takeover, Transaction, TransactionError,
    Unconfirmed,
};

use crate::guarantee::{Ended, Guarantee};
use crate::ledger::name;
use crate::step::Fate;
use crate::store::RECORDS;
use crate::world::{self, End};

type Calling = Pin<Box<dyn Future<Output = Ended>>>;
type RunCall = fn(Call, usize) -> Calling;

pub(crate) const FULL: &[(usize, u32)] = &[(2, 2), (3, 1)];
/// What most scenarios take seconds for.
const FEW: &[(usize, u32)] = &[(2, 1)];
/// What is about one caller and its machine.
const ALONE: &[(usize, u32)] = &[(1, 1)];

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const LEASE: Duration = Duration::from_secs(30);
/// Past the lease, and past what stamps and dates may be off.
const PAST_LEASE: i64 = 33 * SECOND;

#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "a line sets one or two of them")]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    policy: fn(Policy) -> Policy,
    call: RunCall,
    /// How far each caller's clock is ahead of the store's, in ms.
    pub(crate) skews: [i64; 3],
    /// Which caller comes with another payload than all others.
    pub(crate) mismatch: Option<usize>,
    /// How many callers and faults are searched for; see [`crate::exhaustive::bounds`].
    pub(crate) bounds: &'static [(usize, u32)],
    /// How often the SDK sends a request.
    pub(crate) tries: u32,
    /// How many handlers may fail, and in which ways.
    pub(crate) failures: u32,
    pub(crate) ends: &'static [End],
    /// How many executions the policy allows.
    pub(crate) max_attempts: Option<u32>,
    /// How often, and how long, everybody may be stopped, in ms.
    pub(crate) pauses: u32,
    pub(crate) pause: i64,
    /// Whether handlers go on after their leases.
    pub(crate) handlers_go_on: bool,
    /// How often clocks may be set, or stand still, while their handlers run.
    pub(crate) clocks: u32,
    /// How often timers of running handlers go off.
    pub(crate) beats: u32,
    /// What may become of requests.
    pub(crate) fates: &'static [Fate],
    /// By when a key must be free, in ms after its owner's end.
    pub(crate) margin: i64,
    /// Whether all callers are in one process, with its local cache.
    pub(crate) shared: bool,
    /// Whether somebody reads what need not be the latest.
    pub(crate) reads_stale: bool,
    /// Whether each answer comes with an effect in the same transaction.
    pub(crate) commits: bool,
    /// Whether, besides an answer, the last caller may get this.
    pub(crate) may_end: fn(&Ended) -> bool,
}

const BASIC: Scenario = Scenario {
    name: "basic",
    policy: |policy| policy,
    call: run,
    skews: [0; 3],
    mismatch: None,
    bounds: FEW,
    tries: 1,
    failures: 1,
    ends: &[End::Fail],
    max_attempts: None,
    pauses: 1,
    pause: PAST_LEASE,
    handlers_go_on: false,
    clocks: 0,
    beats: 0,
    fates: Fate::DISTINCT,
    margin: PAST_LEASE,
    shared: false,
    reads_stale: false,
    commits: false,
    may_end: |_| false,
};

/// Defines the registry and, for each scenario, its exhaustive searches as tests of their own.
macro_rules! scenarios {
    ($($name:ident { $($field:ident: $value:expr),* $(,)? })*) => {
        pub(crate) const ALL: &[Scenario] =
            &[$(Scenario { name: stringify!($name), $($field: $value,)* ..BASIC }),*];

        mod exhaustive {
            $(#[test]
            fn $name() {
                crate::exhaustive::search(stringify!($name));
            })*
        }
    };
}

scenarios! {
    release { fates: Fate::FAULTS }
    retain { max_attempts: Some(2), policy: |policy| policy.failure(Failure::Retain { max_attempts: 2 }), failures: 2, may_end: is_failure }
    decline_retain { max_attempts: Some(2), policy: |policy| policy.failure(Failure::Retain { max_attempts: 2 }), ends: &[End::Fail, End::Decline], failures: 2, may_end: is_failure }
    replay_errors { call: run_replaying_errors, may_end: is_failure }
    decline { ends: &[End::Decline] }
    mismatch { mismatch: Some(1), may_end: is_mismatch }
    transaction_mismatch { mismatch: Some(1), call: run_or_transact, may_end: is_mismatch }
    in_progress_wait { policy: |policy| policy.in_progress(InProgress::Wait { timeout: Duration::from_millis(50) }) }
    reject_takeover { policy: |policy| policy.takeover(Takeover::Reject), may_end: is_abandoned }
    fail_open { policy: |policy| policy.outage(Outage::Open), failures: 0 }
    unconfirmed_error { policy: |policy| policy.unconfirmed(Unconfirmed::Error), failures: 0 }
    renewed { policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), failures: 0, pause: 9 * SECOND, beats: 1, margin: 9 * SECOND }
    renewed_late { policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), failures: 0, pause: 5 * SECOND, beats: 2, margin: 9 * SECOND }
    lease_goes_on { handlers_go_on: true, policy: |policy| policy.lease_expired(LeaseExpired::Continue) }
    renewed_goes_on { handlers_go_on: true, policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))).lease_expired(LeaseExpired::Continue), failures: 0, pause: 9 * SECOND, beats: 1, margin: 9 * SECOND }
    clocks { clocks: 2, failures: 0 }
    clocks_renewed { clocks: 2, policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), failures: 0, pause: 9 * SECOND, beats: 1, margin: 9 * SECOND }
    clocks_go_on { bounds: ALONE, clocks: 1, handlers_go_on: true, policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))).lease_expired(LeaseExpired::Continue), failures: 0, pauses: 0, beats: 1, margin: 9 * SECOND }
    clocks_commit { commits: true, clocks: 2, call: run_committing, failures: 0 }
    steps { call: run_steps }
    reconcile { call: run_reconciling, failures: 0 }
    commit { commits: true, call: run_committing }
    commit_retain { max_attempts: Some(2), commits: true, policy: |policy| policy.failure(Failure::Retain { max_attempts: 2 }), call: run_committing, may_end: is_failure }
    commit_sdk_retries { commits: true, call: run_committing, tries: 2, failures: 0, fates: Fate::FAULTS }
    commit_renewed { commits: true, policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), call: run_committing, failures: 0, pause: 9 * SECOND, beats: 1, margin: 9 * SECOND }
    transaction { commits: true, call: run_transaction, failures: 0 }
    transaction_wait { commits: true, policy: |policy| policy.in_progress(InProgress::Wait { timeout: Duration::from_millis(60) }), call: run_transaction, failures: 0 }
    transaction_beside_runs { call: run_or_transact }
    parts { policy: in_parts, failures: 0, reads_stale: true }
    parts_reconcile { policy: in_parts, call: run_reconciling, failures: 0, reads_stale: true }
    read_first { policy: read_first, failures: 0, reads_stale: true }
    read_first_mismatch { mismatch: Some(1), policy: read_first, failures: 0, reads_stale: true, may_end: is_mismatch }
    read_first_open { policy: |policy| read_first(policy).outage(Outage::Open), failures: 0, reads_stale: true }
    read_first_consistent { policy: |policy| policy.acquire(Acquire::ReadFirst { consistent: true }) }
    shared { shared: true }
    shared_wait { shared: true, policy: |policy| policy.in_progress(InProgress::Wait { timeout: Duration::from_millis(50) }), failures: 0 }
    shared_mismatch { shared: true, mismatch: Some(1), failures: 0, may_end: is_mismatch }
    shared_open { shared: true, policy: |policy| policy.outage(Outage::Open), failures: 0 }
    shared_retention { shared: true, policy: short_lived, failures: 0, pause: 5 * SECOND, fates: &[] }
    short_retention { policy: |policy| policy.retention(Duration::from_secs(1)), failures: 0, pauses: 2, pause: 2 * SECOND + 500 }
    sdk_retries { tries: 2, failures: 0, fates: Fate::FAULTS }
    taker_fast { skews: [0, 5 * MINUTE, 0], failures: 0 }
    taker_slow { skews: [0, -5 * MINUTE, 0], failures: 0 }
    owner_fast { skews: [5 * MINUTE, 0, 0], failures: 0 }
    owner_slow { skews: [-5 * MINUTE, 0, 0], failures: 0 }
    owner_slow_renewed { skews: [-5 * MINUTE, 0, 0], policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), failures: 0, pause: 9 * SECOND, beats: 1, margin: 9 * SECOND }
}

fn read_first(policy: Policy) -> Policy {
    policy.acquire(Acquire::ReadFirst { consistent: false })
}

/// Every answer beside its record.
fn in_parts(policy: Policy) -> Policy {
    policy.large_answers(LargeAnswers::InParts { above: 0 })
}

/// Answers that are over while others may still ask for them.
fn short_lived(policy: Policy) -> Policy {
    policy.retention(Duration::from_secs(1)).lease(Lease::Fixed(Duration::from_secs(3)))
}

fn is_failure(ended: &Ended) -> bool {
    use dynamodb_idempotency::ErrorKind::Failed;
    matches!(ended, Ended::HandlerError(_) | Ended::Refused(Failed))
}

fn is_mismatch(ended: &Ended) -> bool {
    matches!(ended, Ended::Refused(dynamodb_idempotency::ErrorKind::Mismatch))
}

fn is_abandoned(ended: &Ended) -> bool {
    matches!(ended, Ended::Refused(dynamodb_idempotency::ErrorKind::Abandoned))
}

pub(crate) fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// What all callers of a schedule share, if they are in one process.
    pub(crate) fn process(&self) -> Option<Idempotency> {
        self.shared.then(|| self.idempotency(None))
    }

    fn idempotency(&self, caller: Option<usize>) -> Idempotency {
        let basis = Policy::default()
            .lease(Lease::Fixed(LEASE))
            .completion_timeout(Duration::from_millis(120));
        let cache = if self.shared { 1 << 20 } else { 0 };
        let machine = caller.unwrap_or(0);
        // A wrong clock is that of a process that has not heard of the store yet.
        let knows_time = world::with(|world| world.callers[machine].skew == 0);
        Idempotency::builder(crate::clients::of(caller, self.tries), RECORDS)
            .knows_time(knows_time)
            .shift_monotonic_clock(move || -world::with(|world| world.callers[machine].frozen))
            .policy(|_| (self.policy)(basis))
            .local_cache(cache)
            .build()
            .expect("the settings are right")
    }

    /// One caller's call, from its start to its end.
    pub(crate) fn begin(
        &self,
        caller: usize,
        process: Option<Idempotency>,
    ) -> Pin<Box<dyn Future<Output = Ended>>> {
        let Self { call, mismatch, .. } = *self;
        let idempotency = process.unwrap_or_else(|| self.idempotency(Some(caller)));
        Box::pin(async move {
            let payload = usize::from(mismatch == Some(caller));
            let request = idempotency.operation("charge").key("order").payload(&payload);
            let ended = call(request, caller).await;
            if let Some(other) = mismatch {
                let fits = is_own_answer(&ended, caller, other);
                let detail = format!("{} got {ended:?}", name(caller));
                world::with(|world| world.ledger.check(fits, Guarantee::OutcomeFits, detail));
            }
            ended
        })
    }
}

/// Whether an answer is one to this caller's request, where `other` is the one with another request.
fn is_own_answer(ended: &Ended, caller: usize, other: usize) -> bool {
    let (Ended::Executed(answer) | Ended::Replayed(answer)) = ended else { return true };
    let maker = name(other);
    let is_others = answer.ends_with(&format!(" of {maker}"))
        || answer.ends_with(&format!(" of {maker}\u{1F980}"));
    is_others == (caller == other)
}

fn run(operation: Call, caller: usize) -> Calling {
    Box::pin(async move {
        ended(operation.run_with_outcome(|it| watched(caller, handler(it, caller))).await)
    })
}

/// The handler does two steps beside its end; what it cannot store does not stop it.
fn run_steps(operation: Call, caller: usize) -> Calling {
    Box::pin(async move {
        let stepping = async |execution: Execution| {
            let end = world::with(|world| world.enter(caller, &execution));
            for step in ["one", "two"] {
                let work = async {
                    world::with(|world| world.begin_step(caller, step));
                    Ok::<_, String>(name(caller))
                };
                // Checked by what is stored and what is done, not by what the crate says of it.
                drop(execution.step(step, work).await);
            }
            conclude(&execution, caller, end.await.expect("the scheduler ends what it polls"))
        };
        ended(operation.run_with_outcome(|it| watched(caller, stepping(it))).await)
    })
}

fn run_replaying_errors(operation: Call, caller: usize) -> Calling {
    let operation = operation.replay_errors::<String>();
    Box::pin(async move {
        ended(operation.run_with_outcome(|it| watched(caller, handler(it, caller))).await)
    })
}

/// Completes an abandoned operation if the caller is an odd one, and runs it again otherwise.
fn run_reconciling(operation: Call, caller: usize) -> Calling {
    let operation = operation.reconcile(move |_| async move {
        Ok::<_, String>(match caller % 2 {
            1 => Reconciled::Completed(format!("the word of {}", name(caller))),
            _ => Reconciled::Execute,
        })
    });
    Box::pin(async move {
        ended(operation.run_with_outcome(|it| watched(caller, handler(it, caller))).await)
    })
}

/// The handler writes its effect together with its answer.
fn run_committing(operation: Call, caller: usize) -> Calling {
    Box::pin(async move {
        let committing = async |execution: Execution| {
            let answer = handler(execution.clone(), caller).await?;
            if let Err(error) = execution.commit(&answer, [effect(caller)]).await {
                world::with(|world| world.ledger.commit_failed(caller));
                return Err(error.to_string());
            }
            Ok(answer)
        };
        ended(operation.run_with_outcome(|it| watched(caller, committing(it))).await)
    })
}

/// The whole operation is one transaction.
fn run_transaction(operation: Call, caller: usize) -> Calling {
    Box::pin(async move {
        let build = async || {
            let answer = format!("the answer of {}", name(caller));
            Ok::<_, String>(Transaction::new(answer).items([effect(caller)]))
        };
        ended(operation.run_transaction_with_outcome(build).await.map_err(|error| match error {
            TransactionError::Idempotency(error) => RunError::Idempotency(error),
            other => panic!("a transaction without conditions: {other}"),
        }))
    })
}

/// The first caller runs a handler, the others are transactions.
fn run_or_transact(operation: Call, caller: usize) -> Calling {
    if caller == 0 { run(operation, caller) } else { run_transaction(operation, caller) }
}

/// A row of the business's.
fn effect(caller: usize) -> TransactWriteItem {
    let row = Put::builder()
        .table_name("business")
        .item("pk", AttributeValue::S("effect".to_owned()))
        .item("by", AttributeValue::S(name(caller).to_string()))
        .build();
    TransactWriteItem::builder().put(row.expect("it is whole")).build()
}

/// A handler each of whose polls is checked.
async fn watched<F: Future>(caller: usize, handler: F) -> F::Output {
    let mut handler = pin!(handler);
    poll_fn(|context| {
        world::with(|world| world.polled(caller));
        handler.as_mut().poll(context)
    })
    .await
}

/// Runs until the scheduler says how it ends.
async fn handler(execution: Execution, caller: usize) -> Result<String, String> {
    let end = world::with(|world| world.enter(caller, &execution));
    conclude(&execution, caller, end.await.expect("the scheduler ends what it polls"))
}

fn conclude(execution: &Execution, caller: usize, end: End) -> Result<String, String> {
    world::with(|world| world.ledger.handler_ended(caller, end));
    match end {
        End::Succeed => Ok(format!("the \"answer\" of {}\u{1F980}", name(caller))),
        End::Fail => Err(format!("the failure of {}", name(caller))),
        End::Decline => {
            execution.nothing_executed();
            Err(format!("{} declines", name(caller)))
        }
    }
}

fn ended(result: Result<Outcome<String>, RunError<String>>) -> Ended {
    match result {
        Ok(Outcome::Executed(answer)) => Ended::Executed(answer),
        Ok(Outcome::Replayed(answer)) => Ended::Replayed(answer),
        Ok(Outcome::Reconciled(answer)) => Ended::Reconciled(answer),
        Ok(Outcome::NothingExecuted(answer)) => Ended::NothingExecuted(answer),
        Ok(Outcome::Unconfirmed(answer)) => Ended::Unconfirmed(answer),
        Ok(Outcome::Unprotected(answer)) => Ended::Unprotected(answer),
        Ok(_) => unreachable!("an outcome that the search does not know"),
        Err(RunError::Handler(error)) => Ended::HandlerError(error),
        Err(RunError::Idempotency(error)) => Ended::Refused(error.kind()),
    }
}
