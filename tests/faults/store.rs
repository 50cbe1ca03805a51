//! The model store: one table in memory, with exactly the operations that the crate sends. The
//! differential test holds it to a real engine.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::expression::{Placeholders, holds, number, update};

/// An item in DynamoDB's JSON: `{"status": {"S": "PENDING"}, …}`.
pub(crate) type Item = BTreeMap<String, Value>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Get,
    Put,
    Update,
    Delete,
}

impl Operation {
    /// By the `X-Amz-Target` header.
    pub(crate) fn of(target: &str) -> Self {
        match target.rsplit('.').next() {
            Some("GetItem") => Self::Get,
            Some("PutItem") => Self::Put,
            Some("UpdateItem") => Self::Update,
            Some("DeleteItem") => Self::Delete,
            _ => panic!("the model store does not know {target}"),
        }
    }

    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::Get => "DynamoDB_20120810.GetItem",
            Self::Put => "DynamoDB_20120810.PutItem",
            Self::Update => "DynamoDB_20120810.UpdateItem",
            Self::Delete => "DynamoDB_20120810.DeleteItem",
        }
    }
}

/// What the store did with one request.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) before: Option<Item>,
    pub(crate) after: Option<Item>,
    /// Whether a write was refused by its condition.
    pub(crate) is_refused: bool,
    pub(crate) status: u16,
    pub(crate) body: Value,
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    items: BTreeMap<String, Item>,
}

impl Store {
    pub(crate) fn items(&self) -> &BTreeMap<String, Item> {
        &self.items
    }

    /// The one item of a simulation with one key.
    pub(crate) fn item(&self) -> Option<&Item> {
        self.items.values().next()
    }

    pub(crate) fn execute(&mut self, operation: Operation, body: &Value) -> Executed {
        let executed = self.dry_run(operation, body);
        let key = key(operation, body);
        match &executed.after {
            Some(item) => self.items.insert(key, item.clone()),
            None => self.items.remove(&key),
        };
        executed
    }

    /// What [`execute`](Self::execute) would do.
    pub(crate) fn dry_run(&self, operation: Operation, body: &Value) -> Executed {
        let before = self.items.get(&key(operation, body)).cloned();
        if operation == Operation::Get {
            assert_eq!(body.get("ConsistentRead"), Some(&Value::Bool(true)), "{body}");
            let body = before.as_ref().map_or_else(|| json!({}), |item| json!({ "Item": item }));
            return executed(before.clone(), before, body);
        }
        let placeholders = Placeholders::of(body);
        let condition = text(body, "ConditionExpression").unwrap_or_default();
        if !condition.is_empty() && !holds(condition, &placeholders, before.as_ref()) {
            return refused(before, body);
        }
        let after = match operation {
            Operation::Get | Operation::Delete => None,
            Operation::Put => Some(item(&body["Item"])),
            Operation::Update => {
                let mut item = before.clone().unwrap_or_else(|| item(&body["Key"]));
                let expression = text(body, "UpdateExpression").expect("the crate sends one");
                update(expression, &placeholders, &mut item);
                Some(item)
            }
        };
        executed(before, after, json!({}))
    }

    /// What DynamoDB does, some time, with items whose `expires_at` is past; returns them.
    pub(crate) fn expire(&mut self, now: i64) -> Vec<Item> {
        self.items.extract_if(.., |_, item| is_expired(item, now)).map(|(_, item)| item).collect()
    }
}

/// Whether TTL may delete the item, at `now` in epoch milliseconds.
pub(crate) fn is_expired(item: &Item, now: i64) -> bool {
    item.get("expires_at").is_some_and(|expires_at| number(expires_at) * 1000 < now)
}

fn key(operation: Operation, body: &Value) -> String {
    let holder = if operation == Operation::Put { &body["Item"] } else { &body["Key"] };
    holder["pk"]["S"].as_str().expect("the key is a string").to_owned()
}

fn text<'a>(body: &'a Value, name: &str) -> Option<&'a str> {
    body.get(name).and_then(Value::as_str)
}

fn item(value: &Value) -> Item {
    let fields = value.as_object().expect("an item is an object");
    fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn executed(before: Option<Item>, after: Option<Item>, body: Value) -> Executed {
    Executed { before, after, is_refused: false, status: 200, body }
}

fn refused(before: Option<Item>, request: &Value) -> Executed {
    let mut body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
        "message": "The conditional request failed",
    });
    if let Some(item) = before.as_ref()
        && text(request, "ReturnValuesOnConditionCheckFailure") == Some("ALL_OLD")
    {
        body["Item"] = json!(item);
    }
    Executed { before: before.clone(), after: before, is_refused: true, status: 400, body }
}
