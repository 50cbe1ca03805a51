//! Amazon EventBridge.

use aws_lambda_events::eventbridge::EventBridgeEvent;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Batch, Body, Content, Incoming, Source, Split, decode, other_source};
use crate::error::JsonFault;
use crate::fingerprint::Fingerprint;
use crate::messages::error::BatchError;
use crate::messages::key::{Attributes, MessageKey};
use crate::messages::object::Object;
use crate::messages::response::{BatchResponse, ItemIdentifier, Reporting};
use crate::messages::settings::Order;

/// Amazon EventBridge: one event an invocation, which Lambda retries.
#[derive(Clone, Copy, Debug)]
pub struct EventBridge;

impl Source for EventBridge {
    type Record = EventBridgeEvent;
    type Response = ();
}

impl Split for EventBridge {
    const NAME: &'static str = "Amazon EventBridge";
    const REPORTING: Reporting = Reporting::Event;
    const PARTIAL_BY_DEFAULT: bool = false;

    fn split(event: &str, _: Order) -> Result<Batch<Self>, BatchError> {
        let (body, id) =
            read(event).map_err(|fault| other_source(Self::NAME, &fault.to_string()))?;
        let item = id.map(ItemIdentifier::Id);
        let content = decode(event, Self::NAME).map(|record| Content { record, body });
        Ok(Batch { messages: vec![Incoming { item, group: None, content }], state: None })
    }

    fn default_key() -> MessageKey<EventBridgeEvent> {
        MessageKey::broker_id()
    }

    fn respond(_: BatchResponse) {}
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Event {
    id: Option<String>,
    source: String,
    detail_type: String,
    detail: Box<RawValue>,
}

/// What an event says: its detail. Its own id and time are not part of it, so that the same event
/// sent twice with one key is the same request.
pub(crate) fn body(event: &str) -> Result<Body, JsonFault> {
    read(event).map(|(body, _)| body)
}

/// What an event says, and its id.
fn read(event: &str) -> Result<(Body, Option<String>), JsonFault> {
    let Object(Event { id, source, detail_type, detail }) = serde_json::from_str(event)?;
    let id = id.filter(|id| !id.is_empty());
    let payload = detail.get().as_bytes().to_vec();
    let fingerprint = Fingerprint::builder()
        .bytes(source.as_bytes())
        .bytes(detail_type.as_bytes())
        .json(&payload)
        .finish();
    // A source has no `/` of its own only by custom; an id is a UUID, so the last one ends it.
    let broker_id = id.as_ref().map(|id| format!("{source}/{id}"));
    let attributes = Attributes::default();
    Ok((Body { payload, attributes, broker_id, fingerprint }, id))
}
