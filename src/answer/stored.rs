//! What a record contains as its answer.

use aws_sdk_dynamodb::types::AttributeValue;

use super::compression::{self, Codec};
use super::encoded::HEADER_BYTES;
use super::{Answer, Manifest, flat};
use crate::answer::codec::Coder;
use crate::record::OwnerId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The answer itself.
    Readable(Answer),
    /// The answer as bytes.
    Packed(Coded),
    /// The manifest of an answer in parts.
    Parts(Manifest),
}

/// The stored bytes of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Coded {
    pub(crate) codec: Codec,
    pub(crate) plain_bytes: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Stored {
    /// Reads the answer's attribute in a record of `owner`; `None` if this version does not write
    /// such a value.
    pub(crate) fn decode(response: AttributeValue, owner: &OwnerId) -> Option<Self> {
        match response {
            AttributeValue::B(bytes) => Coded::decode(bytes.into_inner()).map(Self::Packed),
            AttributeValue::M(fields) if Manifest::is_one(&fields) => {
                Manifest::decode(fields, owner).map(Self::Parts)
            }
            other => Answer::decode(other).map(Self::Readable),
        }
    }

    /// Returns the answer in the record, or the location of its parts. Uses at most `max_bytes` of
    /// memory, whatever the record claims.
    pub(crate) fn in_record(self, max_bytes: usize, coder: Coder<'_>) -> Result<Answer, Manifest> {
        match self {
            // The crate wrote this reason.
            Self::Readable(answer @ Answer::Unavailable(_)) => Ok(answer),
            Self::Readable(answer) => {
                Ok(coder.accept_plain().map_or_else(Answer::Unavailable, |()| answer))
            }
            Self::Packed(bytes) => Ok(bytes.open(max_bytes, coder)),
            Self::Parts(manifest) => Err(manifest),
        }
    }

    /// The number of bytes, if the user's codec wrote them.
    #[cfg(feature = "admin")]
    pub(crate) fn custom_bytes(&self) -> Option<usize> {
        match self {
            Self::Packed(Coded { codec: Codec::Custom, bytes, .. }) => Some(bytes.len()),
            Self::Parts(Manifest { codec: Codec::Custom, bytes, .. }) => Some(*bytes),
            Self::Packed(_) | Self::Parts(_) | Self::Readable(_) => None,
        }
    }
}

impl Coded {
    fn decode(mut bytes: Vec<u8>) -> Option<Self> {
        let (codec, rest) = bytes.split_first()?;
        let codec = Codec::of(*codec)?;
        let (plain_bytes, _) = rest.split_first_chunk::<4>()?;
        let plain_bytes = usize::try_from(u32::from_be_bytes(*plain_bytes)).ok()?;
        bytes.drain(..HEADER_BYTES);
        Some(Self { codec, plain_bytes, bytes })
    }

    /// Returns the answer, or the reason why the bytes are not valid.
    fn open(self, max_bytes: usize, coder: Coder<'_>) -> Answer {
        self.read(max_bytes, coder).unwrap_or_else(Answer::Unavailable)
    }

    fn read(self, max_bytes: usize, coder: Coder<'_>) -> Result<Answer, String> {
        if self.plain_bytes > max_bytes {
            return Err(too_large(self.plain_bytes, max_bytes));
        }
        match self.codec {
            Codec::Custom => self.decoded(coder)?.plain(),
            Codec::Raw | Codec::Zstd => {
                coder.accept_plain()?;
                self.plain()
            }
        }
    }

    /// Returns the bytes that the user's codec received.
    fn decoded(self, coder: Coder<'_>) -> Result<Self, String> {
        let Self { plain_bytes, bytes, .. } = self;
        let inner = Self::decode(coder.decode(bytes)?);
        let inner = inner.filter(|inner| inner.plain_bytes == plain_bytes);
        inner.ok_or_else(|| "what its AnswerCodec made of it is no answer".to_owned())
    }

    fn plain(self) -> Result<Answer, String> {
        let Self { codec, plain_bytes, bytes } = self;
        let plain = match codec {
            Codec::Raw if bytes.len() == plain_bytes => Ok(bytes),
            Codec::Raw => Err("it has another length than it should have"),
            Codec::Zstd => compression::decompress(&bytes, plain_bytes),
            Codec::Custom => Err("it was encoded twice"),
        };
        flat::read(plain?).ok_or_else(|| "it is damaged".to_owned())
    }
}

impl Manifest {
    /// Returns the answer from all parts, or the reason why they are not valid.
    pub(crate) fn open(&self, bytes: Vec<u8>, max_bytes: usize, coder: Coder<'_>) -> Answer {
        let Self { codec, plain_bytes, .. } = *self;
        Coded { codec, plain_bytes, bytes }.open(max_bytes, coder)
    }
}

/// Why an answer is not readable.
pub(crate) fn too_large(bytes: usize, limit: usize) -> String {
    format!("it has {bytes} bytes, and Policy::max_answer_bytes is {limit}")
}
