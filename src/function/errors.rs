//! Whether a handler's own errors are kept for repeats.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::{Answer, to_json};
use crate::engine::refusal::failed;
use crate::error::RunError;

/// How errors of type `E` are stored and read.
pub(crate) struct ErrorCodec<E> {
    encode: fn(&E) -> Option<String>,
    decode: fn(&[u8]) -> Option<E>,
}

impl<E: Serialize + DeserializeOwned> ErrorCodec<E> {
    /// Stores errors as JSON. If serde fails or panics, only the failure itself is stored, and
    /// repeats get `Failed`.
    pub(super) const JSON: Self = Self {
        encode: |error| to_json(error).ok(),
        decode: |json| serde_json::from_slice(json).ok(),
    };
}

impl<E> ErrorCodec<E> {
    /// Stores no errors.
    pub(super) const FORGETS: Self = Self { encode: |_| None, decode: |_| None };

    pub(super) fn encode(&self, error: &E) -> Option<Answer> {
        (self.encode)(error).map(|json| Answer::Json(json.into()))
    }

    /// Returns the error that a repeat gets for a stored failure.
    pub(crate) fn replay(&self, kept: Option<&Answer>) -> RunError<E> {
        let decoded = match kept {
            Some(Answer::Json(json)) => (self.decode)(json),
            Some(Answer::Http(_) | Answer::Unavailable(_)) | None => None,
        };
        decoded.map_or_else(|| failed().into(), RunError::Handler)
    }
}
