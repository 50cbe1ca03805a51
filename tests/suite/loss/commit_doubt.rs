//! A commit that DynamoDB does not confirm: the reported result stays true, whatever arrives late.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use dynamodb_idempotency::admin::Released;
use dynamodb_idempotency::policy::{KeyForm, Lease, Outage};
use dynamodb_idempotency::{Error, ErrorKind, Execution, Idempotency, Outcome, Policy};
use futures::FutureExt;

use crate::support::effects::{count, debit};
use crate::support::gate::patiently;
use crate::support::raw::{self, status};
use crate::support::{
    Act, Charging, Gate, Link, Runs, Store, charge, commit_kind, handlers, is_in_progress, kind,
};

/// Longer than any test with it.
const A_MINUTE: Duration = Duration::from_secs(60);

/// A caller that gives up soon.
pub(crate) fn hasty(store: &Store, link: &Link) -> Idempotency {
    hasty_with(store, link, |policy| policy)
}

fn hasty_with(store: &Store, link: &Link, policy: impl FnOnce(Policy) -> Policy) -> Idempotency {
    let timeout = Duration::from_millis(300);
    let builder = store.builder(link).request_timeout(timeout);
    let builder = builder.policy(|default| policy(default.completion_timeout(timeout)));
    builder.build().expect("the settings are right")
}

async fn book(execution: &Execution, table: &str) -> Result<String, Error> {
    execution.commit("booked", [count(table, "effect")]).await?;
    Ok("booked".to_owned())
}

/// Removes the record of the operation as soon as its commit or transaction was applied.
pub(crate) async fn remove(store: &Store, scope: &str, applied: &Gate, is_deleted: bool) {
    applied.reached().await;
    let pk = format!("{scope}#k");
    assert_eq!(status(&store.record(&pk).await), "COMPLETED");
    if is_deleted {
        return store.delete(&pk).await;
    }
    let idempotency = store.idempotency();
    let tool = idempotency.admin();
    let record = tool.record(&scope.into(), "k", KeyForm::Verbatim).await.unwrap().unwrap();
    assert!(matches!(tool.force_release(&record).await.unwrap(), Released::Released));
}

#[tokio::test]
async fn one_that_was_not_applied_is_closed_off_and_its_handler_keeps_the_key() {
    for handler_fails in [true, false] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let idempotency = hasty(&store, &link);
        link.wire.every("TransactWriteItems", Act::LoseRequest);
        let result = idempotency.charging().run(async |execution| {
            let result = book(&execution, store.table()).await;
            assert_eq!(commit_kind(&result), ErrorKind::Unavailable);
            assert!(!execution.is_lease_lost() && execution.lease_remaining() > Duration::ZERO);
            assert!(is_in_progress(charge(store.idempotency().charging(), &runs).await));
            assert_eq!(runs.count(), 0);
            if handler_fails { result } else { Ok("booked in another way".to_owned()) }
        });
        let result = result.await;
        assert_eq!(store.counted("effect").await, 0);
        if handler_fails {
            assert_eq!(handlers(result).kind(), ErrorKind::Unavailable);
            assert_eq!(status(&store.record("charge#k").await), "RELEASED");
        } else {
            assert_eq!(result.unwrap(), "booked in another way");
            assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
        }
    }
}

#[tokio::test]
async fn the_next_commit_of_a_handler_is_applied_and_no_delayed_one() {
    let (store, link, gate) = (Store::open().await, Link::default(), Gate::default());
    let idempotency = hasty(&store, &link);
    link.wire.every("TransactWriteItems", Act::ArriveLate(gate.clone()));
    let delayed = Cell::new(0);
    let booked = idempotency.charging().run(async |execution| {
        assert_eq!(commit_kind(&book(&execution, store.table()).await), ErrorKind::Unavailable);
        delayed.set(link.wire.count("TransactWriteItems"));
        link.wire.every("TransactWriteItems", Act::Deliver);
        execution.commit("booked again", [count(store.table(), "second")]).await?;
        Ok::<_, Error>("booked again".to_owned())
    });
    assert_eq!(booked.await.unwrap(), "booked again");
    gate.open();
    link.wire.late_arrivals(u32::try_from(delayed.get()).unwrap()).await;
    assert_eq!((store.counted("effect").await, store.counted("second").await), (0, 1));
}

