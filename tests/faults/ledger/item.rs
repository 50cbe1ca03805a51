//! Reads the attributes of a record that the ledger checks.

use serde_json::Value;

use crate::expression::number;
use crate::store::Item;

fn text<'a>(item: &'a Item, attribute: &str) -> &'a str {
    item.get(attribute).and_then(|value| value["S"].as_str()).unwrap_or_default()
}

pub(super) fn status(item: &Item) -> &str {
    text(item, "status")
}

/// The caller that owns the record. The simulation generates owner ids whose first byte is the caller.
pub(super) fn owner(item: &Item) -> usize {
    let byte = text(item, "owner").get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
    usize::from(byte.and_then(|byte| byte.checked_sub(0xa0)).unwrap_or(u8::MAX))
}

pub(super) fn attempt(item: &Item) -> i64 {
    item.get("attempt").map_or(0, number)
}

/// When the lease expires, in epoch milliseconds.
pub(super) fn lease(item: &Item) -> Option<i64> {
    item.get("lease_expires_at").map(number)
}

pub(super) fn is_held(item: &Item, now: i64) -> bool {
    status(item) == "PENDING" && lease(item).is_some_and(|lease| now <= lease)
}

/// An answer as it is stored.
pub(super) fn json(answer: &str) -> String {
    Value::from(answer).to_string()
}
