//! Encrypts answers with AES-256-GCM, with ring, which the crate's HTTPS client already depends on.
//!
//! ```text
//! key id     4 bytes     selects the key
//! nonce     12 bytes     random, generated for each answer
//! the answer, encrypted, and the tag of 16 bytes
//! ```
//!
//! The record's partition key is the associated data, so an answer encrypted for one key cannot be
//! decrypted under another. With random nonces, rotate the key before four billion answers (NIST
//! SP 800-38D, section 8.3).

use std::collections::HashMap;
use std::fmt;

use dynamodb_idempotency::{AnswerCodec, CodecError};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// The length of a key's id.
const ID_LEN: usize = 4;

/// The keys of one function, fetched when it starts: the data keys that AWS KMS has decrypted, or a
/// secret of Secrets Manager.
pub(crate) struct AesGcm {
    /// The id of the key that encrypts. The other keys only decrypt.
    current: u32,
    keys: HashMap<u32, LessSafeKey>,
}

impl AesGcm {
    /// Encrypts with the key `current`, and decrypts with the key that an answer names.
    ///
    /// To rotate: first deploy the new key to all instances for decryption, then make it the current one.
    /// Remove the old key when the retention of its last answer is over.
    ///
    /// # Errors
    /// If no key has the id `current`.
    pub(crate) fn new(
        current: u32,
        keys: impl IntoIterator<Item = (u32, [u8; 32])>,
    ) -> Result<Self, CodecError> {
        let key = |(id, bytes): (u32, [u8; 32])| {
            let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| "not a key for AES-256")?;
            Ok((id, LessSafeKey::new(key)))
        };
        let keys = keys.into_iter().map(key).collect::<Result<HashMap<_, _>, CodecError>>()?;
        if !keys.contains_key(&current) {
            return Err(no_key(current));
        }
        Ok(Self { current, keys })
    }

    fn key(&self, id: u32) -> Result<&LessSafeKey, CodecError> {
        self.keys.get(&id).ok_or_else(|| no_key(id))
    }
}

impl AnswerCodec for AesGcm {
    fn encode(&self, pk: &str, mut plain: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        let key = self.key(self.current)?;
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce)?;
        key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(pk),
            &mut plain,
        )
        .map_err(|_| "it is too long for AES-GCM")?;
        Ok([&self.current.to_be_bytes(), nonce.as_slice(), &plain].concat())
    }

    fn decode(&self, pk: &str, mut encoded: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        let short = || CodecError::from("it is too short to be an encrypted answer");
        let (id, rest) = encoded.split_first_chunk::<ID_LEN>().ok_or_else(short)?;
        let (nonce, _) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(short)?;
        let (key, nonce) = (self.key(u32::from_be_bytes(*id))?, *nonce);
        // In place: the answer moves to the front.
        let plain = key
            .open_within(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(pk),
                &mut encoded,
                ID_LEN + NONCE_LEN..,
            )
            .map_err(|_| "it was changed, or belongs to another key or record")?
            .len();
        encoded.truncate(plain);
        Ok(encoded)
    }
}

fn no_key(id: u32) -> CodecError {
    format!("there is no key with the id {id}").into()
}

/// Shows neither the keys nor their number.
impl fmt::Debug for AesGcm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesGcm").field("current", &self.current).finish_non_exhaustive()
    }
}
