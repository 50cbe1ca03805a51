//! The model store: tables in memory with exactly the operations that the crate sends. The differential
//! test compares it with a real engine.
//!
//! It ignores the client request token of a transaction, as if every repeated request arrived after the ten
//! minutes for which DynamoDB keeps a token. The crate must be correct without it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use dynamodb_idempotency::testing::transport::Response;
use serde_json::{Value, json};

use crate::expression::{Placeholders, holds, number, update};

/// The table of the records. All other tables belong to the application.
pub(crate) const RECORDS: &str = "table";

/// An item in DynamoDB's JSON: `{"status": {"S": "PENDING"}, …}`.
pub(crate) type Item = BTreeMap<String, Value>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Get,
    Put,
    Update,
    /// For TTL. No call sends it.
    Delete,
    Transact,
}

impl Operation {
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "GetItem" => Self::Get,
            "PutItem" => Self::Put,
            "UpdateItem" => Self::Update,
            "TransactWriteItems" => Self::Transact,
            _ => panic!("the model store does not implement {name}"),
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Get => "GetItem",
            Self::Put => "PutItem",
            Self::Update => "UpdateItem",
            Self::Delete => "DeleteItem",
            Self::Transact => "TransactWriteItems",
        }
    }
}

/// What the store did with one request.
#[derive(Debug)]
pub(crate) struct Executed {
    /// The item before the request. For a transaction this is the record, its first item.
    pub(crate) before: Option<Item>,
    pub(crate) after: Option<Item>,
    /// Whether the condition of a write failed.
    pub(crate) is_rejected: bool,
    pub(crate) status: u16,
    pub(crate) body: Value,
    writes: Vec<Write>,
}

impl Executed {
    pub(crate) fn response(&self) -> Response {
        Response::new(self.status, &self.body)
    }
}

/// A write to one item: the item before and after it, and whether its condition holds.
#[derive(Clone, Debug)]
struct Write {
    key: Key,
    before: Option<Item>,
    after: Option<Item>,
    holds: bool,
}

/// Table and partition key.
pub(crate) type Key = (String, String);

#[derive(Debug, Default)]
pub(crate) struct Store {
    items: BTreeMap<Key, Item>,
    /// Each item before the last write that changed it.
    earlier: BTreeMap<Key, Option<Item>>,
}

impl Store {
    pub(crate) fn items(&self) -> &BTreeMap<Key, Item> {
        &self.items
    }

    /// The record. A simulation has one key.
    pub(crate) fn record(&self) -> Option<&Item> {
        let is_record = |(table, pk): &Key| table == RECORDS && !is_part(pk);
        self.items.iter().find(|(key, _)| is_record(key)).map(|(_, item)| item)
    }

    /// The stored answer of a finished record as JSON, from the record or from its parts. `None` if the
    /// answer is missing or incomplete.
    pub(crate) fn answer(&self, record: &Item) -> Option<String> {
        if let Some(bytes) = record.get("response")?["B"].as_str() {
            // The answer follows its codec (always raw here) and its length.
            return flat(BASE64.decode(bytes).ok()?.strip_prefix(&[0])?.get(4..)?);
        }
        let response = &record.get("response")?["M"];
        if let Some(json) = response["json"]["S"].as_str() {
            return Some(json.to_owned());
        }
        let count: usize = response["parts"]["N"].as_str()?.parse().ok()?;
        let total: usize = response["bytes"]["N"].as_str()?.parse().ok()?;
        // A call can have written the parts of its hook's answer, and later those of its handler's answer.
        let digest = BASE64.decode(response["sha256"]["B"].as_str()?).ok()?;
        let digest = u64::from_be_bytes(digest.get(..8)?.try_into().ok()?);
        let named = format!("{}#{digest:016x}/", record["owner"]["S"].as_str()?);
        let mut parts: Vec<(usize, &Item)> = self
            .items
            .iter()
            .filter(|((_, pk), _)| is_part(pk) && pk.contains(&named))
            .filter_map(|((_, pk), part)| Some((pk.rsplit('/').next()?.parse().ok()?, part)))
            .collect();
        parts.sort_unstable_by_key(|(number, _)| *number);
        let bytes: Vec<u8> = parts
            .iter()
            .take(count)
            .filter_map(|(_, part)| BASE64.decode(part["response"]["B"].as_str()?).ok())
            .flatten()
            .collect();
        if bytes.len() == total { flat(&bytes) } else { None }
    }

