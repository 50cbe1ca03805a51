//! An answer in parts, which are separate items, and the manifest in its record.
//!
//! ```text
//! {"parts": 9, "bytes": 300000, "plain_bytes": 1048576, "codec": "zstd", "sha256": …}
//! ```

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use sha2::{Digest as _, Sha256};

use super::compression::Codec;
use super::encoded::Encoded;
use crate::fault_injection::{self, FaultPoint, is_broken};
use crate::store::record::OwnerId;

/// The limits for the size of a part; only the last part may be smaller. With its other attributes a
/// part is just below a whole number of KB, so that the attributes cost no additional unit.
const MAX_PART_BYTES: usize = 128 * 1024 - ATTRIBUTES_BYTES;
const MIN_PART_BYTES: usize = 32 * 1024 - ATTRIBUTES_BYTES;
const ATTRIBUTES_BYTES: usize = 512;

/// The limit for the number of parts. No answer is so large that it reaches this limit.
const MAX_PARTS: u32 = 1 << 20;

/// The limit for parts in flight. An answer of 256 KB to 1 MB is split into this many parts.
pub(crate) const MAX_PARTS_IN_FLIGHT: usize = 9;

/// For an answer up to this size, [`MIN_BYTES_IN_FLIGHT`] may always be in flight, even if that takes more
/// memory than [`Manifest::max_writes_in_flight`] otherwise allows. This saves two round trips.
const SHORT_BYTES: usize = 256 * 1024;
const MIN_BYTES_IN_FLIGHT: usize = 96 * 1024;

/// The memory that each byte in flight takes, in bytes (`tests/cost/memory.rs`): as plain bytes, as
/// base64, as JSON, and the SDK's spare capacity.
const MEMORY_OF_A_WRITE: usize = 6;

pub(super) const PARTS: &str = "parts";
const BYTES: &str = "bytes";
const PLAIN_BYTES: &str = "plain_bytes";
const CODEC: &str = "codec";
const SHA256: &str = "sha256";

/// Identifies the parts of one answer. Their names contain the first 64 bits of the digest and the
/// owner's id, so that another answer of the same owner has other parts.
pub(crate) fn digest<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    pieces.into_iter().for_each(|piece| hash.update(piece));
    hash.finalize().into()
}

/// The record's description of an answer in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The owner who wrote the parts and the record.
    pub(crate) owner: OwnerId,
    pub(crate) parts: u32,
    /// The size of all parts together.
    pub(crate) bytes: usize,
    pub(crate) plain_bytes: usize,
    pub(crate) codec: Codec,
    pub(crate) digest: [u8; 32],
}

impl Manifest {
    pub(crate) fn encode(&self) -> AttributeValue {
        let number = |number: &dyn ToString| AttributeValue::N(number.to_string());
        let fields = [
            (PARTS, number(&self.parts)),
            (BYTES, number(&self.bytes)),
            (PLAIN_BYTES, number(&self.plain_bytes)),
            (CODEC, AttributeValue::S(self.codec.name().to_owned())),
            (SHA256, AttributeValue::B(Blob::new(self.digest))),
        ];
        AttributeValue::M(fields.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// Parses the manifest in a record of `owner`; `None` if this version does not write such a
    /// manifest.
    pub(super) fn decode(
        mut fields: HashMap<String, AttributeValue>,
        owner: &OwnerId,
    ) -> Option<Self> {
        let digest = fields.remove(SHA256)?;
        let manifest = Self {
            owner: *owner,
            parts: number(&mut fields, PARTS)?,
            bytes: number(&mut fields, BYTES)?,
            plain_bytes: number(&mut fields, PLAIN_BYTES)?,
            codec: Codec::named(fields.remove(CODEC)?.as_s().ok()?)?,
            digest: digest.as_b().ok()?.as_ref().try_into().ok()?,
        };
        let bytes = u32::try_from(manifest.bytes).unwrap_or(u32::MAX);
        let is_possible = (1..=MAX_PARTS.min(bytes)).contains(&manifest.parts);
        (is_possible && fields.is_empty()).then_some(manifest)
    }

    /// Returns how many writes of parts may be in flight. Storing an answer may take two and a half
    /// times its size in memory, which includes its plain and its encoded bytes.
    pub(crate) fn max_writes_in_flight(&self) -> usize {
        let encoded = if self.codec == Codec::Raw { 0 } else { self.bytes };
        let room = (self.plain_bytes / 2 * 3).saturating_sub(encoded) / MEMORY_OF_A_WRITE;
        let is_short = self.plain_bytes <= SHORT_BYTES;
        let room = if is_short { room.max(MIN_BYTES_IN_FLIGHT) } else { room };
        let parts = usize::try_from(self.parts).unwrap_or(usize::MAX);
        // Rounded: the room for three quarters of a part counts as room for one, because the last part may
        // be smaller than the others.
        let writes = (room.saturating_mul(parts) + self.bytes / 4) / self.bytes.max(1);
        writes.clamp(1, MAX_PARTS_IN_FLIGHT)
    }
}

/// Returns the size of each part of an answer of `bytes` bytes.
fn part_bytes(bytes: usize) -> usize {
    let even = (bytes.div_ceil(MAX_PARTS_IN_FLIGHT) + ATTRIBUTES_BYTES).next_multiple_of(1024);
    let even = (even - ATTRIBUTES_BYTES).clamp(MIN_PART_BYTES, MAX_PART_BYTES);
    fault_injection::part_bytes().unwrap_or(even)
}

fn number<T: std::str::FromStr>(
    fields: &mut HashMap<String, AttributeValue>,
    name: &str,
) -> Option<T> {
    fields.remove(name)?.as_n().ok()?.parse().ok()
}

/// The bytes of an answer, to be written in parts before their record.
#[derive(Debug)]
pub(crate) struct AnswerParts {
    pub(crate) manifest: Manifest,
    encoded: Encoded,
    fits_in_record: bool,
}

impl AnswerParts {
    /// Splits the bytes into parts; `None` if there are too many.
    pub(super) fn new(encoded: Encoded, owner: &OwnerId, fits_in_record: bool) -> Option<Self> {
        let parts = encoded.len().div_ceil(part_bytes(encoded.len())).try_into().ok()?;
        let manifest = Manifest {
            owner: *owner,
            parts,
            bytes: encoded.len(),
            plain_bytes: encoded.plain_bytes,
            codec: encoded.codec,
            digest: digest([&encoded.body[..], &encoded.tail]),
        };
        (parts <= MAX_PARTS).then_some(Self { manifest, encoded, fits_in_record })
    }

    /// Returns the same bytes as they are stored in the record, in case the parts cannot be written;
    /// `None` if the record has no room.
    pub(crate) fn in_record(self) -> Option<Encoded> {
        let fits = self.fits_in_record && !is_broken(FaultPoint::LoseUnwrittenAnswers);
        fits.then_some(self.encoded)
    }

    /// Copies one part, counted from 0.
    pub(crate) fn part(&self, number: u32) -> Vec<u8> {
        let length = part_bytes(self.encoded.len());
        let start = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(length);
        self.encoded.copy(start, length)
    }
}
