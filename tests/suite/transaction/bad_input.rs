//! What is refused, or fails, before it is sent.

use std::time::Duration;

use dynamodb_idempotency::policy::Failure;
use dynamodb_idempotency::{ErrorKind, Outcome, RunError, Transaction};

use super::{Transferred, ran, transfer};
use crate::faq::invalid;
use crate::support::effects::{count, put, row};
use crate::support::{Charging, Declined, Link, Runs, Store, caller_on, crates, in_record, kind};

#[tokio::test]
async fn what_was_refused_or_failed_before_it_was_sent_leaves_nothing() {
    let (store, link, _, idempotency) = caller_on(Link::default()).await;
    let operation = || {
        idempotency
            .operation("o")
            .policy(|policy| policy.failure(Failure::Retain { max_attempts: 2 }))
            .unwrap()
            .key("k")
            .no_payload()
    };
    let failed: Transferred =
        operation().run_transaction_with_outcome(async || Err(Declined { run: 1 })).await;
    assert!(matches!(failed, Err(RunError::Handler(Declined { run: 1 }))), "{failed:?}");
    let refused: Transferred = operation()
        .run_transaction_with_outcome(async || Ok(Transaction::discard("no".to_owned())))
        .await;
    assert_eq!(refused.unwrap(), Outcome::NothingExecuted("no".to_owned()));
    let late = operation().deadline(link.clock.in_secs(-1));
    let late = transfer(late, store.table(), &Runs::default()).await;
    assert_eq!(kind(late), ErrorKind::DeadlineExceeded);
    let no_key = idempotency.operation("o").key("").no_payload();
    let no_key = transfer(no_key, store.table(), &Runs::default()).await;
    assert_eq!(kind(no_key), ErrorKind::InvalidInput);
    // Each of the first two has looked whether there is an answer already.
    assert_eq!(link.wire.requests(), ["GetItem"; 2]);
    assert_eq!(store.item("o#k").await, None);
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    let (store, link) = (Store::open().await, Link::default());
    let (idempotency, table) = (store.over(&link), store.table());
    let many = (0..100).map(|i| count(table, &format!("row{i}"))).collect();
    let large = put(table, row("a", &"x".repeat(400 << 10)));
    for (items, expected) in [
        (many, "100 items are more than the 99 that fit"),
        (
            vec![count(table, "a"), count(table, "a")],
            "items 0 and 1 are about the same item of a table",
        ),
        (vec![count(table, "o#k")], "item 0 is about the operation's own record"),
        (vec![large], "item 0 has 409607 bytes, more than DynamoDB's 400 KB"),
    ] {
        let result = idempotency
            .calling("o")
            .run_transaction(async || Ok::<_, Declined>(Transaction::new(1_u8).items(items)));
        assert_eq!(invalid(&crates(result.await)), expected);
    }
    let result = idempotency
        .operation("o")
        .policy(in_record)
        .unwrap()
        .key("k")
        .no_payload()
        .run_transaction(async || Ok::<_, Declined>(Transaction::new("x".repeat(400 << 10))));
    let message = invalid(&crates(result.await));
    assert!(message.starts_with("the answer, or the record with it, has "), "{message}");
    // Whether it was executed with another answer is looked up.
    assert_eq!(link.wire.requests(), ["GetItem"]);
}

/// DynamoDB could delete the record while a delayed copy of the transaction can still be applied.
#[tokio::test]
async fn a_retention_below_an_hour_is_refused_before_the_closure_runs() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    let kept_for = |seconds| {
        let retention = Duration::from_secs(seconds);
        let operation = idempotency.operation("o").policy(|policy| policy.retention(retention));
        operation.unwrap().key("k").no_payload()
    };
    for seconds in [60, 3_599] {
        let error = crates(transfer(kept_for(seconds), store.table(), &runs).await);
        assert_eq!((error.kind(), runs.count()), (ErrorKind::Configuration, 0));
        assert!(error.to_string().contains("Policy::retention is below 1 h"), "{error}");
    }
    assert_eq!(link.wire.requests(), [""; 0]);
    assert_eq!(transfer(kept_for(3_600), store.table(), &runs).await.unwrap(), ran(1));
}
