//! What a record contains as its answer.

use std::borrow::Cow;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use super::codec::Coder;
use super::encoded::{Encoded, HEADER_BYTES};
use super::split::PARTS;
use super::{Answer, Manifest};
use crate::store::record::{Bound, OwnerId, value_bytes};

/// The record's attribute for the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The answer itself, or the reason why there is none.
    Readable(Answer),
    /// The answer as bytes.
    Encoded(Encoded),
    /// The manifest of an answer in parts.
    Parts(Manifest),
}

impl Stored {
    /// Returns the attribute, with a copy of the answer.
    pub(crate) fn attribute(&self) -> AttributeValue {
        match self {
            Self::Readable(answer) => answer.readable(),
            Self::Encoded(encoded) => AttributeValue::B(Blob::new(encoded.with_header())),
            Self::Parts(manifest) => manifest.encode(),
        }
    }

    /// The size that DynamoDB counts for it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Readable(answer) => answer.readable_bytes(),
            Self::Encoded(encoded) => HEADER_BYTES + encoded.len(),
            Self::Parts(manifest) => value_bytes(&manifest.encode(), Bound::Upper),
        }
    }

    /// Returns a reason instead of an answer.
    pub(crate) fn unavailable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Readable(Answer::Unavailable(reason.into()))
    }

    /// Returns whether it is a reason instead of an answer.
    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(self, Self::Readable(Answer::Unavailable(_)))
    }

    /// Reads the answer's attribute in a record of `owner`; `None` if this version does not write
    /// such a value.
    pub(crate) fn decode(response: AttributeValue, owner: &OwnerId) -> Option<Self> {
        match response {
            AttributeValue::B(bytes) => Encoded::decode(bytes.into_inner()).map(Self::Encoded),
            AttributeValue::M(fields) if fields.contains_key(PARTS) => {
                Manifest::decode(fields, owner).map(Self::Parts)
            }
            other => Answer::decode(other).map(Self::Readable),
        }
    }

    /// Returns the answer in the record, or the location of its parts. Uses at most `max_bytes` of
    /// memory, whatever the record claims.
    pub(crate) fn in_record(self, max_bytes: usize, coder: Coder<'_>) -> Result<Answer, Manifest> {
        match self {
            // A reason is never encoded, so it is accepted under `reject_plain_answers` too.
            Self::Readable(answer @ Answer::Unavailable(_)) => Ok(answer),
            Self::Readable(answer) => {
                let unavailable = |reason: String| Answer::Unavailable(reason.into());
                Ok(coder.accept_plain().map_or_else(unavailable, |()| answer))
            }
            Self::Encoded(bytes) => Ok(bytes.open(max_bytes, coder)),
            Self::Parts(manifest) => Err(manifest),
        }
    }

    /// The number of bytes, if the user's codec wrote them.
    #[cfg(feature = "admin")]
    pub(crate) fn custom_bytes(&self) -> Option<usize> {
        use super::compression::Codec;

        match self {
            Self::Encoded(encoded) if encoded.codec == Codec::Custom => Some(encoded.len()),
            Self::Parts(manifest) if manifest.codec == Codec::Custom => Some(manifest.bytes),
            Self::Encoded(_) | Self::Parts(_) | Self::Readable(_) => None,
        }
    }
}

impl Manifest {
    /// Returns the answer from all parts, or the reason why they are not valid.
    pub(crate) fn open(&self, bytes: Vec<u8>, max_bytes: usize, coder: Coder<'_>) -> Answer {
        Encoded::new(self.codec, self.plain_bytes, bytes).open(max_bytes, coder)
    }
}
