//! An answer as bytes: its body, its metadata, and the length of the metadata as a big-endian u32.
//! The body comes first, so that it can be extracted without a copy.
//!
//! ```text
//! function   'J'
//! HTTP       'H', status as u16, body: 0 none, 1 text, 2 bytes; for each header the lengths of
//!            name and value as u32, name, value
//! ```

use bytes::{Buf as _, Bytes};

use super::{Answer, Body, BodyKind, HttpAnswer};

const JSON: u8 = b'J';
const HTTP: u8 = b'H';

/// The limit of `http::HeaderMap`. Without a limit, metadata with only empty headers would take a
/// dozen times its size in memory.
const MAX_HEADERS: usize = 1 << 15;

impl Answer {
    /// Returns what follows the body; `None` for an answer that is never stored as bytes.
    pub(super) fn tail(&self) -> Option<Bytes> {
        match self {
            Self::Json(_) => Some(Bytes::from_static(b"J\0\0\0\x01")),
            Self::Http(answer) => http_tail(answer).map(Bytes::from),
            Self::Unavailable(_) => None,
        }
    }
}

fn http_tail(HttpAnswer { status, headers, body }: &HttpAnswer) -> Option<Vec<u8>> {
    let header = |(name, value): &(String, Vec<u8>)| 8 + name.len() + value.len();
    // Includes four bytes for the length of the head.
    let mut head = Vec::with_capacity(8 + headers.iter().map(header).sum::<usize>());
    head.push(HTTP);
    head.extend(status.to_be_bytes());
    head.push(body.kind as u8);
    for (name, value) in headers.iter() {
        head.extend(u32::try_from(name.len()).ok()?.to_be_bytes());
        head.extend(u32::try_from(value.len()).ok()?.to_be_bytes());
        head.extend(name.as_bytes());
        head.extend(value);
    }
    let length = u32::try_from(head.len()).ok()?;
    head.extend(length.to_be_bytes());
    Some(head)
}

/// Parses the bytes of an answer; `None` if this version does not write such bytes.
pub(super) fn read(mut bytes: Bytes) -> Option<Answer> {
    let (rest, length) = bytes.split_last_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let body = rest.len().checked_sub(length)?;
    let head = rest[body..].to_vec();
    bytes.truncate(body);
    let (&kind, head) = head.split_first()?;
    match kind {
        JSON if head.is_empty() && std::str::from_utf8(&bytes).is_ok() => Some(Answer::Json(bytes)),
        HTTP => http(head, bytes).map(Answer::Http),
        _ => None,
    }
}

fn http(mut head: &[u8], bytes: Bytes) -> Option<HttpAnswer> {
    let status = head.try_get_u16().ok().filter(|status| (100..=999).contains(status))?;
    let kind = usize::from(head.try_get_u8().ok()?);
    let kind = *[BodyKind::Empty, BodyKind::Text, BodyKind::Binary].get(kind)?;
    let body = Body::of_kind(kind, bytes);
    let mut headers = Vec::new();
    while !head.is_empty() {
        if headers.len() == MAX_HEADERS {
            return None;
        }
        let (name, value) = (length(&mut head)?, length(&mut head)?);
        let name = String::from_utf8(head.split_off(..name)?.to_vec()).ok()?;
        headers.push((name, head.split_off(..value)?.to_vec()));
    }
    (body.kind == kind).then(|| HttpAnswer { status, headers: headers.into(), body })
}

fn length(head: &mut &[u8]) -> Option<usize> {
    head.try_get_u32().ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::body;
    use super::*;

    fn bytes(answer: &Answer) -> Vec<u8> {
        [&answer.body()[..], &answer.tail().unwrap()].concat()
    }

    fn answer() -> impl Strategy<Value = Answer> {
        let headers = prop::collection::vec((any::<String>(), any::<Vec<u8>>()), 0..6);
        prop_oneof![
            any::<String>().prop_map(|json| Answer::Json(json.into())),
            (100u16..=999, headers, body()).prop_map(|(status, headers, body)| {
                Answer::Http(HttpAnswer { status, headers: headers.into(), body })
            }),
        ]
    }

    #[test]
    fn the_layout_of_stored_answers_does_not_change() {
        assert_eq!(bytes(&Answer::Json("[1]".into())), b"[1]J\0\0\0\x01");
        let http = HttpAnswer {
            status: 201,
            headers: [("a".into(), b"bc".into())].into(),
            body: Bytes::from("hi").into(),
        };
        let expected = b"hiH\0\xc9\x01\0\0\0\x01\0\0\0\x02abc\0\0\0\x0f";
        assert_eq!(bytes(&Answer::Http(http)), expected);
    }

    #[test]
    fn an_unavailable_answer_has_no_bytes() {
        assert_eq!(Answer::Unavailable("why".into()).tail(), None);
    }

    #[test]
    fn bytes_of_another_layout_are_rejected() {
        for wrong in [
            &b""[..],
            b"J",
            b"\0\0\0\0",
            b"[1]J\0\0\0\x09",
            b"[1]X\0\0\0\x01",
            b"[1]Jx\0\0\0\x02",
            b"\xffJ\0\0\0\x01",
            b"H\0\xc9\0\0\0\0\x05",
            b"H\0\x09\0\0\0\0\x04",
            b"bodyH\0\xc9\0\0\0\0\x04",
            b"H\0\xc9\x03\0\0\0\x04",
            b"\xffH\0\xc9\x01\0\0\0\x04",
            b"H\0\xc9\0\0\0\0\x01\0\0\0\x02ab\0\0\0\x0e",
        ] {
            assert_eq!(read(wrong.into()), None, "{wrong:?}");
        }
    }

    #[test]
    fn more_headers_than_a_response_can_have_are_rejected() {
        for (headers, is_read) in [(MAX_HEADERS, true), (MAX_HEADERS + 1, false)] {
            let mut head = b"H\0\xc9\0".to_vec();
            head.extend(vec![0; 8 * headers]);
            let length = u32::try_from(head.len()).unwrap();
            head.extend(length.to_be_bytes());
            assert_eq!(read(head.into()).is_some(), is_read, "{headers}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_round_trips(answer in answer()) {
            prop_assert_eq!(read(bytes(&answer).into()), Some(answer));
        }

        #[test]
        fn any_bytes_are_an_answer_or_none(mut given in any::<Vec<u8>>(), head in 0u8..9) {
            given.extend([0, 0, 0, head]);
            if let Some(answer) = read(given.clone().into()) {
                prop_assert_eq!(bytes(&answer), given);
            }
        }
    }
}
