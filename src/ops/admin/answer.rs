//! The stored answer as plain data.

use crate::answer::codec::Coder;
use crate::answer::{Answer, HttpAnswer, Manifest, Stored};
use crate::store::record::{ItemValue, StepValue, StoredStep};

/// The answer that repeats of an operation get, or the result of a step.
///
/// ```
/// # doc_examples::run(async |sandbox, _| {
/// use dynamodb_idempotency::testing::{StoredAnswer, StoredState};
///
/// sandbox.record("payments", "order-42").completed("re_1").await?;
/// let record = sandbox.record("payments", "order-42").read().await?.expect("a record");
/// let StoredState::Completed { answer, .. } = record.state else { panic!("not completed") };
/// assert_eq!(answer, StoredAnswer::Json(r#""re_1""#.to_owned()));
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredAnswer {
    /// The result of a function or a step, or a function's error, as unchanged JSON text.
    Json(String),
    /// An HTTP response.
    Http {
        /// Its status code.
        status: u16,
        /// Names and values in the order in which they were sent; a name may repeat.
        headers: Vec<(String, Vec<u8>)>,
        /// Its body; empty if it has none.
        body: Vec<u8>,
    },
    /// The answer is not available. The text is the reason why it could not be stored or cannot be
    /// read.
    Unavailable(String),
    /// The answer, or the result of a step, is in separate items. [`Admin::record`](super::Admin::record)
    /// reads them; a scan does not.
    InParts {
        /// The number of items.
        parts: u32,
        /// Their total size in bytes, as stored and possibly compressed.
        bytes: u64,
    },
    /// An [`AnswerCodec`](crate::AnswerCodec) encoded the answer, and this [`Idempotency`] has no
    /// codec.
    ///
    /// [`Idempotency`]: crate::Idempotency
    Encoded {
        /// The number of encoded bytes.
        bytes: u64,
    },
}

impl StoredAnswer {
    /// Reads the record's answer attribute. Uses at most `max_bytes` of memory.
    pub(super) fn in_record(stored: Stored, max_bytes: usize, coder: Coder<'_>) -> Self {
        if let Some(bytes) = stored.custom_bytes().filter(|_| !coder.is_set()) {
            return Self::Encoded { bytes: bytes as u64 };
        }
        match stored.in_record(max_bytes, coder) {
            Ok(answer) => answer.into(),
            Err(Manifest { parts, bytes, .. }) => Self::InParts { parts, bytes: bytes as u64 },
        }
    }

    /// Reads the result of a step.
    pub(super) fn of_step(name: &str, step: &StoredStep, coder: Coder<'_>) -> Self {
        let value = match step {
            StoredStep::InItem(note, ItemValue::Unread) => {
                return Self::InParts { parts: 1, bytes: note.value_bytes() as u64 };
            }
            StoredStep::Inline(value) | StoredStep::InItem(_, ItemValue::Read(value)) => {
                Some(value)
            }
            StoredStep::InItem(_, ItemValue::Missing) | StoredStep::Unavailable => None,
        };
        match (value, step.json(name, coder)) {
            (_, Ok(json)) => Self::Json(json.into_owned()),
            (Some(StepValue::Encoded(bytes)), Err(_)) if !coder.is_set() => {
                Self::Encoded { bytes: bytes.len() as u64 }
            }
            (_, Err(error)) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<Answer> for StoredAnswer {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Json(text) => Self::Json(String::from_utf8_lossy(&text).into_owned()),
            Answer::Http(HttpAnswer { status, headers, body }) => {
                Self::Http { status, headers: headers.to_vec(), body: body.bytes.into() }
            }
            Answer::Unavailable(reason) => Self::Unavailable(reason.into_owned()),
        }
    }
}
