//! The AWS services that send messages, each with its own event format and its own reports of
//! failures. A source only parses events; it does not decide what runs when.

pub(super) mod eventbridge;
pub(super) mod kafka;
pub(super) mod records;

use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::error::{BatchError, Rejected};
use super::key::{Attributes, MessageKey};
use super::response::{ItemIdentifier, Reporting};
use super::settings::Order;
use crate::call::user_code;
use crate::error::json_fault;
use crate::fingerprint::Fingerprint;
use crate::json;

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

/// Keeps the order around a message whose group cannot be read, and whose group is therefore `whole`.
/// Each other message may be of its group, so all of them become members of `whole`.
fn keep_order<R>(mut messages: Vec<Incoming<R>>, whole: &str) -> Vec<Incoming<R>> {
    if messages.iter().any(|message| message.group.as_deref() == Some(whole)) {
        for group in messages.iter_mut().filter_map(|message| message.group.as_mut()) {
            whole.clone_into(group);
        }
    }
    messages
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

/// The group of all messages of a batch. Groups of sources have other names.
const WHOLE_BATCH: &str = "";

/// Splits an event of the usual shape.
fn split_records<R>(
    service: &'static str,
    event: &str,
    incoming: impl FnOnce(&[Raw<'_>]) -> Vec<Incoming<R>>,
) -> Result<Batch<R>, BatchError> {
    let Ok(Event { records: Some(records), window, state }) = object(event) else {
        return Err(other_source(service, "it has no list of `Records`"));
    };
    let records: Vec<_> = records.iter().map(|record| Raw::new(service, record)).collect();
    let messages = keep_order(incoming(&records), WHOLE_BATCH);
    Ok(Batch { messages, state: state.filter(|_| window.is_some()) })
}

fn other_source(service: &str, why: &str) -> BatchError {
    BatchError::OtherSource {
        message: format!("the event is not one of {service}'s: {why}; nothing was run"),
    }
}

/// A record as JSON text. Its identifier and its group are read even if the record cannot be read as the
/// source's type.
struct Raw<'a> {
    /// The name of the expected service.
    service: &'static str,
    json: &'a RawValue,
}

impl<'a> Raw<'a> {
    fn new(service: &'static str, json: &'a RawValue) -> Self {
        Self { service, json }
    }

    /// Returns the JSON at a pointer without escapes.
    fn part(&self, pointer: &str) -> Option<&'a RawValue> {
        json::part(self.json, pointer.split('/').skip(1))
    }

    /// Returns the text at a JSON pointer, unless it is empty.
    fn text(&self, pointer: &str) -> Option<String> {
        let text: String = serde_json::from_str(self.part(pointer)?.get()).ok()?;
        Some(text).filter(|text| !text.is_empty())
    }

    /// Reads the record as its source's type. Rejects a record that names another source than
    /// `expected`. The identifier by which a failure is reported is at the pointer `item`.
    fn message<R: DeserializeOwned>(
        &self,
        expected: &str,
        item: &str,
        group: Option<String>,
        body: impl FnOnce(&mut R) -> Result<Body, Rejected>,
    ) -> Incoming<R> {
        self.message_in(self.json.get(), expected, item, group, body)
    }

    /// Like [`message`](Self::message), with the record's text in a form that its type accepts. `body` can
    /// change the record too.
    fn message_in<R: DeserializeOwned>(
        &self,
        text: &str,
        expected: &str,
        item: &str,
        group: Option<String>,
        body: impl FnOnce(&mut R) -> Result<Body, Rejected>,
    ) -> Incoming<R> {
        let service = self.service;
        let source = self.text("/eventSource").or_else(|| self.text("/EventSource"));
        let record = match source.filter(|source| *source != expected) {
            None => decode(text, service),
            Some(other) => {
                let reason = format!("the record is not one of {service}'s: {}", named(&other));
                Err(Rejected::Malformed(reason))
            }
        };
        let parsed = record.and_then(|mut record| body(&mut record).map(|body| (record, body)));
        Incoming { item: self.text(item).map(ItemIdentifier::Id), group, parsed }
    }
}

/// The latest time that the type of timestamps in `aws_lambda_events` holds is about the year 262,000.
const MAX_SECONDS: f64 = 8e12;

/// Reads a timestamp: a JSON number, or a string that contains one. `per_second` is its unit. The result
/// is rounded to the millisecond, and limited to what a record can hold.
///
/// `aws_lambda_events` reads a timestamp wrongly or not at all if it is negative or has other than three
/// decimals, and not at all if it has a fraction under the feature `arbitrary_precision` of `serde_json`.
fn time(timestamp: &str, per_second: f64) -> Option<SystemTime> {
    let number: f64 = timestamp.trim_matches('"').parse().ok()?;
    let seconds = (number / per_second).abs().min(MAX_SECONDS);
    let since_1970 = Duration::try_from_secs_f64(seconds).ok()? + Duration::from_micros(500);
    let since_1970 = Duration::from_millis(since_1970.as_millis().try_into().ok()?);
    if number < 0.0 {
        SystemTime::UNIX_EPOCH.checked_sub(since_1970)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(since_1970)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_milliseconds() {
        let at = |text: &str, per_second| {
            let time = time(text, per_second)?;
            let millis = |since: Duration| i128::try_from(since.as_millis()).unwrap();
            Some(match time.duration_since(SystemTime::UNIX_EPOCH) {
                Ok(since) => millis(since),
                Err(before) => -millis(before.duration()),
            })
        };
        for (text, millis) in [
            ("1545084650.987", 1_545_084_650_987),
            ("1545084650.98", 1_545_084_650_980),
            ("1545084650.9876", 1_545_084_650_988),
            ("1.545084650987E9", 1_545_084_650_987),
            ("\"1545084650\"", 1_545_084_650_000),
            ("-1.5", -1500),
            ("1e300", 8_000_000_000_000_000),
            ("\"NaN\"", 8_000_000_000_000_000),
        ] {
            assert_eq!(at(text, 1.0), Some(millis), "{text}");
        }
        assert_eq!(at("1545084650987", 1000.0), Some(1_545_084_650_987));
        assert_eq!(at("-1", 1000.0), Some(-1));
        for text in ["null", "{}", "true", "\"yesterday\""] {
            assert_eq!(at(text, 1.0), None, "{text}");
        }
    }

    #[test]
    fn a_record_at_which_its_type_panics_is_rejected() {
        #[derive(Debug)]
        struct Panicking;

        impl<'de> Deserialize<'de> for Panicking {
            fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                panic!("a defect of another crate")
            }
        }

        assert!(matches!(decode::<Panicking>("{}", "Kafka"), Err(Rejected::Panicked(_))));
    }
}
