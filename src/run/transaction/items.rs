//! The caller's items. Items that DynamoDB would reject are rejected here, before anything is sent.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};

use crate::error::{Error, MAX_TRANSACTION_ITEMS};
use crate::store::Table;
use crate::store::key::RecordKey;
use crate::store::record::{self, Bound, Item, MAX_ITEM_BYTES, OwnerId};

/// DynamoDB's limit for all items of a transaction, in bytes.
const MAX_TRANSACTION_BYTES: usize = 4 * 1024 * 1024;

/// Checks the items of a transaction that contains the record, and sets that a failed condition returns
/// its item.
pub(crate) fn prepare(
    table: &Table,
    key: &RecordKey,
    record_bytes: usize,
    items: &mut [TransactWriteItem],
) -> Result<(), Error> {
    let total = check(items)?;
    fit(record_bytes, total)?;
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

/// Checks that the record fits into a transaction whose other items have `others` bytes.
fn fit(bytes: usize, others: usize) -> Result<(), Error> {
    if bytes > MAX_ITEM_BYTES {
        return Err(answer_too_large(bytes, MAX_ITEM_BYTES));
    }
    let total = bytes + others;
    if total > MAX_TRANSACTION_BYTES {
        let message = format!("the items have {total} bytes, more than DynamoDB's 4 MB");
        return Err(Error::invalid_transaction(message));
    }
    Ok(())
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
    target: Target<'a>,
    values: Option<&'a HashMap<String, AttributeValue>>,
    returning: &'a mut Option<ReturnValuesOnConditionCheckFailure>,
}

/// How an operation identifies its item.
#[derive(Clone, Copy)]
enum Target<'a> {
    Key(&'a Item),
    /// The whole item. Which of its attributes are the key depends on the table.
    Whole(&'a Item),
}

macro_rules! operation {
    ($operation:expr, $target:ident, $known:ident) => {{
        let one = $operation;
        Some(Operation {
            table: &one.table_name,
            target: Target::$target(&one.$known),
            values: one.expression_attribute_values.as_ref(),
            returning: &mut one.return_values_on_condition_check_failure,
        })
    }};
}

impl<'a> Operation<'a> {
    /// `None` if there is no operation in it, or several.
    fn of(item: &'a mut TransactWriteItem) -> Option<Self> {
        match (&mut item.put, &mut item.update, &mut item.delete, &mut item.condition_check) {
            (Some(one), None, None, None) => operation!(one, Whole, item),
            (None, Some(one), None, None) => operation!(one, Key, key),
            (None, None, Some(one), None) => operation!(one, Key, key),
            (None, None, None, Some(one)) => operation!(one, Key, key),
            _ => None,
        }
    }

    /// Two lower bounds: of the largest item or value, and of what counts for the transaction's size.
    /// DynamoDB itself rejects what is too large and passes this check.
    fn bytes(&self) -> (usize, usize) {
        let (Target::Key(known) | Target::Whole(known)) = self.target;
        let known = record::item_bytes(known, Bound::Lower);
        let values = self.values.into_iter().flat_map(HashMap::values);
        let largest = values.map(|value| record::value_bytes(value, Bound::Lower)).max();
        (largest.unwrap_or(0).max(known), known)
    }
}

/// Checks that no two operations have the same item, and that none has the record.
fn distinct(table: &Table, key: &RecordKey, items: &mut [TransactWriteItem]) -> Result<(), Error> {
    let own = record::key_item(&table.schema, key);
    let operations: Vec<(&str, Target<'_>)> = items
        .iter_mut()
        .filter_map(Operation::of)
        .map(|operation| (operation.table, operation.target))
        .collect();
    for (index, (name, target)) in operations.iter().enumerate() {
        if is_same_table(name, &table.name) && is_about(*target, &own) {
            let message = format!("item {index} is about the operation's own record");
            return Err(Error::invalid_transaction(message));
        }
    }
    for (second, (name, target)) in operations.iter().enumerate() {
        let same = |(other, earlier): &(&str, Target<'_>)| {
            is_same_table(name, other)
                && match (*earlier, *target) {
                    (Target::Key(a), Target::Key(b)) => a == b,
                    (Target::Key(key), whole @ Target::Whole(_))
                    | (whole @ Target::Whole(_), Target::Key(key)) => is_about(whole, key),
                    (a @ Target::Whole(whole), b @ Target::Whole(other)) => {
                        whole == other
                            || names(table, &operations, name)
                                .is_some_and(|names| is_same_by(&names, a, b))
                    }
                }
        };
        if let Some(first) = operations[..second].iter().position(same) {
            let message = format!("items {first} and {second} are about the same item of a table");
            return Err(Error::invalid_transaction(message));
        }
    }
    Ok(())
}

/// The names of a table's key, where they are known: of the crate's own table, and of one that
/// another operation names by its key.
fn names(own: &Table, operations: &[(&str, Target<'_>)], table: &str) -> Option<Vec<String>> {
    if is_same_table(table, &own.name) {
        return Some(own.schema.key_names().map(str::to_owned).collect());
    }
    operations.iter().find_map(|(name, target)| match target {
        Target::Key(key) if is_same_table(name, table) => Some(key.keys().cloned().collect()),
        Target::Key(_) | Target::Whole(_) => None,
    })
}

fn is_same_by(names: &[String], a: Target<'_>, b: Target<'_>) -> bool {
    let (Target::Key(a) | Target::Whole(a)) = a;
    let (Target::Key(b) | Target::Whole(b)) = b;
    names.iter().all(|name| a.get(name).is_some_and(|value| b.get(name) == Some(value)))
}

fn is_about(target: Target<'_>, key: &Item) -> bool {
    let (Target::Key(item) | Target::Whole(item)) = target;
    key.iter().all(|(name, value)| item.get(name) == Some(value))
}

/// A table is named by its name or by its ARN.
fn is_same_table(a: &str, b: &str) -> bool {
    a == b || (a.starts_with("arn:") != b.starts_with("arn:") && bare(a) == bare(b))
}

fn bare(table: &str) -> &str {
    table.rsplit('/').next().unwrap_or(table)
}

/// DynamoDB's client request token, at most 36 bytes: the same for each try of one transaction. It only
/// saves work. The condition of the record prevents a second application.
pub(crate) fn token(owner: OwnerId, number: u32) -> String {
    const MAX_BYTES: usize = 36;
    let number = number.to_string();
    let room = MAX_BYTES - 1 - number.len();
    let owner = owner.to_string();
    format!("{}-{number}", owner.get(..room).unwrap_or(&owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_and_differs_by_its_number() {
        let owner = OwnerId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(token(owner, 1), format!("{owner}-1"));
        assert_eq!(token(owner, 999).len(), 36);
        assert_eq!(token(owner, 1000).len(), 36);
        assert_eq!(token(owner, u32::MAX).len(), 36);
        assert_ne!(token(owner, 999), token(owner, 1000));
    }
}
