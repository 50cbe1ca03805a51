//! Who holds a key, and for how long.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use dynamodb_idempotency::policy::{Lease, LeaseExpired};
use dynamodb_idempotency::{ErrorKind, Execution, Outcome};
use futures::future::join_all;

use crate::support::gate::patiently;
use crate::support::raw::{self, n, number, with};
use crate::support::{
    Act, Charging, Gate, Link, Runs, Store, caller_on, charge, charge_held, executed,
    is_in_progress, kind, made_up_time, not_run,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_lease_is_taken_over_once_by_50_racers() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    store.put(raw::abandoned("charge#k")).await;
    let takeover = Gate::default();
    link.wire.every("UpdateItem", Act::HoldRequest(takeover.clone()));
    let idempotency = store.builder(&link).build().unwrap();
    let racers: Vec<_> = (0..50)
        .map(|_| {
            let (idempotency, runs) = (idempotency.clone(), runs.clone());
            tokio::spawn(async move { charge(idempotency.charging(), &runs).await })
        })
        .collect();
    // All have seen the expired lease before the first of them writes.
    takeover.reached_by(50).await;
    takeover.open();
    let mut ran = 0;
    for racer in join_all(racers).await {
        match racer.unwrap() {
            Ok(Outcome::Executed(answer)) => {
                ran += 1;
                assert_eq!(answer, "run 1, attempt 2");
            }
            Ok(Outcome::Replayed(answer)) => assert_eq!(answer, "run 1, attempt 2"),
            other => assert!(is_in_progress(other)),
        }
    }
    assert_eq!((ran, runs.count()), (1, 1));
    assert_eq!(number(&store.record("charge#k").await, "attempt"), 2);
}

#[tokio::test]
async fn an_invocations_lease_ends_two_seconds_after_its_deadline() {
    let (store, link, _, idempotency) = caller_on(Link::default()).await;
    let deadline = link.clock.in_secs(100);
    let operation = idempotency.charging().deadline(deadline);
    let before = raw::now();
    let lease = operation
        .run(async |execution| {
            assert!(execution.lease_remaining() <= Duration::from_millis(103_500));
            Ok::<_, String>(number(&store.record("charge#k").await, "lease_expires_at"))
        })
        .await
        .unwrap();
    assert!((lease - before - 102_000).abs() < 3_000, "{} ms", lease - before);
}

#[tokio::test]
async fn a_deadline_that_is_over_runs_nothing_and_sends_nothing() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    for seconds in [-1, -3_599] {
        let deadline = link.clock.in_secs(seconds);
        let operation = idempotency.charging().deadline(deadline);
        assert_eq!(kind(charge(operation, &runs).await), ErrorKind::DeadlineExceeded);
        assert_eq!((runs.count(), store.item("charge#k").await), (0, None));
        assert!(link.wire.requests().is_empty());
    }
}

#[tokio::test]
async fn a_deadline_more_than_an_hour_in_the_past_is_ignored() {
    let in_1970 = SystemTime::UNIX_EPOCH + Duration::from_secs(600);
    for impossible in [made_up_time::now() - Duration::from_secs(3_601), in_1970] {
        let (store, runs) = (Store::open().await, Runs::default());
        let operation = store.idempotency().charging().deadline(impossible);
        operation
            .run(async |execution| {
                runs.add();
                assert!(execution.lease_remaining() > Duration::from_secs(20));
                Ok::<_, String>(())
            })
            .await
            .unwrap();
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test]
async fn a_deadline_that_passed_while_the_key_was_acquired_runs_nothing_and_frees_it() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let frozen = slow_requests(&link, &["PutItem"], 20);
    let operation = store.over(&link).charging().deadline(link.clock.in_secs(10));
    let (result, _) = tokio::join!(charge(operation, &runs), frozen);
    assert_eq!(kind(result), ErrorKind::DeadlineExceeded);
    let record = store.record("charge#k").await;
    // Nothing has begun: the next attempt is the first.
    assert_eq!(
        (runs.count(), raw::status(&record), raw::number(&record, "attempt")),
        (0, "RELEASED", 0)
    );
}

