//! The AWS services that send messages, each with its own event and its own way to report a
//! failure. A source only parses events; it does not decide what runs when.

pub(super) mod dynamodb_streams;
pub(super) mod eventbridge;
pub(super) mod kafka;
pub(super) mod kinesis;
pub(super) mod s3;
pub(super) mod sns;
pub(super) mod sqs;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::BatchError;
use super::key::{Attributes, MessageKey};
use super::object::Object;
use super::response::{ItemIdentifier, Reporting};
use super::settings::Order;
use crate::error::JsonFault;
use crate::fingerprint::Fingerprint;
use crate::user_code;

/// A service that sends messages to Lambda; `R` is one of them, as `aws_lambda_events` has it.
pub(super) struct Source<R> {
    /// Its name, for messages to people.
    pub(super) name: &'static str,
    /// What it can be told of a failure.
    pub(super) reporting: Reporting,
    /// Whether its partial responses are used unless the user says otherwise.
    pub(super) partial_response: bool,
    /// Where the key stands by default.
    pub(super) key: fn() -> MessageKey<R>,
    /// Takes an event apart.
    pub(super) split: fn(&str, Order) -> Result<Batch<R>, BatchError>,
}

/// The messages of an event.
pub(super) struct Batch<R> {
    pub(super) messages: Vec<Incoming<R>>,
    /// The state of a tumbling window, to be handed back.
    pub(super) state: Option<Box<RawValue>>,
}

impl<R> Batch<R> {
    /// Of an event of the usual shape, each of whose records stands for itself.
    fn of_records(
        event: &str,
        service: &str,
        incoming: impl Fn(&Raw<'_>) -> Incoming<R>,
    ) -> Result<Self, BatchError> {
        let (records, state) = records(event, service)?;
        let messages = records.iter().map(|record| incoming(&Raw::new(record))).collect();
        Ok(Self { messages, state })
    }
}

/// One message of an event.
pub(crate) struct Incoming<R> {
    /// The name by which its failure is reported; never empty.
    pub(crate) item: Option<ItemIdentifier>,
    /// Whose order it stands in, if any.
    pub(crate) group: Option<String>,
    pub(crate) content: Content<R>,
}

/// A record and what it says, or why it cannot be read.
pub(crate) type Content<R> = Result<(R, Body), Unreadable>;

/// Why a message cannot be read; neither quotes it.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// It is not what its source sends.
    Malformed(String),
    /// Reading it panicked: that says nothing of the message.
    Panicked,
}

impl From<String> for Unreadable {
    fn from(reason: String) -> Self {
        Self::Malformed(reason)
    }
}

/// What of a message its key is found in, and what it is compared by.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) payload: Vec<u8>,
    pub(crate) attributes: Attributes,
    pub(crate) broker_id: Option<String>,
    pub(crate) fingerprint: Fingerprint,
}

impl Body {
    /// A payload that is compared by its JSON value, or by its bytes where it is not JSON.
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
    /// There if the event is one of a tumbling window.
    window: Option<Box<RawValue>>,
    state: Option<Box<RawValue>>,
}

type Records = (Vec<Box<RawValue>>, Option<Box<RawValue>>);

/// The `Records` of an event, and the state of its window.
fn records(event: &str, service: &str) -> Result<Records, BatchError> {
    match serde_json::from_str(event) {
        Ok(Object(Event { records: Some(records), window, state })) => {
            Ok((records, state.filter(|_| window.is_some())))
        }
        Ok(Object(Event { records: None, .. })) | Err(_) => {
            Err(other_source(service, "it has no list of `Records`"))
        }
    }
}

fn other_source(service: &str, why: &str) -> BatchError {
    BatchError::OtherSource {
        message: format!("the event is not one of {service}'s: {why}; nothing was run"),
    }
}

/// A record twice: as it came, to be read as the source's type, and as a tree, to find in it what a
/// record has to have even where that type cannot be read.
struct Raw<'a> {
    text: &'a str,
    tree: Value,
}

impl<'a> Raw<'a> {
    fn new(text: &'a RawValue) -> Self {
        let text = text.get();
        // Nested too deep, at the worst: then nothing is found in it, and reading it fails too.
        Self { text, tree: serde_json::from_str(text).unwrap_or_default() }
    }

    /// The text at a pointer, unless it is empty.
    fn text(&self, pointer: &str) -> Option<&str> {
        self.tree.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    /// The name by which a failure is reported.
    fn item(&self, pointer: &str) -> Option<ItemIdentifier> {
        self.text(pointer).map(|id| ItemIdentifier::Id(id.to_owned()))
    }

    /// Reads the record as its source's type. One that says that it is another source's is not read.
    fn read<R: DeserializeOwned>(
        &self,
        source_at: &str,
        expected: &str,
        service: &str,
    ) -> Result<R, Unreadable> {
        match self.text(source_at) {
            Some(other) if other != expected => {
                let reason = format!("the record is not one of {service}'s: {}", named(other));
                return Err(reason.into());
            }
            Some(_) | None => {}
        }
        decode(self.text, service)
    }
}

/// The source that a record names. What is no name of a service is not repeated.
fn named(source: &str) -> String {
    let is_name =
        |name: &str| name.len() < 32 && name.bytes().all(|byte| byte.is_ascii_lowercase());
    match source.strip_prefix("aws:") {
        Some(name) if is_name(name) => format!("it is from {source}"),
        _ => "it is from elsewhere".to_owned(),
    }
}

/// Reads a record as its source's type. Those are another crate's: should one panic on a record that
/// nobody thought of, then the record is unreadable, and the others of its batch are not.
fn decode<R: DeserializeOwned>(text: &str, service: &str) -> Result<R, Unreadable> {
    match user_code::call(|| serde_json::from_str(text)) {
        Ok(Ok(Object(record))) => Ok(record),
        Ok(Err(error)) => {
            let fault = JsonFault::from(error);
            Err(format!("the record is not one of {service}'s: {fault}").into())
        }
        Err(_) => Err(Unreadable::Panicked),
    }
}
