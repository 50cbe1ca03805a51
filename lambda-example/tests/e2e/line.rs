//! Between a function and DynamoDB Local: a line that can be cut, and a store that refuses.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// As DynamoDB refuses a role whose policy was taken away.
const DENIED: &str = r#"{"__type":"com.amazon.coral.service#AccessDeniedException",
    "Message":"the role is not authorized to perform this action"}"#;

pub struct Line {
    address: SocketAddr,
    connections: JoinHandle<()>,
}

impl Line {
    pub async fn to(endpoint: &str) -> Self {
        Self::cut_at(endpoint, None).await
    }

    /// A line that is cut when the function sends this text; the text is not delivered.
    pub async fn until(endpoint: &str, text: &'static str) -> Self {
        Self::cut_at(endpoint, Some(text)).await
    }

    async fn cut_at(endpoint: &str, text: Option<&'static str>) -> Self {
        let target = endpoint.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let connections = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (near, _) = accepted.expect("a connection");
                        connections.spawn(carry(near, target.clone(), text));
                    }
                    Some(is_over) = connections.join_next() => {
                        if is_over.expect("no panic") {
                            return;
                        }
                    }
                }
            }
        });
        Self { address, connections }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub async fn cut(self) {
        self.connections.abort();
        assert!(self.connections.await.is_err(), "it ended before it was aborted");
    }

    /// From now on every request is refused.
    pub async fn deny(self) {
        let address = self.address;
        self.cut().await;
        let listener = TcpListener::bind(address).await.expect("the port of before");
        let refuses = Router::new().fallback(async || (StatusCode::BAD_REQUEST, DENIED));
        tokio::spawn(async move { axum::serve(listener, refuses).await });
    }
}

/// Ends with the connection; `true` if the text has come.
async fn carry(near: TcpStream, target: String, text: Option<&'static str>) -> bool {
    let mut far = TcpStream::connect(target).await.expect("DynamoDB Local");
    let (mut answers, mut requests) = far.split();
    let (mut from_function, mut to_function) = near.into_split();
    let there = async {
        let (mut buffer, mut seen) = ([0; 4096], Vec::new());
        // Either end may hang up as it likes.
        while let Ok(length @ 1..) = from_function.read(&mut buffer).await {
            seen.extend_from_slice(&buffer[..length]);
            if text.is_some_and(|text| String::from_utf8_lossy(&seen).contains(text)) {
                return true;
            }
            if requests.write_all(&buffer[..length]).await.is_err() {
                break;
            }
        }
        false
    };
    tokio::select! {
        is_over = there => is_over,
        _ = tokio::io::copy(&mut answers, &mut to_function) => false,
    }
}
