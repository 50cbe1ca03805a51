//! Compresses the bytes of answers.
//!
//! Compressed bytes are returned only if they are fewer; [`pack`](super::pack()) keeps them only if they save
//! write units. Answers that are compressed already,
//! according to `Content-Encoding` or `Content-Type`, are skipped, and of a large answer a sample
//! is compressed first.

#[cfg(not(feature = "compression"))]
mod absent;
#[cfg(feature = "compression")]
mod zstd;

#[cfg(not(feature = "compression"))]
use self::absent as codec;
#[cfg(feature = "compression")]
use self::zstd as codec;

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
    pub(super) const fn byte(self) -> u8 {
        self as u8
    }

    pub(super) const fn of(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Raw),
            1 => Some(Self::Zstd),
            2 => Some(Self::Custom),
            _ => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
            Self::Custom => "custom",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Raw, Self::Zstd, Self::Custom].into_iter().find(|codec| codec.name() == name)
    }
}

/// Of a larger body, a sample of half this size is compressed first.
const SAMPLED_ABOVE: usize = 128 * 1024;

/// Returns the compressed bytes of an answer, if they are fewer.
pub(super) fn compress(answer: &Answer, tail: &[u8]) -> Option<Vec<u8>> {
    let body = answer.body();
    if declares_compression(answer) {
        return None;
    }
    let expected = match sample(body) {
        Some(sample) => expected(body.len(), sample)?,
        None => 0,
    };
    let compressed = codec::compress(&[body, tail], expected)?;
    (compressed.len() < body.len() + tail.len()).then_some(compressed)
}

/// Decompresses bytes. Returns exactly `plain` bytes, or `None`.
pub(super) fn decompress(compressed: &[u8], plain: usize) -> Result<Vec<u8>, &'static str> {
    codec::decompress(compressed, plain)
}

fn sample(body: &[u8]) -> Option<&[u8]> {
    let length = SAMPLED_ABOVE / 2;
    (body.len() > SAMPLED_ABOVE).then(|| &body[body.len() / 2 - length / 2..][..length])
}

/// Estimates the compressed length from a sample; `None` if compression saves less than a
/// sixteenth.
fn expected(bytes: usize, sample: &[u8]) -> Option<usize> {
    let shorter = codec::compress(&[sample], 0)?.len();
    let expected = (bytes / sample.len()).saturating_mul(shorter) + bytes / 16;
    (shorter <= sample.len() / 16 * 15).then_some(expected)
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

/// Media types whose own format compresses. A type that is missing here only costs a trial.
fn is_compressed_type(media_type: &str) -> bool {
    let (kind, subtype) = media_type.trim().split_once('/').unwrap_or_default();
    match kind {
        "image" => !matches!(subtype, "svg+xml" | "bmp" | "x-ms-bmp" | "tiff"),
        "audio" => !matches!(subtype, "wav" | "x-wav" | "vnd.wave" | "midi"),
        "video" => true,
        "font" => matches!(subtype, "woff" | "woff2"),
        "application" => {
            matches!(
                subtype,
                "zip"
                    | "gzip"
                    | "x-gzip"
                    | "zstd"
                    | "x-bzip2"
                    | "x-xz"
                    | "x-7z-compressed"
                    | "vnd.rar"
                    | "java-archive"
                    | "epub+zip"
                    | "vnd.apache.parquet"
            ) || subtype.starts_with("vnd.openxmlformats-officedocument.")
        }
        _ => false,
    }
}

#[cfg(all(test, feature = "compression"))]
mod tests {
    use super::super::{Body, BodyKind};
    use super::*;

    /// Bytes that cannot be compressed.
    pub(in crate::answer) fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    fn http(name: &str, value: &str, body: &[u8]) -> Answer {
        let headers = [(name.to_owned(), value.into())].into();
        let body = Body { kind: BodyKind::Binary, bytes: body.to_vec().into() };
        Answer::Http(HttpAnswer { status: 200, headers, body })
    }

    #[test]
    fn an_answer_that_declares_compression_is_not_compressed() {
        let body = vec![b'x'; 4096];
        let tried = |name, value| compress(&http(name, value, &body), b"tail").is_some();
        for (name, value) in [
            ("content-encoding", "gzip"),
            ("content-encoding", "identity, BR"),
            ("content-type", "image/png"),
            ("content-type", "Application/ZIP; charset=binary"),
            ("content-type", "video/mp4"),
            ("content-type", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ] {
            assert!(!tried(name, value), "{name}: {value}");
        }
        for (name, value) in [
            ("content-encoding", "identity"),
            ("content-type", "image/svg+xml"),
            ("content-type", "application/json"),
            ("content-type", "application/pdf"),
            ("content-type", ""),
        ] {
            assert!(tried(name, value), "{name}: {value}");
        }
    }

    #[test]
    fn an_incompressible_answer_of_any_size_is_stored_as_is() {
        for length in [100, 4096, SAMPLED_ABOVE, SAMPLED_ABOVE + 1, 1 << 20] {
            let noise = noise(length);
            assert_eq!(compress(&http("a", "b", &noise), b"tail"), None, "{length}");
        }
    }

    #[test]
    fn decompression_returns_exactly_the_declared_length() {
        let body = b"{\"id\":\"pay_1\",\"amount\":1200}".repeat(10_000);
        let compressed = compress(&http("a", "b", &body), b"tail").unwrap();
        let plain = [&body[..], b"tail"].concat();
        assert!(compressed.len() < plain.len() / 100, "{}", compressed.len());
        assert_eq!(decompress(&compressed, plain.len()).as_ref(), Ok(&plain));
        for wrong in [0, 1, plain.len() - 1, plain.len() + 1] {
            assert!(decompress(&compressed, wrong).is_err(), "{wrong}");
        }
        for cut in [0, 1, compressed.len() / 2, compressed.len() - 1] {
            assert!(decompress(&compressed[..cut], plain.len()).is_err(), "{cut}");
        }
    }
}
