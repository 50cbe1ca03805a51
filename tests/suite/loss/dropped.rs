//! A call that is dropped at any await point does not keep other callers from an answer, and no
//! exactly-once write is applied twice.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use dynamodb_idempotency::policy::InProgress;
use dynamodb_idempotency::{
    Error, Execution, Idempotency, Outcome, Policy, Reconciled, Transaction,
};
use futures::future::join_all;
use tokio::task::yield_now;

use crate::support::effects::count;
use crate::support::{Charging, Runs, Store, charge, raw};

/// Polls `future` to its pause number `pauses`, and drops it there; its output, if it ended before.
pub(crate) async fn dropped_at<F: Future>(pauses: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = pauses;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Waits for longer than any lease.
pub(crate) fn patient(policy: Policy) -> Policy {
    policy.in_progress(InProgress::Wait { timeout: Duration::from_secs(1200) })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Plain,
    Step,
    Commit,
    Transaction,
    Hook,
}

const SHAPES: [Shape; 5] =
    [Shape::Plain, Shape::Step, Shape::Commit, Shape::Transaction, Shape::Hook];

fn answer(run: u32) -> String {
    format!("run {run}")
}

/// One call, which waits for another's answer.
async fn call(
    idempotency: &Idempotency,
    store: &Store,
    shape: Shape,
    runs: &Runs,
) -> Result<Outcome<String>, String> {
    let operation = idempotency.charging_by(patient);
    let effect = || count(store.table(), "effect");
    match shape {
        Shape::Plain => charge(operation, runs).await.map_err(|error| error.to_string()),
        Shape::Step => {
            let run = operation.run_with_outcome(async |execution: Execution| {
                let step = execution.step("one", async { Ok::<_, Infallible>(runs.add()) }).await;
                let run = step.map_err(|error| error.to_string())?;
                yield_now().await;
                Ok::<_, String>(answer(run))
            });
            run.await.map_err(|error| error.to_string())
        }
        Shape::Commit => {
            let run = operation.run_with_outcome(async |execution: Execution| {
                let answer = answer(runs.add());
                execution.commit(&answer, [effect()]).await?;
                Ok::<_, Error>(answer)
            });
            run.await.map_err(|error| error.to_string())
        }
        Shape::Transaction => {
            let run = operation.run_transaction_with_outcome(async || {
                let answer = answer(runs.add());
                yield_now().await;
                Ok::<_, Infallible>(Transaction::new(answer).items([effect()]))
            });
            run.await.map_err(|error| error.to_string())
        }
        Shape::Hook => {
            let run = operation
                .reconcile(async |_| {
                    yield_now().await;
                    Ok::<_, String>(Reconciled::Completed("found".to_owned()))
                })
                .run_with_outcome(async |_| Ok::<_, String>(answer(runs.add())));
            run.await.map_err(|error| error.to_string())
        }
    }
}

/// Drops a call at one of its await points while other calls of its process and of another one wait.
/// Returns whether it had ended before.
async fn drop_one(shape: Shape, pauses: usize) -> bool {
    let (store, runs) = (Store::open().await, Runs::default());
    if shape == Shape::Hook {
        store.put(raw::abandoned("charge#k")).await;
    }
    let process = store.idempotency();
    let other = store.idempotency();
    let (ended, same, others) = tokio::join!(
        dropped_at(pauses, call(&process, &store, shape, &runs)),
        join_all((0..3).map(|_| call(&process, &store, shape, &runs))),
        join_all((0..3).map(|_| call(&other, &store, shape, &runs))),
    );
    let answers: Vec<_> =
        same.into_iter().chain(others).map(|one| one.unwrap().into_inner()).collect();
    assert!(answers.iter().all(|one| *one == answers[0]), "{shape:?} {pauses}: {answers:?}");
    assert_eq!(store.status("charge#k").await.as_deref(), Some("COMPLETED"));
    if matches!(shape, Shape::Commit | Shape::Transaction) {
        assert_eq!(store.counted("effect").await, 1, "{shape:?} {pauses}");
    }
    // Building a transaction has no effect, and each call does it.
    assert!(shape == Shape::Transaction || runs.count() <= 2, "{shape:?} {pauses}");
    ended.is_some()
}

#[tokio::test]
async fn wherever_a_call_is_dropped_those_that_wait_get_one_answer() {
    for shape in SHAPES {
        let mut pauses = 0;
        while !drop_one(shape, pauses).await {
            pauses += 1;
        }
        assert!(pauses >= 2, "{shape:?}");
    }
}
