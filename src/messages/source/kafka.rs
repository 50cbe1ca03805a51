//! Apache Kafka (Amazon MSK, self-managed): in order of each partition, or of each record key.

use std::collections::BTreeMap;

use aws_lambda_events::kafka::KafkaRecord;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Batch, Body, Incoming, Parsed, Raw, Source, decode, keep_order, named, object, other_source,
    time,
};
use crate::error::json_fault;
use crate::json::with_member;
use crate::messages::error::{BatchError, Rejected};
use crate::messages::key::{Attributes, MessageKey};
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
        messages
            .extend(keep_order(records.iter().map(|record| incoming(record)).collect(), partition));
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
    let offset = raw.part("/offset").and_then(|offset| offset.get().parse().ok());
    let item =
        offset.map(|offset| ItemIdentifier::Kafka { partition: partition.to_owned(), offset });
    let group = match order {
        Order::Source => Some(partition.to_owned()),
        // An empty key is a key. Records without a key have no order.
        Order::Key => match raw.part("/key").map(|key| serde_json::from_str(key.get())) {
            Some(Ok(Some::<String>(key))) => Some(format!("{partition}/{key}")),
            Some(Ok(None)) | None => None,
            Some(Err(_)) => Some(partition.to_owned()),
        },
    };
    let ids = cluster.zip(item.as_ref());
    let broker_id = ids.map(|(cluster, item)| format!("{cluster}/{item}"));
    Incoming { item, group, parsed: parse(raw, broker_id) }
}

/// The headers of a record. Each has a name and its bytes, or `null`.
type Headers<B> = Vec<BTreeMap<String, B>>;

/// Reads a record. `aws_lambda_events` rejects some headers and timestamps that Kafka has, so these are
/// read here.
fn parse(raw: &Raw<'_>, broker_id: Option<String>) -> Parsed<KafkaRecord> {
    let given = |pointer| raw.part(pointer).map(RawValue::get).filter(|json| *json != "null");
    let malformed =
        |what| Rejected::Malformed(format!("the record is not one of {}'s: {what}", raw.service));
    // Kafka's own value for "no timestamp".
    let time = time(given("/timestamp").unwrap_or("-1"), 1000.0);
    let time = time.ok_or_else(|| malformed("its timestamp is not a number"))?;
    let not_bytes = || malformed("its headers are not lists of bytes");
    let headers: Headers<Option<Vec<i16>>> =
        serde_json::from_str(given("/headers").unwrap_or("[]")).map_err(|_| not_bytes())?;
    let (mut attributes, mut accepted) = (Attributes::default(), Headers::new());
    for header in headers {
        let mut signed = BTreeMap::new();
        for (name, counted) in header {
            let bytes = counted.map(|counted| bytes(&counted).ok_or_else(not_bytes)).transpose()?;
            let all = bytes.as_deref().unwrap_or_default().iter();
            signed.insert(name.clone(), all.map(|byte| byte.cast_signed()).collect::<Vec<_>>());
            // A header without a value is no key.
            attributes.extend(bytes.map(|bytes| (name, text(bytes))));
        }
        accepted.push(signed);
    }
    let headers = serde_json::to_string(&accepted).map_err(|_| not_bytes())?;
    let accepted = with_member(&with_member(raw.json.get(), "timestamp", "0"), "headers", &headers);
    let mut record: KafkaRecord = decode(&accepted, raw.service)?;
    record.timestamp.0 = time.into();
    let payload = STANDARD
        .decode(record.value.as_deref().unwrap_or_default())
        .map_err(|_| Rejected::Malformed("the record's value is not in base64".to_owned()))?;
    Ok((record, Body::new(payload, attributes, broker_id)))
}

/// Returns bytes that are counted from 0 to 255, or, as in Java, from -128 to 127.
fn bytes(counted: &[i16]) -> Option<Vec<u8>> {
    let signed = |byte| i8::try_from(byte).ok().map(i8::cast_unsigned);
    counted.iter().map(|byte| u8::try_from(*byte).ok().or_else(|| signed(*byte))).collect()
}

fn text(bytes: Vec<u8>) -> Result<String, &'static str> {
    String::from_utf8(bytes).map_err(|_| "is not text in UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headers_bytes_may_be_signed_or_not() {
        for (counted, expected) in [
            (&[107][..], Some("k")),
            (&[-61, -87], Some("é")),
            (&[195, 169], Some("é")),
            (&[], Some("")),
            (&[-61], None),
        ] {
            let text = bytes(counted).map(text).unwrap();
            assert_eq!(text.ok().as_deref(), expected, "{counted:?}");
        }
        assert_eq!(bytes(&[256]), None);
        assert_eq!(bytes(&[-129]), None);
    }

    #[test]
    fn the_order_of_servers_does_not_matter() {
        assert_eq!(sorted("b:1, a:1"), sorted("a:1,b:1"));
    }
}
