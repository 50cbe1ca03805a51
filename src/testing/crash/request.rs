//! What a request does, in words.

use serde_json::Value;

use crate::store::record::sent_by;
use crate::testing::transport::{Request, Response, TABLE};

/// What renewals write, and what a call reads while it waits for another one.
pub(super) const ROUTINE: [&str; 2] = ["the end of the lease", "the record"];

/// A request in words: DynamoDB has {`done`} {`what`}.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    /// Such as ``step `charge` ``. Without keys, which may differ from run to run.
    pub(super) what: String,
    /// Such as `stored`.
    done: &'static str,
    /// The key of the record.
    pub(super) key: Option<String>,
    pub(super) is_write: bool,
}

impl Description {
    /// `stored` returns the item that the request is about, as it is now.
    pub(super) fn of(request: &Request, stored: impl FnOnce() -> Value) -> Self {
        let Request { operation, body } = request;
        let record = match operation.as_str() {
            "PutItem" => put(body),
            "UpdateItem" => update(body, stored),
            "TransactWriteItems" => transaction(body),
            "GetItem" if body["TableName"] == TABLE => Some(read(body).to_owned()),
            _ => None,
        };
        let reads = ["Get", "BatchGet", "TransactGet", "Query", "Scan", "List", "Describe"];
        let is_write = !reads.iter().any(|name| operation.starts_with(name));
        if let Some(what) = record {
            let done = if is_write { "stored" } else { "read" };
            return Self { what, done, key: key(body).map(str::to_owned), is_write };
        }
        let tables = tables(operation, body);
        let on = if tables.is_empty() { String::new() } else { format!(" on {tables}") };
        Self { what: format!("{operation}{on}"), done: "executed", key: None, is_write }
    }

    /// What DynamoDB does with the request, if nothing goes wrong.
    pub(super) fn would_have(&self) -> String {
        format!("{} {}", self.done, self.what)
    }

    /// What DynamoDB did with the request.
    pub(super) fn had(&self, response: &Response) -> String {
        let what = &self.what;
        match response.error_name().as_deref() {
            None => self.would_have(),
            Some("ConditionalCheckFailedException" | "TransactionCanceledException") => {
                format!("rejected {what}")
            }
            Some(error) => format!("rejected {what} with {error}"),
        }
    }
}

fn text<'a>(item: &'a Value, attribute: &str) -> Option<&'a str> {
    item[attribute]["S"].as_str()
}

const ACQUISITION: &str = "the acquisition of the key";
const UNDO: &str = "the undo of the acquisition";
const RELEASE: &str = "the release of the key";
const ANSWER: &str = "the answer";
const FAILURE: &str = "the failure";
const PART: &str = "a part of the answer";
const STEP_ITEM: &str = "the item of a step";

/// Whether a request is about a part of an answer or the item of a step.
fn is_of_part(body: &Value) -> bool {
    text(&body["Key"], "pk").is_some_and(|key| key.contains("/%p/"))
}

fn read(body: &Value) -> &'static str {
    let key = text(&body["Key"], "pk").and_then(|key| key.rsplit_once('#'));
    match key.filter(|_| is_of_part(body)) {
        None => ROUTINE[1],
        // The keys of parts have a number.
        Some((_, digest)) => {
            if digest.contains('/') {
                PART
            } else {
                STEP_ITEM
            }
        }
    }
}

fn put(body: &Value) -> Option<String> {
    let item = &body["Item"];
    item["format"]["N"].as_str()?;
    let what = match text(item, "status") {
        Some("PENDING") => ACQUISITION,
        Some("COMPLETED") => ANSWER,
        Some("RELEASED") => RELEASE,
        Some(_) => return None,
        None if text(item, "owner").is_some() => PART,
        None => STEP_ITEM,
    };
    Some(what.to_owned())
}

