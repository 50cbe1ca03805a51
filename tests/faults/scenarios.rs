//! What is searched: one line a policy. A new way to run an operation is one more [`Call`].

use std::pin::Pin;
use std::time::Duration;

use dynamodb_idempotency::{
    Execution, Failure, InProgress, Lease, Operation, Outage, Outcome, Policy, RunError, Takeover,
    Unconfirmed,
};

use crate::guarantee::Ended;
use crate::ledger::name;
use crate::step::Fate;
use crate::store::RECORDS;
use crate::world::{self, End};

type Calling<'a> = Pin<Box<dyn Future<Output = Ended> + 'a>>;
type Call = for<'a> fn(Operation<'a>, usize) -> Calling<'a>;

pub(crate) const FULL: &[(usize, u32)] = &[(2, 2), (3, 1)];
/// Where three callers take minutes.
const PAIRS: &[(usize, u32)] = &[(2, 2)];
/// Where two faults take minutes.
const FEW: &[(usize, u32)] = &[(2, 1)];

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const LEASE: Duration = Duration::from_secs(30);
/// Past the lease, and past what stamps and dates may be off.
const PAST_LEASE: i64 = 33 * SECOND;

#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    policy: fn(Policy) -> Policy,
    call: Call,
    /// How far each caller's clock is ahead of the store's, in ms.
    pub(crate) skews: [i64; 3],
    /// Whether the second caller comes with another payload.
    mismatch: bool,
    /// How many callers and faults are searched for; see [`crate::exhaustive::bounds`].
    pub(crate) bounds: &'static [(usize, u32)],
    /// How often the SDK sends a request.
    pub(crate) tries: u32,
    /// How many handlers may fail, and in which ways.
    pub(crate) failures: u32,
    pub(crate) ends: &'static [End],
    /// How often, and how long, everybody may be stopped, in ms.
    pub(crate) pauses: u32,
    pub(crate) pause: i64,
    /// How often timers of running handlers go off.
    pub(crate) beats: u32,
    /// What may become of requests.
    pub(crate) fates: &'static [Fate],
    /// By when a key must be free, in ms after its owner's end.
    pub(crate) margin: i64,
    /// Whether, besides an answer, the last caller may get this.
    pub(crate) may_end: fn(&Ended) -> bool,
}

const BASIC: Scenario = Scenario {
    name: "basic",
    policy: |policy| policy,
    call: run,
    skews: [0; 3],
    mismatch: false,
    bounds: FULL,
    tries: 1,
    failures: 1,
    ends: &[End::Fail],
    pauses: 1,
    pause: PAST_LEASE,
    beats: 0,
    fates: Fate::DISTINCT,
    margin: PAST_LEASE,
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
    retain { policy: |policy| policy.failure(Failure::Retain { max_attempts: 2 }), failures: 2, may_end: is_failure }
    replay_errors { call: run_replaying_errors, may_end: is_failure }
    decline { ends: &[End::Decline] }
    mismatch { mismatch: true, may_end: is_mismatch }
    in_progress_wait { bounds: PAIRS, policy: |policy| policy.in_progress(InProgress::Wait { timeout: Duration::from_millis(60) }) }
    reject_takeover { policy: |policy| policy.takeover(Takeover::Reject), may_end: is_abandoned }
    fail_open { policy: |policy| policy.outage(Outage::Open), failures: 0 }
    unconfirmed_error { policy: |policy| policy.unconfirmed(Unconfirmed::Error), failures: 0 }
    renewed { bounds: FEW, policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), failures: 0, pause: 9 * SECOND, beats: 1, margin: 9 * SECOND }
    renewed_late { bounds: FEW, policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), failures: 0, pause: 5 * SECOND, beats: 2, margin: 9 * SECOND }
    short_retention { policy: |policy| policy.retention(Duration::from_secs(1)), failures: 0, pauses: 2, pause: 2 * SECOND + 500 }
    sdk_retries { tries: 2, failures: 0, fates: Fate::FAULTS }
    taker_fast { skews: [0, 5 * MINUTE, 0], failures: 0 }
    taker_slow { bounds: FEW, skews: [0, -5 * MINUTE, 0], failures: 0 }
    owner_fast { skews: [5 * MINUTE, 0, 0], failures: 0 }
    owner_slow { bounds: PAIRS, skews: [-5 * MINUTE, 0, 0], failures: 0 }
    owner_slow_renewed { bounds: FEW, skews: [-5 * MINUTE, 0, 0], policy: |policy| policy.lease(Lease::Renewed(Duration::from_secs(6))), failures: 0, pause: 9 * SECOND, beats: 1, margin: 9 * SECOND }
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
    /// One caller's call, from its start to its end.
    pub(crate) fn begin(&self, caller: usize) -> Pin<Box<dyn Future<Output = Ended>>> {
        let Self { policy, call, mismatch, tries, .. } = *self;
        let client = crate::clients::of(caller, tries);
        Box::pin(async move {
            let basis = Policy::default()
                .lease(Lease::Fixed(LEASE))
                .completion_timeout(Duration::from_millis(120));
            let idempotency = dynamodb_idempotency::Idempotency::builder(client, RECORDS)
                .policy(|_| policy(basis))
                .build()
                .expect("the settings are right");
            let payload = usize::from(mismatch && caller == 1);
            let operation = idempotency.operation("charge").key("order").payload(&payload);
            call(operation, caller).await
        })
    }
}

fn run(operation: Operation<'_>, caller: usize) -> Calling<'_> {
    Box::pin(async move { ended(operation.run_with_outcome(|it| handler(it, caller)).await) })
}

fn run_replaying_errors(operation: Operation<'_>, caller: usize) -> Calling<'_> {
    let operation = operation.replay_errors();
    Box::pin(async move { ended(operation.run_with_outcome(|it| handler(it, caller)).await) })
}

/// Runs until the scheduler says how it ends.
async fn handler(execution: Execution, caller: usize) -> Result<String, String> {
    let end = world::with(|world| world.enter(caller, &execution));
    match end.await.expect("the scheduler ends what it polls") {
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
        Ok(Outcome::NothingExecuted(answer)) => Ended::NothingExecuted(answer),
        Ok(Outcome::Unconfirmed(answer)) => Ended::Unconfirmed(answer),
        Ok(Outcome::Unprotected(answer)) => Ended::Unprotected(answer),
        Ok(_) => unreachable!("an outcome that the search does not know"),
        Err(RunError::Handler(error)) => Ended::HandlerError(error),
        Err(RunError::Idempotency(error)) => Ended::Refused(error.kind()),
    }
}
