//! Keys for calls to other services, which are the same in every attempt of an operation.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind};
use crate::fingerprint::canonical_json::canonical;
use crate::json;
use crate::store::key::RecordKey;

/// Separates these hashes from all other uses of SHA-256, and versions their layout.
const CHILD: &[u8] = b"dynamodb-idempotency/derived-key/1/child\0";
const PARAMETERS: &[u8] = b"dynamodb-idempotency/derived-key/1/parameters\0";

/// An idempotency key for a call to another service.
///
/// [`Execution::derive_key`](crate::Execution::derive_key) and [`derive_key`] create it. It is a
/// SHA-256 and does not contain its input, but a short input can be guessed. Send [`uuid`](Self::uuid),
/// which is also its `Display`, or [`hex`](Self::hex) as the other service's `Idempotency-Key`.
///
/// **How long it protects** depends on the other service. Once that service has forgotten the key
/// (Stripe: after at least 24 hours), a later attempt makes the call again. If that can happen,
/// look the effect up before the call. Once the [retention](crate::Policy::retention) of this
/// operation has ended, its key starts a new operation, but with the same derived keys. If that
/// operation should make new calls, add a date or a counter to the key or the scope.
///
/// ```
/// use dynamodb_idempotency::derive_key;
///
/// let key = derive_key("refund", &("order-42", 1200))?;
/// assert_eq!(key.to_string(), key.uuid());
/// assert_eq!((key.uuid().len(), key.hex().len()), (36, 64));
/// # Ok::<_, dynamodb_idempotency::Error>(())
/// ```
#[derive(Clone, Copy, derive_more::Debug, derive_more::Display, PartialEq, Eq, Hash)]
#[display("{}", self.uuid())]
#[debug("DerivedKey({}…)", hex::encode(&self.0[..4]))]
pub struct DerivedKey([u8; 32]);

/// Derives a key from an operation's name and parameters, for clients of idempotent services.
///
/// A client that retries after a restart derives the same key again, and need not store it.
/// Parameters are compared by their JSON value, as in [`Fingerprint`](crate::Fingerprint): the
/// order of members does not matter, but the text of a number does. Two requests that should both
/// happen need different parameters, such as the number of an order or a date.
///
/// ```
/// use dynamodb_idempotency::derive_key;
///
/// let key = derive_key("refund", &("order-42", 1200))?;
/// assert_eq!(key, derive_key("refund", &("order-42", 1200))?);
/// assert_ne!(key, derive_key("refund", &("order-42", 1300))?);
/// assert_eq!((key.uuid().len(), key.hex().len()), (36, 64));
/// # Ok::<_, dynamodb_idempotency::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if the parameters cannot be serialized as JSON (a number in them may be
/// infinite or NaN), or are nested more than 128 levels deep.
pub fn derive_key<P: Serialize + ?Sized>(
    operation: &str,
    parameters: &P,
) -> Result<DerivedKey, Error> {
    let message = "the parameters cannot be serialized to JSON";
    let text = json::to_text(parameters)
        .map_err(|source| Error::new(ErrorKind::InvalidInput, message).with_source(source))?;
    let Some(spelled) = canonical(&text) else {
        let message = "the parameters are nested more than 128 levels deep";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    };
    Ok(DerivedKey::of(PARAMETERS, [operation.as_bytes(), &spelled]))
}

impl DerivedKey {
    /// Derives a key from the record's key and the label only, so that the derived key does not
    /// depend on the attempt, the owner or the time.
    pub(crate) fn child(key: &RecordKey, label: &str) -> Self {
        Self::of(CHILD, [key.as_str().as_bytes(), label.as_bytes()])
    }

