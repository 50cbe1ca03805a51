//! The 32-byte fingerprint of a request, which must be the same in a repeat. For HTTP requests,
//! `http/fingerprint.rs` chooses what it covers. For other calls, it covers the JSON payload.

pub(crate) mod canonical_json;
mod recipe;

use std::sync::LazyLock;

use serde::Serialize;

use self::recipe::{Hashing, RECIPES};
pub(crate) use self::recipe::{NoFingerprint, StoredFingerprint};
use crate::error::{Error, ErrorKind};
use crate::json;

/// The SHA-256 of a request, which must be the same in each repeat.
///
/// Two requests have the same fingerprint only if all their parts are equal, in order. JSON parts are
/// compared by value: white space and the order of an object's members do not matter. Numbers are
/// compared as text: `1.0` differs from `1`, and 9007199254740993 from 9007199254740992.
///
/// ```
/// use dynamodb_idempotency::Fingerprint;
///
/// let one = Fingerprint::builder().bytes(b"POST").json(br#"{"a": 1, "b": 2}"#).finish();
/// let other = Fingerprint::builder().bytes(b"POST").json(br#"{"b":2,"a":1}"#).finish();
/// assert_eq!(one, other);
/// ```
#[derive(Clone, Copy, derive_more::Debug, PartialEq, Eq, Hash)]
#[debug("{:?}", self.0[0])]
pub struct Fingerprint([StoredFingerprint; RECIPES.len()]);

impl Fingerprint {
    /// Starts a fingerprint of parts that you choose.
    ///
    /// ```
    /// use dynamodb_idempotency::Fingerprint;
    ///
    /// // Without parts: the fingerprint of a call with `no_payload`.
    /// let fingerprint = Fingerprint::builder().finish();
    /// assert_ne!(fingerprint, Fingerprint::builder().bytes(b"").finish());
    /// ```
    pub fn builder() -> FingerprintBuilder {
        FingerprintBuilder { hashing: Hashing::new(RECIPES) }
    }

    /// Returns the fingerprint of a value, compared as JSON.
    ///
    /// ```
    /// use dynamodb_idempotency::Fingerprint;
    ///
    /// assert_eq!(Fingerprint::of(&("order-42", 1200))?, Fingerprint::of(&("order-42", 1200))?);
    /// assert_eq!(Fingerprint::of(&1)?.as_bytes().len(), 32);
    /// # Ok::<_, dynamodb_idempotency::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the value cannot be serialized as JSON, for example because a number
    /// in it is infinite or NaN.
    pub fn of<T: Serialize + ?Sized>(payload: &T) -> Result<Self, Error> {
        Self::by_value(payload).map_err(unserializable)
    }

    pub(crate) fn by_value<T: Serialize + ?Sized>(payload: &T) -> Result<Self, serde_json::Error> {
        Ok(Self::builder().json_text(&json::to_text(payload)?).finish())
    }

    /// The fingerprint of a call without a payload.
    pub(crate) fn empty() -> Self {
        static EMPTY: LazyLock<Fingerprint> = LazyLock::new(|| Fingerprint::builder().finish());
        *EMPTY
    }

    /// Returns the hash that this version of the crate stores.
    ///
    /// ```
    /// use dynamodb_idempotency::Fingerprint;
    ///
    /// let fingerprint = Fingerprint::builder().bytes(b"POST /payments").finish();
    /// assert_eq!(fingerprint.as_bytes().len(), 32);
    /// ```
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0[0].hash
    }

    /// Returns what the record of this request stores.
    pub(crate) fn to_store(self) -> StoredFingerprint {
        self.0[0]
    }

    /// Returns whether a record belongs to this request, by the recipe that the record names.
    pub(crate) fn matches(&self, stored: &StoredFingerprint) -> bool {
        self.0.contains(stored)
    }
}

pub(crate) fn unserializable(source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::InvalidInput, "the payload cannot be serialized to JSON")
        .with_source(source)
}

/// Collects the parts of a [`Fingerprint`]. Their order matters.
///
/// ```
/// use dynamodb_idempotency::Fingerprint;
///
/// // Compares only the tenant and the JSON body of the request.
/// let fingerprint = |tenant: &str, body: &str| {
///     Fingerprint::builder().bytes(tenant.as_bytes()).json(body.as_bytes()).finish()
/// };
/// assert_eq!(fingerprint("a", "{}"), fingerprint("a", " { } "));
/// assert_ne!(fingerprint("a", "{}"), fingerprint("b", "{}"));
/// ```
#[derive(Clone, Debug)]
#[must_use = "call finish()"]
pub struct FingerprintBuilder {
    hashing: Hashing<{ RECIPES.len() }>,
}

