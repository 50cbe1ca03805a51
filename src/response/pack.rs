//! Choosing the form in which an answer is stored.

use std::borrow::Cow;
use std::fmt;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use super::compression::{self, Codec};
use super::parts::Content;
use super::readable::readable_bytes;
use super::{BodyRef, Draft, encode_http, encode_json, encode_unavailable};
use crate::policy::{Compression, LargeAnswers, Policy};
use crate::record::{FAILED_BYTES, MAX_ITEM_BYTES, Owner};

/// What DynamoDB bills a write by.
const UNIT_BYTES: usize = 1024;

/// Of bytes in a record: the codec and the plain length as a big-endian u32 come first.
pub(super) const HEADER_BYTES: usize = 5;

/// An answer as it is stored.
#[derive(Debug)]
pub(crate) struct Packed<'a> {
    /// What stands in the record.
    pub(crate) response: AttributeValue,
    /// What has to be in the table before the record.
    pub(crate) parts: Option<Content<'a>>,
}

/// Why an answer cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge {
    pub(crate) bytes: usize,
    pub(crate) limit: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is too large: {} bytes, of at most {}", self.bytes, self.limit)
    }
}

/// The bytes of an answer after compression, before they go into the record or into parts. What stores
/// answers in a form of its own (encrypted, say) takes and gives one of these.
#[derive(Debug)]
pub(super) struct Encoded<'a> {
    pub(super) codec: Codec,
    pub(super) plain_bytes: usize,
    body: Cow<'a, [u8]>,
    tail: Vec<u8>,
}

impl<'a> Encoded<'a> {
    fn compressed(bytes: Vec<u8>, plain_bytes: usize) -> Self {
        Self { codec: Codec::Zstd, plain_bytes, body: Cow::Owned(bytes), tail: Vec::new() }
    }

    fn raw(draft: Draft<'a>, tail: Vec<u8>, plain_bytes: usize) -> Self {
        let body = match draft {
            Draft::Json(Cow::Borrowed(json)) => Cow::Borrowed(json.as_bytes()),
            Draft::Json(Cow::Owned(json)) => Cow::Owned(json.into_bytes()),
            Draft::Http { body: BodyRef::Text(text), .. } => Cow::Borrowed(text.as_bytes()),
            Draft::Http { body: BodyRef::Binary(bytes), .. } => Cow::Borrowed(bytes),
            Draft::Http { body: BodyRef::Empty, .. } | Draft::Unavailable(_) => {
                Cow::Borrowed(&[][..])
            }
        };
        Self { codec: Codec::Raw, plain_bytes, body, tail }
    }

    pub(super) fn len(&self) -> usize {
        self.body.len() + self.tail.len()
    }

    pub(super) fn pieces(&self) -> [&[u8]; 2] {
        [&self.body, &self.tail]
    }

    /// Up to `length` of the bytes from `start` on.
    pub(super) fn copy(&self, start: usize, length: usize) -> Vec<u8> {
        let body = self.body.get(start..).unwrap_or_default();
        let body = &body[..body.len().min(length)];
        let start = start.saturating_sub(self.body.len());
        let tail = self.tail.get(start..).unwrap_or_default();
        [body, &tail[..tail.len().min(length - body.len())]].concat()
    }

    /// As it stands in the record.
    pub(super) fn inline(&self) -> Option<AttributeValue> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.len());
        bytes.push(self.codec.byte());
        bytes.extend(u32::try_from(self.plain_bytes).ok()?.to_be_bytes());
        self.pieces().into_iter().for_each(|piece| bytes.extend(piece));
        Some(AttributeValue::B(Blob::new(bytes)))
    }
}

/// Gives an answer its form, beside `rest` bytes that the record has anyway. Parts belong to `owner`;
/// where there is none, the answer goes into the record or is too large.
pub(crate) fn pack<'a>(
    draft: Draft<'a>,
    rest: usize,
    owner: Option<&Owner>,
    policy: &Policy,
) -> Result<Packed<'a>, TooLarge> {
    let in_record = |response| Ok(Packed { response, parts: None });
    let readable = rest + readable_bytes(&draft);
    let Some(tail) = draft.tail() else { return in_record(draft.readable()) };
    let plain_bytes = draft.body().len() + tail.len();
    if plain_bytes > policy.max_answer_bytes {
        return Err(TooLarge { bytes: plain_bytes, limit: policy.max_answer_bytes });
    }
    let units = |bytes: usize| bytes.div_ceil(UNIT_BYTES);
    let packed = match policy.compression {
        Compression::Auto if units(readable) > 1 => compression::compress(&draft, &tail),
        Compression::Auto | Compression::Off => None,
    };
    // Where it saves no unit, an answer that can be read is worth more.
    let packed = packed.map(|bytes| (rest + HEADER_BYTES + bytes.len(), bytes));
    let packed = packed.filter(|(record, _)| units(*record) < units(readable));
    let record = packed.as_ref().map_or(readable, |(record, _)| *record);
    let owner = match policy.large_answers {
        LargeAnswers::InParts { above } => owner.filter(|_| record > above.min(MAX_ITEM_BYTES)),
        LargeAnswers::InRecord => None,
    };
    let too_large = TooLarge { bytes: record, limit: MAX_ITEM_BYTES };
    if owner.is_none() && record > MAX_ITEM_BYTES {
        return Err(too_large);
    }
    match (packed, owner) {
        (None, None) => in_record(draft.readable()),
        (Some((_, bytes)), None) => {
            in_record(Encoded::compressed(bytes, plain_bytes).inline().ok_or(too_large)?)
        }
        (packed, Some(owner)) => {
            let encoded = match packed {
                Some((_, bytes)) => Encoded::compressed(bytes, plain_bytes),
                None => Encoded::raw(draft, tail, plain_bytes),
            };
            let fits_in_record = rest + HEADER_BYTES + encoded.len() <= MAX_ITEM_BYTES;
            let parts = Content::new(encoded, owner, fits_in_record).ok_or(too_large)?;
            Ok(Packed { response: parts.manifest.encode(), parts: Some(parts) })
        }
    }
}

/// What stands in the record for an answer that is not to be had.
pub(crate) fn unavailable(reason: impl Into<Cow<'static, str>>) -> AttributeValue {
    Draft::Unavailable(reason.into()).readable()
}

impl Policy {
    /// A failure that is kept, if there is room for it beside so many bytes of steps.
    pub(crate) fn pack_failure(&self, failure: Draft<'_>, steps: usize) -> Option<AttributeValue> {
        let packed = pack(failure, FAILED_BYTES + steps, None, self);
        packed.ok().map(|packed| packed.response)
    }
}

impl Draft<'_> {
    /// The form that can be read.
    fn readable(self) -> AttributeValue {
        match self {
            Self::Json(json) => encode_json(json.into_owned()),
            Self::Http { status, headers, body } => {
                let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
                encode_http(status, headers, body)
            }
            Self::Unavailable(reason) => encode_unavailable(&reason),
        }
    }
}
