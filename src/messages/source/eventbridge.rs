//! Amazon EventBridge: one event per invocation, which Lambda retries.

use aws_lambda_events::eventbridge::EventBridgeEvent;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Batch, Body, Incoming, Source, decode, object, other_source};
use crate::error::json_fault;
use crate::fingerprint::Fingerprint;
use crate::json_event::JsonEvent;
use crate::messages::error::BatchError;
use crate::messages::key::{Attributes, MessageKey};
use crate::messages::response::{ItemIdentifier, Reporting};

pub(in crate::messages) const SOURCE: Source<EventBridgeEvent<JsonEvent>> = Source {
    name: "Amazon EventBridge",
    reporting: Reporting::Event,
    key: MessageKey::broker_id,
    split: |service, event, _| split(service, event),
};

fn split(
    service: &'static str,
    event: &str,
) -> Result<Batch<EventBridgeEvent<JsonEvent>>, BatchError> {
    let (body, id) = read(event).map_err(|error| other_source(service, &json_fault(&error)))?;
    let parsed = decode(event, service).map(|record| (record, body));
    let messages = vec![Incoming { item: id.map(ItemIdentifier::Id), group: None, parsed }];
    Ok(Batch { messages, state: None })
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Event {
    id: Option<String>,
    source: String,
    detail_type: String,
    detail: Box<RawValue>,
}

/// Reads the body of an event and its id. The fingerprint excludes the event's id and time, so that
/// the same event sent twice with one key is the same request.
pub(in crate::messages) fn read(event: &str) -> serde_json::Result<(Body, Option<String>)> {
    let Event { id, source, detail_type, detail } = object(event)?;
    let id = id.filter(|id| !id.is_empty());
    let payload = detail.get().as_bytes().to_vec();
    let fingerprint = Fingerprint::builder()
        .bytes(source.as_bytes())
        .bytes(detail_type.as_bytes())
        .json(&payload)
        .finish();
    // Only by convention, a `source` has no `/`. The id is a UUID, so the last `/` separates the two.
    let broker_id = id.as_ref().map(|id| format!("{source}/{id}"));
    let attributes = Attributes::default();
    Ok((Body { payload, attributes, broker_id, fingerprint }, id))
}
