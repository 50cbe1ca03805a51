//! What the targets in `fuzz/` call: each function takes any bytes and must not panic.
//!
//! Not part of the API: the feature `fuzzing` exists for the project's own tests, and this module
//! may change with every release. The functions do not stop at "no panic": what can be read must
//! be written again as the same thing.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::de::IgnoredAny;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::answer_codec::Coding;
use crate::error::ErrorKind;
use crate::fingerprint::json::canonical;
use crate::http::{answer, key_header};
use crate::key::{KeyForm, RecordKey};
use crate::policy::{Compression, LargeAnswers, Policy};
use crate::record::{Claim, Item, Owner, Record, State, pending_item};
use crate::response::{Answer, Stored, pack};
use crate::schema::TableSchema;

const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The value of an `Idempotency-Key` header. A key that is found is one that a client can send
/// again, quoted.
pub fn idempotency_key(value: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(value) else { return };
    let headers = HeaderMap::from_iter([(KEY_HEADER, value)]);
    let Ok(Some(key)) = key_header::parse(&headers, &KEY_HEADER) else { return };
    assert!(!key.is_empty() && key.len() <= 255, "{} bytes", key.len());
    let Ok(string) = sfv::StringRef::from_str(&key) else { return };
    let quoted = sfv::ItemSerializer::new().bare_item(string).finish();
    let quoted = HeaderValue::try_from(quoted);
    assert!(quoted.is_ok(), "not a header value: {key:?}");
    let headers = HeaderMap::from_iter(quoted.map(|value| (KEY_HEADER, value)));
    assert_eq!(key_header::parse(&headers, &KEY_HEADER), Ok(Some(key)));
}

/// An item as [`record`] and [`response`] take it, under a key of ours. A pending record that can
/// be read is written again as the same version.
pub fn record(input: &[u8]) {
    let schema = TableSchema::default();
    let item = Input { rest: input, depth: 0 }.item();
    let record = match Record::decode(&schema, item) {
        Ok(record) => record,
        Err(error) => return assert_eq!(error.kind(), ErrorKind::UnknownRecord),
    };
    let version = record.version();
    let State::Pending { lease_expires_at } = record.state else { return };
    let Ok(key) = RecordKey::new(&"fuzz".into(), "k", KeyForm::Verbatim, 2048) else { return };
    let claim = Claim {
        key,
        owner: record.owner,
        attempt: record.attempt,
        fingerprint: record.fingerprint,
        created_at: record.created_at,
    };
    let mut again = pending_item(&schema, &claim, lease_expires_at, record.expires_at);
    if let Some(steps) = &record.steps {
        again.insert("steps".to_owned(), steps.encode());
    }
    let again = Record::decode(&schema, again).map(|record| (record.version(), record.steps));
    assert_eq!(again.ok(), Some((version, record.steps)));
}

/// A stored answer. One that can be read is written again as the same one, in the form that it had,
/// and an HTTP answer is either no response at all or one that can be stored.
pub fn response(input: &[u8]) {
    let value = Input { rest: input, depth: 0 }.value();
    let Ok(owner) = Owner::random() else { return };
    let Some(stored) = Stored::decode(value, &owner) else { return };
    let Ok(key) = RecordKey::new(&"fuzz".into(), "k", KeyForm::Verbatim, 2048) else { return };
    let coding = Coding::default();
    let coder = coding.of(&key);
    let answer = match stored.in_record(1 << 20, coder) {
        Ok(answer) => answer,
        Err(manifest) => {
            let again = Stored::decode(manifest.encode(), &owner);
            return assert_eq!(again, Some(Stored::Parts(manifest)));
        }
    };
    let policy = Policy::default().compression(Compression::Off);
    let policy = policy.large_answers(LargeAnswers::InRecord);
    let written = pack(answer.draft(), 0, None, coder, &policy).map(|packed| packed.response);
    if let Ok(written) = written {
        assert_eq!(Stored::decode(written, &owner), Some(Stored::Readable(answer.clone())));
    }
    if let Answer::Http(answer) = answer
        && let Some(response) = answer::replay::<Bytes>(answer)
    {
        assert!(matches!(answer::stored(&response), Answer::Http(_)));
    }
}

