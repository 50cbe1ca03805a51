//! The caller's items. Items that DynamoDB would reject are rejected here, before anything is sent.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};

use crate::error::{Error, MAX_TRANSACTION_ITEMS};
use crate::store::Table;
use crate::store::key::RecordKey;
use crate::store::record::{self, Bound, Item, MAX_ITEM_BYTES};

/// DynamoDB's limit for all items of a transaction, in bytes.
const MAX_TRANSACTION_BYTES: usize = 4 * 1024 * 1024;

/// Checks the items of a transaction that contains a record of `record_bytes`, and sets that a failed
/// condition returns its item.
pub(crate) fn prepare(
    table: &Table,
    key: &RecordKey,
    record_bytes: usize,
    items: &mut [TransactWriteItem],
) -> Result<(), Error> {
    let total = record_bytes + check(items)?;
    if total > MAX_TRANSACTION_BYTES {
        let message = format!("the items have {total} bytes, more than DynamoDB's 4 MB");
        return Err(Error::invalid_transaction(message));
    }
    distinct(table, key, items)
}

/// Checks each item, and sets that a failed condition returns its item. Returns a lower bound of the size
/// of all items.
pub(super) fn check(items: &mut [TransactWriteItem]) -> Result<usize, Error> {
    if items.len() > MAX_TRANSACTION_ITEMS {
        let message =
            format!("{} items are more than the {MAX_TRANSACTION_ITEMS} that fit", items.len());
        return Err(Error::invalid_transaction(message));
    }
    let mut total = 0;
    for (index, item) in items.iter_mut().enumerate() {
        let operation = Operation::of(item).ok_or_else(|| {
            let message = "must be one put, update, delete or condition check";
            Error::invalid_transaction(format!("item {index} {message}"))
        })?;
        let (largest, sure) = operation.bytes();
        if largest > MAX_ITEM_BYTES {
            let message = format!("item {index} has {largest} bytes, more than DynamoDB's 400 KB");
            return Err(Error::invalid_transaction(message));
        }
        total += sure;
        operation.returning.get_or_insert(ReturnValuesOnConditionCheckFailure::AllOld);
    }
    Ok(total)
}

/// The error of an answer that is larger than `limit`, alone or with its record.
pub(super) fn answer_too_large(bytes: usize, limit: usize) -> Error {
    Error::invalid_transaction(format!(
        "the answer, or the record with it, has {bytes} bytes of at most {limit}: nothing was written. \
         Store a reference instead of the answer, or complete the operation without a transaction"
    ))
}

/// What the four kinds of items have in common.
struct Operation<'a> {
    table: &'a str,
    /// The key, or the whole item of a put.
    item: &'a Item,
    is_put: bool,
    values: Option<&'a HashMap<String, AttributeValue>>,
    returning: &'a mut Option<ReturnValuesOnConditionCheckFailure>,
}

macro_rules! operation {
    ($operation:expr, $item:ident, $is_put:literal) => {{
        let one = $operation;
        Some(Operation {
            table: &one.table_name,
            item: &one.$item,
            is_put: $is_put,
            values: one.expression_attribute_values.as_ref(),
            returning: &mut one.return_values_on_condition_check_failure,
        })
    }};
}

impl<'a> Operation<'a> {
    /// `None` if there is no operation in it, or several.
    fn of(item: &'a mut TransactWriteItem) -> Option<Self> {
        match (&mut item.put, &mut item.update, &mut item.delete, &mut item.condition_check) {
            (Some(one), None, None, None) => operation!(one, item, true),
            (None, Some(one), None, None) => operation!(one, key, false),
            (None, None, Some(one), None) => operation!(one, key, false),
            (None, None, None, Some(one)) => operation!(one, key, false),
            _ => None,
        }
    }

    /// Two sizes in bytes, both lower bounds. The first is that of the item (or key) or of the largest value
    /// in the expressions, whichever is larger. The second is that of the item (or key) alone.
    fn bytes(&self) -> (usize, usize) {
        let known = record::item_bytes(self.item, Bound::Lower);
        let values = self.values.into_iter().flat_map(HashMap::values);
        let largest = values.map(|value| record::value_bytes(value, Bound::Lower)).max();
        (largest.unwrap_or(0).max(known), known)
    }
}

/// Checks that no two operations are about the same item, and that none is about the record.
fn distinct(table: &Table, key: &RecordKey, items: &mut [TransactWriteItem]) -> Result<(), Error> {
    let own = record::key_item(&table.schema, key);
    let operations = items.iter_mut().filter_map(Operation::of);
    let operations =
        operations.map(|operation| (operation.table, operation.item, operation.is_put));
    let all: Vec<_> =
        std::iter::once((table.name.as_str(), &own, false)).chain(operations).collect();
    for (second, &(name, item, _)) in all.iter().enumerate() {
        // An operation that shows which attributes are the table's key. The item of a put does not.
        let key = all.iter().find(|(other, _, is_put)| !is_put && is_same_table(name, other));
        let is_same = |&(other, earlier, _): &(&str, &Item, bool)| {
            is_same_table(name, other)
                && key.map_or(earlier == item, |(_, key, _)| {
                    key.keys()
                        .all(|name| item.contains_key(name) && item.get(name) == earlier.get(name))
                })
        };
        let message = match all[..second].iter().position(is_same) {
            None => continue,
            Some(0) => format!("item {} is about the operation's own record", second - 1),
            Some(first) => {
                let (first, second) = (first - 1, second - 1);
                format!("items {first} and {second} are about the same item of a table")
            }
        };
        return Err(Error::invalid_transaction(message));
    }
    Ok(())
}

/// A table is named by its name or by its ARN.
fn is_same_table(a: &str, b: &str) -> bool {
    a == b || (a.starts_with("arn:") != b.starts_with("arn:") && bare(a) == bare(b))
}

fn bare(table: &str) -> &str {
    table.rsplit('/').next().unwrap_or(table)
}
