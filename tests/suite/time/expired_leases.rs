//! A handler goes no further than its lease, by whichever clock that is over first.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use dynamodb_idempotency::policy::{Lease, LeaseExpired, Takeover};
use dynamodb_idempotency::{
    Call, ErrorKind, Execution, Idempotency, Outcome, Reconciled, RunError, Transaction,
};
use lambda_runtime::{Diagnostic, LambdaEvent};
use tokio::task::yield_now;
use tower::ServiceExt as _;

use crate::support::effects::count;
use crate::support::gate::patiently;
use crate::support::raw::{self, n, s, status, with};
use crate::support::{
    Act, Charging, Gate, Link, Runs, Store, charge, charge_held, executed, is_in_progress, kind,
    replayed,
};

const AN_HOUR: i64 = 3600;
const MINUTE: Duration = Duration::from_secs(60);

/// With a lease of a minute.
fn owner(store: &Store, link: &Link) -> Idempotency {
    let builder = store.builder(link).policy(|policy| policy.lease(Lease::Fixed(MINUTE)));
    builder.build().expect("the settings are right")
}

/// Lets the lease end by one clock alone.
type Pass = fn(&Link);

const BY_THE_WALL_CLOCK: Pass = |link| link.clock.advance(70);
const BY_THE_MONOTONIC_CLOCK: Pass = |link| {
    link.clock.advance(-AN_HOUR);
    link.clock.live(70);
};
const IN_A_FROZEN_MACHINE: Pass = |link| link.freeze(70);

/// Runs a handler whose lease ends half-way, and counts what it does after that.
async fn overrun(
    operation: Call,
    pass: impl Fn(),
    after: &Runs,
) -> Result<String, RunError<Infallible>> {
    operation
        .run(async |_| {
            pass();
            yield_now().await;
            after.add();
            Ok("done".to_owned())
        })
        .await
}

#[tokio::test]
async fn a_handler_is_not_polled_after_its_lease_by_either_clock() {
    for pass in [BY_THE_WALL_CLOCK, BY_THE_MONOTONIC_CLOCK, IN_A_FROZEN_MACHINE] {
        let (store, link, after) = (Store::open().await, Link::default(), Runs::default());
        let idempotency = owner(&store, &link);
        let operation = idempotency.charging();
        let error = overrun(operation, || pass(&link), &after).await.unwrap_err();
        let error = error.into_handler().unwrap_err();
        assert_eq!((error.kind(), after.count()), (ErrorKind::LeaseExpired, 0));
        assert!(error.is_retryable() && error.is_outcome_unknown());
        // Whether its effect happened is unknown, so nothing is released.
        assert_eq!(link.wire.requests(), ["PutItem"]);
        assert_eq!(status(&store.record("charge#k").await), "PENDING");
    }
}

/// Takes three seconds: the shortest lease.
#[tokio::test]
async fn a_handler_that_nothing_wakes_is_stopped_by_a_timer() {
    let (store, link) = (Store::open().await, Link::default());
    let shortest = Lease::Fixed(Duration::from_secs(3));
    let idempotency = store.by(&link, |p| p.lease(shortest));
    let operation = idempotency.charging();
    let run = operation.run(async |_| pending::<Result<(), Infallible>>().await);
    assert_eq!(kind(patiently("the end of three seconds", run).await), ErrorKind::LeaseExpired);
}

#[tokio::test]
async fn a_policy_lets_a_handler_go_on() {
    for pass in [BY_THE_WALL_CLOCK, BY_THE_MONOTONIC_CLOCK, IN_A_FROZEN_MACHINE] {
        let (store, link, after) = (Store::open().await, Link::default(), Runs::default());
        let idempotency = owner(&store, &link);
        let operation = idempotency.charging_by(|p| p.lease_expired(LeaseExpired::Continue));
        let answer = overrun(operation, || pass(&link), &after).await.unwrap();
        assert_eq!((answer.as_str(), after.count()), ("done", 1));
        assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
    }
}

/// Takes one renewal of the shortest renewed lease, a second.
#[tokio::test]
async fn a_handler_whose_renewal_finds_the_lease_lost_is_stopped() {
    let (store, link) = (Store::open().await, Link::default());
    let renewed = Lease::Renewed(Duration::from_secs(3));
    let idempotency = store.by(&link, |p| p.lease(renewed));
    let theirs = with(raw::pending("charge#k"), "attempt", n(2));
    let operation = idempotency.charging();
    let run = operation.run(async |_| {
        store.put(theirs.clone()).await;
        pending::<Result<(), Infallible>>().await
    });
    assert_eq!(kind(patiently("a renewal", run).await), ErrorKind::LeaseExpired);
    assert_eq!(store.record("charge#k").await, theirs);
}

