//! Conversion between an HTTP response and its stored form.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SET_COOKIE, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::answer::{Answer, BodyRef, Draft, HttpAnswer, HttpBody, OnStore};
use crate::user_code;

/// The header that marks a replay, like Stripe's `Idempotent-Replayed`.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Headers that belong to one message or one client instead of the answer: cookies, the date, the
/// hop-by-hop fields (RFC 9110, section 7.6.1) and the mark of a replay.
const NEVER_STORED: [HeaderName; 12] = [
    REPLAYED,
    SET_COOKIE,
    DATE,
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// A body that is completely in memory.
pub(crate) trait WholeBody {
    fn as_stored(&self) -> BodyRef<'_>;
    fn from_stored(body: HttpBody) -> Self;
    /// Creates the body of a rendered problem.
    fn from_text(text: Bytes) -> Self
    where
        Self: Sized,
    {
        Self::from_stored(match String::from_utf8(text.into()) {
            Ok(text) => HttpBody::Text(text),
            Err(error) => HttpBody::Binary(error.into_bytes()),
        })
    }
}

pub(super) fn body_of(bytes: &[u8]) -> BodyRef<'_> {
    match std::str::from_utf8(bytes) {
        Ok("") => BodyRef::Empty,
        Ok(text) => BodyRef::Text(text),
        Err(_) => BodyRef::Binary(bytes),
    }
}

impl WholeBody for Bytes {
    fn as_stored(&self) -> BodyRef<'_> {
        body_of(self)
    }

    fn from_stored(body: HttpBody) -> Self {
        match body {
            HttpBody::Empty => Self::new(),
            HttpBody::Text(text) => text.into(),
            HttpBody::Binary(bytes) => bytes.into(),
        }
    }
}

/// Returns the part of a response that is stored.
pub(crate) fn draft<B: WholeBody>(response: &Response<B>) -> Draft<'_> {
    let body = response.body().as_stored();
    draft_of(response.status(), response.headers(), body)
}

/// Returns the part of a response that is stored, with `body` as its body.
pub(super) fn draft_of<'a>(
    status: StatusCode,
    headers: &HeaderMap,
    body: BodyRef<'a>,
) -> Draft<'a> {
    Draft::Http { status: status.as_u16(), headers: kept_headers(headers), body }
}

/// Returns the headers that are stored with an answer.
pub(super) fn kept_headers(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let named = named_by_connection(headers);
    let kept = headers
        .iter()
        .filter(|(name, _)| !NEVER_STORED.contains(name) && !named.contains(*name))
        .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
    kept.collect()
}

/// Like [`draft`], but returns a copy.
pub(crate) fn stored<B: WholeBody>(response: &Response<B>) -> Answer {
    draft(response).to_answer()
}

/// The kind and length of a body before a user's hook changes it.
#[derive(Clone, Copy)]
pub(super) struct BodyBefore {
    kind: BodyKind,
    bytes: usize,
}

#[derive(Clone, Copy)]
enum BodyKind {
    Empty,
    Text,
    Binary,
}

impl BodyBefore {
    pub(super) fn of(body: &HttpBody) -> Self {
        let kind = match body {
            HttpBody::Empty => BodyKind::Empty,
            HttpBody::Text(_) => BodyKind::Text,
            HttpBody::Binary(_) => BodyKind::Binary,
        };
        Self { kind, bytes: body.as_ref().as_bytes().len() }
    }

    /// Returns the response that the hook returned. The body keeps its kind if its content allows
    /// it. A changed body loses the old `Content-Length`; the server computes the new one.
    pub(super) fn after(self, mut changed: Response<Bytes>) -> Response<HttpBody> {
        if changed.body().len() != self.bytes {
            changed.headers_mut().remove(CONTENT_LENGTH);
        }
        changed.map(|body| match (self.kind, String::from_utf8(body.into())) {
            (BodyKind::Empty, Ok(text)) if text.is_empty() => HttpBody::Empty,
            (BodyKind::Empty | BodyKind::Text, Ok(text)) => HttpBody::Text(text),
            (BodyKind::Binary, Ok(text)) => HttpBody::Binary(text.into_bytes()),
            (_, Err(error)) => HttpBody::Binary(error.into_bytes()),
        })
    }
}

/// Wraps the user's hook. If the hook fails, only the reason is stored.
pub(super) fn on_store(
    change: impl Fn(Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
) -> OnStore {
    Arc::new(move |answer| match answer {
        Answer::Http(answer) => changed(&change, answer).unwrap_or_else(|reason| {
            tracing::error!(
                reason,
                "a response cannot be changed for the table: repeats get an error"
            );
            Answer::Unavailable(reason.to_owned())
        }),
        other @ (Answer::Json(_) | Answer::Unavailable(_)) => other,
    })
}

fn changed(
    change: &impl Fn(Response<Bytes>) -> Response<Bytes>,
    answer: HttpAnswer,
) -> Result<Answer, &'static str> {
    let before = BodyBefore::of(&answer.body);
    let response = restore(answer).ok_or("it is not a response that HTTP can carry")?;
    let changed = user_code::call(|| change(response)).map_err(|_| "Http::on_store panicked")?;
    let (head, body) = before.after(changed).into_parts();
    Ok(draft_of(head.status, &head.headers, body.as_ref()).to_answer())
}

