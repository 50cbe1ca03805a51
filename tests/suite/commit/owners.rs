//! Only the owner of a record commits.

use std::time::Duration;

use dynamodb_idempotency::policy::{Lease, Outage};
use dynamodb_idempotency::{Error, ErrorKind};

use super::{book, book_in};
use crate::support::effects::{count, row};
use crate::support::raw::status;
use crate::support::{
    Act, Charging, Gate, Link, Runs, Store, caller_on, commit_kind, decline, executed, handlers,
    kind, raw, replayed,
};

/// By when every lease of a present owner is over.
const AN_HOUR: i64 = 3600;

#[tokio::test]
async fn an_owner_that_was_taken_over_never_commits_and_gets_the_new_owners_answer() {
    let (store, gate, runs) = (Store::open().await, Gate::default(), Runs::default());
    let (owner, taker) = (store.idempotency(), store.over(&Link::later(AN_HOUR)));
    let first = owner.charging().run_with_outcome(async |execution| {
        gate.pass().await;
        let result = book_in(&execution, store.table(), &runs).await;
        assert_eq!(commit_kind(&result), ErrorKind::LeaseLost);
        // Neither another try nor another commit gets through.
        let again = execution.commit("again", [count(store.table(), "effect")]).await;
        assert_eq!(commit_kind(&again), ErrorKind::LeaseLost);
        result
    });
    let (first, before) = tokio::join!(first, async {
        gate.reached().await;
        assert_eq!(book(taker.charging(), store.table(), &runs).await.unwrap(), executed(1, 2));
        let before = store.record("charge#k").await;
        gate.open();
        before
    });
    assert_eq!(first.unwrap(), replayed(1, 2));
    assert_eq!(store.record("charge#k").await, before);
    assert_eq!(store.counted("effect").await, 1);
}

/// The new owner leaves its own record, a retained failure, no record, or one of another request.
#[tokio::test]
async fn an_owner_that_lost_its_record_never_commits() {
    for case in ["runs", "failed", "released", "another request", "no record of ours"] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let theirs = match case {
            "runs" => Some(raw::pending("charge#k")),
            "failed" => Some(raw::failed("charge#k")),
            "released" => None,
            "another request" => Some(raw::with(
                raw::completed("charge#k", "\"theirs\""),
                "fingerprint",
                aws_sdk_dynamodb::types::AttributeValue::B(vec![1; 32].into()),
            )),
            _ => Some(row("charge#k", "something else")),
        };
        let result = store.over(&link).charging().run(async |execution| {
            match theirs.clone() {
                Some(item) => store.put(item).await,
                None => store.delete("charge#k").await,
            }
            book_in(&execution, store.table(), &runs).await
        });
        assert_eq!(kind(result.await), ErrorKind::LeaseLost, "{case}");
        assert_eq!(store.item("charge#k").await, theirs, "{case}");
        assert_eq!(store.counted("effect").await, 0, "{case}");
        assert_eq!(link.wire.count("UpdateItem"), 0, "{case}");
    }
}

#[tokio::test]
async fn an_owner_whose_lease_is_merely_over_commits() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    let fixed = Lease::Fixed(Duration::from_secs(10));
    let goes_on = dynamodb_idempotency::policy::LeaseExpired::Continue;
    let operation = idempotency.charging_by(|policy| policy.lease(fixed).lease_expired(goes_on));
    let outcome = operation.run_with_outcome(async |execution| {
        link.let_pass(AN_HOUR);
        assert!(execution.lease_remaining().is_zero());
        book_in(&execution, store.table(), &runs).await
    });
    assert_eq!(outcome.await.unwrap(), executed(1, 1));
    assert_eq!(store.counted("effect").await, 1);
}

/// Takes a second: until the first renewal.
#[tokio::test]
async fn a_renewal_that_meets_the_commit_has_lost_nothing() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let lease = Lease::Renewed(std::time::Duration::from_secs(3));
    let operation = store.over(&link).charging_by(|policy| policy.lease(lease));
    let gate = Gate::default();
    link.wire.next("UpdateItem", Act::HoldResponse(gate.clone()));
    let outcome = operation.run_with_outcome(async |execution| {
        let answer = book_in(&execution, store.table(), &runs).await?;
        gate.reached().await;
        gate.open();
        // Its answer reaches the owner meanwhile.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert!(!execution.is_lease_lost());
        Ok::<_, Error>(answer)
    });
    assert_eq!(outcome.await.unwrap(), executed(1, 1));
    assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
}

#[tokio::test]
async fn an_execution_without_a_record_commits_at_most_once() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    let operation = || idempotency.charging_by(|p| p.outage(Outage::Open));
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        link.wire.down(Act::SERVER_ERROR);
        let outcome = operation().run_with_outcome(async |execution| {
            assert!(!execution.is_protected());
            link.wire.up();
            book_in(&execution, store.table(), &runs).await
        });
        outcomes.push(outcome.await.unwrap());
    }
    assert_eq!(outcomes, [executed(1, 0), replayed(1, 0)]);
    assert_eq!(store.counted("effect").await, 1);
}

/// DynamoDB could delete the record while a delayed copy of the commit can still be applied. The copy of a
/// commit that requires a record is rejected then.
#[tokio::test]
async fn under_a_retention_below_an_hour_only_an_execution_with_a_record_commits() {
    for is_protected in [false, true] {
        let (store, link, runs, idempotency) = caller_on(Link::default()).await;
        let minute = Duration::from_secs(60);
        let short = idempotency
            .operation("charge")
            .policy(|policy| policy.outage(Outage::Open).retention(minute))
            .unwrap();
        if !is_protected {
            link.wire.down(Act::SERVER_ERROR);
        }
        let result = short.key("k").no_payload().run_with_outcome(async |execution| {
            assert_eq!(execution.is_protected(), is_protected);
            link.wire.up();
            let booked = book_in(&execution, store.table(), &runs).await;
            assert_eq!(booked.is_ok(), is_protected);
            booked
        });
        let result = result.await;
        if is_protected {
            assert_eq!(result.unwrap(), executed(1, 1));
        } else {
            let error = handlers(result);
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().contains("Policy::retention is below 1 h"), "{error}");
        }
        assert_eq!(store.counted("effect").await, i64::from(is_protected));
    }
}

#[tokio::test]
async fn an_execution_without_a_record_does_not_commit_beside_an_owner() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    link.wire.down(Act::SERVER_ERROR);
    let operation = store.over(&link).charging_by(|p| p.outage(Outage::Open));
    let result = operation.run(async |execution| {
        link.wire.up();
        store.put(raw::pending("charge#k")).await;
        book_in(&execution, store.table(), &runs).await
    });
    assert_eq!(kind(result.await), ErrorKind::LeaseLost);
    assert_eq!(store.counted("effect").await, 0);
}

#[tokio::test]
async fn a_failure_of_another_run_does_not_undo_a_commit() {
    let (store, gate, runs) = (Store::open().await, Gate::default(), Runs::default());
    let (owner, taker) = (store.idempotency(), store.over(&Link::later(AN_HOUR)));
    let first = owner.charging().run_with_outcome(async |execution| {
        gate.pass().await;
        execution.commit("late", [count(store.table(), "effect")]).await?;
        Ok::<_, Error>(String::new())
    });
    let (first, ()) = tokio::join!(first, async {
        gate.reached().await;
        handlers(decline(taker.charging(), &runs).await);
        gate.open();
    });
    // The taker has released the record: nothing fences the commit, so it does not land.
    assert_eq!(kind(first), ErrorKind::LeaseLost);
    assert_eq!(store.counted("effect").await, 0);
}
