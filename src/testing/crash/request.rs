//! What a request does, in words.

use serde_json::Value;

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
    pub(super) fn of(request: &Request) -> Self {
        let Request { operation, body } = request;
        let record = match operation.as_str() {
            "PutItem" => put(body),
            "UpdateItem" => update(body),
            "TransactWriteItems" => transaction(body),
            "GetItem" if body["TableName"] == TABLE => Some(ROUTINE[1].to_owned()),
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

/// Words for a record of this status.
fn status(status: &str) -> Option<&'static str> {
    Some(match status {
        "PENDING" => "the acquisition of the key",
        "COMPLETED" => "the answer",
        "FAILED" => "the failure",
        "RELEASED" => "the release of the key",
        _ => return None,
    })
}

fn put(body: &Value) -> Option<String> {
    let item = &body["Item"];
    item["format"]["N"].as_str()?;
    match text(item, "status") {
        Some(name) => status(name).map(str::to_owned),
        None => Some("a part of the answer".to_owned()),
    }
}

fn update(body: &Value) -> Option<String> {
    let (names, values) = (&body["ExpressionAttributeNames"], &body["ExpressionAttributeValues"]);
    // All updates of the crate have this placeholder.
    names.get("#owner").or_else(|| names.get("#key"))?;
    let steps = values[":steps"]["M"].as_object();
    let first = steps.and_then(|steps| steps.keys().next()).map(String::as_str);
    if let Some(step) = names["#member"].as_str().or(first) {
        return Some(format!("step `{step}`"));
    }
    match text(values, ":status") {
        Some(name) => status(name).map(str::to_owned),
        None => Some(ROUTINE[0].to_owned()),
    }
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
                put(json!({"pk": {"S": "x"}, "format": {"N": "1"}})),
                "stored a part of the answer",
            ),
            (
                "PutItem",
                json!({"TableName": "orders", "Item": {"id": {"S": "o"}}}),
                "executed PutItem on `orders`",
            ),
            (
                "UpdateItem",
                update(
                    json!({"#owner": "owner", "#status": "status"}),
                    json!({":status": {"S": "COMPLETED"}}),
                ),
                "stored the answer",
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
            assert_eq!(Description::of(&request).would_have(), words);
        }
    }
}
