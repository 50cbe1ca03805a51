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
    for length in [100, 4096, 2 * SAMPLE_BYTES, 2 * SAMPLE_BYTES + 1, 1 << 20] {
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