/// Returns the additional hop-by-hop fields that this message's `Connection` names.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let lists = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

/// Converts a stored answer into the response of a replay; `None` if it is not valid HTTP.
pub(crate) fn replay<B: WholeBody>(answer: HttpAnswer) -> Option<Response<B>> {
    let mut response = restore(answer)?;
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Some(response)
}

/// Converts an answer into a response; `None` if it is not valid HTTP.
pub(super) fn restore<B: WholeBody>(answer: HttpAnswer) -> Option<Response<B>> {
    let mut response = Response::new(B::from_stored(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).ok()?;
    for (name, value) in answer.headers {
        let (name, value) = (HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?);
        response.headers_mut().append(name, value);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(response: &Response<Bytes>) -> Response<Bytes> {
        let Answer::Http(answer) = stored(response) else {
            panic!("not an HTTP answer");
        };
        replay(answer).unwrap()
    }

    #[test]
    fn replay_keeps_status_body_and_header_order() {
        let response = Response::builder()
            .status(418)
            .header("x-b", "1")
            .header("x-a", HeaderValue::from_bytes(b"caf\xe9").unwrap())
            .header("x-b", "2")
            .header("content-type", "application/octet-stream")
            .body(Bytes::from_static(b"\0\xff"))
            .unwrap();
        let again = round_trip(&response);
        assert_eq!(again.status(), 418);
        assert_eq!(again.body(), response.body());
        let mut headers: Vec<_> = again.headers().iter().collect();
        assert_eq!(headers.pop(), Some((&REPLAYED, &HeaderValue::from_static("true"))));
        assert_eq!(headers, response.headers().iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_hook_that_changes_nothing_changes_no_byte() {
        let same = on_store(|response| response);
        for body in [
            HttpBody::Empty,
            HttpBody::Text(String::new()),
            HttpBody::Text("caf\u{e9}".to_owned()),
            HttpBody::Binary(Vec::new()),
            HttpBody::Binary(b"text all the same".to_vec()),
            HttpBody::Binary(vec![0xff]),
        ] {
            let headers = vec![("x-b".to_owned(), b"1".to_vec()), ("x-a".to_owned(), vec![0xe9])];
            let answer = Answer::Http(HttpAnswer { status: 418, headers, body });
            assert_eq!(same(answer.clone()), answer);
        }
    }

    #[test]
    fn a_changed_body_is_of_its_kind_if_it_can_be() {
        let becomes = |body: HttpBody, changed: &'static [u8]| {
            let answer = HttpAnswer { status: 200, headers: vec![], body };
            let change = on_store(move |response| response.map(|_| Bytes::from_static(changed)));
            let Answer::Http(answer) = change(Answer::Http(answer)) else {
                panic!("not an HTTP answer");
            };
            answer.body
        };
        assert_eq!(becomes(HttpBody::Empty, b"text"), HttpBody::Text("text".to_owned()));
        assert_eq!(becomes(HttpBody::Text("a".to_owned()), b"\xff"), HttpBody::Binary(vec![0xff]));
        assert_eq!(becomes(HttpBody::Binary(vec![1]), b"text"), HttpBody::Binary(b"text".to_vec()));
    }

    #[test]
    fn cookies_dates_and_hop_by_hop_fields_are_not_replayed() {
        let response = Response::builder()
            .header("set-cookie", "session=1")
            .header("date", "Sun, 06 Nov 1994 08:49:37 GMT")
            .header("connection", "close, X-Hop")
            .header("x-hop", "1")
            .header("keep-alive", "timeout=5")
            .header("transfer-encoding", "chunked")
            .header("upgrade", "h2c")
            .header("location", "/payments/1")
            .body(Bytes::new())
            .unwrap();
        let again = round_trip(&response);
        let names: Vec<_> = again.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["location", "idempotency-replayed"]);
    }

    proptest! {
        #[test]
        fn any_response_is_replayed_but_for_what_is_never_stored(
            status in 200u16..=999,
            headers in prop::collection::vec(
                ("x-[a-c]|date|te|set-cookie", prop::collection::vec(32u8..=126, 0..9)), 0..8,
            ),
            latin1 in prop::collection::vec(160u8..=255, 0..4),
            body in any::<Vec<u8>>(),
        ) {
            let mut response = Response::new(Bytes::from(body));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            for (name, value) in headers {
                let value = HeaderValue::from_bytes(&value).unwrap();
                response.headers_mut().append(HeaderName::try_from(name).unwrap(), value);
            }
            response.headers_mut().append("x-a", HeaderValue::from_bytes(&latin1).unwrap());
            let again = round_trip(&response);
            prop_assert_eq!((again.status(), again.body()), (response.status(), response.body()));
            let mut expected = response.headers().clone();
            for name in NEVER_STORED {
                expected.remove(name);
            }
            expected.insert(REPLAYED, HeaderValue::from_static("true"));
            prop_assert_eq!(again.headers(), &expected);
        }
    }
}
