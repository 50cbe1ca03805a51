//! Items and answers that are refused, by the crate or by DynamoDB.

use aws_sdk_dynamodb::types::TransactWriteItem;
use dynamodb_idempotency::{Error, ErrorKind, MAX_TRANSACTION_ITEMS};

use super::{book, book_in};
use crate::faq::invalid;
use crate::support::effects::{check, count, credit, delete, put, row};
use crate::support::{
    Act, Charging, Link, Runs, Store, caller_on, commit_kind, executed, handlers, in_record, raw,
};

/// What it is, the items, and the message.
type Case = (&'static str, Vec<TransactWriteItem>, &'static str);

/// Commits the items of each case, made for the table that holds the record.
async fn are_refused_before_anything_is_sent(cases: impl FnOnce(&str) -> Vec<Case>) {
    let (store, link, _, idempotency) = caller_on(Link::default()).await;
    for (case, items, expected) in cases(store.table()) {
        let result = idempotency.charging().run(async |execution| {
            link.wire.forget();
            let result = execution.commit("paid", items).await;
            assert_eq!(link.wire.requests(), [""; 0], "{case}");
            result
        });
        assert_eq!(invalid(&handlers(result.await)), expected, "{case}");
    }
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    are_refused_before_anything_is_sent(|table| {
        let many = (0..=MAX_TRANSACTION_ITEMS).map(|i| count(table, &format!("row{i}")));
        let none = TransactWriteItem::builder().build();
        let mut two = count(table, "a");
        two.delete = delete(table, "b").delete;
        let big = put(table, row("a", &"x".repeat(400 * 1024)));
        vec![
            ("a hundred", many.collect(), "100 items are more than the 99 that fit"),
            (
                "no operation",
                vec![count(table, "a"), none],
                "item 1 must be one put, update, delete or condition check",
            ),
            (
                "two operations",
                vec![two],
                "item 0 must be one put, update, delete or condition check",
            ),
            (
                "an item over 400 KB",
                vec![big],
                "item 0 has 409607 bytes, more than DynamoDB's 400 KB",
            ),
        ]
    })
    .await;
}

fn arn(table: &str) -> String {
    format!("arn:aws:dynamodb:us-east-1:000000000000:table/{table}")
}

#[tokio::test]
async fn one_item_twice_is_refused_before_anything_is_sent() {
    are_refused_before_anything_is_sent(|table| {
        let first_and_second = "items 0 and 1 are about the same item of a table";
        vec![
            (
                "one key twice",
                vec![count(table, "a"), count(table, "b"), delete(table, "a")],
                "items 0 and 2 are about the same item of a table",
            ),
            (
                "one key twice, once by ARN",
                vec![count(table, "a"), check(&arn(table), "a")],
                first_and_second,
            ),
            (
                "two puts on one key",
                vec![put(table, row("a", "1")), put(table, row("a", "2"))],
                first_and_second,
            ),
            (
                "two puts on one key of a table whose key another item names",
                vec![put("t", row("a", "1")), put("t", row("a", "2")), check("t", "b")],
                first_and_second,
            ),
            (
                "a put and a delete on one key",
                vec![put("t", row("a", "1")), delete("t", "a")],
                first_and_second,
            ),
        ]
    })
    .await;
}

#[tokio::test]
async fn the_own_record_is_refused_before_anything_is_sent() {
    are_refused_before_anything_is_sent(|table| {
        vec![
            (
                "by name",
                vec![count(table, "a"), delete(table, "charge#k")],
                "item 1 is about the operation's own record",
            ),
            (
                "by ARN",
                vec![put(&arn(table), raw::key("charge#k"))],
                "item 0 is about the operation's own record",
            ),
        ]
    })
    .await;
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_the_record_stays_owned() {
    let (store, link) = (Store::open().await, Link::default());
    let table = store.table();
    let big = |pk: &str| put(table, row(pk, &"x".repeat(380 * 1024)));
    let most = || (0..MAX_TRANSACTION_ITEMS).map(|i| count(table, &format!("row{i}")));
    let result = store.by(&link, in_record).charging().run(async |execution| {
        let items: Vec<_> = (0..11).map(|i| big(&format!("row{i}"))).collect();
        let result = execution.commit("paid", items).await;
        let error = invalid(&result.unwrap_err());
        let bytes = error.strip_prefix("the items have ").and_then(|rest| {
            rest.strip_suffix(" bytes, more than DynamoDB's 4 MB")?.parse::<usize>().ok()
        });
        assert!(bytes.is_some_and(|bytes| bytes > 4 << 20), "{error}");
        let result = execution.commit(&"x".repeat(400 * 1024), []).await;
        let error = invalid(&result.unwrap_err());
        let bytes =
            error.strip_prefix("the answer, or the record with it, has ").and_then(|rest| {
                rest.split_once(" bytes of at most 409600: ")?.0.parse::<usize>().ok()
            });
        assert!(bytes.is_some_and(|bytes| bytes > 400 << 10), "{error}");
        let no_json = std::collections::HashMap::from([(vec![1], 1)]);
        let result = execution.commit(&no_json, []).await;
        let error = invalid(&result.unwrap_err());
        assert!(error.starts_with("the answer cannot be serialized: "), "{error}");
        assert_eq!(link.wire.requests(), ["PutItem"]);
        execution.commit("paid", most()).await?;
        Ok::<_, Error>(String::new())
    });
    assert_eq!(result.await.unwrap(), "paid");
    assert_eq!(store.counted("row98").await, 1);
}

#[tokio::test]
async fn what_only_dynamodb_can_refuse_is_an_error_of_the_items() {
    let (store, runs) = (Store::open().await, Runs::default());
    let (idempotency, table) = (store.idempotency(), store.table());
    let outcome = idempotency.charging().run_with_outcome(async |execution| {
        let mut wrong = credit(table, "a", 1);
        wrong.update.as_mut().unwrap().update_expression = "ADD".to_owned();
        let result = execution.commit("paid", [wrong]).await;
        let error = invalid(&result.unwrap_err());
        assert!(error.starts_with("DynamoDB rejects the transaction: "), "{error}");
        let result = execution.commit("paid", [count("no-such-table", "a")]).await;
        assert_eq!(commit_kind(&result), ErrorKind::Configuration);
        book_in(&execution, table, &runs).await
    });
    assert_eq!(outcome.await.unwrap(), executed(1, 1));
    assert_eq!(store.counted("effect").await, 1);
}

/// DynamoDB does not say which table is missing.
#[tokio::test]
async fn a_missing_table_of_a_transaction_is_among_those_that_are_named() {
    let (store, runs) = (Store::open().await, Runs::default());
    let operation = store.idempotency();
    let operation = operation.charging();
    let error = handlers(book(operation, "no-such-table", &runs).await).to_string();
    for table in [store.table(), "no-such-table"] {
        assert!(error.contains(&format!("`{table}`")), "{error}");
    }
}

#[tokio::test]
async fn a_missing_permission_is_reported_at_once() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    link.wire.next("TransactWriteItems", Act::Answer(400, "AccessDeniedException"));
    let result = book(store.over(&link).charging(), store.table(), &runs).await;
    let error = handlers(result);
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("ConditionCheckItem"), "{error}");
    assert!(store.is_released("charge#k").await);
}