/// An update's kind follows from what it sets and from its condition: `src/store/expression.rs` writes both.
fn update(body: &Value, stored: impl FnOnce() -> Value) -> Option<String> {
    let (names, values) = (&body["ExpressionAttributeNames"], &body["ExpressionAttributeValues"]);
    if is_of_part(body) {
        return Some("the retention of a step's item".to_owned());
    }
    // All other updates of the crate have this placeholder.
    names.get("#owner").or_else(|| names.get("#key"))?;
    let steps = values[":steps"]["M"].as_object();
    let first = steps.and_then(|steps| steps.keys().next()).map(String::as_str);
    if let Some(step) = names["#member"].as_str().or(first) {
        return Some(match sent_by(step) {
            Some((step, _)) => format!("the note that step `{step}` is about to send"),
            None => format!("step `{step}`"),
        });
    }
    let condition = body["ConditionExpression"].as_str().unwrap_or_default();
    let requires = |status: &str| {
        let required = values.as_object().into_iter().flatten();
        required.into_iter().any(|(name, value)| name.starts_with(":is") && value["S"] == status)
    };
    let what = match text(values, ":status") {
        Some("PENDING") if condition.contains("#lease_expires_at") => "the takeover of the key",
        Some("PENDING") if requires("FAILED") => "the acquisition of the key after a failure",
        Some("FAILED") if !restores(values, &stored()) => FAILURE,
        // A release requires that there are no steps, or removes them.
        Some("RELEASED") if names.get("#steps").is_some() => RELEASE,
        Some("PENDING" | "FAILED" | "RELEASED") => UNDO,
        Some(_) => return None,
        None if values.get(":owner").is_some() => {
            "a new version, so that an earlier write is rejected"
        }
        None if values.get(":lease_expires_at").is_some() => ROUTINE[0],
        None => "the end of the retention",
    };
    Some(what.to_owned())
}

/// Whether an update to FAILED puts back an earlier failure. A failure of this attempt has the counts of the
/// attempt's acquisition.
fn restores(values: &Value, stored: &Value) -> bool {
    let differs = |attribute: &str| {
        let (new, old) = (&values[format!(":{attribute}")]["N"], &stored[attribute]["N"]);
        new != old
    };
    stored["status"]["S"] == "PENDING" && (differs("attempt") || differs("released_attempts"))
}

fn transaction(body: &Value) -> Option<String> {
    let items = body["TransactItems"].as_array()?;
    let record = put(&items.first()?["Put"])?;
    Some(match items.len() - 1 {
        0 => record,
        1 => format!("{record} and 1 item in one transaction"),
        others => format!("{record} and {others} items in one transaction"),
    })
}

/// The key of the record that a request concerns.
fn key(body: &Value) -> Option<&str> {
    let first = &body["TransactItems"][0]["Put"]["Item"];
    [&body["Key"], &body["Item"], first].into_iter().find_map(|item| text(item, "pk"))
}

