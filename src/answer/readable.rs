//! The form of small answers, which is readable in the DynamoDB console.
//!
//! ```text
//! function   {"json": "{\"id\":\"re_1\"}"}                     the unchanged JSON text
//! HTTP       {"status": 201, "headers": [["location", "/payments/1"]], "body": "…"}
//!            body and header values: S where they are text, B where they are bytes
//! none       {"unavailable": "it is too large: …"}             the operation completed
//! ```

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use super::{Answer, Body, BodyKind, HttpAnswer};

const JSON: &str = "json";
const STATUS: &str = "status";
const HEADERS: &str = "headers";
const BODY: &str = "body";
const UNAVAILABLE: &str = "unavailable";

impl Answer {
    /// Returns the readable form. Copies the answer once, into the SDK's type.
    pub(crate) fn readable(&self) -> AttributeValue {
        match self {
            Self::Json(json) => map([(JSON, text_or_bytes(json))]),
            Self::Http(answer) => http(answer),
            Self::Unavailable(reason) => {
                map([(UNAVAILABLE, AttributeValue::S(reason.clone().into_owned()))])
            }
        }
    }

    /// An upper bound of the size that DynamoDB counts for this form.
    pub(super) fn readable_bytes(&self) -> usize {
        const MEMBER: usize = 1;
        match self {
            Self::Json(json) => MAP + MEMBER + JSON.len() + json.len(),
            Self::Http(HttpAnswer { status: _, headers, body }) => {
                let pair =
                    |(name, value): &(String, Vec<u8>)| MAP + 3 * MEMBER + name.len() + value.len();
                let headers = MAP + headers.iter().map(pair).sum::<usize>();
                let status = MEMBER + STATUS.len() + NUMBER;
                let body = match body.kind {
                    BodyKind::Empty => 0,
                    BodyKind::Text | BodyKind::Binary => MEMBER + BODY.len() + body.bytes.len(),
                };
                MAP + status + MEMBER + HEADERS.len() + headers + body
            }
            Self::Unavailable(reason) => MAP + MEMBER + UNAVAILABLE.len() + reason.len(),
        }
    }
}

fn http(HttpAnswer { status, headers, body }: &HttpAnswer) -> AttributeValue {
    let pair = |(name, value): &(String, Vec<u8>)| {
        AttributeValue::L(vec![AttributeValue::S(name.clone()), text_or_bytes(value)])
    };
    let mut fields = HashMap::from([
        (STATUS.to_owned(), AttributeValue::N(status.to_string())),
        (HEADERS.to_owned(), AttributeValue::L(headers.iter().map(pair).collect())),
    ]);
    let body = match body.kind {
        BodyKind::Empty => None,
        BodyKind::Text => Some(text_or_bytes(&body.bytes)),
        BodyKind::Binary => Some(AttributeValue::B(Blob::new(&body.bytes[..]))),
    };
    fields.extend(body.map(|body| (BODY.to_owned(), body)));
    AttributeValue::M(fields)
}

/// The overhead of a map or a list.
const MAP: usize = 3;
/// A status of three digits.
const NUMBER: usize = 4;

fn map<const N: usize>(fields: [(&str, AttributeValue); N]) -> AttributeValue {
    AttributeValue::M(fields.map(|(name, value)| (name.to_owned(), value)).into())
}

fn text_or_bytes(value: &[u8]) -> AttributeValue {
    match std::str::from_utf8(value) {
        Ok(text) => AttributeValue::S(text.to_owned()),
        Err(_) => AttributeValue::B(Blob::new(value)),
    }
}

impl Answer {
    /// Parses a stored answer; `None` if this version does not write such a value.
    pub(crate) fn decode(response: AttributeValue) -> Option<Self> {
        let AttributeValue::M(mut fields) = response else { return None };
        let answer = if let Some(json) = fields.remove(JSON) {
            Self::Json(string(json)?.into())
        } else if let Some(reason) = fields.remove(UNAVAILABLE) {
            Self::Unavailable(string(reason)?.into())
        } else {
            let status = fields.remove(STATUS)?.as_n().ok()?.parse().ok();
            let status = status.filter(|status| (100..=999).contains(status))?;
            let AttributeValue::L(headers) = fields.remove(HEADERS)? else { return None };
            let headers = headers.into_iter().map(header).collect::<Option<_>>()?;
            let (kind, bytes) = match fields.remove(BODY) {
                None => (BodyKind::Empty, Vec::new()),
                Some(AttributeValue::S(text)) => (BodyKind::Text, text.into_bytes()),
                Some(AttributeValue::B(bytes)) => (BodyKind::Binary, bytes.into_inner()),
                Some(_) => return None,
            };
            Self::Http(HttpAnswer { status, headers, body: Body { kind, bytes: bytes.into() } })
        };
        // An unknown field could change the meaning of the others.
        fields.is_empty().then_some(answer)
    }
}

