//! The encoded bytes of an answer, before they are stored in the record or in parts.

use std::borrow::Cow;
use std::fmt;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use super::compression::Codec;
use super::{BodyRef, Draft};
use crate::answer::codec::{Coder, NOT_ENCODED};

/// The header of encoded bytes in a record: the codec, and the plain length as a big-endian u32.
pub(super) const HEADER_BYTES: usize = 5;

/// Why an answer cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unstorable {
    TooLarge {
        bytes: usize,
        limit: usize,
    },
    /// Contains the codec's error.
    NotEncoded(String),
}

/// The message for the log.
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

/// The bytes of an answer after compression and the user's codec, before they are stored in the
/// record or in parts.
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

    /// Copies up to `length` bytes from `start`.
    pub(super) fn copy(&self, start: usize, length: usize) -> Vec<u8> {
        let body = self.body.get(start..).unwrap_or_default();
        let body = &body[..body.len().min(length)];
        let start = start.saturating_sub(self.body.len());
        let tail = self.tail.get(start..).unwrap_or_default();
        [body, &tail[..tail.len().min(length - body.len())]].concat()
    }

    /// Returns the value that is stored in the record.
    fn with_header(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.len());
        bytes.push(self.codec.byte());
        // An answer longer than a u32 was rejected before.
        bytes.extend(u32::try_from(self.plain_bytes).unwrap_or(u32::MAX).to_be_bytes());
        self.pieces().into_iter().for_each(|piece| bytes.extend(piece));
        bytes
    }

    pub(super) fn inline(&self) -> AttributeValue {
        AttributeValue::B(Blob::new(self.with_header()))
    }

    /// Applies the user's codec. It encodes the header too, so that nobody without the codec can
    /// change how the bytes are read.
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
