//! The AWS services that send messages, each with its own event format and its own reports of
//! failures. A source only parses events; it does not decide what runs when.

pub(super) mod eventbridge;
pub(super) mod kafka;
pub(super) mod records;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{BatchError, Rejected};
use super::key::{Attributes, MessageKey};
use super::response::{ItemIdentifier, Reporting};
use super::settings::Order;
use crate::error::json_fault;
use crate::fingerprint::Fingerprint;
use crate::run::user_code;

/// A service that sends messages to Lambda; `R` is the type of `aws_lambda_events` for one message.
pub(super) struct Source<R> {
    /// The name for logs and errors.
    pub(super) name: &'static str,
    /// How it accepts reports of failures.
    pub(super) reporting: Reporting,
    /// The default key.
    pub(super) key: fn() -> MessageKey<R>,
    /// Splits an event into messages. Its arguments are `name`, the event and the order.
    pub(super) split: fn(&'static str, &str, Order) -> Result<Batch<R>, BatchError>,
}

/// The messages of an event.
pub(super) struct Batch<R> {
    pub(super) messages: Vec<Incoming<R>>,
    /// The state of a tumbling window, which must be returned.
    pub(super) state: Option<Box<RawValue>>,
}

/// One message of an event.
pub(crate) struct Incoming<R> {
    /// The identifier by which its failure is reported; never empty.
    pub(crate) item: Option<ItemIdentifier>,
    /// The name of its order group, if any.
    pub(crate) group: Option<String>,
    pub(crate) parsed: Parsed<R>,
}

/// A record and its body, or why it cannot be read.
pub(crate) type Parsed<R> = Result<(R, Body), Rejected>;

/// The fingerprint of a message, and its parts that can contain the key.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) payload: Vec<u8>,
    pub(crate) attributes: Attributes,
    pub(crate) broker_id: Option<String>,
    pub(crate) fingerprint: Fingerprint,
}

impl Body {
    /// Creates a body that is compared by its JSON value, or by its bytes if it is not JSON.
    pub(crate) fn new(payload: Vec<u8>, attributes: Attributes, broker_id: Option<String>) -> Self {
        let fingerprint = Fingerprint::builder().json(&payload).finish();
        Self { payload, attributes, broker_id, fingerprint }
    }
}

/// An event of the usual shape.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "Records")]
    records: Option<Vec<Box<RawValue>>>,
    /// Present if the event belongs to a tumbling window.
    window: Option<Box<RawValue>>,
    state: Option<Box<RawValue>>,
}

/// Splits an event of the usual shape. Reads one record after the other, to save memory.
fn split_records<R>(
    service: &'static str,
    event: &str,
    mut incoming: impl FnMut(&Raw<'_>) -> Incoming<R>,
) -> Result<Batch<R>, BatchError> {
    let Ok(Event { records: Some(records), window, state }) = object(event) else {
        return Err(other_source(service, "it has no list of `Records`"));
    };
    let messages = records.iter().map(|record| incoming(&Raw::new(service, record))).collect();
    Ok(Batch { messages, state: state.filter(|_| window.is_some()) })
}

fn other_source(service: &str, why: &str) -> BatchError {
    BatchError::OtherSource {
        message: format!("the event is not one of {service}'s: {why}; nothing was run"),
    }
}

/// A record as text and as a tree. The tree provides the identifier even if the record cannot be
/// read as the source's type.
struct Raw<'a> {
    /// The name of the expected service.
    service: &'static str,
    text: &'a str,
    tree: Value,
}

impl<'a> Raw<'a> {
    fn new(service: &'static str, text: &'a RawValue) -> Self {
        let text = text.get();
        // A record that is nested too deeply has no tree; reading it then fails too.
        Self { service, text, tree: serde_json::from_str(text).unwrap_or_default() }
    }

    /// Returns the text at a JSON pointer, unless it is empty.
    fn text(&self, pointer: &str) -> Option<&str> {
        self.tree.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    /// Reads the record as its source's type. Rejects a record that names another source than
    /// `expected`. The identifier by which a failure is reported is at the pointer `item`.
    fn message<R: DeserializeOwned>(
        &self,
        expected: &str,
        item: &str,
        group: Option<String>,
        body: impl FnOnce(&R) -> Result<Body, Rejected>,
    ) -> Incoming<R> {
        let service = self.service;
        let source = self.text("/eventSource").or_else(|| self.text("/EventSource"));
        let record = match source.filter(|source| *source != expected) {
            None => decode(self.text, service),
            Some(other) => {
                let reason = format!("the record is not one of {service}'s: {}", named(other));
                Err(Rejected::Malformed(reason))
            }
        };
        let parsed = record.and_then(|record| body(&record).map(|body| (record, body)));
        Incoming {
            item: self.text(item).map(|id| ItemIdentifier::Id(id.to_owned())),
            group,
            parsed,
        }
    }
}

/// Describes the source that a record names. Quotes only valid service names.
fn named(source: &str) -> String {
    let is_name =
        |name: &str| name.len() < 32 && name.bytes().all(|byte| byte.is_ascii_lowercase());
    match source.strip_prefix("aws:") {
        Some(name) if is_name(name) => format!("it is from {source}"),
        _ => "it is from elsewhere".to_owned(),
    }
}

/// Reads a JSON object. The derived `Deserialize` of a structure also accepts a list of its members.
pub(super) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    if text.trim_start().starts_with('[') {
        return Err(serde::de::Error::custom("it is a list"));
    }
    serde_json::from_str(text)
}

/// Reads a record as its source's type, which another crate defines. If that crate panics, only
/// this record of the batch is unreadable.
fn decode<R: DeserializeOwned>(text: &str, service: &str) -> Result<R, Rejected> {
    match user_code::call(|| object(text)) {
        Ok(Ok(record)) => Ok(record),
        Ok(Err(error)) => {
            let fault = json_fault(&error);
            let reason = format!("the record is not one of {service}'s: {fault}");
            Err(Rejected::Malformed(reason))
        }
        Err(_) => Err(Rejected::Panicked("reading the record panicked")),
    }
}