impl FingerprintBuilder {
    /// Adds bytes, which are compared exactly.
    ///
    /// ```
    /// use dynamodb_idempotency::Fingerprint;
    ///
    /// // The boundaries of parts matter.
    /// let one = Fingerprint::builder().bytes(b"ab").bytes(b"c").finish();
    /// assert_ne!(one, Fingerprint::builder().bytes(b"a").bytes(b"bc").finish());
    /// ```
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.hashing.bytes(bytes);
        self
    }

    /// Adds JSON text, which is compared by value. A byte order mark before it is ignored.
    ///
    /// Text that is invalid JSON, or nested more than 128 levels deep, is added as bytes.
    ///
    /// ```
    /// use dynamodb_idempotency::Fingerprint;
    ///
    /// let of = |text: &str| Fingerprint::builder().json(text.as_bytes()).finish();
    /// assert_eq!(of(r#"{"a": 1, "b": 2}"#), of(r#"{"b":2,"a":1}"#));
    /// assert_ne!(of("1"), of("1.0"));
    /// ```
    pub fn json(self, text: &[u8]) -> Self {
        match str::from_utf8(text) {
            Ok(text) => self.json_text(text),
            Err(_) => self.bytes(text),
        }
    }

    /// Adds JSON text that is valid UTF-8, like [`json`](Self::json).
    pub(crate) fn json_text(mut self, text: &str) -> Self {
        self.hashing.json(text);
        self
    }

    /// Returns the fingerprint of all parts.
    ///
    /// ```
    /// use dynamodb_idempotency::Fingerprint;
    ///
    /// let fingerprint = Fingerprint::builder().bytes(b"GET").json(b"[1]").finish();
    /// assert_eq!(fingerprint, Fingerprint::builder().bytes(b"GET").json(b"[ 1 ]").finish());
    /// ```
    #[must_use]
    pub fn finish(self) -> Fingerprint {
        Fingerprint(self.hashing.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    fn parts(parts: &[Vec<u8>]) -> Fingerprint {
        parts.iter().fold(Fingerprint::builder(), |builder, part| builder.bytes(part)).finish()
    }

    #[test]
    fn layout_is_fixed() {
        // A stored fingerprint must mean the same in every release: the recipe's domain, then tag,
        // length as big-endian u64 and bytes of each part.
        let mut expected = Sha256::new();
        expected.update(b"dynamodb-idempotency/fingerprint/1\0");
        expected.update(
            b"\x00\x00\x00\x00\x00\x00\x00\x00\x02ab\x01\x00\x00\x00\x00\x00\x00\x00\x07{\"a\":1}",
        );
        let built = Fingerprint::builder().bytes(b"ab").json(b" { \"a\" : 1 } ").finish();
        let expected = expected.finalize();
        assert_eq!(built.as_bytes()[..], expected[..]);
        assert_eq!(built.to_store().encode()[..], [&[1], &expected[..]].concat());
        let empty = [
            0xd4, 0x95, 0xa1, 0x40, 0x60, 0xd0, 0x99, 0xca, 0x46, 0x9f, 0xf9, 0x2f, 0x66, 0x00,
            0xb0, 0xc5, 0x8c, 0xb8, 0x6a, 0x6f, 0x9c, 0x6a, 0x78, 0x95, 0x04, 0x6f, 0x58, 0xc8,
            0xb2, 0x85, 0x95, 0x55,
        ];
        assert_eq!(Fingerprint::empty().as_bytes(), &empty);
    }

    #[test]
    fn invalid_utf8_is_not_json() {
        let json = |text: &[u8]| Fingerprint::builder().json(text).finish();
        assert_eq!(json(b"\"\xff\""), parts(&[b"\"\xff\"".to_vec()]));
        assert_eq!(
            json("\"\u{e9}\"".as_bytes()),
            Fingerprint::builder().json_text("\"\u{e9}\"").finish()
        );
    }

    #[test]
    fn a_byte_order_mark_belongs_to_json_only_if_it_is_not_json() {
        let json = |text: &str| Fingerprint::builder().json(text.as_bytes()).finish();
        assert_eq!(json("\u{feff}[1]"), json("[1]"));
        assert_ne!(json("\u{feff}["), json("["));
    }

    #[test]
    fn json_text_added_as_bytes_is_another_part() {
        let raw = Fingerprint::builder().bytes(b"1").finish();
        assert_ne!(raw, Fingerprint::builder().json(b"1").finish());
    }

    #[test]
    fn maps_of_any_order_have_one_fingerprint() {
        let numbers: HashMap<String, u32> = (0..40).map(|n| (n.to_string(), n)).collect();
        let again: HashMap<String, u32> = (0..40).rev().map(|n| (n.to_string(), n)).collect();
        assert_eq!(Fingerprint::of(&numbers).unwrap(), Fingerprint::of(&again).unwrap());
    }

    #[test]
    fn a_payload_that_is_not_json_is_an_error() {
        let by_pair: HashMap<(u8, u8), u8> = HashMap::from([((1, 2), 3)]);
        assert_eq!(Fingerprint::of(&by_pair).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    proptest! {
        #[test]
        fn parts_are_injective(
            a in prop::collection::vec(prop::collection::vec(0u8..3, 0..3), 0..4),
            b in prop::collection::vec(prop::collection::vec(0u8..3, 0..3), 0..4),
        ) {
            prop_assert_eq!(parts(&a) == parts(&b), a == b);
        }
    }
}
