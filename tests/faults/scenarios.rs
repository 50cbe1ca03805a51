//! The scenarios of the search: one line for each policy. A new way to run an operation is a new
//! [`RunCall`].

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use dynamodb_idempotency::policy::{
    Failure, FirstRequest, InProgress, LargeAnswers, Lease, LeaseExpired, Outage, Takeover,
    Unconfirmed,
};
use dynamodb_idempotency::{
    Call, Execution, Idempotency, Outcome, Policy, Reconciled, RunError, Transaction,
};

use crate::guarantee::{CallOutcome, Guarantee};
use crate::ledger::caller_name;
use crate::step::Fate;
use crate::store::RECORDS;
use crate::world::{self, HandlerEnd};

type Calling = Pin<Box<dyn Future<Output = CallOutcome>>>;
type RunCall = fn(Call, usize) -> Calling;

pub(crate) const FULL: &[(usize, u32)] = &[(2, 2), (3, 1)];
/// The bounds of most scenarios, which then take seconds.
const FEW: &[(usize, u32)] = &[(2, 1)];
/// The bounds of scenarios about one caller and its machine.
const ALONE: &[(usize, u32)] = &[(1, 1)];

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const LEASE: Duration = Duration::from_secs(30);
/// Longer than the lease and the possible error of its stored time.
const PAST_LEASE: i64 = 33 * SECOND;

#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "a line sets one or two of them")]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    policy: fn(Policy) -> Policy,
    call: RunCall,
    /// How far each caller's clock is ahead of the store's, in ms.
    pub(crate) skews: [i64; 3],
    /// The caller whose payload differs from that of all others.
    pub(crate) mismatch: Option<usize>,
    /// The numbers of callers and faults to search with; see [`crate::exhaustive::bounds`].
    pub(crate) bounds: &'static [(usize, u32)],
    /// How many times the SDK sends a request.
    pub(crate) tries: u32,
    /// How many handlers may fail; `ends` says how.
    pub(crate) failures: u32,
    pub(crate) ends: &'static [HandlerEnd],
    /// How many executions the policy allows.
    pub(crate) max_attempts: Option<u32>,
    /// How often all callers may be paused; `pause` says for how many ms.
    pub(crate) pauses: u32,
    pub(crate) pause: i64,
    /// Whether handlers continue after their leases have expired.
    pub(crate) handlers_continue: bool,
    /// How often clocks may be set or frozen while handlers run.
    pub(crate) clocks: u32,
    /// How often timers may fire while a handler runs.
    pub(crate) handler_timers: u32,
    /// What may happen to requests.
    pub(crate) fates: &'static [Fate],
    /// How long after the end of the schedule a key must be free, in ms.
    pub(crate) margin: i64,
    /// Whether all callers are in one process, with its local cache.
    pub(crate) shared: bool,
    /// Whether a call sends eventually consistent reads.
    pub(crate) has_stale_reads: bool,
    /// Whether each answer is written together with an effect in one transaction.
    pub(crate) commits: bool,
    /// The outcomes that the last caller may get instead of an answer.
    pub(crate) may_end: fn(&CallOutcome) -> bool,
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
    ends: &[HandlerEnd::Fail],
    max_attempts: None,
    pauses: 1,
    pause: PAST_LEASE,
    handlers_continue: false,
    clocks: 0,
    handler_timers: 0,
    fates: Fate::DISTINCT,
    margin: PAST_LEASE,
    shared: false,
    has_stale_reads: false,
    commits: false,
    may_end: |_| false,
};

/// Defines the list of scenarios. Random schedules use all of them. Those of `exhaustive` also have a test that
/// searches every schedule. The others are about the machines alone, which the search of every state covers.
macro_rules! scenarios {
    (
        exhaustive { $($name:ident { $($field:ident: $value:expr),* $(,)? })* }
        random { $($other:ident { $($set:ident: $to:expr),* $(,)? })* }
    ) => {
        pub(crate) const ALL: &[Scenario] = &[
            $(Scenario { name: stringify!($name), $($field: $value,)* ..BASIC },)*
            $(Scenario { name: stringify!($other), $($set: $to,)* ..BASIC },)*
        ];

        mod exhaustive {
            $(#[test]
            #[ignore = "takes minutes; `cargo xtask verify` runs it"]
            fn $name() {
                crate::exhaustive::search(stringify!($name));
            })*
        }
    };
}

