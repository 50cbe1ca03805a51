//! The pure parts of a call one by one, for the project's benchmarks (`benches/`): they are timed
//! alone, without a store, and callers reach none of them by themselves.
//!
//! Not part of the API: the module is there with the feature `fuzzing` only, and may change with every
//! release.

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use crate::answer_codec::Coding;
use crate::clock::Timestamp;
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::http::{answer, key_header};
use crate::key::{KeyForm, RecordKey};
use crate::policy::{Compression, Policy};
use crate::protocol::{Decision, Request, decide};
use crate::record::{self, Claim, Item, Record};
use crate::response::{Answer, Stored, pack};
use crate::schema::TableSchema;

const NOW: Timestamp = Timestamp::from_millis(2_362_034_977_000);
const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Whether there is a key in the header.
#[must_use]
pub fn finds_key(headers: &HeaderMap) -> bool {
    matches!(key_header::parse(headers, &KEY_HEADER), Ok(Some(_)))
}

/// Headers with this key.
#[must_use]
pub fn headers(key: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(KEY_HEADER, HeaderValue::from_static(key))])
}

/// An answer as it stands in its record, if it fits there.
#[must_use]
pub fn encode_answer(
    response: &Response<Bytes>,
    compression: Compression,
) -> Option<AttributeValue> {
    let policy = Policy::default().compression(compression);
    let key = RecordKey::new(&"payments".into(), "order-42", KeyForm::Verbatim, 2048).ok()?;
    let coding = Coding::default();
    let packed = pack(answer::draft(response), 0, None, coding.of(&key), &policy).ok()?;
    Some(packed.response)
}

/// A call that has become the owner of its key, and a repeat of it.
#[derive(Debug)]
pub struct Calls {
    schema: TableSchema,
    policy: Policy,
    claim: Claim,
    repeat: Claim,
}

impl Calls {
    /// Two calls with one key.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub fn new() -> Result<Self, Error> {
        let key = RecordKey::new(&"payments".into(), "order-42", KeyForm::Verbatim, 2048)?;
        let claim = Claim::first(key.clone(), Fingerprint::EMPTY, NOW)?;
        let repeat = Claim::first(key, Fingerprint::EMPTY, NOW)?;
        Ok(Self { schema: TableSchema::default(), policy: Policy::default(), claim, repeat })
    }

    /// The record while the first one runs.
    #[must_use]
    pub fn pending(&self) -> Item {
        record::pending_item(&self.schema, &self.claim, NOW, 2_362_121_377)
    }

    /// The record when it has answered.
    #[must_use]
    pub fn completed(&self, response: AttributeValue) -> Item {
        record::completed_item(&self.schema, &self.claim, NOW, 2_362_121_377, response)
    }

    /// Whether it is an answer of the first one's that can be replayed.
    #[must_use]
    pub fn is_answer(&self, stored: AttributeValue) -> bool {
        let Some(stored) = Stored::decode(stored, &self.claim.owner) else { return false };
        let coding = Coding::default();
        let coder = coding.of(&self.claim.key);
        let Ok(answer) = stored.in_record(self.policy.max_answer_bytes, coder) else {
            return false;
        };
        let Answer::Http(answer) = answer else { return false };
        answer::replay::<Bytes>(answer).is_some()
    }

    /// Whether the repeat gets this record's answer.
    ///
    /// # Errors
    /// When it is no record.
    pub fn is_replayed(&self, item: Item) -> Result<bool, Error> {
        let record = Record::decode(&self.schema, item)?;
        let request = Request {
            owner: &self.repeat.owner,
            fingerprint: &self.repeat.fingerprint,
            policy: &self.policy,
            reconciles: false,
        };
        Ok(matches!(decide(Some(record), NOW, request), Decision::Replay { .. }))
    }
}