fn tables(operation: &str, body: &Value) -> String {
    let quoted = |name: &Value| name.as_str().map(|name| format!("`{name}`"));
    let mut names: Vec<String> = match operation {
        "TransactWriteItems" | "TransactGetItems" => {
            let items = body["TransactItems"].as_array().into_iter().flatten();
            let actions = items.filter_map(Value::as_object).flat_map(|item| item.values());
            actions.filter_map(|action| quoted(&action["TableName"])).collect()
        }
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flatten();
            tables.map(|(name, _)| format!("`{name}`")).collect()
        }
        _ => quoted(&body["TableName"]).into_iter().collect(),
    };
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_described_in_words() {
        let item = |status: &str| json!({"pk": {"S": "pay#k"}, "format": {"N": "1"}, "status": {"S": status}});
        let put = |item: Value| json!({"TableName": "idempotency", "Item": item});
        let update = |names: Value, values: Value| {
            json!({
                "TableName": "idempotency",
                "Key": {"pk": {"S": "pay#k"}},
                "ExpressionAttributeNames": names,
                "ExpressionAttributeValues": values,
            })
        };
        let own = json!({"Put": {"TableName": "orders", "Item": {"id": {"S": "o"}}}});
        let record = json!({"Put": put(item("COMPLETED"))});
        let get = |table: &str| json!({"TableName": table, "Key": {"pk": {"S": "pay#k"}}});
        for (operation, body, words) in [
            ("PutItem", put(item("PENDING")), "stored the acquisition of the key"),
            (
                "PutItem",
                put(json!({"pk": {"S": "x"}, "format": {"N": "1"}, "owner": {"S": "o"}})),
                "stored a part of the answer",
            ),
            (
                "PutItem",
                put(json!({"pk": {"S": "x"}, "format": {"N": "1"}})),
                "stored the item of a step",
            ),
            (
                "PutItem",
                json!({"TableName": "orders", "Item": {"id": {"S": "o"}}}),
                "executed PutItem on `orders`",
            ),
            (
                "UpdateItem",
                update(
                    json!({"#owner": "owner"}),
                    json!({":steps": {"M": {"charge": {"S": "1"}}}}),
                ),
                "stored step `charge`",
            ),
            (
                "UpdateItem",
                update(
                    json!({"#owner": "owner", "#member": "mail"}),
                    json!({":member": {"S": "1"}}),
                ),
                "stored step `mail`",
            ),
            (
                "UpdateItem",
                update(
                    json!({"#owner": "owner", "#member": "mail~sent~2"}),
                    json!({":member": {"S": "1"}}),
                ),
                "stored the note that step `mail` is about to send",
            ),
            (
                "UpdateItem",
                update(json!({"#owner": "owner"}), json!({":lease_expires_at": {"N": "1"}})),
                "stored the end of the lease",
            ),
            ("UpdateItem", json!({"TableName": "orders"}), "executed UpdateItem on `orders`"),
            (
                "TransactWriteItems",
                json!({"TransactItems": [record, own]}),
                "stored the answer and 1 item in one transaction",
            ),
            (
                "TransactWriteItems",
                json!({"TransactItems": [own, own]}),
                "executed TransactWriteItems on `orders`",
            ),
            ("GetItem", get("idempotency"), "read the record"),
            ("GetItem", get("orders"), "executed GetItem on `orders`"),
            ("ListTables", json!({}), "executed ListTables"),
        ] {
            let request = Request { operation: operation.to_owned(), body };
            assert_eq!(Description::of(&request, || Value::Null).would_have(), words);
        }
    }

    #[test]
    fn an_update_is_named_by_its_status_and_its_condition() {
        let owner = |condition: &str, names: Value, values: Value| {
            let mut names = names;
            names["#owner"] = json!("owner");
            json!({
                "TableName": "idempotency",
                "Key": {"pk": {"S": "pay#k"}},
                "ConditionExpression": condition,
                "ExpressionAttributeNames": names,
                "ExpressionAttributeValues": values,
            })
        };
        let held = "(#owner = :is0 AND #status = :is1)";
        let seen = "(#owner = :is0 AND #status = :is1 AND #lease_expires_at = :is2)";
        let status = |status: &str, required: &str| json!({":status": {"S": status}, ":is1": {"S": required}, ":attempt": {"N": "2"}});
        let stored = json!({"status": {"S": "PENDING"}, "attempt": {"N": "2"}});
        let counted = json!({"status": {"S": "PENDING"}, "attempt": {"N": "3"}});
        let none = || json!({});
        for (body, stored, words) in [
            (owner(seen, none(), status("PENDING", "PENDING")), &stored, "the takeover of the key"),
            (
                owner(held, none(), status("PENDING", "FAILED")),
                &stored,
                "the acquisition of the key after a failure",
            ),
            (owner(held, none(), status("PENDING", "PENDING")), &stored, UNDO),
            (owner(held, none(), status("FAILED", "PENDING")), &stored, FAILURE),
            (owner(held, none(), status("FAILED", "PENDING")), &counted, UNDO),
            (
                owner(held, json!({"#steps": "steps"}), status("RELEASED", "PENDING")),
                &stored,
                RELEASE,
            ),
            (owner(held, none(), status("RELEASED", "PENDING")), &stored, UNDO),
            (
                owner(seen, none(), json!({":owner": {"S": "o"}})),
                &stored,
                "a new version, so that an earlier write is rejected",
            ),
            (
                owner(seen, none(), json!({":expires_at": {"N": "1"}})),
                &stored,
                "the end of the retention",
            ),
            (
                json!({"Key": {"pk": {"S": "pay/%p/00#00"}}}),
                &Value::Null,
                "the retention of a step's item",
            ),
        ] {
            assert_eq!(update(&body, || stored.clone()).as_deref(), Some(words), "{body}");
        }
        for (key, words) in
            [("pay#k", "the record"), ("pay/%p/00#00", STEP_ITEM), ("pay/%p/00#00/1", PART)]
        {
            assert_eq!(read(&json!({"Key": {"pk": {"S": key}}})), words);
        }
    }
}
