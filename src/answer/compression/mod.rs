//! Compresses the bytes of answers.
//!
//! Compressed bytes are returned only if they are fewer than the plain bytes. [`pack`](super::pack())
//! uses them only if they save write units (with a codec: bytes). An answer is skipped if its
//! `Content-Encoding` or `Content-Type` shows that it is compressed already. Of a large answer, a sample is
//! tried first.

#[cfg_attr(feature = "compression", path = "zstd.rs")]
#[cfg_attr(not(feature = "compression"), path = "absent.rs")]
mod codec;

pub(super) use self::codec::decompress;
use super::{Answer, HttpAnswer};

/// How the bytes of a stored answer are encoded. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Raw = 0,
    Zstd = 1,
    /// Encoded by the user's [`AnswerCodec`](crate::AnswerCodec), around one of the other forms.
    Custom = 2,
}

impl Codec {
    const ALL: [(Self, &str); 3] =
        [(Self::Raw, "raw"), (Self::Zstd, "zstd"), (Self::Custom, "custom")];

    pub(super) fn of(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).map(|(codec, _)| *codec)
    }

    pub(super) const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(codec, _)| codec)
    }
}

/// The size of the sample. A body of more than twice this size is sampled.
const SAMPLE_BYTES: usize = 64 * 1024;

/// Returns the compressed bytes of an answer, if they are fewer.
pub(super) fn compress(answer: &Answer, tail: &[u8]) -> Option<Vec<u8>> {
    let body = answer.body();
    if declares_compression(answer) {
        return None;
    }
    let compressed = codec::compress(&[body, tail], expected(body)?)?;
    (compressed.len() < body.len() + tail.len()).then_some(compressed)
}

/// Estimates the compressed length of a long body from a sample; `None` if compression saves less
/// than a sixteenth.
fn expected(body: &[u8]) -> Option<usize> {
    let bytes = body.len();
    if bytes <= 2 * SAMPLE_BYTES {
        return Some(0);
    }
    let sample = &body[(bytes - SAMPLE_BYTES) / 2..][..SAMPLE_BYTES];
    let shorter = codec::compress(&[sample], 0)?.len();
    let expected = (bytes / SAMPLE_BYTES).saturating_mul(shorter) + bytes / 16;
    (shorter <= SAMPLE_BYTES / 16 * 15).then_some(expected)
}

fn declares_compression(answer: &Answer) -> bool {
    let Answer::Http(HttpAnswer { headers, .. }) = answer else { return false };
    headers.iter().any(|(name, value)| {
        let value = value.to_ascii_lowercase();
        let value = std::str::from_utf8(&value).unwrap_or_default();
        match name.as_str() {
            "content-encoding" => value.split(',').any(|coding| coding.trim() != "identity"),
            "content-type" => is_compressed_type(value.split(';').next().unwrap_or_default()),
            _ => false,
        }
    })
}

/// Common media types with a compressed format. A type that is missing here costs only a trial.
fn is_compressed_type(media_type: &str) -> bool {
    let (kind, subtype) = media_type.trim().split_once('/').unwrap_or_default();
    match kind {
        "image" => !matches!(subtype, "svg+xml" | "bmp" | "x-ms-bmp" | "tiff"),
        "audio" => !matches!(subtype, "wav" | "x-wav" | "vnd.wave" | "midi"),
        "video" => true,
        "font" => matches!(subtype, "woff" | "woff2"),
        "application" => {
            matches!(subtype, "zip" | "gzip" | "zstd")
                || subtype.starts_with("vnd.openxmlformats-officedocument.")
        }
        _ => false,
    }
}

#[cfg(all(test, feature = "compression"))]
mod tests;
