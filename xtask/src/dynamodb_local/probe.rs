//! Requests over a plain socket, without an HTTP client.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A limit for a request. The first one to a new server is slow.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to `endpoint`.
pub(super) fn connect(endpoint: &str) -> Result<TcpStream> {
    let (host, port) = host_and_port(endpoint)?;
    let addresses =
        (host, port).to_socket_addrs().with_context(|| format!("`{host}` is not a host"))?;
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) => Err(error).with_context(|| format!("no server responds at {host}:{port}")),
        None => bail!("`{host}` has no address"),
    }
}

fn host_and_port(endpoint: &str) -> Result<(&str, u16)> {
    let (scheme, rest) = endpoint.split_once("://").context("it does not begin with http://")?;
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        other => bail!("`{other}` is neither http nor https"),
    };
    let authority = rest.split('/').next().unwrap_or(rest);
    let (host, port) = match authority.rsplit_once(':') {
        // The colons of a bare IPv6 address are inside its brackets.
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().with_context(|| format!("`{port}` is not a port"))?)
        }
        _ => (authority, default_port),
    };
    Ok((host.trim_start_matches('[').trim_end_matches(']'), port))
}

/// Succeeds if a DynamoDB at this port of the loopback address lists its tables.
pub(super) fn lists_tables(port: u16) -> io::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    let answer = exchange(stream, "ListTables", "{}")?;
    if is_table_list(&answer) {
        Ok(())
    } else {
        let status = answer.lines().next().unwrap_or("nothing").to_owned();
        Err(io::Error::other(format!("it answered {status}")))
    }
}

/// Sends an operation whose response does not matter to `endpoint`.
pub(super) fn perform(endpoint: &str, operation: &str, body: &Value) -> Result<()> {
    let answer = exchange(connect(endpoint)?, operation, &body.to_string())?;
    ensure!(is_success(&answer), "{operation} of {body}: DynamoDB responded\n{answer}");
    Ok(())
}

fn exchange(mut stream: TcpStream, operation: &str, body: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(request(stream.peer_addr()?, operation, body).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// DynamoDB Local requires a well-formed signature and does not verify it. The access key is that of
/// the tests: without `-sharedDb` each access key has separate tables.
fn request(host: SocketAddr, operation: &str, body: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\n\
         Host: {host}\r\n\
         Connection: close\r\n\
         Content-Type: application/x-amz-json-1.0\r\n\
         X-Amz-Target: DynamoDB_20120810.{operation}\r\n\
         Authorization: AWS4-HMAC-SHA256 \
         Credential=local/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0\r\n\
         Content-Length: {}\r\n\
         \r\n\
         {body}",
        body.len(),
    )
}

fn is_success(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ")
}

fn is_table_list(answer: &str) -> bool {
    is_success(answer) && answer.contains("\"TableNames\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_found() {
        let cases = [
            ("http://127.0.0.1:8000", ("127.0.0.1", 8000)),
            ("http://localhost:8000/", ("localhost", 8000)),
            ("http://dynamodb", ("dynamodb", 80)),
            ("https://dynamodb/path", ("dynamodb", 443)),
            ("http://[::1]:8000", ("::1", 8000)),
            ("http://[::1]", ("::1", 80)),
        ];
        for (endpoint, expected) in cases {
            assert_eq!(host_and_port(endpoint).unwrap(), expected, "{endpoint}");
        }
    }

    #[test]
    fn an_invalid_endpoint_is_rejected() {
        for endpoint in ["127.0.0.1:8000", "ftp://host", "http://host:port", "http://host:99999"] {
            assert!(host_and_port(endpoint).is_err(), "{endpoint}");
        }
    }

    #[test]
    fn only_a_list_of_tables_is_an_answer() {
        assert!(is_table_list("HTTP/1.1 200 OK\r\nServer: x\r\n\r\n{\"TableNames\":[]}"));
        assert!(!is_table_list("HTTP/1.1 500 Server Error\r\n\r\n{\"TableNames\":[]}"));
        assert!(!is_table_list("HTTP/1.1 200 OK\r\n\r\nhello"));
    }

    #[test]
    fn a_closed_port_does_not_connect() {
        let port = crate::dynamodb_local::free_port().unwrap();
        assert!(connect(&format!("http://127.0.0.1:{port}")).is_err());
        assert!(lists_tables(port).is_err());
    }
}
