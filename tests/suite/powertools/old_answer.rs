use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use serde::de::DeserializeOwned;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Which Powertools wrote the old table.
#[derive(Clone, Copy)]
enum Writer {
    /// Python and Java store `data` as JSON text.
    JsonText,
    /// TypeScript stores `data` as a native attribute.
    Native,
}

/// The answer of a completed record; `None` if nothing valid is stored under `id`.
async fn old_answer<T: DeserializeOwned>(
    client: &Client,
    table: &str,
    id: &str,
    writer: Writer,
) -> Result<Option<T>, Failure> {
    let id = AttributeValue::S(id.to_owned());
    let get = client.get_item().table_name(table).key("id", id).consistent_read(true);
    let Some(item) = get.send().await?.item else { return Ok(None) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    answer_of(item, writer, now)
}

fn answer_of<T: DeserializeOwned>(
    mut item: HashMap<String, AttributeValue>,
    writer: Writer,
    now_seconds: u64,
) -> Result<Option<T>, Failure> {
    let expiration =
        item.get("expiration").and_then(|it| it.as_n().ok()).ok_or("no `expiration`")?;
    if expiration.parse::<u64>()? < now_seconds {
        return Ok(None); // DynamoDB deletes it later.
    }
    match item.get("status").and_then(|it| it.as_s().ok()).map(String::as_str) {
        Some("COMPLETED") => {}
        Some("INPROGRESS") => return Err("in progress under the old function".into()),
        status => return Err(format!("unknown status {status:?}").into()),
    }
    let answer = match (writer, item.remove("data")) {
        (Writer::JsonText, Some(AttributeValue::S(json))) => serde_json::from_str(&json)?,
        (Writer::Native, Some(data)) => serde_dynamo::from_attribute_value(data)?,
        // `undefined` in TypeScript.
        (Writer::Native, None) => serde_json::from_str("null")?,
        (Writer::JsonText, data) => return Err(format!("no answer in `data`: {data:?}").into()),
    };
    Ok(Some(answer))
}
