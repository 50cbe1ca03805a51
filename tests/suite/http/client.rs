//! An HTTP client on a bare socket: one request a connection, and full say over when to hang up.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::gate::patiently;

/// Sends a request and waits for its answer.
pub(crate) async fn send(address: SocketAddr, request: &Request<Bytes>) -> Response<Bytes> {
    receive(begin(address, request).await).await
}

/// As [`send`], for many at once.
pub(crate) async fn send_owned(address: SocketAddr, request: Request<Bytes>) -> Response<Bytes> {
    send(address, &request).await
}

/// Sends a request and returns the connection without reading the response.
pub(crate) async fn begin(address: SocketAddr, request: &Request<Bytes>) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    stream.write_all(&head(request)).await.expect("the server reads");
    stream.write_all(request.body()).await.expect("the server reads");
    stream
}

/// Reads an answer up to the end of the connection.
pub(crate) async fn receive(mut stream: TcpStream) -> Response<Bytes> {
    let mut raw = Vec::new();
    let reading = stream.read_to_end(&mut raw);
    patiently("the end of an answer", reading).await.expect("the server answers");
    let end = raw.windows(4).position(|window| window == b"\r\n\r\n").expect("the head ends");
    parse(&raw[..end], Bytes::copy_from_slice(&raw[end + 4..]))
}

/// A request's head; `Content-Length` is added where the request does not say how its body ends.
pub(crate) fn head(request: &Request<Bytes>) -> Vec<u8> {
    let target = request.uri().path_and_query().expect("there is a path");
    let mut head = format!("{} {target} HTTP/1.1\r\n", request.method()).into_bytes();
    let mut field = |name: &str, value: &[u8]| {
        head.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
    };
    field("host", b"localhost");
    field("connection", b"close");
    let headers = request.headers();
    if !headers.contains_key("content-length") && !headers.contains_key("transfer-encoding") {
        field("content-length", request.body().len().to_string().as_bytes());
    }
    for (name, value) in headers {
        field(name.as_str(), value.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn parse(head: &[u8], body: Bytes) -> Response<Bytes> {
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let status = lines.next().expect("a status line");
    let mut response = Response::new(body);
    *response.status_mut() = status[b"HTTP/1.1 ".len()..][..3].try_into().expect("a status");
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':').expect("a header");
        let name = HeaderName::from_bytes(&line[..colon]).expect("a header's name");
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).expect("a value");
        response.headers_mut().append(name, value);
    }
    response
}