#[tokio::test]
async fn one_of_which_nothing_can_be_known_is_an_error_that_says_so_and_stores_nothing() {
    for handler_fails in [true, false] {
        let (store, link) = (Store::open().await, Link::default());
        let idempotency = hasty(&store, &link);
        let sent = std::cell::Cell::new(0);
        let result = idempotency.charging().run(async |execution| {
            link.wire.down(Act::LoseRequest);
            let result = book(&execution, store.table()).await;
            assert_eq!(commit_kind(&result), ErrorKind::OutcomeUnknown);
            sent.set(link.wire.requests().len());
            link.wire.up();
            if handler_fails { result } else { Ok("perhaps".to_owned()) }
        });
        assert_eq!(kind(result.await), ErrorKind::OutcomeUnknown);
        assert_eq!(link.wire.requests().len(), sent.get());
        assert_eq!(status(&store.record("charge#k").await), "PENDING");
        assert_eq!(store.counted("effect").await, 0);
    }
}

#[derive(Clone, Copy, Debug)]
enum Then {
    Answer,
    Fail,
    Panic,
    NothingExecuted,
    CommitAnother,
}

/// The first try is still in flight when a condition of a later one fails. A handler that gets
/// "rejected" could do something else, and the first try could be applied in addition. So the call
/// first makes sure that the first try can no longer be applied.
#[tokio::test]
async fn a_rejection_is_reported_after_the_try_in_doubt_can_no_longer_be_applied() {
    for then in [Then::Answer, Then::Fail, Then::Panic, Then::NothingExecuted, Then::CommitAnother]
    {
        let (store, link, gate) = (Store::open().await, Link::without_retries(), Gate::default());
        link.wire.next("TransactWriteItems", Act::ArriveLate(gate.clone()));
        let refusal = &["None", "ConditionalCheckFailed"];
        link.wire.next("TransactWriteItems", Act::Cancel(refusal));
        let running = store.over(&link).charging().run_with_outcome(async |execution| {
            let refused = book(&execution, store.table()).await;
            assert_eq!(commit_kind(&refused), ErrorKind::ConditionFailed);
            match then {
                Then::Answer => Ok("something else".to_owned()),
                Then::Fail => refused,
                Then::Panic => panic!("after a refusal"),
                Then::NothingExecuted => {
                    execution.discard();
                    Ok("something else".to_owned())
                }
                Then::CommitAnother => {
                    let another = [debit(store.table(), "alice", 1)];
                    store.deposit("alice", 1).await;
                    execution.commit("another", another).await?;
                    Ok("something else".to_owned())
                }
            }
        });
        let ran = std::panic::AssertUnwindSafe(running).catch_unwind().await;
        let (expected, left) = match then {
            Then::Answer | Then::CommitAnother => ("COMPLETED", 0),
            Then::Fail | Then::Panic | Then::NothingExecuted => ("RELEASED", 1),
        };
        assert_eq!(ran.is_err(), matches!(then, Then::Panic));
        gate.open();
        link.wire.late_arrivals(1).await;
        assert_eq!(status(&store.record("charge#k").await), expected, "{then:?}");
        assert_eq!(store.counted("effect").await, 0, "{then:?}");
        if matches!(then, Then::CommitAnother) {
            assert_eq!(store.counted("alice").await, left);
        }
    }
}

