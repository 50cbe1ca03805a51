//! The stored answer: how the result of a finished operation is stored in the table.
//!
//! [`pack()`] chooses the form of an [`Answer`]. A [readable](readable) map is used if no other form
//! is cheaper. Otherwise the answer becomes [bytes](flat), [compressed](compression) if that saves
//! write units. With the user's [codec](crate::AnswerCodec) it always becomes bytes. The form is
//! stored in the record or, if the record would be large, in separate [parts](split). [`Stored`] is
//! what a record contains.

pub(crate) mod codec;
mod compression;
mod encoded;
mod flat;
mod json;
mod pack;
mod readable;
pub(crate) mod reason;
pub(crate) mod split;
mod stored;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

pub(crate) use self::encoded::Unstorable;
pub(crate) use self::json::to_json;
pub(crate) use self::pack::{Packed, pack};
pub(crate) use self::reason::too_large;
pub(crate) use self::split::Manifest;
pub(crate) use self::stored::Stored;

/// The user's function that changes an answer before it is stored.
pub(crate) type OnStore = Arc<dyn Fn(HttpAnswer) -> Answer + Send + Sync>;

/// The kind of an operation's answers, and how they are changed before they are stored.
#[derive(Clone)]
pub(crate) struct AnswerRules {
    /// Whether they are HTTP responses. A record can hold either kind.
    pub(crate) is_http: bool,
    pub(crate) on_store: Option<OnStore>,
}

impl AnswerRules {
    pub(crate) const FUNCTION: Self = Self { is_http: false, on_store: None };

    /// Returns the answer to store instead of this one.
    pub(crate) fn stored(&self, answer: Answer) -> Answer {
        match (&self.on_store, answer) {
            (Some(change), Answer::Http(answer)) => change(answer),
            (_, answer) => answer,
        }
    }
}

/// A complete answer. A clone shares its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A function's result, as JSON text.
    Json(Bytes),
    /// An HTTP response.
    Http(HttpAnswer),
    /// The answer is not available, for this reason.
    Unavailable(Cow<'static, str>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    /// In the order in which they were sent. A name may repeat.
    pub(crate) headers: Arc<[(String, Vec<u8>)]>,
    pub(crate) body: Body,
}

/// The body of an HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) kind: BodyKind,
    pub(crate) bytes: Bytes,
}

/// Text and bytes are distinct, because Lambda's HTTP integrations treat them differently: a replay
/// must be encoded like the first answer. A text is UTF-8. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Empty = 0,
    Text = 1,
    Binary = 2,
}

impl Body {
    /// Creates a body of this kind if the bytes allow it. If they are not empty, `Empty` becomes `Text`. If
    /// they are not UTF-8, `Text` becomes `Binary`.
    pub(crate) fn of_kind(kind: BodyKind, bytes: Bytes) -> Self {
        let kind = match kind {
            BodyKind::Empty if bytes.is_empty() => BodyKind::Empty,
            BodyKind::Empty | BodyKind::Text if std::str::from_utf8(&bytes).is_ok() => {
                BodyKind::Text
            }
            BodyKind::Empty | BodyKind::Text | BodyKind::Binary => BodyKind::Binary,
        };
        Self { kind, bytes }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::of_kind(BodyKind::Empty, bytes)
    }
}

/// The answer or the failure in the record of another execution.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) answer: Answer,
    /// When the record expires by DynamoDB's clock, in seconds since 1970.
    pub(crate) expires_at: i64,
}

impl Answer {
    /// Returns the answer; `None` if it is not available.
    pub(crate) fn available(self) -> Option<Self> {
        match self {
            Self::Unavailable(_) => None,
            answer @ (Self::Json(_) | Self::Http(_)) => Some(answer),
        }
    }

    pub(crate) fn body(&self) -> &Bytes {
        static NONE: Bytes = Bytes::new();
        match self {
            Self::Json(json) => json,
            Self::Http(HttpAnswer { body, .. }) => &body.bytes,
            Self::Unavailable(_) => &NONE,
        }
    }

    /// Its approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let header = |(name, value): &(String, Vec<u8>)| name.len() + value.len() + 64;
        let rest = match self {
            Self::Json(_) => 0,
            Self::Http(HttpAnswer { headers, .. }) => headers.iter().map(header).sum(),
            Self::Unavailable(reason) => reason.len(),
        };
        rest + self.body().len()
    }

    /// Returns a copy that shares no bytes, because a handler's body can be a slice of a larger buffer.
    pub(crate) fn detached(&self) -> Self {
        let mut copy = self.clone();
        match &mut copy {
            Self::Json(bytes) | Self::Http(HttpAnswer { body: Body { bytes, .. }, .. }) => {
                *bytes = Bytes::copy_from_slice(bytes);
            }
            Self::Unavailable(_) => {}
        }
        copy
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(super) fn body() -> impl Strategy<Value = Body> {
        let binary = |bytes: Vec<u8>| Body { kind: BodyKind::Binary, bytes: bytes.into() };
        prop_oneof![
            Just(Body::from(Bytes::new())),
            any::<String>().prop_map(|text| Body::of_kind(BodyKind::Text, text.into())),
            any::<Vec<u8>>().prop_map(binary),
        ]
    }

    #[test]
    fn a_body_keeps_its_kind_if_its_bytes_allow_it() {
        use BodyKind::{Binary, Empty, Text};
        for (kind, bytes, expected) in [
            (Empty, &b""[..], Empty),
            (Empty, b"text", Text),
            (Empty, b"\xff", Binary),
            (Text, b"", Text),
            (Text, b"text", Text),
            (Text, b"\xff", Binary),
            (Binary, b"", Binary),
            (Binary, b"text", Binary),
        ] {
            assert_eq!(Body::of_kind(kind, bytes.into()).kind, expected, "{kind:?} {bytes:?}");
        }
    }

    #[test]
    fn a_clone_shares_its_bytes_and_a_detached_copy_does_not() {
        let buffer = Bytes::from(vec![b'x'; 1 << 20]);
        let headers = [("a".to_owned(), b"b".to_vec())].into();
        let http = HttpAnswer { status: 200, headers, body: buffer.slice(..10).into() };
        for answer in [Answer::Json(buffer.slice(..10)), Answer::Http(http)] {
            assert_eq!(answer.clone().body().as_ptr(), buffer.as_ptr());
            let detached = answer.detached();
            assert_eq!(detached, answer);
            assert!(!buffer.as_ptr_range().contains(&detached.body().as_ptr()));
        }
    }
}
