//! The stored answer as plain data.

use crate::response::{Answer, HttpAnswer, HttpBody, Manifest, Stored};

/// What repeats of a finished operation get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredAnswer {
    /// A function's result, or its error: JSON text, letter for letter.
    Json(String),
    /// An HTTP response.
    Http {
        /// Its status code.
        status: u16,
        /// Names and values in the order in which they were sent; a name may repeat.
        headers: Vec<(String, Vec<u8>)>,
        /// Its body.
        body: StoredBody,
    },
    /// There was an answer, and it could not be stored, or cannot be read, for this reason.
    Unavailable(String),
    /// The answer stands in items beside the record. [`Admin::record`](super::Admin::record) reads
    /// them, a scan does not.
    InParts {
        /// How many items.
        parts: u32,
        /// All of them together, as they are stored: compressed, it may be.
        bytes: u64,
    },
}

/// The body of a stored HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredBody {
    /// None.
    Empty,
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
}

impl StoredAnswer {
    /// What stands in the record itself. Takes no more memory than for `max_bytes`.
    pub(super) fn in_record(stored: Stored, max_bytes: usize) -> Self {
        match stored {
            Stored::Readable(answer) => answer.into(),
            Stored::Packed(bytes) => bytes.open(max_bytes).into(),
            Stored::Parts(Manifest { parts, bytes, .. }) => {
                Self::InParts { parts, bytes: u64::try_from(bytes).unwrap_or(u64::MAX) }
            }
        }
    }
}

impl From<Answer> for StoredAnswer {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Json(text) => Self::Json(text),
            Answer::Http(HttpAnswer { status, headers, body }) => {
                let body = match body {
                    HttpBody::Empty => StoredBody::Empty,
                    HttpBody::Text(text) => StoredBody::Text(text),
                    HttpBody::Binary(bytes) => StoredBody::Binary(bytes),
                };
                Self::Http { status, headers, body }
            }
            Answer::Unavailable(reason) => Self::Unavailable(reason),
        }
    }
}
