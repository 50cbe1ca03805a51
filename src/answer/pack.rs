//! Choosing the form in which an answer is stored.

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

/// What DynamoDB bills a write by.
const UNIT_BYTES: usize = 1024;

/// More cannot be told of.
const MOST_PLAIN_BYTES: usize = u32::MAX as usize;

/// An answer as it is stored.
#[derive(Debug)]
pub(crate) struct Packed<'a> {
    pub(crate) response: InRecord<'a>,
    /// What has to be in the table before the record.
    pub(crate) parts: Option<Content<'a>>,
}

/// What stands in the record. Whatever is sent is the SDK's: it is made anew for each write, and an answer
/// is copied once.
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

    /// What DynamoDB counts for it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Readable(draft) => readable_bytes(draft),
            Self::Encoded(encoded) => HEADER_BYTES + encoded.len(),
            Self::Made(value) => value_bytes(value),
        }
    }

    /// Whether it is a reason in the answer's place.
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::Readable(draft) => matches!(draft, Draft::Unavailable(_)),
            Self::Encoded(_) => false,
            Self::Made(value) => is_unavailable(value),
        }
    }
}

impl Unstorable {
    /// What stands in the record in the answer's place.
    pub(crate) fn in_place(&self) -> AttributeValue {
        match self {
            Self::TooLarge { .. } => unavailable_answer(self.to_string()),
            Self::NotEncoded(_) => unavailable_answer(NOT_ENCODED),
        }
    }
}

/// What an answer is stored as, wherever that is.
enum Form<'a> {
    /// As it is: so that it can be read, where the record has it.
    Plain(Draft<'a>, Vec<u8>),
    Bytes(Encoded<'a>),
}

/// Gives an answer its form, beside `rest` bytes that the record has anyway. Parts belong to `owner`;
/// where there is none, the answer goes into the record or is too large.
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
    // What a codec adds, it adds to either; and what it writes, nobody can read.
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

/// An answer's bytes after compression, where that saves something; `beside` is what the record has
/// besides them, `plain` what it has without compression.
fn compressed(
    draft: &Draft<'_>,
    tail: &[u8],
    (beside, plain): (usize, usize),
    coder: Coder<'_>,
    policy: &Policy,
) -> Option<Vec<u8>> {
    let units = |bytes: usize| bytes.div_ceil(UNIT_BYTES);
    // What a codec adds is not known yet; it may as much as double a short answer.
    let may_save = units(plain) > 1 || coder.is_set() && units(2 * plain) > 1;
    if policy.compression == Compression::Off || !may_save {
        return None;
    }
    let bytes = compression::compress(draft, tail)?;
    let length = beside + bytes.len();
    // Where it saves no unit, an answer that can be read is worth more; a codec's cannot be.
    let saves = if coder.is_set() { length < plain } else { units(length) < units(plain) };
    saves.then_some(bytes)
}

impl<'a> Form<'a> {
    /// No part has nothing in it.
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

/// What stands in the record for an answer that is not to be had.
pub(crate) fn unavailable_answer(reason: impl Into<Cow<'static, str>>) -> AttributeValue {
    Draft::Unavailable(reason.into()).readable()
}

/// A failure that is kept, beside so many bytes of steps.
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
    /// The form that can be read.
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