    /// A stale read: the item before the last write to it.
    pub(crate) fn stale(&self, body: &Value) -> Executed {
        let key = key(Operation::Get, body);
        let before = self.earlier.get(&key).cloned().unwrap_or_default();
        got(before)
    }

    /// Every item that a stale read can return.
    pub(crate) fn earlier(&self) -> impl Iterator<Item = (&Key, &Option<Item>)> {
        self.earlier.iter()
    }

    pub(crate) fn execute(&mut self, operation: Operation, body: &Value) -> Executed {
        let executed = self.dry_run(operation, body);
        for Write { key, before, after, .. } in &executed.writes {
            if before != after {
                self.earlier.insert(key.clone(), before.clone());
            }
            match after {
                Some(item) => self.items.insert(key.clone(), item.clone()),
                None => self.items.remove(key),
            };
        }
        executed
    }

    /// What [`execute`](Self::execute) would do, without a change.
    pub(crate) fn dry_run(&self, operation: Operation, body: &Value) -> Executed {
        match operation {
            Operation::Get => self.get(body),
            Operation::Transact => self.transaction(body),
            Operation::Delete => panic!("the model store deletes only by TTL"),
            Operation::Put | Operation::Update => {
                let write = self.write(operation, body);
                if write.holds { executed(vec![write]) } else { rejected(&write, body) }
            }
        }
    }

    fn get(&self, body: &Value) -> Executed {
        got(self.items.get(&key(Operation::Get, body)).cloned())
    }

    fn write(&self, operation: Operation, body: &Value) -> Write {
        let key = key(operation, body);
        let before = self.items.get(&key).cloned();
        let placeholders = Placeholders::of(body);
        let condition = text(body, "ConditionExpression").unwrap_or_default();
        let holds = condition.is_empty() || holds(condition, &placeholders, before.as_ref());
        let after = match operation {
            _ if !holds => before.clone(),
            Operation::Put => Some(item(&body["Item"])),
            Operation::Update => {
                let mut item = before.clone().unwrap_or_else(|| item(&body["Key"]));
                let expression = text(body, "UpdateExpression").expect("the crate sends one");
                update(expression, &placeholders, &mut item);
                Some(item)
            }
            _ => None,
        };
        Write { key, before, after, holds }
    }

    /// Applies all writes or none. The record is the first item.
    fn transaction(&self, body: &Value) -> Executed {
        let items = body["TransactItems"].as_array().expect("a transaction has items");
        let parts: Vec<(&Value, Write)> = items
            .iter()
            .map(|item| {
                let (kind, part) =
                    item.as_object().and_then(|item| item.iter().next()).expect("an item");
                let operation = match kind.as_str() {
                    "Put" => Operation::Put,
                    "Update" => Operation::Update,
                    other => panic!("the model store does not implement {other} in a transaction"),
                };
                (part, self.write(operation, part))
            })
            .collect();
        if parts.iter().all(|(_, write)| write.holds) {
            return executed(parts.into_iter().map(|(_, write)| write).collect());
        }
        let reasons: Vec<Value> = parts.iter().map(|(part, write)| reason(part, write)).collect();
        let codes: Vec<&str> =
            reasons.iter().map(|reason| text(reason, "Code").unwrap_or_default()).collect();
        let body = json!({
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "Message": format!(
                "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
                codes.join(", ")
            ),
            "CancellationReasons": reasons,
        });
        let before = parts.into_iter().next().and_then(|(_, write)| write.before);
        let (after, writes) = (before.clone(), Vec::new());
        Executed { before, after, is_rejected: true, status: 400, body, writes }
    }