fn string(value: AttributeValue) -> Option<String> {
    match value {
        AttributeValue::S(text) => Some(text),
        _ => None,
    }
}

fn header(pair: AttributeValue) -> Option<(String, Vec<u8>)> {
    let AttributeValue::L(pair) = pair else { return None };
    let [name, value] = <[AttributeValue; 2]>::try_from(pair).ok()?;
    let value = match value {
        AttributeValue::S(text) => text.into_bytes(),
        AttributeValue::B(bytes) => bytes.into_inner(),
        _ => return None,
    };
    Some((string(name)?, value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::body;
    use super::*;

    #[test]
    fn the_readable_form_of_stored_answers_does_not_change() {
        let s = |s: &str| AttributeValue::S(s.into());
        let b = |b: &[u8]| AttributeValue::B(Blob::new(b));
        let headers = [("b", &b"2"[..]), ("a", b"\xff"), ("b", b"1")];
        let answer = |body| {
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            Answer::Http(HttpAnswer { status: 201, headers, body })
        };
        let pairs = [vec![s("b"), s("2")], vec![s("a"), b(b"\xff")], vec![s("b"), s("1")]];
        let pairs = AttributeValue::L(pairs.map(AttributeValue::L).into());
        for (kind, bytes, value) in [
            (BodyKind::Empty, "", None),
            (BodyKind::Text, "", Some(s(""))),
            (BodyKind::Text, "plain", Some(s("plain"))),
            (BodyKind::Binary, "", Some(b(b""))),
            (BodyKind::Binary, "plain", Some(b(b"plain"))),
        ] {
            let mut fields = HashMap::from([
                (STATUS.to_owned(), AttributeValue::N("201".to_owned())),
                (HEADERS.to_owned(), pairs.clone()),
            ]);
            fields.extend(value.map(|value| (BODY.to_owned(), value)));
            let (answer, form) =
                (answer(Body { kind, bytes: bytes.into() }), AttributeValue::M(fields));
            assert_eq!(answer.readable(), form);
            assert_eq!(Answer::decode(form), Some(answer));
        }
        let json = Answer::Json("1.0".into());
        assert_eq!(json.readable(), map([(JSON, s("1.0"))]));
        let unavailable = Answer::Unavailable("too large".into());
        assert_eq!(unavailable.readable(), map([(UNAVAILABLE, s("too large"))]));
    }

    #[test]
    fn an_unknown_shape_is_rejected() {
        let n = |n: &str| AttributeValue::N(n.into());
        let s = |s: &str| AttributeValue::S(s.into());
        let l = AttributeValue::L;
        for wrong in [
            n("1"),
            map([]),
            map([(JSON, n("1"))]),
            map([(JSON, s("1")), ("codec", n("2"))]),
            map([(STATUS, n("200"))]),
            map([(STATUS, n("99")), (HEADERS, l(vec![]))]),
            map([(STATUS, s("200")), (HEADERS, l(vec![]))]),
            map([(STATUS, n("200")), (HEADERS, l(vec![s("a")]))]),
            map([(STATUS, n("200")), (HEADERS, l(vec![l(vec![s("a")])]))]),
            map([(STATUS, n("200")), (HEADERS, l(vec![])), (BODY, n("1"))]),
        ] {
            assert_eq!(Answer::decode(wrong.clone()), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_http_answer_round_trips(
            status in 100u16..=999,
            headers in prop::collection::vec((any::<String>(), any::<Vec<u8>>()), 0..6),
            body in body(),
        ) {
            let answer = Answer::Http(HttpAnswer { status, headers: headers.into(), body });
            prop_assert_eq!(Answer::decode(answer.readable()), Some(answer));
        }

        #[test]
        fn any_text_and_any_reason_round_trip(text in any::<String>()) {
            let unavailable = Answer::Unavailable(text.clone().into());
            for answer in [Answer::Json(text.into()), unavailable] {
                prop_assert_eq!(Answer::decode(answer.readable()), Some(answer));
            }
        }
    }
}
