//! The encoded bytes of an answer, before they are stored in the record or in parts.

use bytes::{Buf as _, Bytes};

use super::codec::Coder;
use super::compression::{self, Codec};
use super::reason::{NOT_ENCODED, too_large};
use super::{Answer, flat};
use crate::error::Error;

/// The header of encoded bytes in a record: the codec, and the plain length as a big-endian u32.
pub(super) const HEADER_BYTES: usize = 5;

/// Why an answer cannot be stored.
#[derive(Debug, derive_more::Display)]
pub(crate) enum Unstorable {
    #[display("it is too large: {bytes} bytes, of at most {limit}")]
    TooLarge { bytes: usize, limit: usize },
    /// Contains the codec's error.
    #[display("{NOT_ENCODED}: {_0}")]
    NotEncoded(String),
    /// The parts were not confirmed, and the record has no room for the answer.
    #[display("its parts were not confirmed: {_0}")]
    PartsNotWritten(Error),
}

/// The bytes of an answer after compression and the user's codec: what is stored in the record or in
/// parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(super) codec: Codec,
    pub(super) plain_bytes: usize,
    pub(super) body: Bytes,
    /// The bytes after the body. Separate, so that an uncompressed answer shares the body without a copy.
    pub(super) tail: Bytes,
}

impl Encoded {
    pub(super) fn new(codec: Codec, plain_bytes: usize, bytes: impl Into<Bytes>) -> Self {
        Self { codec, plain_bytes, body: bytes.into(), tail: Bytes::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.body.len() + self.tail.len()
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
    pub(super) fn with_header(&self) -> Vec<u8> {
        // An answer whose length does not fit into a u32 was rejected before.
        let length = u32::try_from(self.plain_bytes).unwrap_or(u32::MAX).to_be_bytes();
        [&[self.codec as u8], &length[..], &self.body, &self.tail].concat()
    }

    /// Reads the value that is stored in a record.
    pub(super) fn decode(bytes: Vec<u8>) -> Option<Self> {
        let mut bytes = Bytes::from(bytes);
        let codec = Codec::of(bytes.try_get_u8().ok()?)?;
        let plain_bytes = bytes.try_get_u32().ok()?.try_into().ok()?;
        Some(Self::new(codec, plain_bytes, bytes))
    }

    /// Applies the user's codec to the header and the bytes. The header says how the bytes are read, so a
    /// codec that authenticates its input protects the header too.
    pub(super) fn encode_with(
        self,
        coder: Coder<'_>,
        max_bytes: usize,
    ) -> Result<Self, Unstorable> {
        let (plain_bytes, plain) = (self.plain_bytes, self.with_header());
        drop(self);
        let bytes = coder.encode(plain).map_err(Unstorable::NotEncoded)?;
        if bytes.len() > max_bytes {
            return Err(Unstorable::TooLarge { bytes: bytes.len(), limit: max_bytes });
        }
        Ok(Self::new(Codec::Custom, plain_bytes, bytes))
    }

    /// Returns the answer, or the reason why the stored bytes are not valid. Uses at most
    /// `max_bytes` of memory, whatever the header claims.
    pub(super) fn open(self, max_bytes: usize, coder: Coder<'_>) -> Answer {
        self.read(max_bytes, coder).unwrap_or_else(|reason| Answer::Unavailable(reason.into()))
    }

    fn read(self, max_bytes: usize, coder: Coder<'_>) -> Result<Answer, String> {
        if self.plain_bytes > max_bytes {
            return Err(too_large(self.plain_bytes, max_bytes));
        }
        if self.codec != Codec::Custom {
            coder.accept_plain()?;
            return self.plain();
        }
        let Self { plain_bytes, body, .. } = self;
        match Self::decode(coder.decode(body.into())?) {
            Some(inner) if inner.plain_bytes == plain_bytes => inner.plain(),
            _ => Err("its AnswerCodec decoded it to bytes that are not an answer".to_owned()),
        }
    }

    fn plain(self) -> Result<Answer, String> {
        let Self { codec, plain_bytes, body, .. } = self;
        let plain = match codec {
            Codec::Raw if body.len() == plain_bytes => Ok(body),
            Codec::Raw => Err("its length differs from the recorded one"),
            Codec::Zstd => compression::decompress(&body, plain_bytes).map(Bytes::from),
            Codec::Custom => Err("it was encoded twice"),
        };
        flat::read(plain?).ok_or_else(|| "it is damaged".to_owned())
    }
}
