//! Conversion between an HTTP response and its stored form.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SET_COOKIE, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::answer::reason::http as reason;
use crate::answer::{Answer, Body, HttpAnswer, OnStore};
use crate::call::user_code::{self, Panic};

/// The header that marks a replay, like Stripe's `Idempotent-Replayed`.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Headers that belong to one message or client, not to the answer: cookies, the date, hop-by-hop
/// fields (RFC 9110, section 7.6.1) and the mark of a replay.
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

/// Returns what is stored of a response with this body; the reason if nothing can be stored. An interim
/// response is never stored: the client of a replay would wait for the final one (RFC 9110, section 15.2).
pub(crate) fn stored<B>(response: &Response<B>, body: Body) -> Result<HttpAnswer, &'static str> {
    if response.status().is_informational() {
        return Err(reason::INTERIM);
    }
    let headers = kept_headers(response.headers()).into();
    Ok(HttpAnswer { status: response.status().as_u16(), headers, body })
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

/// Lets a user's function change a response. The body keeps its kind if its content allows it. If its
/// length changes, `Content-Length` is removed, and the server computes the new one.
pub(super) fn change(
    response: Response<Body>,
    hook: impl FnOnce(Response<Bytes>) -> Response<Bytes>,
) -> Result<Response<Body>, Panic> {
    let Body { kind, bytes } = response.body();
    let (kind, length) = (*kind, bytes.len());
    let mut changed = user_code::call(|| hook(response.map(|body| body.bytes)))?;
    if changed.body().len() != length {
        changed.headers_mut().remove(CONTENT_LENGTH);
    }
    Ok(changed.map(|bytes| Body::of_kind(kind, bytes)))
}

/// Wraps the user's function. If the function fails, only the reason is stored.
pub(super) fn on_store(
    hook: impl Fn(Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
) -> OnStore {
    Arc::new(move |answer| {
        let changed = restore(answer)
            .ok_or(reason::INVALID)
            .and_then(|response| change(response, &hook).map_err(|_| reason::ON_STORE_PANICKED))
            .and_then(|response| stored(&response, response.body().clone()));
        match changed {
            Ok(answer) => Answer::Http(answer),
            Err(reason) => {
                tracing::error!(
                    reason,
                    "Http::on_store failed, so the answer is not stored: repeats get an error"
                );
                Answer::Unavailable(reason.into())
            }
        }
    })
}

/// Returns the additional hop-by-hop fields that this message's `Connection` names.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let lists = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

/// Converts a stored answer into the response of a replay; `None` if it is not valid HTTP.
pub(crate) fn replay(answer: HttpAnswer) -> Option<Response<Body>> {
    let mut response = restore(answer)?;
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Some(response)
}

/// Converts an answer into a response; `None` if it is not valid HTTP, or an interim response.
pub(super) fn restore(answer: HttpAnswer) -> Option<Response<Body>> {
    let mut response = Response::new(answer.body);
    let status = StatusCode::from_u16(answer.status).ok();
    *response.status_mut() = status.filter(|status| !status.is_informational())?;
    for (name, value) in answer.headers.iter() {
        let name = HeaderName::try_from(name).ok()?;
        response.headers_mut().append(name, HeaderValue::try_from(&value[..]).ok()?);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::answer::BodyKind;

    fn round_trip(response: &Response<Bytes>) -> Response<Bytes> {
        let answer = stored(response, response.body().clone().into()).unwrap();
        replay(answer).unwrap().map(|body| body.bytes)
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
    fn a_hook_that_returns_the_response_unchanged_changes_no_byte() {
        let same = on_store(|response| response);
        for (kind, bytes) in [
            (BodyKind::Empty, &b""[..]),
            (BodyKind::Text, b""),
            (BodyKind::Text, "caf\u{e9}".as_bytes()),
            (BodyKind::Binary, b""),
            (BodyKind::Binary, b"text"),
            (BodyKind::Binary, b"\xff"),
        ] {
            let headers =
                [("x-b".to_owned(), b"1".to_vec()), ("x-a".to_owned(), vec![0xe9])].into();
            let body = Body { kind, bytes: bytes.into() };
            let answer = HttpAnswer { status: 418, headers, body };
            assert_eq!(same(answer.clone()), Answer::Http(answer));
        }
    }

    #[test]
    fn a_changed_body_keeps_its_kind_if_possible() {
        for (kind, changed, expected) in [
            (BodyKind::Empty, &b"text"[..], BodyKind::Text),
            (BodyKind::Text, b"\xff", BodyKind::Binary),
            (BodyKind::Binary, b"text", BodyKind::Binary),
        ] {
            let body = Body { kind, bytes: Bytes::new() };
            let answer = HttpAnswer { status: 200, headers: [].into(), body };
            let change = on_store(move |response| response.map(|_| Bytes::from_static(changed)));
            let Answer::Http(answer) = change(answer) else {
                panic!("not an HTTP answer");
            };
            assert_eq!((answer.body.kind, &answer.body.bytes[..]), (expected, changed));
        }
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

    #[test]
    fn an_interim_response_is_neither_stored_nor_replayed() {
        for status in [100, 103, 199] {
            let response = Response::builder().status(status).body(()).unwrap();
            assert_eq!(stored(&response, Bytes::new().into()).err(), Some(reason::INTERIM));
            let (headers, body) = (Arc::default(), Bytes::new().into());
            assert!(replay(HttpAnswer { status, headers, body }).is_none(), "{status}");
        }
    }

    proptest! {
        #[test]
        fn any_response_is_replayed_without_headers_that_are_never_stored(
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