scenarios! {
    exhaustive {
    release { fates: Fate::FAULTS }
        unconfirmed_error { policy: |policy| policy.unconfirmed(Unconfirmed::Error), failures: 0 }
        renewed { policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), failures: 0, pause: 9 * SECOND, handler_timers: 1, margin: 9 * SECOND }
        renewed_late { policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), failures: 0, pause: 5 * SECOND, handler_timers: 2, margin: 9 * SECOND }
        lease_goes_on { handlers_continue: true, policy: |policy| policy.lease_expired(LeaseExpired::Continue) }
        renewed_goes_on { handlers_continue: true, policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))).lease_expired(LeaseExpired::Continue), failures: 0, pause: 9 * SECOND, handler_timers: 1, margin: 9 * SECOND }
        clocks { clocks: 2, failures: 0 }
        clocks_go_on { bounds: ALONE, clocks: 1, handlers_continue: true, policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))).lease_expired(LeaseExpired::Continue), failures: 0, pauses: 0, handler_timers: 1, margin: 9 * SECOND }
        steps { call: run_steps }
        step_items { call: run_step_items, has_stale_reads: true }
        reconcile { call: run_reconciling, failures: 0 }
        commit { commits: true, call: run_committing }
        commit_sdk_retries { commits: true, call: run_committing, tries: 2, failures: 0, fates: Fate::FAULTS }
        transaction { commits: true, call: run_transaction, failures: 0 }
        parts { policy: in_parts, failures: 0, has_stale_reads: true }
        parts_reconcile { policy: in_parts, call: run_reconciling, failures: 0, has_stale_reads: true }
        read_first_mismatch { mismatch: Some(1), policy: read_first, failures: 0, has_stale_reads: true, may_end: is_mismatch }
        shared { shared: true }
        shared_wait { shared: true, policy: |policy| policy.in_progress(InProgress::Wait { timeout: Duration::from_millis(50) }), failures: 0 }
        shared_mismatch { shared: true, mismatch: Some(1), failures: 0, may_end: is_mismatch }
        shared_open { shared: true, policy: |policy| policy.outage(Outage::Open), failures: 0 }
        shared_retention { shared: true, policy: short_lived, failures: 0, pause: 5 * SECOND, fates: &[] }
        sdk_retries { tries: 2, failures: 0, fates: Fate::FAULTS }
    }
    random {
        retain { max_attempts: Some(2), policy: |policy| policy.failure(Failure::Retain { max_attempts: 2 }), failures: 2, may_end: is_failure }
        decline_retain { max_attempts: Some(2), policy: |policy| policy.failure(Failure::Retain { max_attempts: 2 }), ends: &[HandlerEnd::Fail, HandlerEnd::Decline], failures: 2, may_end: is_failure }
        replay_errors { call: run_replaying_errors, may_end: is_failure }
        decline { ends: &[HandlerEnd::Decline] }
        mismatch { mismatch: Some(1), may_end: is_mismatch }
        transaction_mismatch { mismatch: Some(1), call: run_or_transact, may_end: is_mismatch }
        in_progress_wait { policy: |policy| policy.in_progress(InProgress::Wait { timeout: Duration::from_millis(50) }) }
        reject_takeover { policy: |policy| policy.takeover(Takeover::Reject), may_end: is_abandoned }
        fail_open { policy: |policy| policy.outage(Outage::Open), failures: 0 }
        clocks_renewed { clocks: 2, policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), failures: 0, pause: 9 * SECOND, handler_timers: 1, margin: 9 * SECOND }
        clocks_commit { commits: true, clocks: 2, call: run_committing, failures: 0 }
        commit_retain { max_attempts: Some(2), commits: true, policy: |policy| policy.failure(Failure::Retain { max_attempts: 2 }), call: run_committing, may_end: is_failure }
        commit_renewed { commits: true, policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), call: run_committing, failures: 0, pause: 9 * SECOND, handler_timers: 1, margin: 9 * SECOND }
        transaction_wait { commits: true, policy: |policy| policy.in_progress(InProgress::Wait { timeout: Duration::from_millis(60) }), call: run_transaction, failures: 0 }
        transaction_beside_runs { call: run_or_transact }
        read_first { policy: read_first, failures: 0, has_stale_reads: true }
        read_first_open { policy: |policy| read_first(policy).outage(Outage::Open), failures: 0, has_stale_reads: true }
        read_first_consistent { policy: |policy| policy.first_request(FirstRequest::ConsistentRead) }
        short_retention { policy: |policy| policy.retention(Duration::from_secs(1)), failures: 0, pauses: 2, pause: 2 * SECOND + 500 }
        taker_fast { skews: [0, 5 * MINUTE, 0], failures: 0 }
        taker_slow { skews: [0, -5 * MINUTE, 0], failures: 0 }
        owner_fast { skews: [5 * MINUTE, 0, 0], failures: 0 }
        owner_slow { skews: [-5 * MINUTE, 0, 0], failures: 0 }
        owner_slow_renewed { skews: [-5 * MINUTE, 0, 0], policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), failures: 0, pause: 9 * SECOND, handler_timers: 1, margin: 9 * SECOND }
    }
}

