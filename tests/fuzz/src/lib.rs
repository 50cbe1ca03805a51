//! The functions of the targets. Each accepts any bytes and must not panic. A value that can be decoded
//! must also be encoded again as the same value.
//!
//! The tests of the workspace run the inputs in `corpus/` too, without a fuzzer
//! (`tests/suite/fuzz_corpus.rs`).

mod messages;
mod notation;

use dynamodb_idempotency::{ErrorKind, internals};
use http::{HeaderMap, HeaderValue};
use serde::de::IgnoredAny;

pub use self::messages::{event, message};
pub use self::notation::{item, value};

/// The value of an `Idempotency-Key` header. A key that is found is one that a client can send
/// again, quoted.
pub fn idempotency_key(value: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(value) else { return };
    let find = |value| internals::find_key(&HeaderMap::from_iter([(internals::KEY_HEADER, value)]));
    let Ok(Some(key)) = find(value) else { return };
    assert!(!key.is_empty() && key.len() <= 255, "{} bytes", key.len());
    let Ok(string) = sfv::StringRef::from_str(&key) else { return };
    let quoted = HeaderValue::try_from(sfv::ItemSerializer::new().bare_item(string).finish());
    let Ok(quoted) = quoted else { panic!("not a header value: {key:?}") };
    assert_eq!(find(quoted), Ok(Some(key)));
}

/// Decodes an item under a key of the crate as a record. A pending record is encoded again as the same
/// version.
pub fn record(input: &[u8]) {
    match internals::record_reads_back(item(input)) {
        Ok(same) => assert!(same),
        Err(error) => assert!(
            matches!(error.kind(), ErrorKind::UnknownRecord | ErrorKind::NewerRecord),
            "{error:?}"
        ),
    }
}

/// Decodes a stored answer. It is encoded again as the same answer in the same form. An HTTP answer is
/// either invalid as a response or can be stored.
pub fn response(input: &[u8]) {
    assert_ne!(internals::answer_reads_back(value(input)), Some(false));
}

/// The canonical form of a JSON text has the same value, and is its own canonical form.
pub fn json(text: &[u8]) {
    let is_json =
        str::from_utf8(text).is_ok() && serde_json::from_slice::<IgnoredAny>(text).is_ok();
    let Some(spelled) = internals::canonical_json(text) else {
        // It may be nested too deeply.
        assert!(!is_json || text.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() > 128);
        return;
    };
    assert!(is_json);
    assert_eq!(internals::canonical_json(&spelled), Some(spelled.clone()));
    let value = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).ok();
    assert_eq!(value(text), value(&spelled));
}
