//! Requests and what is expected of their answers.

use std::fmt::Debug;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::{Service, ServiceExt};

/// `POST /payments` with a key, and a body that says it is JSON.
pub(crate) fn post(key: &str, body: impl Into<Bytes>) -> Request<Bytes> {
    let request = Request::post("/payments").header("content-type", "application/json");
    let key = HeaderValue::from_bytes(key.as_bytes()).expect("a header can carry it");
    request.header("idempotency-key", key).body(body.into()).expect("it is a request")
}

/// The same request with another value of a header.
pub(crate) fn with(mut request: Request<Bytes>, name: &'static str, value: &str) -> Request<Bytes> {
    let value = HeaderValue::from_bytes(value.as_bytes()).expect("a header can carry it");
    request.headers_mut().insert(name, value);
    request
}

/// The same request to another path and query.
pub(crate) fn to(mut request: Request<Bytes>, target: &str) -> Request<Bytes> {
    *request.uri_mut() = target.parse().expect("it is a target");
    request
}

/// The same request with another method.
pub(crate) fn by(method: &str, mut request: Request<Bytes>) -> Request<Bytes> {
    *request.method_mut() = method.parse().expect("it is a method");
    request
}

pub(crate) fn without(mut request: Request<Bytes>, name: &str) -> Request<Bytes> {
    request.headers_mut().remove(name);
    request
}

/// `POST /payments` without a key.
pub(crate) fn keyless(body: impl Into<Bytes>) -> Request<Bytes> {
    without(post("", body), "idempotency-key")
}

/// The same request with one more value of a header.
pub(crate) fn and(mut request: Request<Bytes>, name: &'static str, value: &str) -> Request<Bytes> {
    request.headers_mut().append(name, value.parse().expect("a header can carry it"));
    request
}

/// Sends a request to a service in this process.
pub(crate) async fn through<S, B>(service: &S, request: Request<Bytes>) -> Response<Bytes>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Debug> + Clone,
    B: http_body::Body<Data = Bytes>,
{
    whole(service.clone().oneshot(request.map(Body::from)).await.expect("it answers")).await
}

/// A response with its whole body.
pub(crate) async fn whole<B>(response: Response<B>) -> Response<Bytes>
where
    B: http_body::Body<Data = Bytes>,
{
    let (head, body) = response.into_parts();
    let body = body.collect().await.ok().expect("a whole body");
    Response::from_parts(head, body.to_bytes())
}

/// A response in short: `201`, `201 replay` or, of a problem, `422 Mismatch`.
#[track_caller]
pub(crate) fn outcome(response: &Response<Bytes>) -> String {
    let status = response.status().as_u16();
    if values(response.headers(), "content-type") == ["application/problem+json"] {
        let body: Value = serde_json::from_slice(response.body()).expect("a problem is JSON");
        let uri = body["type"].as_str().expect("a type");
        let kind = uri.rsplit(':').next().expect("a kind");
        problem(response, status, kind);
        return format!("{status} {kind}");
    }
    if is_replay(response) { format!("{status} replay") } else { status.to_string() }
}

/// Whether an answer says that it is a replay.
#[track_caller]
pub(crate) fn is_replay(response: &Response<Bytes>) -> bool {
    let marks = values(response.headers(), "idempotency-replayed");
    assert!(marks.is_empty() || marks == ["true"], "{marks:?}");
    !marks.is_empty()
}

/// All values of a header.
pub(crate) fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().expect("it is text")).collect()
}

/// An answer's headers but for those that a server puts on each message, and the replay's mark.
pub(crate) fn own_headers(response: &Response<Bytes>) -> Vec<(&HeaderName, &HeaderValue)> {
    let servers = ["connection", "content-length", "date", "idempotency-replayed"];
    response.headers().iter().filter(|(name, _)| !servers.contains(&name.as_str())).collect()
}

/// Both are the handler's answer, of the same run.
#[track_caller]
pub(crate) fn assert_same(first: &Response<Bytes>, repeat: &Response<Bytes>) {
    assert_eq!(repeat.status(), first.status());
    assert_eq!(repeat.body(), first.body());
    let sorted = |response| {
        let mut headers = own_headers(response);
        headers.sort_by_key(|(name, _)| name.as_str());
        headers.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
    };
    assert_eq!(sorted(repeat), sorted(first));
}

/// The problem that an answer must be: of this kind, with the members of RFC 9457.
#[track_caller]
pub(crate) fn problem(response: &Response<Bytes>, status: u16, kind: &str) -> Value {
    let text = String::from_utf8_lossy(response.body());
    assert_eq!(response.status(), status, "{text}");
    assert_eq!(values(response.headers(), "content-type"), ["application/problem+json"]);
    assert!(!is_replay(response));
    let problem: Value = serde_json::from_str(&text).expect("a problem is JSON");
    assert_eq!(problem["status"], status);
    let uri = problem["type"].as_str().expect("a type");
    assert_eq!(uri.rsplit(':').next(), Some(kind), "{text}");
    for member in ["title", "detail"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{text}");
    }
    problem
}
