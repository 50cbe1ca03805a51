//! A condition of the items that does not hold.

use dynamodb_idempotency::{Error, ErrorKind, Outcome};

use super::book;
use crate::support::effects::{check, count, debit};
use crate::support::raw::{number, status};
use crate::support::{
    Charging, Link, Runs, Store, caller, charge, commit_kind, executed, handlers,
};

#[tokio::test]
async fn a_failed_condition_comes_with_its_item_and_leaves_the_record_owned() {
    let store = Store::open().await;
    let (idempotency, table) = (store.idempotency(), store.table());
    store.deposit("alice", 3).await;
    let outcome = idempotency.charging().run_with_outcome(async |execution| {
        let items =
            [count(table, "effect"), debit(table, "alice", 5), check(table, "missing account")];
        let result = execution.commit("paid", items).await;
        assert_eq!(commit_kind(&result), ErrorKind::ConditionFailed);
        let error = result.unwrap_err();
        let failed = error.condition_failed().expect("the condition");
        assert_eq!(failed.index(), 1);
        assert_eq!(number(failed.item().unwrap(), "count"), 3);
        let all: Vec<_> = failed.all().map(|(index, item)| (index, item.is_some())).collect();
        assert_eq!(all, [(1, true), (2, false)]);
        assert_eq!(status(&store.record("charge#k").await), "PENDING");
        Ok::<_, Error>("insufficient funds".to_owned())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Executed("insufficient funds".to_owned()));
    assert_eq!((store.counted("effect").await, store.counted("alice").await), (0, 3));
    let runs = Runs::default();
    let repeat = charge(idempotency.charging(), &runs).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("insufficient funds".to_owned()));
}

#[tokio::test]
async fn another_commit_may_follow_one_whose_condition_failed() {
    let (store, link) = (Store::open().await, Link::default());
    let (idempotency, table) = (store.over(&link), store.table());
    store.deposit("alice", 3).await;
    let outcome = idempotency.charging().run_with_outcome(async |execution| {
        let first = execution.commit("5", [debit(table, "alice", 5)]).await;
        assert_eq!(commit_kind(&first), ErrorKind::ConditionFailed);
        execution.commit("3", [debit(table, "alice", 3)]).await?;
        Ok::<_, Error>(String::new())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Executed("3".to_owned()));
    assert_eq!(store.counted("alice").await, 0);
    assert_eq!(link.wire.requests(), ["PutItem", "TransactWriteItems", "TransactWriteItems"]);
}

#[tokio::test]
async fn a_failed_condition_that_the_handler_fails_with_frees_the_key() {
    let (store, runs, idempotency) = caller().await;
    let result = idempotency.charging().run(async |execution| {
        execution.commit("paid", [debit(store.table(), "alice", 5)]).await?;
        Ok::<_, Error>(String::new())
    });
    assert_eq!(handlers(result.await).kind(), ErrorKind::ConditionFailed);
    assert!(store.is_released("charge#k").await);
    assert_eq!(book(idempotency.charging(), store.table(), &runs).await.unwrap(), executed(1, 2));
}
