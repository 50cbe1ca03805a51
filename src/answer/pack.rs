//! Chooses the form in which an answer is stored.

use std::borrow::Cow;

use aws_sdk_dynamodb::types::AttributeValue;

use super::compression;
use super::encoded::{Encoded, HEADER_BYTES, Unstorable};
use super::parts::Content;
use super::readable::readable_bytes;
use super::{Draft, encode_http, encode_json, encode_unavailable, is_unavailable};
use crate::answer::codec::{Coder, NOT_ENCODED};
use crate::policy::{Compression, LargeAnswers, Policy};
use crate::record::{FAILED_BYTES, MAX_ITEM_BYTES, OwnerId, value_bytes};

/// The size of a write unit.
const UNIT_BYTES: usize = 1024;

/// The length prefix is a u32.
const MOST_PLAIN_BYTES: usize = u32::MAX as usize;

/// An answer in its stored form.
#[derive(Debug)]
pub(crate) struct Packed<'a> {
    pub(crate) response: InRecord<'a>,
    /// The parts that must be stored before the record.
    pub(crate) parts: Option<Content<'a>>,
}

/// The record's attribute for the answer. Each write creates a new value for the SDK, so a plain
/// answer is copied only once.
#[derive(Debug)]
pub(crate) enum InRecord<'a> {
    Readable(Draft<'a>),
    Encoded(Encoded<'a>),
    Made(AttributeValue),
}

impl InRecord<'_> {
    pub(crate) fn attribute(&self) -> AttributeValue {
        match self {
            Self::Readable(draft) => draft.readable(),
            Self::Encoded(encoded) => encoded.inline(),
            Self::Made(value) => value.clone(),
        }
    }

    /// The size that DynamoDB counts for it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Readable(draft) => readable_bytes(draft),
            Self::Encoded(encoded) => HEADER_BYTES + encoded.len(),
            Self::Made(value) => value_bytes(value),
        }
    }

    /// Returns whether it is a reason instead of an answer.
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::Readable(draft) => matches!(draft, Draft::Unavailable(_)),
            Self::Encoded(_) => false,
            Self::Made(value) => is_unavailable(value),
        }
    }
}

impl Unstorable {
    /// Returns the value that is stored instead of the answer.
    pub(crate) fn in_place(&self) -> AttributeValue {
        match self {
            Self::TooLarge { .. } => unavailable_answer(self.to_string()),
            Self::NotEncoded(_) => unavailable_answer(NOT_ENCODED),
        }
    }
}