fn read_first(policy: Policy) -> Policy {
    policy.first_request(FirstRequest::Read)
}

/// Stores every answer in parts, outside its record.
fn in_parts(policy: Policy) -> Policy {
    policy.large_answers(LargeAnswers::InParts { above: 0 })
}

/// Retains answers for so short a time that other callers find them expired.
fn short_lived(policy: Policy) -> Policy {
    policy.retention(Duration::from_secs(1)).lease(Lease::Fixed(Duration::from_secs(3)))
}

fn is_failure(outcome: &CallOutcome) -> bool {
    use dynamodb_idempotency::ErrorKind::Failed;
    matches!(outcome, CallOutcome::HandlerError(_) | CallOutcome::Error(Failed))
}

fn is_mismatch(outcome: &CallOutcome) -> bool {
    matches!(outcome, CallOutcome::Error(dynamodb_idempotency::ErrorKind::Mismatch))
}

fn is_abandoned(outcome: &CallOutcome) -> bool {
    matches!(outcome, CallOutcome::Error(dynamodb_idempotency::ErrorKind::Abandoned))
}

pub(crate) fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// The instance that all callers of a schedule share, in a scenario with one process.
    pub(crate) fn process(&self) -> Option<Idempotency> {
        self.shared.then(|| self.idempotency(None))
    }

    fn idempotency(&self, caller: Option<usize>) -> Idempotency {
        let base = Policy::default()
            .lease(Lease::Fixed(LEASE))
            .completion_timeout(Duration::from_millis(120));
        let cache = if self.shared { 1 << 20 } else { 0 };
        let machine = caller.unwrap_or(0);
        // A process with a wrong clock has not received a response of the store yet.
        let knows_time = world::with(|world| world.callers[machine].skew == 0);
        Idempotency::builder(crate::clients::of(caller, self.tries), RECORDS)
            .knows_time(knows_time)
            .shift_monotonic_clock(move || -world::with(|world| world.callers[machine].frozen))
            .policy(|_| (self.policy)(base))
            .local_cache(cache)
            .build()
            .expect("the settings are valid")
    }

    /// The future of one call.
    pub(crate) fn begin(
        &self,
        caller: usize,
        process: Option<Idempotency>,
    ) -> Pin<Box<dyn Future<Output = CallOutcome>>> {
        let Self { call, mismatch, .. } = *self;
        let idempotency = process.unwrap_or_else(|| self.idempotency(Some(caller)));
        Box::pin(async move {
            let payload = usize::from(mismatch == Some(caller));
            let request = idempotency.operation("charge").key("order").payload(&payload);
            let outcome = call(request, caller).await;
            if let Some(other) = mismatch {
                let fits = is_own_answer(&outcome, caller, other);
                let detail = format!("{} got {outcome:?}", caller_name(caller));
                world::with(|world| world.ledger.check(fits, Guarantee::OutcomeFits, detail));
            }
            outcome
        })
    }
}

/// Whether an answer belongs to this caller's request. `other` is the caller with the other request.
fn is_own_answer(outcome: &CallOutcome, caller: usize, other: usize) -> bool {
    let (CallOutcome::Executed(answer) | CallOutcome::Replayed(answer)) = outcome else {
        return true;
    };
    let maker = caller_name(other);
    let is_of_other = answer.ends_with(&format!(" of {maker}"))
        || answer.ends_with(&format!(" of {maker}\u{1F980}"));
    is_of_other == (caller == other)
}

fn run(operation: Call, caller: usize) -> Calling {
    Box::pin(async move {
        outcome(operation.run_with_outcome(|it| watched(caller, handler(it, caller))).await)
    })
}

fn run_steps(operation: Call, caller: usize) -> Calling {
    run_stepping(operation, caller, 1)
}

/// Like [`run_steps`], with results that have items of their own.
fn run_step_items(operation: Call, caller: usize) -> Calling {
    run_stepping(operation, caller, 1024)
}

/// The handler runs two steps before it ends, with results of at least so many bytes. It continues when a step
/// cannot be stored.
fn run_stepping(operation: Call, caller: usize, bytes: usize) -> Calling {
    Box::pin(async move {
        let stepping = async |execution: Execution| {
            let end = world::with(|world| world.enter(caller, &execution));
            for step in ["one", "two"] {
                let work = async {
                    world::with(|world| world.begin_step(caller, step));
                    Ok::<_, String>(format!("{:bytes$}", caller_name(caller)))
                };
                // The ledger checks the stored results and the steps that ran, not this result.
                drop(execution.step(step, work).await);
            }
            conclude(&execution, caller, end.await.expect("the schedule ends every handler"))
        };
        outcome(operation.run_with_outcome(|it| watched(caller, stepping(it))).await)
    })
}