/// The first try was executed, and the later one was refused by what it has left.
#[tokio::test]
async fn a_rejection_after_an_applied_try_is_reported_as_success() {
    let (store, link, gate) = (Store::open().await, Link::without_retries(), Gate::default());
    link.wire.next("TransactWriteItems", Act::ArriveLate(gate.clone()));
    link.wire.next("TransactWriteItems", Act::Cancel(&["None", "ConditionalCheckFailed"]));
    // Between the refusal and the write that is to rule it out.
    let ruling_out = Gate::default();
    link.wire.next("UpdateItem", Act::HoldRequest(ruling_out.clone()));
    let outcome = store.over(&link).charging().run_with_outcome(async |execution| {
        let landing = async {
            ruling_out.reached().await;
            gate.open();
            link.wire.late_arrivals(1).await;
            ruling_out.open();
        };
        tokio::join!(book(&execution, store.table()), landing).0
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Executed("booked".to_owned()));
    assert_eq!(store.counted("effect").await, 1);
}

/// Of a record that was abandoned and taken over, the same.
#[tokio::test]
async fn a_delayed_commit_is_not_applied_to_a_record_that_was_undone() {
    let (store, link, gate) = (Store::open().await, Link::without_retries(), Gate::default());
    store.put(raw::abandoned("charge#k")).await;
    link.wire.next("TransactWriteItems", Act::ArriveLate(gate.clone()));
    link.wire.next("TransactWriteItems", Act::Cancel(&["None", "ConditionalCheckFailed"]));
    let result = store.over(&link).charging().run(async |execution| {
        let refused = book(&execution, store.table()).await;
        execution.discard();
        refused
    });
    assert_eq!(handlers(result.await).kind(), ErrorKind::ConditionFailed);
    let before = store.record("charge#k").await;
    gate.open();
    link.wire.late_arrivals(1).await;
    assert_eq!(store.record("charge#k").await, before);
    assert_eq!(store.counted("effect").await, 0);
}

/// It was applied, and then its record is deleted (by hand or by TTL) or released by force. No write of the
/// call can prove any more whether it was applied.
#[tokio::test]
async fn one_whose_record_was_deleted_or_released_is_unknown() {
    for is_deleted in [true, false] {
        let (store, link) = (Store::open().await, Link::default());
        let (idempotency, lost) = (hasty(&store, &link), Gate::default());
        link.wire.next("TransactWriteItems", Act::HoldResponse(lost.clone()));
        link.wire.every("TransactWriteItems", Act::LoseRequest);
        let running = idempotency.charging().run(async |execution| {
            let booked = book(&execution, store.table()).await;
            assert_eq!(commit_kind(&booked), ErrorKind::OutcomeUnknown, "{is_deleted}");
            booked
        });
        let (result, ()) = tokio::join!(running, remove(&store, "charge", &lost, is_deleted));
        assert_eq!(kind(result), ErrorKind::OutcomeUnknown, "{is_deleted}");
        assert_eq!(store.counted("effect").await, 1);
    }
}

/// Nothing that would keep it from landing is confirmed either.
#[tokio::test]
async fn without_a_release_a_rejection_with_a_try_in_doubt_is_reported_as_unknown() {
    for says_so in [true, false] {
        let (store, link, gate) = (Store::open().await, Link::without_retries(), Gate::default());
        let idempotency = hasty(&store, &link);
        link.wire.next("TransactWriteItems", Act::ArriveLate(gate.clone()));
        link.wire.next("TransactWriteItems", Act::Cancel(&["None", "ConditionalCheckFailed"]));
        link.wire.every("UpdateItem", Act::LoseRequest);
        let result = idempotency.charging().run(async |execution| {
            let refused = book(&execution, store.table()).await;
            assert_eq!(commit_kind(&refused), ErrorKind::OutcomeUnknown);
            if says_so {
                execution.discard();
                return Ok("nothing".to_owned());
            }
            refused
        });
        assert_eq!(kind(result.await), ErrorKind::OutcomeUnknown);
        gate.open();
        link.wire.late_arrivals(1).await;
        assert_eq!(store.counted("effect").await, 1);
    }
}

/// A completion whose response was lost meets itself: the condition after a commit is a stricter one.
#[tokio::test]
async fn a_lost_response_to_the_answer_after_a_refused_commit_is_confirmed() {
    let (store, link) = (Store::open().await, Link::without_retries());
    let outcome = store.over(&link).charging().run_with_outcome(async |execution| {
        let refused = execution.commit("paid", [debit(store.table(), "alice", 1)]).await;
        assert_eq!(commit_kind(&refused), ErrorKind::ConditionFailed);
        link.wire.next("PutItem", Act::LoseResponse);
        Ok::<_, Error>("refused".to_owned())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Executed("refused".to_owned()));
    assert_eq!(link.wire.count("PutItem"), 3);
}

/// The record stays owned: nothing is in doubt.
#[tokio::test]
async fn one_that_never_gets_through_is_no_doubt() {
    for act in [Act::Cancel(&["None", "TransactionConflict"]), Act::THROTTLE] {
        let (store, link) = (Store::open().await, Link::default());
        let idempotency = hasty(&store, &link);
        link.wire.every("TransactWriteItems", act);
        let outcome = idempotency.charging().run_with_outcome(async |execution| {
            let result = book(&execution, store.table()).await;
            assert_eq!(commit_kind(&result), ErrorKind::Unavailable);
            assert_eq!(status(&store.record("charge#k").await), "PENDING");
            Ok::<_, Error>("busy".to_owned())
        });
        assert_eq!(outcome.await.unwrap(), Outcome::Executed("busy".to_owned()));
        assert_eq!(store.counted("effect").await, 0);
    }
}

/// Without a record there is nothing to release, and a delayed request is applied if no record exists.
#[tokio::test]
async fn one_without_a_record_stays_in_doubt_whatever_record_of_another_there_is() {
    for record in [
        None,
        Some(raw::pending("charge#k")),
        // The commit may have been applied before, and its record deleted.
        Some(raw::completed("charge#k", "\"theirs\"")),
    ] {
        let (store, link) = (Store::open().await, Link::default());
        let idempotency = hasty_with(&store, &link, |policy| policy.outage(Outage::Open));
        link.wire.down(Act::SERVER_ERROR);
        let result = idempotency.charging().run_with_outcome(async |execution| {
            link.wire.up();
            link.wire.every("TransactWriteItems", Act::LoseRequest);
            if let Some(record) = &record {
                store.put(record.clone()).await;
            }
            book(&execution, store.table()).await
        });
        assert_eq!(kind(result.await), ErrorKind::OutcomeUnknown, "{record:?}");
        assert_eq!(store.item("charge#k").await, record);
    }
}

/// The other owner may release its record; then a delayed request is applied.
#[tokio::test]
async fn one_without_a_record_that_was_refused_for_a_running_owner_stays_in_doubt() {
    let (store, link) = (Store::open().await, Link::without_retries());
    let gate = Gate::default();
    let idempotency = hasty_with(&store, &link, |policy| policy.outage(Outage::Open));
    link.wire.down(Act::SERVER_ERROR);
    let result = idempotency.charging().run(async |execution| {
        link.wire.up();
        link.wire.next("TransactWriteItems", Act::ArriveLate(gate.clone()));
        store.put(raw::pending("charge#k")).await;
        book(&execution, store.table()).await
    });
    assert_eq!(kind(result.await), ErrorKind::OutcomeUnknown);
    store.delete("charge#k").await;
    gate.open();
    link.wire.late_arrivals(1).await;
    assert_eq!(store.counted("effect").await, 1);
}

type Hold = fn(Gate) -> Act;

/// The handler holds both futures, and polls the first one only until it has sent its request.
#[tokio::test]
async fn a_commit_next_to_one_that_is_not_polled_fails_in_time() {
    for (act, applied) in [(Act::HoldRequest as Hold, 0), (Act::HoldResponse as Hold, 1)] {
        let (store, link, gate) = (Store::open().await, Link::default(), Gate::default());
        let idempotency = hasty(&store, &link);
        link.wire.next("TransactWriteItems", act(gate.clone()));
        let operation = idempotency.charging_by(|policy| policy.lease(Lease::Renewed(A_MINUTE)));
        let result = operation.run_with_outcome(async |execution| {
            let mut first = pin!(book(&execution, store.table()));
            tokio::select! {
                biased;
                booked = &mut first => panic!("too early: {booked:?}"),
                () = gate.reached() => {}
            }
            let second = execution.commit("second", [count(store.table(), "effect")]).await;
            assert_eq!(commit_kind(&second), ErrorKind::Unavailable);
            second.map(|()| "second".to_owned())
        });
        let result = patiently("the end of a commit next to another", result).await;
        if applied == 0 {
            assert_eq!(handlers(result).kind(), ErrorKind::Unavailable);
            assert_eq!(status(&store.record("charge#k").await), "RELEASED");
        } else {
            assert_eq!(result.unwrap(), Outcome::Executed("booked".to_owned()));
        }
        assert_eq!(store.counted("effect").await, applied);
    }
}