/// The form of an answer, independent of where it is stored.
enum Form<'a> {
    /// Not encoded: readable, if it is stored in the record.
    Plain(Draft<'a>, Vec<u8>),
    Bytes(Encoded<'a>),
}

/// Chooses the form of an answer. `rest` is the size of the record without it. Parts belong to
/// `owner`; without an owner, an answer that does not fit into the record is too large.
pub(crate) fn pack<'a>(
    draft: Draft<'a>,
    rest: usize,
    owner: Option<&OwnerId>,
    coder: Coder<'_>,
    policy: &Policy,
) -> Result<Packed<'a>, Unstorable> {
    let in_record = |response| Ok(Packed { response, parts: None });
    let Some(tail) = draft.tail() else { return in_record(InRecord::Readable(draft)) };
    let plain_bytes = draft.body().len() + tail.len();
    let limit = policy.max_answer_bytes.min(MOST_PLAIN_BYTES);
    if plain_bytes > limit {
        return Err(Unstorable::TooLarge { bytes: plain_bytes, limit });
    }
    // The codec's overhead is the same with and without compression, and its output is never
    // readable.
    let (header, plain) = if coder.is_set() {
        (2 * HEADER_BYTES, rest + 2 * HEADER_BYTES + plain_bytes)
    } else {
        (HEADER_BYTES, rest + readable_bytes(&draft))
    };
    let form = match compressed(&draft, &tail, (rest + header, plain), coder, policy) {
        Some(bytes) => Form::Bytes(Encoded::compressed(bytes, plain_bytes)),
        None => Form::Plain(draft, tail),
    };
    let form = if coder.is_set() {
        Form::Bytes(form.bytes(plain_bytes).by(coder, policy.max_answer_bytes)?)
    } else {
        form
    };
    let record = match &form {
        Form::Plain(..) => plain,
        Form::Bytes(encoded) => rest + HEADER_BYTES + encoded.len(),
    };
    let owner = match policy.large_answers {
        LargeAnswers::InParts { above } => {
            owner.filter(|_| record > above.min(MAX_ITEM_BYTES) && !form.is_empty())
        }
        LargeAnswers::InRecord => None,
    };
    let too_large = || Unstorable::TooLarge { bytes: record, limit: MAX_ITEM_BYTES };
    let Some(owner) = owner else {
        return match form {
            _ if record > MAX_ITEM_BYTES => Err(too_large()),
            Form::Plain(draft, _) => in_record(InRecord::Readable(draft)),
            Form::Bytes(encoded) => in_record(InRecord::Encoded(encoded)),
        };
    };
    let encoded = form.bytes(plain_bytes);
    let fits_in_record = rest + HEADER_BYTES + encoded.len() <= MAX_ITEM_BYTES;
    let parts = Content::new(encoded, owner, fits_in_record).ok_or_else(too_large)?;
    Ok(Packed { response: InRecord::Made(parts.manifest.encode()), parts: Some(parts) })
}

/// Returns the compressed bytes of an answer if they save write units. `beside` is the record's
/// size without them, `plain` its size without compression.
fn compressed(
    draft: &Draft<'_>,
    tail: &[u8],
    (beside, plain): (usize, usize),
    coder: Coder<'_>,
    policy: &Policy,
) -> Option<Vec<u8>> {
    let units = |bytes: usize| bytes.div_ceil(UNIT_BYTES);
    // The codec's overhead is not known yet. It may double a short answer.
    let may_save = units(plain) > 1 || coder.is_set() && units(2 * plain) > 1;
    if policy.compression == Compression::Off || !may_save {
        return None;
    }
    let bytes = compression::compress(draft, tail)?;
    let length = beside + bytes.len();
    // If compression saves no unit, the readable form is better. A codec's output is never
    // readable.
    let saves = if coder.is_set() { length < plain } else { units(length) < units(plain) };
    saves.then_some(bytes)
}

impl<'a> Form<'a> {
    /// Parts are never empty.
    fn is_empty(&self) -> bool {
        matches!(self, Self::Bytes(encoded) if encoded.len() == 0)
    }

    fn bytes(self, plain_bytes: usize) -> Encoded<'a> {
        match self {
            Self::Plain(draft, tail) => Encoded::raw(draft, tail, plain_bytes),
            Self::Bytes(encoded) => encoded,
        }
    }
}

/// Returns the value that is stored for an answer that is not available.
pub(crate) fn unavailable_answer(reason: impl Into<Cow<'static, str>>) -> AttributeValue {
    Draft::Unavailable(reason.into()).readable()
}

/// Packs a failure that is kept. `steps` is the size of the record's steps.
pub(crate) fn pack_failure(
    failure: Draft<'_>,
    steps: usize,
    coder: Coder<'_>,
    policy: &Policy,
) -> Result<AttributeValue, Unstorable> {
    pack(failure, FAILED_BYTES + steps, None, coder, policy)
        .map(|packed| packed.response.attribute())
}

impl Draft<'_> {
    /// Returns the readable form.
    fn readable(&self) -> AttributeValue {
        match self {
            Self::Json(json) => encode_json(json.clone().into_owned()),
            Self::Http { status, headers, body } => {
                let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
                encode_http(*status, headers, *body)
            }
            Self::Unavailable(reason) => encode_unavailable(reason),
        }
    }
}
