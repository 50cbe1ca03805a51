//! Rows from the caller's types, committed with an answer.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use dynamodb_idempotency::rows::Table;
use dynamodb_idempotency::{Error, ErrorKind, Outcome, Transaction};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::faq::invalid;
use crate::support::raw::{Item, status};
use crate::support::{Link, Store, caller, commit_kind};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    pk: String,
    cents: u64,
    rate: f64,
    least: i64,
    note: Option<String>,
    lines: Vec<BTreeMap<String, f32>>,
    #[serde(with = "serde_dynamo::string_set")]
    tags: Vec<String>,
    #[serde(with = "serde_dynamo::number_set")]
    sizes: Vec<u64>,
}

fn order() -> Order {
    Order {
        pk: "order-42".to_owned(),
        cents: u64::MAX,
        rate: 0.1,
        least: i64::MIN,
        note: None,
        lines: vec![BTreeMap::from([("price".to_owned(), 1.5)])],
        tags: vec!["new".to_owned()],
        sizes: vec![1],
    }
}

fn rows(store: &Store) -> Table {
    Table::new(store.table(), "pk")
}

#[tokio::test]
async fn a_committed_row_is_read_back_as_it_was() {
    let store = Store::open().await;
    let outcome =
        store.idempotency().operation("order").key("42").no_payload().run(async |execution| {
            execution.commit("accepted", [rows(&store).put_new(&order())?]).await?;
            Ok::<_, Error>(String::new())
        });
    assert_eq!(outcome.await.unwrap(), "accepted");
    let stored = store.item("order-42").await.expect("a row");
    assert_eq!(serde_dynamo::from_item::<_, Order>(stored).unwrap(), order());
}

#[tokio::test]
async fn a_row_of_json_is_stored_with_its_numbers() {
    let store = Store::open().await;
    let row = json!({"pk": "order-42", "cents": 1200, "lines": [{"price": 1.5}]});
    let outcome = store
        .idempotency()
        .operation("order")
        .key("42")
        .no_payload()
        .run(async |execution| execution.commit(&(), [rows(&store).put(&row)?]).await);
    outcome.await.unwrap();
    let stored = store.item("order-42").await.expect("a row");
    assert_eq!(stored["cents"].as_n().map(String::as_str), Ok("1200"));
    assert_eq!(serde_dynamo::from_item::<_, Value>(stored).unwrap(), row);
}

#[tokio::test]
async fn a_new_row_replaces_none() {
    let (store, _, idempotency) = caller().await;
    let earlier = Order { cents: 1, ..order() };
    let outcome =
        idempotency.operation("order").key("42").no_payload().run_with_outcome(async |execution| {
            let table = rows(&store);
            // Its answer is not this operation's.
            let other = idempotency
                .operation("order")
                .key("earlier")
                .no_payload()
                .run(async |execution| execution.commit(&(), [table.put_new(&earlier)?]).await);
            other.await.map_err(|error| error.into_handler().unwrap_or_else(|error| error))?;
            let result = execution.commit("accepted", [table.put_new(&order())?]).await;
            assert_eq!(commit_kind(&result), ErrorKind::ConditionFailed);
            let error = result.unwrap_err();
            let found = error.condition_failed().and_then(|failed| failed.item()).expect("the row");
            assert_eq!(serde_dynamo::from_item::<_, Order>(found.clone()).unwrap(), earlier);
            Ok::<_, Error>("taken".to_owned())
        });
    assert_eq!(outcome.await.unwrap(), Outcome::Executed("taken".to_owned()));
    let stored = store.item("order-42").await.expect("a row");
    assert_eq!(serde_dynamo::from_item::<_, Order>(stored).unwrap(), earlier);
}