#[tokio::test]
async fn a_handler_whose_step_finds_the_lease_lost_goes_no_further() {
    let (store, after) = (Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    let operation = idempotency.charging();
    let run = operation.run(async |execution| {
        let theirs = with(store.record("charge#k").await, "owner", s(raw::OTHER_OWNER));
        store.put(theirs).await;
        drop(execution.step("charge", async { Ok::<_, Infallible>(()) }).await);
        after.add();
        Ok::<_, Infallible>(())
    });
    assert_eq!((kind(run.await), after.count()), (ErrorKind::LeaseExpired, 0));
}

#[tokio::test]
async fn a_handler_that_has_returned_completes_though_its_lease_ends_meanwhile() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = owner(&store, &link);
    let completion = Gate::default();
    link.wire.next("PutItem", Act::Deliver);
    link.wire.next("PutItem", Act::HoldRequest(completion.clone()));
    let run = charge(idempotency.charging(), &runs);
    let (outcome, ()) = tokio::join!(run, async {
        completion.reached().await;
        link.let_pass(AN_HOUR);
        completion.open();
    });
    assert_eq!(outcome.unwrap(), executed(1, 1));
    assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
}

/// A taker takes over as the lease ends; the owner, which was frozen half-way, goes on no more.
#[tokio::test]
async fn no_two_executions_make_progress_at_once() {
    let (store, link, runs, after) =
        (Store::open().await, Link::default(), Runs::default(), Runs::default());
    let frozen = Gate::default();
    let (owner, taker) = (owner(&store, &link), store.over(&Link::later(AN_HOUR)));
    let first = owner.charging().run(async |_| {
        runs.add();
        frozen.pass().await;
        after.add();
        Ok::<_, Infallible>("late".to_owned())
    });
    let (first, ()) = tokio::join!(first, async {
        frozen.reached().await;
        assert_eq!(charge(taker.charging(), &runs).await.unwrap(), executed(2, 2));
        link.freeze(AN_HOUR);
        frozen.open();
    });
    assert_eq!((kind(first), after.count()), (ErrorKind::LeaseExpired, 0));
    assert_eq!(charge(owner.charging(), &runs).await.unwrap(), replayed(2, 2));
}

/// What the policy says of an abandoned operation holds for a handler that was stopped.
#[tokio::test]
async fn a_repeat_of_a_handler_that_was_stopped_meets_an_abandoned_operation() {
    let (store, link, after) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = owner(&store, &link);
    let operation = idempotency.charging();
    drop(overrun(operation, || link.let_pass(70), &after).await);
    let later = store.over(&Link::later(AN_HOUR));
    let rejecting = later.charging_by(|p| p.takeover(Takeover::Reject));
    assert_eq!(kind(charge(rejecting, &after).await), ErrorKind::Abandoned);
    let asking = later.charging();
    let asking =
        asking.reconcile(async |_| Ok::<_, Infallible>(Reconciled::Completed("found".to_owned())));
    let answer = asking.run(async |_| Ok::<_, Infallible>("ran".to_owned())).await;
    assert_eq!((answer.unwrap().as_str(), after.count()), ("found", 0));
}

/// A commit whose request or response is in flight when the lease of its handler expires.
async fn commit_in_flight(
    act: fn(Gate) -> Act,
    while_held: impl AsyncFn(&Store),
) -> (Store, Result<Outcome<String>, RunError<Infallible>>) {
    let (store, link) = (Store::open().await, Link::default());
    let (idempotency, held) = (owner(&store, &link), Gate::default());
    link.wire.next("TransactWriteItems", act(held.clone()));
    let operation = idempotency.charging();
    let run = operation.run_with_outcome(async |execution: Execution| {
        let wake = async {
            held.reached().await;
            while_held(&store).await;
            link.let_pass(70);
        };
        let committing = execution.commit("booked", [count(store.table(), "effect")]);
        let (committed, ()) = tokio::join!(committing, wake);
        drop(committed);
        Ok::<_, Infallible>("booked".to_owned())
    });
    let result = run.await;
    held.open();
    (store, result)
}

