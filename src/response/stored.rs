//! What a record was found to hold in its answer's place.

use aws_sdk_dynamodb::types::AttributeValue;

use super::compression::{self, Codec};
use super::pack::HEADER_BYTES;
use super::{Answer, Manifest, flat};
use crate::record::Owner;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The answer itself.
    Readable(Answer),
    /// The answer as bytes.
    Packed(Coded),
    /// Where the answer is.
    Parts(Manifest),
}

/// An answer's bytes, as they were stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Coded {
    pub(crate) codec: Codec,
    pub(crate) plain_bytes: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Stored {
    /// Reads the answer's place in a record of `owner`'s; `None` if it has a shape that this version
    /// does not write.
    pub(crate) fn decode(response: AttributeValue, owner: &Owner) -> Option<Self> {
        match response {
            AttributeValue::B(bytes) => Coded::decode(bytes.into_inner()).map(Self::Packed),
            AttributeValue::M(fields) if Manifest::is_one(&fields) => {
                Manifest::decode(fields, owner).map(Self::Parts)
            }
            other => Answer::decode(other).map(Self::Readable),
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

    /// The answer; or, where these bytes are none, why not. Takes no more memory than for
    /// `max_bytes`, whatever they say.
    pub(crate) fn open(self, max_bytes: usize) -> Answer {
        let Self { codec, plain_bytes, bytes } = self;
        if plain_bytes > max_bytes {
            return Answer::Unavailable(too_large(plain_bytes, max_bytes));
        }
        let plain = match codec {
            Codec::Raw if bytes.len() == plain_bytes => Ok(bytes),
            Codec::Raw => Err("it has another length than it should have"),
            Codec::Zstd => compression::decompress(&bytes, plain_bytes),
        };
        match plain.map(flat::read) {
            Ok(Some(answer)) => answer,
            Ok(None) => Answer::Unavailable("it is damaged".to_owned()),
            Err(reason) => Answer::Unavailable(reason.to_owned()),
        }
    }
}

impl Manifest {
    /// As [`Coded::open`], of all parts together.
    pub(crate) fn open(&self, bytes: Vec<u8>, max_bytes: usize) -> Answer {
        let Self { codec, plain_bytes, .. } = *self;
        Coded { codec, plain_bytes, bytes }.open(max_bytes)
    }
}

/// Why an answer is not read.
pub(crate) fn too_large(bytes: usize, limit: usize) -> String {
    format!("it has {bytes} bytes, and Policy::max_answer_bytes is {limit}")
}
