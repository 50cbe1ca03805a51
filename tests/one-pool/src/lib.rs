//! An engine behind a port that counts connections, and the AWS SDK's default configuration, which
//! uses the SDK's own HTTP client.
//!
//! This crate is outside the workspace because cargo unifies features: inside, every build would
//! include this HTTP client and aws-lc.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_config::{BehaviorVersion, ConfigLoader, Region};
use aws_sdk_dynamodb::config::Credentials;
use tokio::io::{self, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// An engine, and how many have connected.
pub struct Store {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Store {
    /// Starts one on the runtime of the caller.
    pub async fn open() -> io::Result<Self> {
        let engine = TcpListener::bind(("127.0.0.1", 0)).await?;
        let behind = engine.local_addr()?;
        let database = dynoxide::Database::memory().map_err(io::Error::other)?;
        tokio::spawn(dynoxide::server::serve_on(engine, database));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let store = Self { address: listener.local_addr()?, connections: Arc::default() };
        tokio::spawn(count(listener, behind, Arc::clone(&store.connections)));
        Ok(store)
    }

    /// Where it is.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The configuration of a program that names no HTTP client.
    pub fn config(&self) -> ConfigLoader {
        aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .endpoint_url(self.endpoint())
    }
}

async fn count(listener: TcpListener, behind: SocketAddr, connections: Arc<AtomicUsize>) {
    while let Ok((mut client, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            if let Ok(mut server) = TcpStream::connect(behind).await {
                // Its end is the end of the connection, however it comes.
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}
