//! A hook completes an abandoned operation together with its rows: once, or not at all.

use aws_sdk_dynamodb::types::TransactWriteItem;
use dynamodb_idempotency::{
    ConditionFailed, Error, ErrorKind, Execution, Idempotency, Outcome, Reconciled, RunError,
};

use crate::loss::commit_doubt::hasty;
use crate::support::effects::{count, debit};
use crate::support::raw::{self, number, status};
use crate::support::{Act, Charging, Gate, Link, Runs, Store, kind};

type Charged = Result<Outcome<String>, RunError<String>>;

/// A store with an abandoned operation under `charge#k`.
async fn abandoned() -> Store {
    let store = Store::open().await;
    store.put(raw::abandoned("charge#k")).await;
    store
}

/// A call whose hook commits these items, and whose handler must not run.
async fn committing(
    idempotency: &Idempotency,
    asked: &Runs,
    items: impl Fn() -> Vec<TransactWriteItem>,
) -> Charged {
    let operation = idempotency.charging().reconcile(async |_| {
        asked.add();
        Ok(Reconciled::Commit { answer: "found".to_owned(), items: items() })
    });
    operation.run_with_outcome(async |_: Execution| panic!("it ran")).await
}

fn error(result: Charged) -> Error {
    match result {
        Err(RunError::Idempotency(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn its_rows_are_written_with_the_answer_in_one_request() {
    let (store, link, asked) = (abandoned().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let rows = || vec![count(store.table(), "effect")];
    let first = committing(&idempotency, &asked, rows).await.unwrap();
    assert_eq!(first, Outcome::Reconciled("found".to_owned()));
    assert_eq!(link.wire.requests(), ["PutItem", "TransactWriteItems"]);
    let record = store.record("charge#k").await;
    assert_eq!((status(&record), number(&record, "attempt")), ("COMPLETED", 1));
    let repeat = committing(&idempotency, &asked, rows).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("found".to_owned()));
    assert_eq!((asked.count(), store.counted("effect").await), (1, 1));
}

#[tokio::test]
async fn a_failed_condition_leaves_the_record_and_the_next_call_asks_the_hook_again() {
    let (store, asked) = (abandoned().await, Runs::default());
    let before = store.record("charge#k").await;
    let idempotency = store.idempotency();
    store.deposit("alice", 3).await;
    let rows = || vec![count(store.table(), "effect"), debit(store.table(), "alice", 5)];
    let refused = error(committing(&idempotency, &asked, rows).await);
    assert_eq!(refused.kind(), ErrorKind::ConditionFailed);
    assert_eq!(refused.condition_failed().map(ConditionFailed::index), Some(1));
    assert_eq!((store.record("charge#k").await, store.counted("effect").await), (before, 0));
    store.deposit("alice", 5).await;
    let next = committing(&idempotency, &asked, rows).await.unwrap();
    assert_eq!(next, Outcome::Reconciled("found".to_owned()));
    assert_eq!((asked.count(), store.counted("effect").await), (2, 1));
}

#[tokio::test]
async fn invalid_items_and_an_answer_without_room_write_nothing() {
    let (store, asked) = (abandoned().await, Runs::default());
    let before = store.record("charge#k").await;
    let idempotency = store.idempotency();
    let none = || vec![TransactWriteItem::builder().build()];
    let invalid = error(committing(&idempotency, &asked, none).await);
    assert_eq!(invalid.kind(), ErrorKind::InvalidTransaction);
    let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(900_000).collect();
    let operation = idempotency.charging().reconcile(async |_| {
        let items = vec![count(store.table(), "effect")];
        Ok::<_, String>(Reconciled::Commit { answer: text.clone(), items })
    });
    let too_large = operation.run(async |_| -> Result<String, String> { panic!("it ran") }).await;
    assert_eq!(kind(too_large), ErrorKind::InvalidTransaction);
    assert_eq!((store.record("charge#k").await, store.counted("effect").await), (before, 0));
}

#[tokio::test]
async fn one_whose_response_is_lost_is_found_to_be_applied() {
    let (store, link, asked) = (abandoned().await, Link::default(), Runs::default());
    link.wire.every("TransactWriteItems", Act::LoseResponse);
    let rows = || vec![count(store.table(), "effect")];
    let outcome = committing(&hasty(&store, &link), &asked, rows).await.unwrap();
    assert_eq!(outcome, Outcome::Reconciled("found".to_owned()));
    assert_eq!((asked.count(), store.counted("effect").await), (1, 1));
}

/// The lease of the abandoned record moves by a millisecond, so that DynamoDB rejects each late copy.
#[tokio::test]
async fn one_that_did_not_arrive_is_ruled_out_before_the_call_ends() {
    let (store, link, asked) = (abandoned().await, Link::default(), Runs::default());
    let before = store.record("charge#k").await;
    let late = Gate::default();
    link.wire.every("TransactWriteItems", Act::ArriveLate(late.clone()));
    let rows = || vec![count(store.table(), "effect")];
    let failed = error(committing(&hasty(&store, &link), &asked, rows).await);
    assert!(failed.is_retryable() && !failed.is_outcome_unknown(), "{failed:?}");
    let after = store.record("charge#k").await;
    let ends = |record| number(record, "lease_expires_at");
    assert_eq!((status(&after), ends(&after)), ("PENDING", ends(&before) + 1));
    late.open();
    link.wire.late_arrivals(u32::try_from(link.wire.count("TransactWriteItems")).unwrap()).await;
    assert_eq!((store.record("charge#k").await, store.counted("effect").await), (after, 0));
    let next = committing(&store.idempotency(), &asked, rows).await.unwrap();
    assert_eq!(next, Outcome::Reconciled("found".to_owned()));
    assert_eq!((asked.count(), store.counted("effect").await), (2, 1));
}

#[tokio::test]
async fn one_that_can_be_neither_confirmed_nor_ruled_out_is_unknown() {
    let (store, link, asked) = (abandoned().await, Link::default(), Runs::default());
    for operation in ["TransactWriteItems", "UpdateItem"] {
        link.wire.every(operation, Act::LoseRequest);
    }
    let rows = || vec![count(store.table(), "effect")];
    let failed = error(committing(&hasty(&store, &link), &asked, rows).await);
    assert_eq!(failed.kind(), ErrorKind::OutcomeUnknown);
}

/// An absent record does not say whether it had been completed.
#[tokio::test]
async fn one_whose_record_was_deleted_is_unknown() {
    let (store, link, asked) = (abandoned().await, Link::default(), Runs::default());
    let lost = Gate::default();
    link.wire.next("TransactWriteItems", Act::HoldResponse(lost.clone()));
    link.wire.every("TransactWriteItems", Act::LoseRequest);
    let idempotency = hasty(&store, &link);
    let rows = || vec![count(store.table(), "effect")];
    let deleting = async {
        lost.reached().await;
        store.delete("charge#k").await;
    };
    let (failed, ()) = tokio::join!(committing(&idempotency, &asked, rows), deleting);
    assert_eq!(error(failed).kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(store.counted("effect").await, 1);
}
