//! `Completed::Release`: a success releases the key, and each repeat runs, but never two at once.

use std::convert::Infallible;
use std::time::Duration;

use dynamodb_idempotency::policy::{Completed, Failure, FirstRequest, InProgress, Outage};
use dynamodb_idempotency::{
    Abandoned, Call, CallNeedsPayload, Error, ErrorKind, Idempotency, Outcome, Policy, Reconciled,
    RunError, Transaction,
};

use crate::support::effects::count;
use crate::support::raw::{number, status};
use crate::support::{
    Act, Charging, Gate, Link, Runs, Store, caller, caller_on, charge, charge_held, commit_kind,
    crates, decline, executed, handlers, is_in_progress, kind, raw, replayed,
};

fn releasing(idempotency: &Idempotency) -> Call {
    under(idempotency, |policy| policy)
}

fn under(idempotency: &Idempotency, change: impl FnOnce(Policy) -> Policy) -> Call {
    keyed(idempotency, change).no_payload()
}

fn keyed(idempotency: &Idempotency, change: impl FnOnce(Policy) -> Policy) -> CallNeedsPayload {
    let operation = idempotency.operation("report");
    operation.policy(|policy| change(policy.completed(Completed::Release))).unwrap().key("k")
}

#[tokio::test]
async fn each_repeat_runs_and_nothing_is_stored() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    for run in [1, 2, 3] {
        // Another payload is no mismatch once the key is free.
        let call = keyed(&idempotency, |policy| policy).payload(&run);
        assert_eq!(charge(call, &runs).await.unwrap(), executed(run, run));
        let record = store.record("report#k").await;
        assert_eq!((status(&record), number(&record, "attempt")), ("RELEASED", i64::from(run)));
        assert_eq!(record.get("response"), None);
    }
    // The first took two round trips, each later one a third, to learn which version it replaces.
    assert_eq!(link.wire.requests().len(), 2 + 3 + 3);
}

#[tokio::test]
async fn two_never_run_at_once() {
    let (_store, runs, idempotency) = caller().await;
    let gate = Gate::default();
    let (first, second) = tokio::join!(charge_held(releasing(&idempotency), &runs, &gate), async {
        gate.reached().await;
        let second = charge(releasing(&idempotency), &runs).await;
        gate.open();
        second
    });
    assert!(is_in_progress(second));
    assert_eq!((first.unwrap(), runs.count()), (executed(1, 1), 1));
}

#[tokio::test]
async fn a_caller_that_waits_runs_when_the_key_is_free() {
    let (_store, runs, idempotency) = caller().await;
    let wait = InProgress::Wait { timeout: Duration::from_secs(20) };
    let gate = Gate::default();
    let waiting = under(&idempotency, |policy| policy.in_progress(wait));
    let (first, second) = tokio::join!(charge_held(releasing(&idempotency), &runs, &gate), async {
        gate.reached().await;
        tokio::join!(charge(waiting, &runs), async { gate.open() }).0
    });
    assert_eq!((first.unwrap(), second.unwrap()), (executed(1, 1), executed(2, 2)));
}

#[tokio::test]
async fn a_lost_response_of_the_release_changes_nothing_for_the_caller() {
    for act in [Act::LoseResponse, Act::LoseRequest, Act::SERVER_ERROR] {
        let (store, link, runs, idempotency) = caller_on(Link::without_retries()).await;
        link.wire.next("UpdateItem", act);
        assert_eq!(charge(releasing(&idempotency), &runs).await.unwrap(), executed(1, 1));
        assert!(store.is_released("report#k").await);
        assert_eq!(charge(releasing(&idempotency), &runs).await.unwrap(), executed(2, 2));
    }
}

/// The key stays locked until the lease expires. The caller does not notice.
#[tokio::test]
async fn a_release_that_is_never_confirmed_does_not_change_the_answer() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let timeout = Duration::from_millis(300);
    let idempotency = store.by(&link, |policy| policy.completion_timeout(timeout));
    link.wire.every("UpdateItem", Act::LoseRequest);
    assert_eq!(charge(releasing(&idempotency), &runs).await.unwrap(), executed(1, 1));
    assert_eq!(store.status("report#k").await.as_deref(), Some("PENDING"));
    link.wire.up();
    assert!(is_in_progress(charge(releasing(&idempotency), &runs).await));
}

#[tokio::test]
async fn a_record_that_was_lost_meanwhile_does_not_change_the_answer() {
    for lost in ["deleted", "taken over"] {
        let (store, runs, gate) = (Store::open().await, Runs::default(), Gate::default());
        let idempotency = store.idempotency();
        let first = charge_held(releasing(&idempotency), &runs, &gate);
        let (first, before) = tokio::join!(first, async {
            gate.reached().await;
            if lost == "deleted" {
                store.delete("report#k").await;
            } else {
                store.put(raw::pending("report#k")).await;
            }
            let before = store.item("report#k").await;
            gate.open();
            before
        });
        assert_eq!(first.unwrap(), executed(1, 1), "{lost}");
        assert_eq!(store.item("report#k").await, before, "{lost}");
    }
}

