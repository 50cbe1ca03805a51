//! Business writes: rows of the same table that count how often they were written.

use aws_sdk_dynamodb::types::{ConditionCheck, Delete, Put, TransactWriteItem, Update};

use super::Store;
use super::raw::{self, Item, key, n};

/// Adds one to the count of a row, so the count shows how often it was applied.
pub fn count(table: &str, row: &str) -> TransactWriteItem {
    update(adding(table, row, 1))
}

/// Takes `amount` from a row, which must hold at least as much.
pub fn debit(table: &str, row: &str, amount: i64) -> TransactWriteItem {
    let debit = adding(table, row, -amount)
        .condition_expression("#count >= :amount")
        .expression_attribute_values(":amount", n(amount));
    update(debit)
}

/// Adds `amount` to a row.
pub fn credit(table: &str, row: &str, amount: i64) -> TransactWriteItem {
    update(adding(table, row, amount))
}

fn adding(table: &str, row: &str, by: i64) -> aws_sdk_dynamodb::types::builders::UpdateBuilder {
    Update::builder()
        .table_name(table)
        .set_key(Some(key(row)))
        .update_expression("ADD #count :by")
        .expression_attribute_names("#count", "count")
        .expression_attribute_values(":by", n(by))
}

fn update(update: aws_sdk_dynamodb::types::builders::UpdateBuilder) -> TransactWriteItem {
    TransactWriteItem::builder().update(update.build().expect("it is whole")).build()
}

pub fn put(table: &str, item: Item) -> TransactWriteItem {
    let put = Put::builder().table_name(table).set_item(Some(item)).build();
    TransactWriteItem::builder().put(put.expect("it is whole")).build()
}

pub fn delete(table: &str, row: &str) -> TransactWriteItem {
    let delete = Delete::builder().table_name(table).set_key(Some(key(row))).build();
    TransactWriteItem::builder().delete(delete.expect("it is whole")).build()
}

/// Requires that the row exists.
pub fn check(table: &str, row: &str) -> TransactWriteItem {
    let check = ConditionCheck::builder()
        .table_name(table)
        .set_key(Some(key(row)))
        .condition_expression("attribute_exists(pk)")
        .build();
    TransactWriteItem::builder().condition_check(check.expect("it is whole")).build()
}

/// A row with a text in it.
pub fn row(pk: &str, text: &str) -> Item {
    raw::with(key(pk), "text", raw::s(text))
}

impl Store {
    /// The count of a row; 0 if the row is absent.
    pub async fn counted(&self, row: &str) -> i64 {
        self.item(row).await.map_or(0, |item| raw::number(&item, "count"))
    }

    /// Writes a row that holds `amount`.
    pub async fn deposit(&self, row: &str, amount: i64) {
        self.put(raw::with(key(row), "count", n(amount))).await;
    }
}
