//! The bytes of an answer, on their way into the record or into parts.

use std::borrow::Cow;
use std::fmt;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use super::compression::Codec;
use super::{BodyRef, Draft};
use crate::answer::codec::{Coder, NOT_ENCODED};

/// Of bytes in a record: the codec and the plain length as a big-endian u32 come first.
pub(super) const HEADER_BYTES: usize = 5;

/// Why an answer cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unstorable {
    TooLarge {
        bytes: usize,
        limit: usize,
    },
    /// With what the codec said.
    NotEncoded(String),
}

/// For the log.
impl fmt::Display for Unstorable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes, limit } => {
                write!(f, "it is too large: {bytes} bytes, of at most {limit}")
            }
            Self::NotEncoded(reason) => write!(f, "{NOT_ENCODED}: {reason}"),
        }
    }
}

/// The bytes of an answer after compression, or after the user's codec, before they go into the record
/// or into parts.
#[derive(Debug)]
pub(crate) struct Encoded<'a> {
    pub(super) codec: Codec,
    pub(super) plain_bytes: usize,
    body: Cow<'a, [u8]>,
    tail: Vec<u8>,
}

impl<'a> Encoded<'a> {
    pub(super) fn compressed(bytes: Vec<u8>, plain_bytes: usize) -> Self {
        Self { codec: Codec::Zstd, plain_bytes, body: Cow::Owned(bytes), tail: Vec::new() }
    }

    pub(super) fn raw(draft: Draft<'a>, tail: Vec<u8>, plain_bytes: usize) -> Self {
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
    fn with_header(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.len());
        bytes.push(self.codec.byte());
        // More than a u32 can tell is too large before it comes here.
        bytes.extend(u32::try_from(self.plain_bytes).unwrap_or(u32::MAX).to_be_bytes());
        self.pieces().into_iter().for_each(|piece| bytes.extend(piece));
        bytes
    }

    pub(super) fn inline(&self) -> AttributeValue {
        AttributeValue::B(Blob::new(self.with_header()))
    }

    /// What the user's codec makes of it. The header goes through it as well, so that whoever cannot
    /// write the codec's bytes cannot have them read in another way.
    pub(super) fn by(self, coder: Coder<'_>, most: usize) -> Result<Encoded<'static>, Unstorable> {
        let (plain_bytes, plain) = (self.plain_bytes, self.with_header());
        drop(self);
        let bytes = coder.encode(plain).map_err(Unstorable::NotEncoded)?;
        if bytes.len() > most {
            return Err(Unstorable::TooLarge { bytes: bytes.len(), limit: most });
        }
        let (body, tail) = (Cow::Owned(bytes), Vec::new());
        Ok(Encoded { codec: Codec::Custom, plain_bytes, body, tail })
    }
}