#[tokio::test]
async fn an_answer_that_another_policy_has_stored_is_replayed() {
    for first in [FirstRequest::Write, FirstRequest::Read, FirstRequest::ConsistentRead] {
        for cache in [0, 1 << 20] {
            let (store, runs) = (Store::open().await, Runs::default());
            let builder = store.builder(&Link::default()).local_cache(cache);
            let idempotency = builder.policy(|policy| policy.first_request(first)).build().unwrap();
            charge(idempotency.calling("report"), &runs).await.unwrap();
            for _ in 0..2 {
                let repeat = charge(releasing(&idempotency), &runs).await;
                assert_eq!(repeat.unwrap(), replayed(1, 1), "{first:?} {cache}");
            }
        }
    }
}

/// The steps that another policy has left are removed with the success. Otherwise it would be kept as a failure.
#[tokio::test]
async fn a_success_removes_the_steps_of_another_policy() {
    let (store, runs, idempotency) = caller().await;
    let stepping = idempotency.calling("report").run(async |execution| {
        execution.step("one", async { Ok::<_, Infallible>(1) }).await.unwrap();
        Err::<(), _>("it fails")
    });
    stepping.await.unwrap_err();
    assert_eq!(store.status("report#k").await.as_deref(), Some("FAILED"));
    assert_eq!(charge(releasing(&idempotency), &runs).await.unwrap(), executed(1, 2));
    assert!(store.is_released("report#k").await);
    assert_eq!(store.record("report#k").await.get("steps"), None);
}

#[tokio::test]
async fn failures_follow_their_own_policy() {
    let (store, runs, idempotency) = caller().await;
    handlers(decline(releasing(&idempotency), &runs).await);
    assert!(store.is_released("report#k").await);
    let replaying = || under(&idempotency, |policy| policy.failure(Failure::Replay));
    handlers(decline(replaying(), &runs).await);
    assert_eq!(kind(charge(replaying(), &runs).await), ErrorKind::Failed);
}

#[tokio::test]
async fn without_a_record_nothing_is_stored_after_a_success() {
    let (store, link, runs, idempotency) = caller_on(Link::without_retries()).await;
    link.wire.down(Act::SERVER_ERROR);
    let open = under(&idempotency, |policy| policy.outage(Outage::Open));
    let outcome = open.run_with_outcome(async |_| {
        link.wire.up();
        Ok::<_, Infallible>(runs.add())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Unprotected(1));
    assert_eq!(store.item("report#k").await, None);
}

#[tokio::test]
async fn what_needs_a_stored_answer_is_rejected_before_anything_runs() {
    let (store, runs, idempotency) = caller().await;
    let outcome = releasing(&idempotency).run(async |execution| {
        let step = execution.step("one", async { Ok::<_, Infallible>(runs.add()) }).await;
        let Err(RunError::Idempotency(error)) = step else { panic!("{step:?}") };
        assert_eq!(error.kind(), ErrorKind::InvalidUse);
        let commit = execution.commit("done", [count(store.table(), "effect")]).await;
        assert_eq!(commit_kind(&commit), ErrorKind::InvalidUse);
        Ok::<_, Error>(())
    });
    outcome.await.unwrap();
    let transaction = releasing(&idempotency).run_transaction(async || {
        runs.add();
        Ok::<_, Infallible>(Transaction::new(1).item(count(store.table(), "effect")))
    });
    let error = crates(transaction.await);
    assert_eq!(error.kind(), ErrorKind::InvalidUse);
    assert!(error.to_string().contains("Completed::Replay"), "{error}");
    let hooked = releasing(&idempotency)
        .reconcile(async |_: Abandoned| Ok::<_, Infallible>(Reconciled::Completed(runs.add())));
    let hooked = hooked.run(async |_| Ok(runs.add())).await;
    assert_eq!(kind(hooked), ErrorKind::Configuration);
    assert_eq!((runs.count(), store.counted("effect").await), (0, 0));
}

#[tokio::test]
async fn of_many_that_saw_the_released_record_one_runs() {
    const CALLERS: u32 = 16;
    let (store, runs) = (Store::open().await, Runs::default());
    charge(releasing(&store.idempotency()), &runs).await.unwrap();
    let (replacing, work) = (Gate::default(), Gate::default());
    let link = Link::default();
    // Every caller's first put is rejected. The second one replaces the released record.
    for _ in 0..CALLERS {
        link.wire.next("PutItem", Act::Deliver);
    }
    link.wire.every("PutItem", Act::HoldRequest(replacing.clone()));
    let idempotency = store.builder(&link).build().unwrap();
    let calls: Vec<_> =
        (0..CALLERS).map(|_| charge_held(releasing(&idempotency), &runs, &work)).collect();
    let (results, ()) = tokio::join!(futures::future::join_all(calls), async {
        replacing.reached_by(CALLERS).await;
        replacing.open();
        work.reached().await;
        work.open();
    });
    let executed = results.iter().filter(|result| matches!(result, Ok(Outcome::Executed(_))));
    assert!(executed.count() >= 1);
    assert!(results.into_iter().all(|result| result.is_ok() || is_in_progress(result)));
}
