//! A handler goes no further than its lease, by whichever clock that is over first.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use dynamodb_idempotency::policy::Lease;
use dynamodb_idempotency::{
    Call, ErrorKind, Execution, Idempotency, Outcome, Reconciled, RunError, Transaction,
};
use lambda_runtime::{Diagnostic, LambdaEvent};
use tokio::task::yield_now;
use tower::ServiceExt as _;

use crate::support::effects::count;
use crate::support::gate::patiently;
use crate::support::raw::{self, n, s, status, with};
use crate::support::{Charging, Link, Runs, Store, kind};

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
        assert_eq!(status(&store.record("charge#k").await), "PENDING");
    }
}

/// Takes one renewal of the shortest renewed lease, a second.
#[tokio::test]
async fn a_handler_whose_renewal_finds_the_lease_lost_is_stopped() {
    let (store, link) = (Store::open().await, Link::default());
    let renewed = Lease::Renewed(Duration::from_secs(3));
    let theirs = with(raw::pending("charge#k"), "attempt", n(2));
    let operation = store.by(&link, |p| p.lease(renewed)).charging();
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
    let run = store.idempotency().charging().run(async |execution| {
        let theirs = with(store.record("charge#k").await, "owner", s(raw::OTHER_OWNER));
        store.put(theirs).await;
        drop(execution.step("charge", async { Ok::<_, Infallible>(()) }).await);
        after.add();
        Ok::<_, Infallible>(())
    });
    assert_eq!((kind(run.await), after.count()), (ErrorKind::LeaseExpired, 0));
}

#[tokio::test]
async fn what_a_handler_has_committed_is_the_answer_though_it_is_stopped_later() {
    let (store, link) = (Store::open().await, Link::default());
    let idempotency = owner(&store, &link);
    let run = idempotency.charging().run_with_outcome(async |execution: Execution| {
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
    let operation = store.over(&link).charging().deadline(link.clock.in_secs(20));
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
    let operation = store.over(&link).charging().deadline(link.clock.in_secs(20));
    let operation = operation.reconcile(async |_| {
        link.let_pass(30);
        yield_now().await;
        after.add();
        Ok::<_, Infallible>(Reconciled::Completed("found".to_owned()))
    });
    let result = operation.run(async |_| Ok::<_, Infallible>("ran".to_owned())).await;
    assert_eq!((kind(result), after.count()), (ErrorKind::DeadlineExceeded, 0));
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
