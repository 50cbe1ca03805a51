//! Builds records by hand, with the names, types and units of `docs/protocol.md`.

use std::collections::HashMap;
use std::time::SystemTime;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use sha2::{Digest, Sha256};

pub type Item = HashMap<String, AttributeValue>;

/// The owner of the records that this module builds.
pub const OTHER_OWNER: &str = "00000000000000000000000000000000";

/// An owner that is not [`OTHER_OWNER`].
pub const ANOTHER: &str = "11111111111111111111111111111111";

pub fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub fn n(number: impl Into<i64>) -> AttributeValue {
    AttributeValue::N(number.into().to_string())
}

pub fn key(pk: &str) -> Item {
    Item::from([("pk".to_owned(), s(pk))])
}

/// Now, in epoch milliseconds.
pub fn now() -> i64 {
    let now =
        super::made_up_time::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    now.as_millis().try_into().expect("before the year 292278994")
}

/// A PENDING record of another owner, without a payload: one minute of lease left, one day of retention.
pub fn pending(pk: &str) -> Item {
    let hash = Sha256::digest(b"dynamodb-idempotency/fingerprint/1\0");
    let fingerprint = [&[1], &hash[..]].concat();
    let mut item = key(pk);
    for (name, value) in [
        ("status", s("PENDING")),
        ("owner", s(OTHER_OWNER)),
        ("attempt", n(1)),
        ("fingerprint", AttributeValue::B(Blob::new(fingerprint))),
        ("lease_expires_at", n(now() + 60_000)),
        ("created_at", n(now())),
        ("expires_at", n(now() / 1000 + 86_400)),
        ("format", n(1)),
    ] {
        item.insert(name.to_owned(), value);
    }
    item
}

/// An abandoned record without a payload. Its lease expired a minute ago.
pub fn abandoned(pk: &str) -> Item {
    with(pending(pk), "lease_expires_at", n(now() - 60_000))
}

/// A COMPLETED record of another owner, without a payload, with an answer in JSON.
pub fn completed(pk: &str, json: &str) -> Item {
    let mut item = with(pending(pk), "status", s("COMPLETED"));
    item.remove("lease_expires_at");
    item.insert("completed_at".to_owned(), n(now()));
    item.insert("response".to_owned(), answer("json", json));
    item
}

/// A FAILED record of another owner, without a payload and without an answer.
pub fn failed(pk: &str) -> Item {
    let mut item = with(completed(pk, ""), "status", s("FAILED"));
    item.remove("response");
    item
}

/// A `response` of one field.
pub fn answer(field: &str, text: &str) -> AttributeValue {
    map(field, s(text))
}

/// A map of one member.
pub fn map(name: &str, value: AttributeValue) -> AttributeValue {
    AttributeValue::M(HashMap::from([(name.to_owned(), value)]))
}

pub fn with(mut item: Item, name: &str, value: AttributeValue) -> Item {
    item.insert(name.to_owned(), value);
    item
}

pub fn text<'a>(item: &'a Item, name: &str) -> &'a str {
    item.get(name).and_then(|value| value.as_s().ok()).unwrap_or_else(|| panic!("text {name}"))
}

pub fn number(item: &Item, name: &str) -> i64 {
    let value = item.get(name).and_then(|value| value.as_n().ok());
    value.unwrap_or_else(|| panic!("number {name}")).parse().expect("a whole number")
}

pub fn status(item: &Item) -> &str {
    text(item, "status")
}
