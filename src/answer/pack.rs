//! Chooses the form in which an answer is stored.

use super::codec::Coder;
use super::compression::{self, Codec};
use super::encoded::{Encoded, HEADER_BYTES, Unstorable};
use super::reason::{NOT_ENCODED, PARTS_NOT_WRITTEN};
use super::split::AnswerParts;
use super::{Answer, Stored};
use crate::policy::{Compression, LargeAnswers, Policy};
use crate::store::record::{MAX_ITEM_BYTES, OwnerId};

/// The size of a write unit.
const UNIT_BYTES: usize = 1024;

/// The length prefix is a u32.
const MAX_PLAIN_BYTES: usize = u32::MAX as usize;

/// An answer in its stored form.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) stored: Stored,
    /// The parts that must be stored before the record.
    pub(crate) parts: Option<AnswerParts>,
}

impl Unstorable {
    /// Returns what is stored instead of the answer.
    pub(crate) fn replacement(&self) -> Stored {
        match self {
            Self::TooLarge { .. } => Stored::unavailable(self.to_string()),
            Self::NotEncoded(_) => Stored::unavailable(NOT_ENCODED),
            Self::PartsNotWritten(_) => Stored::unavailable(PARTS_NOT_WRITTEN),
        }
    }
}

/// Chooses the form of an answer. `rest` is the size of the record without it. Parts belong to
/// `owner`; without an owner, an answer that does not fit into the record is too large.
pub(crate) fn pack(
    answer: Answer,
    rest: usize,
    owner: Option<&OwnerId>,
    coder: Coder<'_>,
    policy: &Policy,
) -> Result<Packed, Unstorable> {
    let in_record = |stored| Ok(Packed { stored, parts: None });
    let Some(tail) = answer.tail() else { return in_record(Stored::Readable(answer)) };
    let plain_bytes = answer.body().len() + tail.len();
    let limit = policy.max_answer_bytes.min(MAX_PLAIN_BYTES);
    if plain_bytes > limit {
        return Err(Unstorable::TooLarge { bytes: plain_bytes, limit });
    }
    // With a codec, an answer has two headers. The codec's own overhead is left out, because it is the
    // same with and without compression.
    let (header, plain) = if coder.is_set() {
        (2 * HEADER_BYTES, rest + 2 * HEADER_BYTES + plain_bytes)
    } else {
        (HEADER_BYTES, rest + answer.readable_bytes())
    };
    let mut encoded = match compressed(&answer, &tail, (rest + header, plain), coder, policy) {
        Some(bytes) => Encoded::new(Codec::Zstd, plain_bytes, bytes),
        None => Encoded { tail, ..Encoded::new(Codec::Raw, plain_bytes, answer.body().clone()) },
    };
    if coder.is_set() {
        encoded = encoded.encode_with(coder, policy.max_answer_bytes)?;
    }
    let is_readable = encoded.codec == Codec::Raw;
    let as_bytes = rest + HEADER_BYTES + encoded.len();
    let record = if is_readable { plain } else { as_bytes };
    let too_large = || Unstorable::TooLarge { bytes: record, limit: MAX_ITEM_BYTES };
    let owner = owner.filter(|_| match policy.large_answers {
        // Parts are never empty.
        LargeAnswers::InParts { above } => record > above.min(MAX_ITEM_BYTES) && encoded.len() > 0,
        LargeAnswers::InRecord => false,
    });
    match owner {
        Some(owner) => {
            let fits_in_record = as_bytes <= MAX_ITEM_BYTES;
            let parts = AnswerParts::new(encoded, owner, fits_in_record).ok_or_else(too_large)?;
            Ok(Packed { stored: Stored::Parts(parts.manifest.clone()), parts: Some(parts) })
        }
        None if record > MAX_ITEM_BYTES => Err(too_large()),
        None if is_readable => in_record(Stored::Readable(answer)),
        None => in_record(Stored::Encoded(encoded)),
    }
}

/// Returns the compressed bytes of an answer if they save write units or, with a codec, any bytes. `rest`
/// is the record's size without them, `plain` its size without compression.
fn compressed(
    answer: &Answer,
    tail: &[u8],
    (rest, plain): (usize, usize),
    coder: Coder<'_>,
    policy: &Policy,
) -> Option<Vec<u8>> {
    let units = |bytes: usize| bytes.div_ceil(UNIT_BYTES);
    let may_save = if coder.is_set() {
        // The codec's overhead is not known yet. It can double the size of a short answer.
        units(2 * plain) > 1
    } else {
        // What is not the answer cannot be compressed: a long key, metadata, steps.
        units(plain) > units(rest + 1)
    };
    if policy.compression == Compression::Off || !may_save {
        return None;
    }
    let bytes = compression::compress(answer, tail)?;
    let length = rest + bytes.len();
    // If compression saves no unit, the readable form is better. A codec's output is not readable.
    let saves = if coder.is_set() { length < plain } else { units(length) < units(plain) };
    saves.then_some(bytes)
}
