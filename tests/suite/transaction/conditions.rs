//! A condition of the items that does not hold, with an answer for that case or without.

use dynamodb_idempotency::{Call, ErrorKind, Outcome, Transaction};

use super::Transferred;
use crate::support::effects::{count, debit};
use crate::support::{Act, Charging, Gate, Link, Store, caller, caller_on, kind, raw};

/// As `transfer`, of what may not be there; with an answer for that.
async fn pay(operation: Call, table: &str, answer: Option<&'static str>) -> Transferred {
    operation
        .run_transaction_with_outcome(async || {
            let transaction = Transaction::new("paid".to_owned());
            let transaction = transaction.items([count(table, "effect"), debit(table, "alice", 5)]);
            Ok(transaction.on_condition_failed(move |failed| {
                assert_eq!(failed.index(), 1);
                answer.map(str::to_owned)
            }))
        })
        .await
}

#[tokio::test]
async fn an_answer_for_a_failed_condition_is_stored_and_replayed() {
    let (store, link, _, idempotency) = caller_on(Link::default()).await;
    store.deposit("alice", 3).await;
    let transfers = || idempotency.calling("transfers");
    let refused = Some("insufficient funds");
    let first = pay(transfers(), store.table(), refused).await.unwrap();
    assert_eq!(first, Outcome::Executed("insufficient funds".to_owned()));
    assert_eq!(link.wire.requests(), ["TransactWriteItems", "PutItem"]);
    // Whatever the balance is by then.
    store.deposit("alice", 9).await;
    let repeat = pay(transfers(), store.table(), refused).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("insufficient funds".to_owned()));
    assert_eq!((store.counted("alice").await, store.counted("effect").await), (9, 0));
}

/// The repeat's own condition fails too: its record decides.
#[tokio::test]
async fn a_repeat_whose_condition_would_fail_by_now_gets_the_answer() {
    let (store, link, _, idempotency) = caller_on(Link::default()).await;
    store.deposit("alice", 5).await;
    let transfers = || idempotency.calling("transfers");
    let refused = Some("insufficient funds");
    let first = pay(transfers(), store.table(), refused).await.unwrap();
    assert_eq!(first, Outcome::Executed("paid".to_owned()));
    link.wire.forget();
    let repeat = pay(transfers(), store.table(), refused).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("paid".to_owned()));
    assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
}

#[tokio::test]
async fn a_failed_condition_without_an_answer_leaves_nothing() {
    let (store, _, idempotency) = caller().await;
    let transfers = || idempotency.calling("transfers");
    assert_eq!(kind(pay(transfers(), store.table(), None).await), ErrorKind::ConditionFailed);
    assert_eq!(store.item("transfers#k").await, None);
    store.deposit("alice", 5).await;
    let next = pay(transfers(), store.table(), None).await.unwrap();
    assert_eq!(next, Outcome::Executed("paid".to_owned()));
}

/// A try is in flight when a condition of a later one fails. If it required a record, the refusal rules it out. If it
/// required none, it may have been applied, and its record deleted, so no answer is stored.
#[tokio::test]
async fn a_refusal_is_final_or_the_earlier_try_is_the_answer() {
    let refusal = || Act::Cancel(&["None", "None", "ConditionalCheckFailed"]);
    let refused = Some("insufficient funds");
    for (answer, requires_record, arrives_first) in [
        (refused, true, false),
        (refused, true, true),
        (refused, false, false),
        (refused, false, true),
        (None, false, false),
        (None, false, true),
    ] {
        let (store, link, gate) = (Store::open().await, Link::without_retries(), Gate::default());
        store.deposit("alice", 5).await;
        if requires_record {
            store.put(raw::abandoned("o#k")).await;
            link.wire.next("TransactWriteItems", Act::Deliver);
        }
        link.wire.next("TransactWriteItems", Act::ArriveLate(gate.clone()));
        link.wire.next("TransactWriteItems", refusal());
        let held = Gate::default();
        link.wire.next("PutItem", Act::HoldRequest(held.clone()));
        let first = pay(store.over(&link).calling("o"), store.table(), answer);
        let (first, ()) = tokio::join!(first, async {
            held.reached().await;
            if arrives_first {
                gate.open();
                link.wire.late_arrivals(1).await;
            }
            held.open();
        });
        match (answer.filter(|_| requires_record), arrives_first) {
            (Some(answer), false) => {
                assert_eq!(first.unwrap(), Outcome::Executed(answer.to_owned()));
            }
            (Some(_), true) => assert_eq!(first.unwrap(), Outcome::Replayed("paid".to_owned())),
            (None, false) => assert_eq!(kind(first), ErrorKind::OutcomeUnknown),
            (None, true) => assert_eq!(first.unwrap(), Outcome::Executed("paid".to_owned())),
        }
        if !arrives_first {
            gate.open();
            link.wire.late_arrivals(1).await;
        }
        assert_eq!(store.counted("effect").await, i64::from(arrives_first), "{answer:?}");
    }
}
