//! gRPC: the status of an answer is in its trailers, and that of HTTP is always 200.
//!
//! An answer's trailers are in the extensions of its response on the way through the protocol.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::problem::Problem;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// What follows a body.
#[derive(Clone, Debug)]
pub(super) struct Trailers(pub(super) HeaderMap);

pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let start = content_type.get(..b"application/grpc".len()).unwrap_or_default();
    start.eq_ignore_ascii_case(b"application/grpc")
}

/// The HTTP status that a response's gRPC status stands for; its own where it is no gRPC response.
pub(super) fn status<B>(response: &Response<B>) -> StatusCode {
    if !is_grpc(response.headers()) || response.status() != StatusCode::OK {
        return response.status();
    }
    let trailers = response.extensions().get::<Trailers>().map(|Trailers(trailers)| trailers);
    // A response of headers alone has it there.
    let code = trailers.and_then(|trailers| trailers.get(STATUS));
    let code = code.or_else(|| response.headers().get(STATUS));
    in_http(code.map(HeaderValue::as_bytes).unwrap_or_default())
}

/// As google.rpc.Code has it, but for CANCELLED, which is no answer: its client may ask again.
fn in_http(code: &[u8]) -> StatusCode {
    use StatusCode as S;
    match code {
        b"0" => S::OK,
        b"1" => S::REQUEST_TIMEOUT,
        b"3" | b"9" | b"11" => S::BAD_REQUEST,
        b"4" => S::GATEWAY_TIMEOUT,
        b"5" => S::NOT_FOUND,
        b"6" | b"10" => S::CONFLICT,
        b"7" => S::FORBIDDEN,
        b"8" => S::TOO_MANY_REQUESTS,
        b"12" => S::NOT_IMPLEMENTED,
        b"14" => S::SERVICE_UNAVAILABLE,
        b"16" => S::UNAUTHORIZED,
        // UNKNOWN, INTERNAL, DATA_LOSS; and what has none or another one.
        _ => S::INTERNAL_SERVER_ERROR,
    }
}

/// The crate's own answer as a gRPC client takes it: headers alone.
pub(super) fn problem(problem: &Problem) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(STATUS, HeaderValue::from_static(code_of(problem.status())));
    let message = format!("{}: {}", problem.title(), problem.detail);
    if let Ok(message) = HeaderValue::try_from(percent_encoded(&message)) {
        headers.insert(MESSAGE, message);
    }
    response
}

fn code_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 | 413 => "3",
        401 => "16",
        // Another request with the key is, or was, at work.
        409 => "10",
        415 => "12",
        // Another request had the key.
        422 => "9",
        503 => "14",
        _ => "13",
    }
}

/// As the gRPC protocol has messages: what is not printable ASCII, and `%`, is encoded.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | ..b' ' | b'\x7f'.. => {
                // Writing to a string does not fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
            _ => encoded.push(char::from(byte)),
        }
    }
    encoded
}