#[tokio::test]
async fn a_commit_that_was_applied_when_the_lease_expires_is_the_answer() {
    let (store, result) = commit_in_flight(Act::HoldResponse, async |store| {
        let landed = async {
            while status(&store.record("charge#k").await) != "COMPLETED" {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        patiently("the commit", landed).await;
    })
    .await;
    assert_eq!(result.unwrap(), Outcome::Executed("booked".to_owned()));
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn a_commit_that_was_not_applied_when_the_lease_expires_leaves_the_record_pending() {
    let (store, result) = commit_in_flight(Act::HoldRequest, async |_| {}).await;
    assert_eq!(kind(result), ErrorKind::LeaseExpired);
    assert_eq!(status(&store.record("charge#k").await), "PENDING");
    assert_eq!(store.counted("effect").await, 0);
}

/// Its condition decides: until another owner takes over, the commit may still be applied as a whole.
#[tokio::test]
async fn a_commit_that_lands_after_the_lease_ended_is_what_repeats_get() {
    for is_taken in [false, true] {
        let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
        let (late, second) = (Gate::default(), Gate::default());
        link.wire.next("TransactWriteItems", Act::ArriveLate(late.clone()));
        link.wire.next("TransactWriteItems", Act::HoldRequest(second.clone()));
        let idempotency = owner(&store, &link);
        let operation = idempotency.charging();
        let run = operation.run(async |execution: Execution| {
            let committing = execution.commit("booked", [count(store.table(), "effect")]);
            let wake = async {
                second.reached().await;
                link.let_pass(70);
            };
            drop(tokio::join!(committing, wake));
            Ok::<_, Infallible>("booked".to_owned())
        });
        assert_eq!(kind(run.await), ErrorKind::LeaseExpired);
        if is_taken {
            let theirs = with(store.record("charge#k").await, "owner", s(raw::OTHER_OWNER));
            store.put(theirs).await;
        }
        late.open();
        link.wire.late_arrivals(1).await;
        assert_eq!(store.counted("effect").await, i64::from(!is_taken));
        let repeat = charge(store.idempotency().charging(), &runs).await;
        if is_taken {
            assert!(is_in_progress(repeat));
        } else {
            assert_eq!(repeat.unwrap(), Outcome::Replayed("booked".to_owned()));
        }
    }
}

#[tokio::test]
async fn what_a_handler_has_committed_is_the_answer_though_it_is_stopped_later() {
    let (store, link) = (Store::open().await, Link::default());
    let idempotency = owner(&store, &link);
    let operation = idempotency.charging();
    let run = operation.run_with_outcome(async |execution: Execution| {
        execution.commit("booked", [count(store.table(), "effect")]).await.unwrap();
        link.let_pass(70);
        yield_now().await;
        panic!("it goes on")
    });
    let outcome: Result<Outcome<String>, RunError<Infallible>> = run.await;
    assert_eq!(outcome.unwrap(), Outcome::Executed("booked".to_owned()));
}

/// A build has no lease, and nothing of it is written after the deadline.
#[tokio::test]
async fn a_transaction_is_not_prepared_past_its_deadline() {
    let (store, link, after) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let operation = idempotency.charging().deadline(link.clock.in_secs(20));
    let result = operation
        .run_transaction(async || {
            link.let_pass(30);
            yield_now().await;
            after.add();
            Ok::<_, Infallible>(Transaction::new("booked".to_owned()))
        })
        .await;
    assert_eq!((kind(result), after.count()), (ErrorKind::DeadlineExceeded, 0));
    assert!(link.wire.requests().is_empty());
}

/// A hook has no lease either.
#[tokio::test]
async fn a_hook_is_not_asked_past_the_deadline() {
    let (store, link, after) = (Store::open().await, Link::default(), Runs::default());
    store.put(raw::abandoned("charge#k")).await;
    let idempotency = store.over(&link);
    let operation = idempotency.charging().deadline(link.clock.in_secs(20));
    let operation = operation.reconcile(async |_| {
        link.let_pass(30);
        yield_now().await;
        after.add();
        Ok::<_, Infallible>(Reconciled::Completed("found".to_owned()))
    });
    let result = operation.run(async |_| Ok::<_, Infallible>("ran".to_owned())).await;
    assert_eq!((kind(result), after.count()), (ErrorKind::DeadlineExceeded, 0));
}

#[tokio::test]
async fn a_renewed_lease_that_cannot_be_renewed_stops_its_handler() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let renewed = Lease::Renewed(Duration::from_secs(3));
    let idempotency = store.by(&link, |p| p.lease(renewed));
    let handler = Gate::default();
    link.wire.every("UpdateItem", Act::THROTTLE);
    let run = charge_held(idempotency.charging(), &runs, &handler);
    assert_eq!(kind(patiently("the end of three seconds", run).await), ErrorKind::LeaseExpired);
    assert_eq!(status(&store.record("charge#k").await), "PENDING");
}

/// As Lambda reports it of an event.
#[tokio::test]
async fn an_event_whose_handler_is_stopped_fails_by_that_name() {
    let (store, link) = (Store::open().await, Link::default());
    let frozen = link.clone();
    let handler = move |_: LambdaEvent<String>, _| {
        let frozen = frozen.clone();
        async move {
            frozen.let_pass(70);
            yield_now().await;
            Ok::<_, String>("done".to_owned())
        }
    };
    let service = owner(&store, &link).event("import", String::clone, handler);
    let event = LambdaEvent::new("\"a.csv\"".parse().unwrap(), lambda_runtime::Context::default());
    let error = service.oneshot(event).await.unwrap_err();
    assert_eq!(Diagnostic::from(error).error_type, "Idempotency.LeaseExpired");
}
