//! The stored answer: how the result of a finished operation is stored in the table.
//!
//! A [`Draft`] is an answer before it is stored. [`pack()`] chooses its form. A
//! [readable](readable) map is used if no other form is cheaper. Otherwise the answer becomes
//! [bytes](flat), [compressed](compression) if that saves a write unit. With the user's
//! [codec](crate::AnswerCodec) it always becomes bytes. The form is stored in the record or, if the
//! record would be large, in separate [parts](parts). [`Stored`] is what a record contains, and
//! [`Answer`] what is decoded from it.

pub(crate) mod codec;
mod compression;
mod encoded;
mod flat;
mod json;
mod pack;
pub(crate) mod parts;
mod readable;
mod stored;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

pub(crate) use self::encoded::Unstorable;
pub(crate) use self::json::to_json;
pub(crate) use self::pack::{InRecord, Packed, pack, pack_failure, unavailable_answer};
pub(crate) use self::parts::Manifest;
pub(crate) use self::readable::{encode_http, encode_json, encode_unavailable, is_unavailable};
pub(crate) use self::stored::{Stored, too_large};

/// The kind of an operation's answers. A record can hold either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    Function,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the HTTP adapter has them"))]
    Http,
}

/// Changes an answer before it is stored.
pub(crate) type OnStore = Arc<dyn Fn(Answer) -> Answer + Send + Sync>;

/// How an operation's answers are changed before they are stored.
#[derive(Clone)]
pub(crate) struct Answers {
    pub(crate) kind: AnswerKind,
    pub(crate) on_store: Option<OnStore>,
}

impl Answers {
    pub(crate) const FUNCTION: Self = Self { kind: AnswerKind::Function, on_store: None };

    /// Returns the answer to store instead of this one, if it is changed.
    pub(crate) fn stored(&self, draft: &Draft<'_>) -> Option<Answer> {
        match draft {
            Draft::Json(_) | Draft::Http { .. } => {
                self.on_store.as_ref().map(|change| change(draft.to_answer()))
            }
            Draft::Unavailable(_) => None,
        }
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A function's result.
    Json(String),
    /// An HTTP response.
    Http(HttpAnswer),
    /// The answer is not available, for this reason.
    Unavailable(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    /// In the order in which they were sent. A name may repeat.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: HttpBody,
}

/// Text and bytes are distinct, because Lambda's HTTP integrations treat them differently: a replay
/// must be encoded like the first answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HttpBody {
    Empty,
    Text(String),
    Binary(Vec<u8>),
}

/// A body before it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyRef<'a> {
    Empty,
    Text(&'a str),
    Binary(&'a [u8]),
}

/// An answer before it is stored. Its body is not copied.
#[derive(Clone, Debug)]
pub(crate) enum Draft<'a> {
    Json(Cow<'a, str>),
    Http { status: u16, headers: Vec<(String, Vec<u8>)>, body: BodyRef<'a> },
    Unavailable(Cow<'static, str>),
}

impl Draft<'_> {
    /// The same as [`Answer::bytes`].
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Json(json) => json.len(),
            Self::Http { status: _, headers, body } => http_bytes(headers, *body),
            Self::Unavailable(reason) => reason.len(),
        }
    }

    /// Creates a draft for an answer that is not available, with the reason.
    pub(crate) fn unavailable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Unavailable(reason.into())
    }

    pub(crate) fn to_answer(&self) -> Answer {
        match self {
            Self::Json(json) => Answer::Json(json.clone().into_owned()),
            Self::Http { status, headers, body } => Answer::Http(HttpAnswer {
                status: *status,
                headers: headers.clone(),
                body: body.to_body(),
            }),
            Self::Unavailable(reason) => Answer::Unavailable(reason.clone().into_owned()),
        }
    }
}

impl Answer {
    /// Returns the answer; `None` if it is not available.
    pub(crate) fn if_to_be_had(self) -> Option<Self> {
        match self {
            Self::Unavailable(_) => None,
            answer @ (Self::Json(_) | Self::Http(_)) => Some(answer),
        }
    }

    /// Its approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Json(text) | Self::Unavailable(text) => text.len(),
            Self::Http(HttpAnswer { status: _, headers, body }) => {
                http_bytes(headers, body.as_ref())
            }
        }
    }
}

fn http_bytes(headers: &[(String, Vec<u8>)], body: BodyRef<'_>) -> usize {
    let header = |(name, value): &(String, Vec<u8>)| name.len() + value.len() + 64;
    headers.iter().map(header).sum::<usize>() + body.as_bytes().len()
}

impl BodyRef<'_> {
    pub(crate) fn to_body(self) -> HttpBody {
        match self {
            Self::Empty => HttpBody::Empty,
            Self::Text(text) => HttpBody::Text(text.to_owned()),
            Self::Binary(bytes) => HttpBody::Binary(bytes.to_owned()),
        }
    }
}

impl Answer {
    pub(crate) fn draft(&self) -> Draft<'_> {
        match self {
            Self::Json(json) => Draft::Json(Cow::Borrowed(json)),
            Self::Http(HttpAnswer { status, headers, body }) => {
                Draft::Http { status: *status, headers: headers.clone(), body: body.as_ref() }
            }
            Self::Unavailable(reason) => Draft::Unavailable(Cow::Owned(reason.clone())),
        }
    }
}

impl HttpBody {
    pub(crate) fn as_ref(&self) -> BodyRef<'_> {
        match self {
            Self::Empty => BodyRef::Empty,
            Self::Text(text) => BodyRef::Text(text),
            Self::Binary(bytes) => BodyRef::Binary(bytes),
        }
    }
}

impl BodyRef<'_> {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Empty => &[],
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}
