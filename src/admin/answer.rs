//! The stored answer as plain data.

use crate::answer::codec::Coder;
use crate::answer::{Answer, HttpAnswer, HttpBody, Manifest, Stored};

/// What repeats of a finished operation get.
///
/// ```
/// # dynamodb_idempotency::testing::example(async |sandbox, _| {
/// use dynamodb_idempotency::admin::{StoredAnswer, StoredState};
///
/// sandbox.record("payments", "order-42").completed("re_1").await?;
/// let record = sandbox.record("payments", "order-42").read().await?.expect("a record");
/// let StoredState::Completed { answer, .. } = record.state else { panic!("it has run") };
/// assert_eq!(answer, StoredAnswer::Json(r#""re_1""#.to_owned()));
/// # Ok(()) });
/// ```
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
    /// The answer is in items beside the record. [`Admin::record`](super::Admin::record) reads
    /// them, a scan does not.
    InParts {
        /// How many items.
        parts: u32,
        /// All of them together, as they are stored: possibly compressed.
        bytes: u64,
    },
    /// An [`AnswerCodec`](crate::AnswerCodec) has encoded it, and this [`Idempotency`] has none.
    ///
    /// [`Idempotency`]: crate::Idempotency
    Encoded {
        /// How many bytes there are, in the record or beside it.
        bytes: u64,
    },
}

/// The body of a stored HTTP response.
///
/// ```
/// use dynamodb_idempotency::admin::StoredBody;
///
/// fn shown(body: &StoredBody) -> String {
///     match body {
///         StoredBody::Empty => String::new(),
///         StoredBody::Text(text) => text.clone(),
///         StoredBody::Binary(bytes) => format!("{} bytes", bytes.len()),
///     }
/// }
/// assert_eq!(shown(&StoredBody::Binary(vec![0; 3])), "3 bytes");
/// ```
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
    pub(super) fn in_record(stored: Stored, max_bytes: usize, coder: Coder<'_>) -> Self {
        let number = |bytes| u64::try_from(bytes).unwrap_or(u64::MAX);
        if let Some(bytes) = stored.custom_bytes().filter(|_| !coder.is_set()) {
            return Self::Encoded { bytes: number(bytes) };
        }
        match stored.in_record(max_bytes, coder) {
            Ok(answer) => answer.into(),
            Err(Manifest { parts, bytes, .. }) => Self::InParts { parts, bytes: number(bytes) },
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