/// Freezes the process while its requests are in flight: the next request of each of these
/// operations takes `seconds`.
fn slow_requests(link: &Link, operations: &[&'static str], seconds: i64) -> impl Future {
    let slow = |operation: &&'static str| {
        let gate = Gate::default();
        link.wire.next(operation, Act::HoldResponse(gate.clone()));
        gate
    };
    let gates: Vec<Gate> = operations.iter().map(slow).collect();
    let link = link.clone();
    async move {
        for gate in gates {
            gate.reached().await;
            link.let_pass(seconds);
            gate.open();
        }
    }
}

#[tokio::test]
async fn a_lease_that_expired_in_flight_is_corrected_before_the_handler_runs() {
    for slow in [vec!["PutItem"], vec!["PutItem", "UpdateItem"]] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let lease = Lease::Fixed(Duration::from_secs(20));
        let builder = store.builder(&link).policy(|policy| policy.lease(lease));
        let patient = builder.request_timeout(Duration::from_secs(600));
        let idempotency = patient.build().unwrap();
        let operation = idempotency.charging();
        let frozen = slow_requests(&link, &slow, 30);
        let run = operation.run(async |execution| {
            runs.add();
            Ok::<_, String>(execution.lease_remaining())
        });
        let (result, _) = tokio::join!(run, frozen);
        // The last stamp was made after the last wait.
        assert!(result.unwrap() > Duration::from_secs(4), "{slow:?}");
        assert_eq!((runs.count(), link.wire.count("UpdateItem")), (1, slow.len()), "{slow:?}");
    }
}

/// Takes more than four seconds: longer than the shortest renewed lease.
#[tokio::test]
async fn a_renewed_lease_outlives_its_length_while_the_handler_runs() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let renewed = Lease::Renewed(Duration::from_secs(3));
    let idempotency = store.by(&link, |policy| policy.lease(renewed));
    let handler = Gate::default();
    // A renewal that fails is made up for by the next.
    link.wire.next("UpdateItem", Act::THROTTLE);
    let run = charge_held(idempotency.charging(), &runs, &handler);
    let (outcome, ()) = tokio::join!(run, async {
        handler.reached().await;
        let first = number(&store.record("charge#k").await, "lease_expires_at");
        // The store's `Date` is cut to the second: by then it is past the first lease.
        while raw::now() < first + 1_100 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let other = store.idempotency();
        assert!(is_in_progress(charge(other.charging(), &runs).await));
        handler.open();
    });
    assert_eq!(outcome.unwrap(), executed(1, 1));
    let renewals = link.wire.count("UpdateItem");
    assert!(renewals >= 3, "{renewals}");
}

/// Takes about one second: one renewal of the shortest renewed lease.
#[tokio::test]
async fn an_owner_learns_from_its_renewal_that_the_lease_is_lost() {
    let (store, link) = (Store::open().await, Link::default());
    let renewed = Lease::Renewed(Duration::from_secs(3));
    let goes_on = LeaseExpired::Continue;
    let operation = store.by(&link, |p| p.lease(renewed).lease_expired(goes_on)).charging();
    let result = operation
        .run(async |execution| {
            assert!(!execution.is_lease_lost() && !execution.lease_remaining().is_zero());
            let other = with(raw::pending("charge#k"), "attempt", n(2));
            store.put(other).await;
            let lost = async {
                while !execution.is_lease_lost() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            patiently("the news of the lost lease", lost).await;
            assert!(execution.lease_remaining().is_zero());
            Ok::<_, String>(())
        })
        .await;
    assert_eq!(kind(result), ErrorKind::LeaseLost);
}

/// A task that the handler has spawned keeps the execution for longer.
#[tokio::test]
async fn an_execution_that_has_ended_has_no_lease_left_and_starts_no_step() {
    for fails in [false, true] {
        let (store, runs, kept) = (Store::open().await, Runs::default(), OnceCell::new());
        let run = store.idempotency().charging().run(async |execution| {
            assert!(execution.lease_remaining() > Duration::ZERO);
            assert!(kept.set(execution).is_ok());
            if fails { Err("declined") } else { Ok(()) }
        });
        assert_eq!(run.await.is_err(), fails);
        let execution: &Execution = kept.get().unwrap();
        assert_eq!(execution.lease_remaining(), Duration::ZERO);
        let step = execution.step("late", async { Ok::<_, Infallible>(runs.add()) }).await;
        let error = not_run(step.unwrap_err());
        assert_eq!((error.kind(), runs.count()), (ErrorKind::InvalidUse, 0));
        assert!(error.to_string().contains("handler's return"), "{error}");
    }
}
