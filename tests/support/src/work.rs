//! A handler that counts its runs.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dynamodb_idempotency::policy::{Compression, LargeAnswers};
use dynamodb_idempotency::{Call, Error, ErrorKind, Idempotency, Outcome, Policy, RunError, Unset};
use serde::{Deserialize, Serialize};

use super::{Gate, Link, Store};

/// The operation that most tests call: `charge` with the key `k`, and no payload.
pub trait Charging {
    fn charging(&self) -> Call;

    /// With this policy.
    fn charging_by(&self, policy: impl FnOnce(Policy) -> Policy) -> Call;

    /// In another scope.
    fn calling(&self, scope: &str) -> Call;
}

impl Charging for Idempotency {
    fn charging(&self) -> Call {
        self.charging_by(|policy| policy)
    }

    fn charging_by(&self, policy: impl FnOnce(Policy) -> Policy) -> Call {
        let operation = self.operation("charge").policy(policy).expect("the policy is right");
        operation.key("k").no_payload()
    }

    fn calling(&self, scope: &str) -> Call {
        self.operation(scope).key("k").no_payload()
    }
}

/// A table, a count of runs, and a caller.
pub async fn caller() -> (Store, Runs, Idempotency) {
    let store = Store::open().await;
    let idempotency = store.idempotency();
    (store, Runs::default(), idempotency)
}

/// As [`caller`], on this connection.
pub async fn caller_on(link: Link) -> (Store, Link, Runs, Idempotency) {
    let store = Store::open().await;
    let idempotency = store.over(&link);
    (store, link, Runs::default(), idempotency)
}

/// How often handlers ran; a clone is the same count.
#[derive(Clone, Debug, Default)]
pub struct Runs(Arc<AtomicU32>);

impl Runs {
    /// Counts a run; the first is number 1.
    pub fn add(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

pub type Charged = Result<Outcome<String>, RunError<Infallible>>;

/// Runs an operation whose answer names the run and the attempt, so that no two runs' answers are
/// the same: `run 1, attempt 1`.
pub async fn charge(operation: Call, runs: &Runs) -> Charged {
    operation
        .run_with_outcome(async |execution| {
            Ok(format!("run {}, attempt {}", runs.add(), execution.attempt()))
        })
        .await
}

/// As [`charge`], and the handler waits at the gate before it answers.
pub async fn charge_held(operation: Call, runs: &Runs, gate: &Gate) -> Charged {
    operation
        .run_with_outcome(async |execution| {
            let run = runs.add();
            gate.pass().await;
            Ok(format!("run {run}, attempt {}", execution.attempt()))
        })
        .await
}

/// Runs an operation whose handler fails with the number of its run.
pub async fn decline(operation: Call, runs: &Runs) -> Result<Outcome<String>, RunError<Declined>> {
    operation.run_with_outcome(async |_| Err(Declined { run: runs.add() })).await
}

/// As [`decline`], for a call that keeps the error.
pub async fn decline_kept(
    call: Call<Unset, Declined>,
    runs: &Runs,
) -> Result<Outcome<String>, RunError<Declined>> {
    call.run_with_outcome(async |_| Err(Declined { run: runs.add() })).await
}

/// The handler's own error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declined {
    pub run: u32,
}

/// The handler's error that a call must have ended with.
pub fn handlers<T: Debug, E: Debug>(result: Result<T, RunError<E>>) -> E {
    match result {
        Err(RunError::Handler(error)) => error,
        other => panic!("not an error of the handler's: {other:?}"),
    }
}

/// An answer of [`charge`] whose handler ran in this call.
pub fn executed(run: u32, attempt: u32) -> Outcome<String> {
    Outcome::Executed(format!("run {run}, attempt {attempt}"))
}

/// An answer of [`charge`] that an earlier call has stored.
pub fn replayed(run: u32, attempt: u32) -> Outcome<String> {
    Outcome::Replayed(format!("run {run}, attempt {attempt}"))
}

pub fn is_in_progress<T: Debug, E: Debug>(result: Result<T, RunError<E>>) -> bool {
    matches!(kind(result), ErrorKind::InProgress { .. })
}

/// The crate's error that a call must have ended with.
pub fn crates<T: Debug, E: Debug>(result: Result<T, RunError<E>>) -> Error {
    match result {
        Err(RunError::Idempotency(error)) => error,
        other => panic!("not an error of the crate's: {other:?}"),
    }
}

/// The kind of the crate's error that a call must have ended with.
pub fn kind<T: Debug, E: Debug>(result: Result<T, RunError<E>>) -> ErrorKind {
    crates(result).kind()
}

/// The crate's error of a step whose work did not run.
pub fn not_run<E: Debug>(error: RunError<E>) -> Error {
    let error = error.into_handler().expect_err("the step did not run");
    assert!(!error.step_ran(), "{error:?}");
    error
}

/// The crate's error of a step whose work ran, and whose result is not stored.
pub fn not_stored<E: Debug>(error: RunError<E>) -> Error {
    let error = error.into_handler().expect_err("the step ran");
    assert!(error.step_ran(), "{error:?}");
    error
}

/// The kind of the error that a commit must have ended with.
pub fn commit_kind<T: Debug>(result: &Result<T, Error>) -> ErrorKind {
    result.as_ref().expect_err("the commit is refused").kind()
}

/// Stores answers as they are and in their records, up to what an item holds.
pub fn in_record(policy: Policy) -> Policy {
    policy.compression(Compression::Off).large_answers(LargeAnswers::InRecord)
}