#[tokio::test]
async fn counters_checks_and_deletions_hold_together_or_not_at_all() {
    let store = Store::open().await;
    let (idempotency, table) = (store.idempotency(), rows(&store));
    store.deposit("seats", 2).await;
    store.deposit("cart", 1).await;
    let book = async |key: &str| {
        let outcome =
            idempotency.operation("book").key(key).no_payload().run_transaction(async || {
                let items = [
                    table.take("seats", "count", 2)?,
                    table.add("sold", "count", 2)?,
                    table.check_absent("blocked")?,
                    table.check_equals("cart", "count", &1)?,
                ];
                let refuse = |failed: &dynamodb_idempotency::ConditionFailed| {
                    let all: Vec<_> = failed.all().map(|(index, _)| index).collect();
                    Some(format!("{all:?}"))
                };
                let answer = Transaction::new("booked".to_owned());
                Ok::<_, Error>(answer.items(items).on_condition_failed(refuse))
            });
        outcome.await.unwrap()
    };
    assert_eq!(book("1").await, "booked");
    assert_eq!(book("1").await, "booked");
    assert_eq!(book("2").await, "[0]");
    assert_eq!((store.counted("seats").await, store.counted("sold").await), (0, 2));

    store.deposit("blocked", 1).await;
    store.deposit("seats", 5).await;
    let empty = idempotency.operation("empty").key("1").no_payload().run_transaction(async || {
        let items = [table.delete("cart")?, table.check_exists("blocked")?];
        Ok::<_, Error>(Transaction::new(()).items(items))
    });
    empty.await.unwrap();
    assert!(store.item("cart").await.is_none());
    assert_eq!(book("3").await, "[2, 3]");
    assert_eq!((store.counted("seats").await, store.counted("sold").await), (5, 2));
}

#[tokio::test]
async fn a_row_that_dynamodb_cannot_hold_is_refused_before_anything_is_sent() {
    let (store, link) = (Store::open().await, Link::default());
    let outcome =
        store.over(&link).operation("order").key("42").no_payload().run(async |execution| {
            let mut wrong = order();
            wrong.lines[0].insert("price".to_owned(), f32::NAN);
            let error = rows(&store).put(&wrong).unwrap_err();
            let reason = "`: `lines[0].price` is infinite or not a number";
            assert!(invalid(&error).ends_with(reason), "{error}");
            for error in [
                rows(&store).delete("").unwrap_err(),
                rows(&store).add("a", "pk", 1).unwrap_err(),
                rows(&store).check_equals("a", "price", &f64::NAN).unwrap_err(),
            ] {
                invalid(&error);
            }
            assert_eq!(link.wire.requests(), ["PutItem"]);
            assert_eq!(status(&store.record("order#42").await), "PENDING");
            execution.commit("accepted", [rows(&store).put(&order())?]).await?;
            Ok::<_, Error>(String::new())
        });
    assert_eq!(outcome.await.unwrap(), "accepted");
}

/// The put of a row that this crate does not check, so that the store does.
fn unchecked(store: &Store, row: &Value) -> TransactWriteItem {
    let mut item: Item = serde_dynamo::to_item(row).unwrap();
    if let Value::Number(number) = &row["value"] {
        // With `arbitrary_precision`, `serde_dynamo` writes it as a map.
        item.insert("value".to_owned(), AttributeValue::N(number.to_string()));
    }
    let put = Put::builder().table_name(store.table()).set_item(Some(item)).build();
    TransactWriteItem::builder().put(put.unwrap()).build()
}

#[tokio::test]
async fn the_limits_are_those_of_the_store() {
    let store = Store::open().await;
    let nested = |lists: usize| (0..lists).fold(json!(true), |inner, _| json!([inner]));
    let key = |bytes: usize| json!("k".repeat(bytes));
    for (case, (pk, value, is_accepted)) in [
        (key(1), nested(31), true),
        (key(1), nested(32), false),
        (key(2), json!(9.9e125), true),
        (key(2), json!(1e126), false),
        (key(3), json!(-1e-130), true),
        (key(3), json!(9e-131), false),
        (key(4), json!(u64::MAX), true),
        (key(5), json!([{"name": ""}]), true),
        (key(5), json!([{"": "name"}]), false),
        (key(2048), json!(null), true),
        (key(2049), json!(null), false),
        (key(0), json!(null), false),
        (json!(true), json!(null), false),
    ]
    .into_iter()
    .enumerate()
    {
        let operation = store.idempotency().operation("order").key(case.to_string()).no_payload();
        let row = json!({"pk": pk, "value": value});
        let outcome = operation.run(async |execution| {
            let item = rows(&store).put(&row);
            assert_eq!(item.is_ok(), is_accepted, "{case}");
            execution.commit(&(), [item.unwrap_or_else(|_| unchecked(&store, &row))]).await
        });
        assert_eq!(outcome.await.is_ok(), is_accepted, "{case}");
    }
}
