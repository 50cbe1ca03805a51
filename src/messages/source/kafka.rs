//! Apache Kafka (Amazon MSK, self-managed): in order of each partition, or of each record key.

use std::collections::BTreeMap;

use aws_lambda_events::kafka::KafkaRecord;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Batch, Body, Incoming, Parsed, Raw, Source, decode, named, object, other_source};
use crate::error::json_fault;
use crate::messages::error::{BatchError, Rejected};
use crate::messages::key::MessageKey;
use crate::messages::response::{ItemIdentifier, Reporting};
use crate::messages::settings::Order;

pub(in crate::messages) const SOURCE: Source<KafkaRecord> = Source {
    name: "Kafka",
    reporting: Reporting::ItemsIfAsked,
    key: MessageKey::default_attribute,
    split,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Topics {
    event_source: Option<String>,
    event_source_arn: Option<String>,
    bootstrap_servers: Option<String>,
    /// The records by topic and partition.
    records: Option<BTreeMap<String, Vec<Box<RawValue>>>>,
}

fn split(
    service: &'static str,
    event: &str,
    order: Order,
) -> Result<Batch<KafkaRecord>, BatchError> {
    let event: Topics =
        object(event).map_err(|error| other_source(service, &json_fault(&error)))?;
    match event.event_source.as_deref() {
        None | Some("aws:kafka" | "SelfManagedKafka") => {}
        Some(other) => return Err(other_source(service, &named(other))),
    }
    let cluster = event.event_source_arn.or_else(|| event.bootstrap_servers.as_deref().map(sorted));
    let Some(partitions) = event.records else {
        return Err(other_source(service, "it has no map of `records`"));
    };
    let mut messages = Vec::new();
    for (partition, records) in &partitions {
        let cluster = cluster.as_deref();
        let incoming = |record| incoming(&Raw::new(service, record), partition, cluster, order);
        messages.extend(records.iter().map(|record| incoming(record)));
    }
    Ok(Batch { messages, state: None })
}

/// Sorts a list of servers, so that its order does not change.
fn sorted(servers: &str) -> String {
    let mut servers: Vec<_> = servers.split(',').map(str::trim).collect();
    servers.sort_unstable();
    servers.join(",")
}

fn incoming(
    raw: &Raw<'_>,
    partition: &str,
    cluster: Option<&str>,
    order: Order,
) -> Incoming<KafkaRecord> {
    let offset = raw.tree.pointer("/offset").and_then(Value::as_i64);
    let item =
        offset.map(|offset| ItemIdentifier::Kafka { partition: partition.to_owned(), offset });
    let group = match order {
        Order::Source => Some(partition.to_owned()),
        // An empty key is a key. Records without a key have no order.
        Order::Key => {
            let key = raw.tree.pointer("/key").and_then(Value::as_str);
            key.map(|key| format!("{partition}/{key}"))
        }
    };
    let ids = cluster.zip(item.as_ref());
    let broker_id = ids.map(|(cluster, item)| format!("{cluster}/{item}"));
    Incoming { item, group, parsed: parse(raw, broker_id) }
}

fn parse(raw: &Raw<'_>, broker_id: Option<String>) -> Parsed<KafkaRecord> {
    let headers = raw.tree.pointer("/headers").and_then(Value::as_array);
    let headers = headers.into_iter().flatten().filter_map(Value::as_object).flatten();
    let attributes = headers.map(|(name, value)| (name.clone(), text(value))).collect();
    let record: KafkaRecord = decode(raw.text, raw.service)?;
    let payload = STANDARD
        .decode(record.value.as_deref().unwrap_or_default())
        .map_err(|_| Rejected::Malformed("the record's value is not in base64".to_owned()))?;
    Ok((record, Body::new(payload, attributes, broker_id)))
}

/// Decodes the value of a header: a list of bytes, which Java counts from -128 to 127.
fn text(value: &Value) -> Result<String, &'static str> {
    const WRONG: &str = "is not text in UTF-8";
    let byte = |byte: &Value| {
        let number = byte.as_i64()?;
        u8::try_from(number).ok().or_else(|| i8::try_from(number).ok().map(i8::cast_unsigned))
    };
    let bytes = value.as_array().and_then(|bytes| bytes.iter().map(byte).collect());
    String::from_utf8(bytes.ok_or(WRONG)?).map_err(|_| WRONG)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_headers_bytes_may_be_signed_or_not() {
        for (bytes, expected) in [
            (json!([107]), Some("k")),
            (json!([-61, -87]), Some("é")),
            (json!([195, 169]), Some("é")),
            (json!([]), Some("")),
            (json!([-61]), None),
            (json!([256]), None),
            (json!("k"), None),
            (json!(null), None),
        ] {
            assert_eq!(text(&bytes).ok().as_deref(), expected, "{bytes}");
        }
    }

    #[test]
    fn the_order_of_servers_does_not_matter() {
        assert_eq!(sorted("b:1, a:1"), sorted("a:1,b:1"));
    }
}
