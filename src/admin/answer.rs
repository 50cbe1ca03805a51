//! The stored answer as plain data.

use crate::response::{Answer, HttpAnswer, HttpBody};

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
    /// There was an answer, and it could not be stored, for this reason.
    Unavailable(String),
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
