//! `Completed::Execute`: a completed operation runs again, never two at once.

use dynamodb_idempotency::policy::{Completed, FirstRequest};
use dynamodb_idempotency::{Call, ErrorKind, Idempotency, Outcome};

use crate::support::gate::patiently;
use crate::support::{
    Act, Gate, Link, Runs, Store, charge, charge_held, decline, executed, handlers, is_in_progress,
    kind, raw,
};

fn again(idempotency: &Idempotency) -> Call {
    idempotency
        .operation("report")
        .policy(|policy| policy.completed(Completed::Execute))
        .unwrap()
        .key("k")
}

#[tokio::test]
async fn a_completed_operation_runs_again_and_its_answer_is_replaced() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    for run in [1, 2, 3] {
        assert_eq!(charge(again(&idempotency), &runs).await.unwrap(), executed(run, run));
    }
    let record = store.record("report#k").await;
    assert_eq!(record["response"], raw::answer("json", "\"run 3, attempt 3\""));
    assert_eq!(raw::status(&record), "COMPLETED");
    // The first took two round trips, each later one a third, to learn what it takes over.
    assert_eq!(link.wire.requests().len(), 2 + 3 + 3);
}

#[tokio::test]
async fn two_never_run_at_once() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    charge(again(&idempotency), &runs).await.unwrap();
    let gate = Gate::default();
    let (second, third) = tokio::join!(charge_held(again(&idempotency), &runs, &gate), async {
        gate.reached().await;
        let third = charge(again(&idempotency), &runs).await;
        gate.open();
        third
    });
    assert!(is_in_progress(third));
    assert_eq!((second.unwrap(), runs.count()), (executed(2, 2), 2));
}

/// Both have seen the completed record; the store lets one of them have it.
#[tokio::test]
async fn of_many_that_saw_it_completed_one_runs() {
    const CALLERS: u32 = 16;
    let (store, runs) = (Store::open().await, Runs::default());
    charge(again(&store.idempotency()), &runs).await.unwrap();
    let (takeover, work) = (Gate::default(), Gate::default());
    let link = Link::default();
    link.wire.every("UpdateItem", Act::HoldRequest(takeover.clone()));
    let idempotency = store.builder(&link).build().unwrap();
    let calls = (0..CALLERS).map(|_| charge_held(again(&idempotency), &runs, &work));
    let calls: Vec<_> = calls.collect();
    let (results, ()) = tokio::join!(futures::future::join_all(calls), async {
        takeover.reached_by(CALLERS).await;
        takeover.open();
        work.reached().await;
        // The others are refused while it works.
        patiently("their requests", async {
            while link.wire.requests().len() < 2 * CALLERS as usize {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(runs.count(), 2);
        work.open();
    });
    let executed = results.iter().filter(|result| matches!(result, Ok(Outcome::Executed(_))));
    assert!(executed.count() >= 1);
    assert!(results.into_iter().all(|result| result.is_ok() || is_in_progress(result)));
}

#[tokio::test]
async fn another_payload_stays_a_mismatch() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    charge(again(&idempotency).payload("one"), &runs).await.unwrap();
    let other = charge(again(&idempotency).payload("two"), &runs).await;
    assert_eq!((kind(other), runs.count()), (ErrorKind::Mismatch, 1));
}

#[tokio::test]
async fn a_released_failure_of_a_later_run_frees_the_key() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    charge(again(&idempotency), &runs).await.unwrap();
    handlers(decline(again(&idempotency), &runs).await);
    assert!(store.is_released("report#k").await);
    assert_eq!(charge(again(&idempotency), &runs).await.unwrap(), executed(3, 3));
}

#[tokio::test]
async fn a_read_first_caller_that_executes_again_is_given_no_stale_answer() {
    for first in [FirstRequest::Read, FirstRequest::ConsistentRead] {
        for cache in [0, 1 << 20] {
            let (store, runs) = (Store::open().await, Runs::default());
            let builder = store.builder(&Link::default()).local_cache(cache);
            let builder = builder.policy(|p| p.first_request(first).completed(Completed::Execute));
            let idempotency = builder.build().unwrap();
            for run in 1..=4 {
                let outcome = charge(idempotency.operation("report").key("k"), &runs).await;
                assert_eq!(outcome.unwrap(), executed(run, run), "{first:?}");
            }
        }
    }
}