fn run_replaying_errors(operation: Call, caller: usize) -> Calling {
    let operation = operation.replay_errors::<String>();
    Box::pin(async move {
        outcome(operation.run_with_outcome(|it| watched(caller, handler(it, caller))).await)
    })
}

/// The hook of every second caller completes an abandoned operation, and the other hooks run it again.
fn run_reconciling(operation: Call, caller: usize) -> Calling {
    let operation = operation.reconcile(move |_| async move {
        Ok::<_, String>(match caller % 2 {
            1 => Reconciled::Completed(format!("the word of {}", caller_name(caller))),
            _ => Reconciled::Execute,
        })
    });
    Box::pin(async move {
        outcome(operation.run_with_outcome(|it| watched(caller, handler(it, caller))).await)
    })
}

/// The handler writes its effect together with its answer.
fn run_committing(operation: Call, caller: usize) -> Calling {
    Box::pin(async move {
        let committing = async |execution: Execution| {
            let answer = handler(execution.clone(), caller).await?;
            if let Err(error) = execution.commit(&answer, [effect(caller)]).await {
                world::with(|world| world.ledger.commit_failed(caller));
                return Err(format!("{:?}", error.kind()));
            }
            Ok(answer)
        };
        outcome(operation.run_with_outcome(|it| watched(caller, committing(it))).await)
    })
}

/// The whole operation is one transaction.
fn run_transaction(operation: Call, caller: usize) -> Calling {
    Box::pin(async move {
        let build = async || {
            let answer = format!("the answer of {}", caller_name(caller));
            Ok::<_, String>(Transaction::new(answer).items([effect(caller)]))
        };
        outcome(operation.run_transaction_with_outcome(build).await)
    })
}

/// The first caller runs a handler, the others are transactions.
fn run_or_transact(operation: Call, caller: usize) -> Calling {
    if caller == 0 { run(operation, caller) } else { run_transaction(operation, caller) }
}

/// An item of the application.
fn effect(caller: usize) -> TransactWriteItem {
    let row = Put::builder()
        .table_name("business")
        .item("pk", AttributeValue::S("effect".to_owned()))
        .item("by", AttributeValue::S(caller_name(caller).to_string()))
        .build();
    TransactWriteItem::builder().put(row.expect("the item is complete")).build()
}

/// Reports each poll of a handler to the ledger.
async fn watched<F: Future>(caller: usize, handler: F) -> F::Output {
    let mut handler = pin!(handler);
    poll_fn(|context| {
        world::with(|world| world.polled(caller));
        handler.as_mut().poll(context)
    })
    .await
}

/// Runs until the schedule ends it.
async fn handler(execution: Execution, caller: usize) -> Result<String, String> {
    let end = world::with(|world| world.enter(caller, &execution));
    conclude(&execution, caller, end.await.expect("the schedule ends every handler"))
}

fn conclude(execution: &Execution, caller: usize, end: HandlerEnd) -> Result<String, String> {
    world::with(|world| world.ledger.handler_ended(caller, end));
    match end {
        HandlerEnd::Succeed => Ok(format!("the \"answer\" of {}\u{1F980}", caller_name(caller))),
        HandlerEnd::Fail => Err(format!("the failure of {}", caller_name(caller))),
        HandlerEnd::Decline => {
            execution.discard();
            Err(format!("{} declines", caller_name(caller)))
        }
    }
}

fn outcome(result: Result<Outcome<String>, RunError<String>>) -> CallOutcome {
    match result {
        Ok(Outcome::Executed(answer)) => CallOutcome::Executed(answer),
        Ok(Outcome::Replayed(answer)) => CallOutcome::Replayed(answer),
        Ok(Outcome::Reconciled(answer)) => CallOutcome::Reconciled(answer),
        Ok(Outcome::NothingExecuted(answer)) => CallOutcome::NothingExecuted(answer),
        Ok(Outcome::Unconfirmed(answer)) => CallOutcome::Unconfirmed(answer),
        Ok(Outcome::Unprotected(answer)) => CallOutcome::Unprotected(answer),
        Ok(_) => unreachable!("the search does not know this outcome"),
        Err(RunError::Handler(error)) => CallOutcome::HandlerError(error),
        Err(RunError::Idempotency(error)) => CallOutcome::Error(error.kind()),
    }
}
