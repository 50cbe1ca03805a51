//! IAM permissions that a request needs.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use dynamodb_idempotency::testing::transport::Request;
use serde_json::Value;

/// The contract between the crate and `infra/`. The tests of `infra/` compare both templates with it.
pub static CONTRACT: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../infra/contract.json")).expect("it is JSON")
});

/// The actions that a function's role is granted.
pub static GRANTED: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    serde_json::from_value(CONTRACT["actions"].clone()).expect("it is a list of names")
});

/// The operations of `create_table`, which no function needs.
const SET_UP: [&str; 3] = ["CreateTable", "DescribeTable", "UpdateTimeToLive"];

/// One request, or the record's part in a transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Its name in IAM policies: `dynamodb:PutItem`.
    pub action: String,
    /// The value of the partition key, if the request is about one item.
    pub leading_key: Option<String>,
}

impl Access {
    /// A transaction has no separate IAM action: each item requires the action of the same write
    /// outside a transaction. The record is the first item; the caller grants access to the others.
    pub(crate) fn of(Request { operation, body }: &Request) -> Self {
        let Some(first) = body["TransactItems"].get(0) else {
            return Self::to_item(operation, body);
        };
        let (kind, item) = first.as_object().and_then(|item| item.iter().next()).expect("a write");
        Self::to_item(&format!("{kind}Item"), item)
    }

    /// Whether a function of `infra/`, or `create_table`, has this permission.
    pub(crate) fn is_granted(&self) -> bool {
        GRANTED.contains(&self.action)
            || SET_UP.iter().any(|operation| self.action == format!("dynamodb:{operation}"))
    }

    /// Whether it is about a part of an answer.
    pub fn is_part(&self) -> bool {
        self.leading_key.as_ref().is_some_and(|key| key.contains("/%p/"))
    }

    fn to_item(operation: &str, request: &Value) -> Self {
        let key = ["Key", "Item"].iter().find_map(|holder| request[holder]["pk"]["S"].as_str());
        Self { action: format!("dynamodb:{operation}"), leading_key: key.map(str::to_owned) }
    }
}