    /// Deletes the items whose `expires_at` has passed, as TTL does at some time, and returns them.
    pub(crate) fn expire(&mut self, now: i64) -> Vec<Item> {
        let expired = |_: &Key, item: &mut Item| is_expired(item, now);
        let expired: Vec<_> = self.items.extract_if(.., expired).collect();
        let earlier = expired.iter().map(|(key, item)| (key.clone(), Some(item.clone())));
        self.earlier.extend(earlier);
        expired.into_iter().map(|(_, item)| item).collect()
    }
}

/// The text of an answer in the compact form, which ends with a trailer of five bytes.
fn flat(bytes: &[u8]) -> Option<String> {
    let text = bytes.get(..bytes.len().checked_sub(5)?)?;
    String::from_utf8(text.to_vec()).ok()
}

/// Whether this is the key of a part of an answer.
pub(crate) fn is_part(pk: &str) -> bool {
    pk.contains("/%p/")
}

/// Whether a request is an eventually consistent read.
pub(crate) fn is_eventual(operation: Operation, body: &Value) -> bool {
    operation == Operation::Get && body["ConsistentRead"] != Value::Bool(true)
}

/// The `pk` of the item that a request reads or writes. `None` for a transaction.
pub(crate) fn pk(operation: Operation, body: &Value) -> Option<&str> {
    let holder = if operation == Operation::Put { &body["Item"] } else { &body["Key"] };
    holder["pk"]["S"].as_str()
}

fn got(item: Option<Item>) -> Executed {
    let body = item.as_ref().map_or_else(|| json!({}), |item| json!({ "Item": item }));
    let (before, after, writes) = (item.clone(), item, Vec::new());
    Executed { before, after, is_rejected: false, status: 200, body, writes }
}

/// Whether TTL may delete the item, at `now` in epoch milliseconds.
pub(crate) fn is_expired(item: &Item, now: i64) -> bool {
    item.get("expires_at").is_some_and(|expires_at| number(expires_at) * 1000 < now)
}

fn key(operation: Operation, body: &Value) -> Key {
    let table = text(body, "TableName").expect("a request has a table name").to_owned();
    (table, pk(operation, body).expect("the key is a string").to_owned())
}

fn text<'a>(body: &'a Value, name: &str) -> Option<&'a str> {
    body.get(name).and_then(Value::as_str)
}

fn item(value: &Value) -> Item {
    let fields = value.as_object().expect("an item is an object");
    fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn executed(writes: Vec<Write>) -> Executed {
    let Write { before, after, .. } = writes[0].clone();
    Executed { before, after, is_rejected: false, status: 200, body: json!({}), writes }
}

fn rejected(write: &Write, request: &Value) -> Executed {
    let mut body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
        "message": "The conditional request failed",
    });
    if let Some(item) = shown(write, request) {
        body["Item"] = json!(item);
    }
    let (before, after) = (write.before.clone(), write.before.clone());
    Executed { before, after, is_rejected: true, status: 400, body, writes: Vec::new() }
}

/// The cancellation reason of one item of a transaction.
fn reason(request: &Value, write: &Write) -> Value {
    if write.holds {
        return json!({ "Code": "None" });
    }
    let mut reason = json!({
        "Code": "ConditionalCheckFailed",
        "Message": "The conditional request failed",
    });
    if let Some(item) = shown(write, request) {
        reason["Item"] = json!(item);
    }
    reason
}

/// The item that a rejected write returns, if the request asks for it.
fn shown<'a>(write: &'a Write, request: &Value) -> Option<&'a Item> {
    let asked = text(request, "ReturnValuesOnConditionCheckFailure") == Some("ALL_OLD");
    write.before.as_ref().filter(|_| asked)
}
