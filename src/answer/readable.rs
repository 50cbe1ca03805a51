//! The form of small answers, which is readable in the DynamoDB console.
//!
//! ```text
//! function   {"json": "{\"id\":\"re_1\"}"}                     the JSON text, letter for letter
//! HTTP       {"status": 201, "headers": [["location", "/payments/1"]], "body": "…"}
//!            body and header values: S where they are text, B where they are bytes
//! none       {"unavailable": "the answer has 612,345 bytes …"} the operation completed all the same
//! ```

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use super::{Answer, BodyRef, Draft, HttpAnswer, HttpBody};

const JSON: &str = "json";
const STATUS: &str = "status";
const HEADERS: &str = "headers";
const BODY: &str = "body";
const UNAVAILABLE: &str = "unavailable";

pub(crate) fn encode_json(text: String) -> AttributeValue {
    map([(JSON, AttributeValue::S(text))])
}

pub(crate) fn encode_unavailable(reason: &str) -> AttributeValue {
    map([(UNAVAILABLE, AttributeValue::S(reason.to_owned()))])
}

/// Returns whether the value is a reason instead of an answer.
pub(crate) fn is_unavailable(response: &AttributeValue) -> bool {
    response.as_m().is_ok_and(|fields| fields.contains_key(UNAVAILABLE))
}

/// Copies the answer once, into the SDK's type.
pub(crate) fn encode_http<'a>(
    status: u16,
    headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    body: BodyRef<'_>,
) -> AttributeValue {
    let headers = headers
        .map(|(name, value)| {
            AttributeValue::L(vec![AttributeValue::S(name.to_owned()), text_or_bytes(value)])
        })
        .collect();
    let mut fields = HashMap::from([
        (STATUS.to_owned(), AttributeValue::N(status.to_string())),
        (HEADERS.to_owned(), AttributeValue::L(headers)),
    ]);
    let body = match body {
        BodyRef::Empty => None,
        BodyRef::Text(text) => Some(AttributeValue::S(text.to_owned())),
        BodyRef::Binary(bytes) => Some(AttributeValue::B(Blob::new(bytes))),
    };
    if let Some(body) = body {
        fields.insert(BODY.to_owned(), body);
    }
    AttributeValue::M(fields)
}

/// An upper bound of the size that DynamoDB counts for this form.
pub(super) fn readable_bytes(draft: &Draft<'_>) -> usize {
    const MEMBER: usize = 1;
    match draft {
        Draft::Json(json) => MAP + MEMBER + JSON.len() + json.len(),
        Draft::Http { status: _, headers, body } => {
            let pair =
                |(name, value): &(String, Vec<u8>)| MAP + 3 * MEMBER + name.len() + value.len();
            let headers = MAP + headers.iter().map(pair).sum::<usize>();
            let status = MEMBER + STATUS.len() + NUMBER;
            let body = match body {
                BodyRef::Empty => 0,
                BodyRef::Text(_) | BodyRef::Binary(_) => {
                    MEMBER + BODY.len() + body.as_bytes().len()
                }
            };
            MAP + status + MEMBER + HEADERS.len() + headers + body
        }
        Draft::Unavailable(reason) => MAP + MEMBER + UNAVAILABLE.len() + reason.len(),
    }
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
        if let Some(json) = fields.remove(JSON) {
            return only(&fields, Self::Json(string(json)?));
        }
        if let Some(reason) = fields.remove(UNAVAILABLE) {
            return only(&fields, Self::Unavailable(string(reason)?));
        }
        let status = match fields.remove(STATUS)? {
            AttributeValue::N(status) => status.parse().ok().filter(|s| (100..=999).contains(s))?,
            _ => return None,
        };
        let AttributeValue::L(headers) = fields.remove(HEADERS)? else { return None };
        let headers = headers.into_iter().map(header).collect::<Option<_>>()?;
        let body = match fields.remove(BODY) {
            None => HttpBody::Empty,
            Some(AttributeValue::S(text)) => HttpBody::Text(text),
            Some(AttributeValue::B(bytes)) => HttpBody::Binary(bytes.into_inner()),
            Some(_) => return None,
        };
        only(&fields, Self::Http(HttpAnswer { status, headers, body }))
    }
}

/// An unknown field could change the meaning of the others.
fn only(rest: &HashMap<String, AttributeValue>, answer: Answer) -> Option<Answer> {
    rest.is_empty().then_some(answer)
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

    use super::*;

    #[test]
    fn answers_come_back_as_they_went_in() {
        let headers: [(&str, &[u8]); 3] = [("b", b"2"), ("a", b"\xff"), ("b", b"1")];
        let encoded = encode_http(201, headers.into_iter(), BodyRef::Binary(b"\0\xff"));
        let expected = HttpAnswer {
            status: 201,
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            body: HttpBody::Binary(b"\0\xff".into()),
        };
        assert_eq!(Answer::decode(encoded), Some(Answer::Http(expected)));
        assert_eq!(Answer::decode(encode_json("1.0".into())), Some(Answer::Json("1.0".into())));
        assert_eq!(
            Answer::decode(encode_unavailable("too large")),
            Some(Answer::Unavailable("too large".into()))
        );
    }

    #[test]
    fn text_bytes_and_nothing_stay_what_they_are() {
        for (body, expected) in [
            (BodyRef::Empty, HttpBody::Empty),
            (BodyRef::Text(""), HttpBody::Text(String::new())),
            (BodyRef::Binary(b""), HttpBody::Binary(Vec::new())),
            (BodyRef::Binary(b"plain"), HttpBody::Binary(b"plain".to_vec())),
        ] {
            let Some(Answer::Http(answer)) = Answer::decode(encode_http(200, [].into_iter(), body))
            else {
                panic!("not an HTTP answer: {body:?}");
            };
            assert_eq!(answer.body, expected);
        }
    }

    #[test]
    fn an_unknown_shape_is_not_guessed_at() {
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

    fn body() -> impl Strategy<Value = HttpBody> {
        prop_oneof![
            Just(()).prop_map(|()| HttpBody::Empty),
            any::<String>().prop_map(HttpBody::Text),
            any::<Vec<u8>>().prop_map(HttpBody::Binary),
        ]
    }

    proptest! {
        #[test]
        fn any_http_answer_comes_back(
            status in 100u16..=999,
            headers in prop::collection::vec((any::<String>(), any::<Vec<u8>>()), 0..6),
            body in body(),
        ) {
            let answer = HttpAnswer { status, headers, body };
            let body = match &answer.body {
                HttpBody::Empty => BodyRef::Empty,
                HttpBody::Text(text) => BodyRef::Text(text),
                HttpBody::Binary(bytes) => BodyRef::Binary(bytes),
            };
            let headers = answer.headers.iter().map(|(name, value)| (name.as_str(), &value[..]));
            let encoded = encode_http(status, headers, body);
            prop_assert_eq!(Answer::decode(encoded), Some(Answer::Http(answer)));
        }

        #[test]
        fn any_text_and_any_reason_come_back(text in any::<String>()) {
            prop_assert_eq!(Answer::decode(encode_json(text.clone())), Some(Answer::Json(text.clone())));
            let unavailable = Answer::decode(encode_unavailable(&text));
            prop_assert_eq!(unavailable, Some(Answer::Unavailable(text)));
        }
    }
}
