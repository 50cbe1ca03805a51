//! A former owner changes nothing of a record that another holds, completed or failed.

use dynamodb_idempotency::policy::{Failure, LargeAnswers, Outage};
use dynamodb_idempotency::{Error, ErrorKind, Outcome, Policy};

use crate::support::effects::{count, debit};
use crate::support::{
    Act, Charging, Declined, Gate, Link, Runs, Store, charge, charge_held, commit_kind, executed,
    handlers, kind, raw, replayed,
};

/// By when every lease of a present owner is over.
const AN_HOUR: i64 = 3600;

/// By a completion after a commit, and by a commit without a record.
#[tokio::test]
async fn a_commit_over_a_released_record_keeps_the_later_attempt() {
    for is_protected in [true, false] {
        let (store, link) = (Store::open().await, Link::without_retries());
        let operation = store.over(&link).charging_by(|policy| policy.outage(Outage::Open));
        if !is_protected {
            link.wire.down(Act::SERVER_ERROR);
        }
        let outcome = operation.run_with_outcome(async |execution| {
            link.wire.up();
            let refused = execution.commit("paid", [debit(store.table(), "alice", 1)]).await;
            assert_eq!(commit_kind(&refused), ErrorKind::ConditionFailed);
            let released = raw::with(raw::failed("charge#k"), "status", raw::s("RELEASED"));
            store.put(raw::with(released, "attempt", raw::n(7))).await;
            if is_protected {
                return Ok("refused".to_owned());
            }
            execution.commit("paid", [count(store.table(), "effect")]).await?;
            Ok::<_, Error>("paid".to_owned())
        });
        let answer = if is_protected { "refused" } else { "paid" };
        assert_eq!(outcome.await.unwrap(), Outcome::Executed(answer.to_owned()));
        let record = store.record("charge#k").await;
        assert_eq!((raw::status(&record), raw::number(&record, "attempt")), ("COMPLETED", 7));
        assert_eq!(store.counted("effect").await, i64::from(!is_protected));
    }
}

#[tokio::test]
async fn an_answer_is_written_where_the_record_was_deleted_by_hand() {
    let (store, gate, runs) = (Store::open().await, Gate::default(), Runs::default());
    let idempotency = store.idempotency();
    let first = charge_held(idempotency.charging(), &runs, &gate);
    let (first, ()) = tokio::join!(first, async {
        gate.reached().await;
        store.delete("charge#k").await;
        gate.open();
    });
    assert_eq!(first.unwrap(), executed(1, 1));
    let record = store.record("charge#k").await;
    assert_eq!(raw::status(&record), "COMPLETED");
    assert!(record.contains_key("expires_at"), "TTL must find it: {record:?}");
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), replayed(1, 1));
}

#[tokio::test]
async fn a_late_completion_never_gets_another_requests_answer() {
    let (store, gate, runs) = (Store::open().await, Gate::default(), Runs::default());
    let idempotency = store.idempotency();
    let operation = |amount: u32| idempotency.operation("charge").key("k").payload(&amount);
    let (first, before) = tokio::join!(charge_held(operation(1), &runs, &gate), async {
        gate.reached().await;
        store.delete("charge#k").await;
        charge(operation(2), &runs).await.unwrap();
        let before = store.record("charge#k").await;
        gate.open();
        before
    });
    assert_eq!(kind(first), ErrorKind::LeaseLost);
    assert_eq!(store.record("charge#k").await, before);
}

/// As a completion would leave it whose response was lost.
#[tokio::test]
async fn a_completed_record_is_never_released_or_failed_by_its_own_owner() {
    for failure in [Failure::Release, Failure::Retain { max_attempts: 5 }, Failure::Replay] {
        let store = Store::open().await;
        let operation = store.idempotency().charging_by(|p| p.failure(failure));
        let mut completed = raw::completed("charge#k", "1");
        let failed = operation.run(async |execution| {
            completed.insert("owner".to_owned(), raw::s(execution.owner()));
            store.put(completed.clone()).await;
            Err::<(), _>("declined")
        });
        assert_eq!(handlers(failed.await), "declined");
        assert_eq!(store.record("charge#k").await, completed, "{failure:?}");
    }
}

/// An answer that must be read from its parts.
fn in_parts(policy: Policy) -> Policy {
    policy.large_answers(LargeAnswers::InParts { above: 0 })
}

#[tokio::test]
async fn a_late_commit_gets_the_new_owners_answer_from_its_parts() {
    let (store, gate) = (Store::open().await, Gate::default());
    let (owner, taker) = (store.idempotency(), store.over(&Link::later(AN_HOUR)));
    let operation = owner.charging_by(in_parts);
    let first = operation.run_with_outcome(async |execution| {
        gate.pass().await;
        execution.commit("first", [count(store.table(), "effect")]).await?;
        Ok::<_, Error>("first".to_owned())
    });
    let (first, ()) = tokio::join!(first, async {
        gate.reached().await;
        let operation = taker.charging_by(in_parts);
        let second = operation.run(async |_| Ok::<_, Declined>("second".to_owned()));
        assert_eq!(second.await.unwrap(), "second");
        gate.open();
    });
    assert_eq!(first.unwrap(), Outcome::Replayed("second".to_owned()));
    assert_eq!(store.counted("effect").await, 0);
}