/// A JSON text. Its canonical spelling is the same value, and its own canonical spelling.
pub fn json(text: &[u8]) {
    let is_json =
        str::from_utf8(text).is_ok() && serde_json::from_slice::<IgnoredAny>(text).is_ok();
    let Some(spelled) = canonical(text) else {
        // It may be nested deeper than is followed.
        assert!(!is_json || text.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() > 128);
        return;
    };
    assert!(is_json);
    assert_eq!(canonical(&spelled), Some(spelled.clone()));
    let value = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).ok();
    assert_eq!(value(text), value(&spelled));
}

/// An event of AWS's, of whichever source.
pub fn event(text: &[u8]) {
    crate::messages::fuzzing::event(text);
}

/// What a message carries: its body, its data, its value.
pub fn message(payload: &[u8]) {
    crate::messages::fuzzing::payload(payload);
}

/// Bytes as an attribute value: a letter for the type, then a text to the end of its line.
///
/// Every input is some value, and what is cut off or doubled still is one, which is what a fuzzer
/// needs; and a corpus file can be read:
///
/// ```text
/// Mjson
/// S{"id":1}
/// }
/// ```
struct Input<'a> {
    rest: &'a [u8],
    depth: usize,
}

impl Input<'_> {
    /// Deeper values do not exist in DynamoDB.
    const MAX_DEPTH: usize = 32;

    fn item(&mut self) -> Item {
        let mut item = Item::new();
        while !self.ends_with(b'}') {
            let name = self.text();
            item.insert(name, self.value());
        }
        item
    }

    fn value(&mut self) -> AttributeValue {
        let kind = self.byte();
        self.depth += 1;
        let value = match kind {
            Some(b'M') if self.depth < Self::MAX_DEPTH => AttributeValue::M(self.item()),
            Some(b'L') if self.depth < Self::MAX_DEPTH => AttributeValue::L(self.list()),
            Some(b'S') => AttributeValue::S(self.text()),
            Some(b'N') => AttributeValue::N(self.text()),
            Some(b'B') => AttributeValue::B(Blob::new(self.line())),
            Some(b'T') => AttributeValue::Bool(true),
            _ => AttributeValue::Null(true),
        };
        self.depth -= 1;
        value
    }

    fn list(&mut self) -> Vec<AttributeValue> {
        let mut values = Vec::new();
        while !self.ends_with(b']') {
            values.push(self.value());
        }
        values
    }

    /// Whether a map or a list ends here: with its bracket and the rest of the line, or with the
    /// input.
    fn ends_with(&mut self, bracket: u8) -> bool {
        let ends = self.rest.first().is_none_or(|byte| *byte == bracket);
        if ends {
            self.line();
        }
        ends
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(self.line()).into_owned()
    }

    fn line(&mut self) -> &[u8] {
        let end = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        line
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The inputs in `fuzz/corpus` stay checked without a fuzzer.
    fn corpus(target: &str, run: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
        let mut count = 0;
        for entry in folder.read_dir().unwrap() {
            run(&std::fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 0, "{} is empty", folder.display());
    }

    #[test]
    fn the_corpus_of_each_target_passes() {
        corpus("idempotency_key", idempotency_key);
        corpus("record", record);
        corpus("response", response);
        corpus("json", json);
        corpus("event", event);
        corpus("message", message);
    }

    /// Were the notation misread, the fuzzer would look at nothing but errors.
    #[test]
    fn the_corpus_has_records_and_answers_that_can_be_read() {
        let read = |path: &str| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
            std::fs::read(folder.join(path)).unwrap()
        };
        for name in ["pending", "completed", "failed", "steps"] {
            let text = read(&format!("record/{name}"));
            let item = Input { rest: &text, depth: 0 }.item();
            let record = Record::decode(&TableSchema::default(), item);
            assert!(record.is_ok(), "{name}: {record:?}");
        }
        let owner = Owner::random().unwrap();
        for name in ["json", "http", "http-empty", "unavailable", "packed", "parts"] {
            let text = read(&format!("response/{name}"));
            let value = Input { rest: &text, depth: 0 }.value();
            assert!(Stored::decode(value.clone(), &owner).is_some(), "{name}: {value:?}");
        }
    }

    #[test]
    fn every_input_is_some_value() {
        for input in ["", "M", "Ma", "Ma\nS", "L]", "}}}", "\n\n", "LLLL", "Ma\nLS\nN1\n]\n}\nx"] {
            Input { rest: input.as_bytes(), depth: 0 }.value();
            Input { rest: input.as_bytes(), depth: 0 }.item();
        }
        let deep = "L".repeat(100_000);
        Input { rest: deep.as_bytes(), depth: 0 }.value();
    }
}