    fn of(domain: &[u8], parts: [&[u8]; 2]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(domain);
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// Returns the key as a UUID of version 8 (RFC 9562, section 5.8): 36 characters, 122 bits.
    ///
    /// ```
    /// let key = dynamodb_idempotency::derive_key("refund", &("order-42", 1200))?;
    /// assert_eq!(key.uuid().len(), 36);
    /// assert_eq!(key.uuid(), key.to_string());
    /// # Ok::<_, dynamodb_idempotency::Error>(())
    /// ```
    #[must_use]
    pub fn uuid(&self) -> String {
        let mut bytes = self.0;
        bytes[6] = (bytes[6] & 0x0f) | 0x80;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let hex = hex::encode(&bytes[..16]);
        let groups = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        groups.join("-")
    }

    /// Returns the whole hash in lower-case hex: 64 characters.
    ///
    /// ```
    /// let key = dynamodb_idempotency::derive_key("refund", &("order-42", 1200))?;
    /// assert_eq!(key.hex().len(), 64);
    /// # Ok::<_, dynamodb_idempotency::Error>(())
    /// ```
    #[must_use]
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::store::key::KeyForm;

    fn child(key: &str, label: &str) -> DerivedKey {
        let key = RecordKey::new(&"charge".into(), key, KeyForm::Verbatim, 2048).unwrap();
        DerivedKey::child(&key, label)
    }

    /// Fixed values: every release must send the same keys.
    #[test]
    fn layout_is_fixed() {
        let mut expected = Sha256::new();
        expected.update(b"dynamodb-idempotency/derived-key/1/child\0");
        expected.update(b"\0\0\0\0\0\0\0\x08charge#k\0\0\0\0\0\0\0\x06refund");
        assert_eq!(child("k", "refund").0[..], expected.finalize()[..]);
        let mut expected = Sha256::new();
        expected.update(b"dynamodb-idempotency/derived-key/1/parameters\0");
        expected.update(b"\0\0\0\0\0\0\0\x06refund\0\0\0\0\0\0\0\x07[\"a\",1]");
        assert_eq!(derive_key("refund", &("a", 1)).unwrap().0[..], expected.finalize()[..]);
    }

    #[test]
    fn the_uuid_is_of_version_8_and_all_forms_show_one_key() {
        let key = DerivedKey([0xff; 32]);
        assert_eq!(key.uuid(), "ffffffff-ffff-8fff-bfff-ffffffffffff");
        assert_eq!(DerivedKey([0; 32]).uuid(), "00000000-0000-8000-8000-000000000000");
        assert_eq!(key.hex(), "ff".repeat(32));
        assert_eq!(key.to_string(), key.uuid());
        assert_eq!(format!("{key:?}"), "DerivedKey(ffffffff…)");
    }

    #[test]
    fn parameters_are_compared_by_value() {
        let one: HashMap<String, u32> = (0..40).map(|n| (n.to_string(), n)).collect();
        let again: HashMap<String, u32> = (0..40).rev().map(|n| (n.to_string(), n)).collect();
        assert_eq!(derive_key("o", &one).unwrap(), derive_key("o", &again).unwrap());
        assert_ne!(derive_key("o", &1).unwrap(), derive_key("o", &1.0).unwrap());
        assert_ne!(derive_key("o", &"1").unwrap(), derive_key("p", &"1").unwrap());
    }

    #[test]
    fn parameters_that_are_not_json_are_an_error() {
        let by_pair: HashMap<(u8, u8), u8> = HashMap::from([((1, 2), 3)]);
        assert_eq!(derive_key("o", &by_pair).unwrap_err().kind(), ErrorKind::InvalidInput);
        let mut deep = serde_json::json!(1);
        for _ in 0..200 {
            deep = serde_json::json!([deep]);
        }
        assert_eq!(derive_key("o", &deep).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    proptest! {
        #[test]
        fn derived_keys_are_equal_only_if_key_and_label_are(
            a in ("[ab#]{1,3}", "[ab#]{0,3}"), b in ("[ab#]{1,3}", "[ab#]{0,3}"),
        ) {
            let (one, other) = (child(&a.0, &a.1), child(&b.0, &b.1));
            prop_assert_eq!(one == other, a == b);
            prop_assert_eq!(one.uuid() == other.uuid(), a == b);
        }
    }
}
