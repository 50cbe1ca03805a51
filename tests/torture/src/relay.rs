//! The way from the workers to the server, which is cut before the server is killed.
//!
//! DynamoDB Local 2.6.1 confirms a `TransactWriteItems` before SQLite has committed it, and a
//! `PutItem` only afterwards. If it is killed in between, a confirmed write is lost, which DynamoDB
//! never does. With the connections cut first, no worker has a response that could become wrong.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

#[derive(Debug)]
pub(crate) struct Relay {
    listener: Arc<TcpListener>,
    server: SocketAddr,
    task: JoinHandle<io::Result<()>>,
}

impl Relay {
    /// Refuses connections until it is opened.
    pub(crate) async fn new(server_endpoint: &str) -> Result<Self> {
        let server = server_endpoint.strip_prefix("http://").context("the endpoint is not HTTP")?;
        let server = server.parse().with_context(|| format!("`{server}` is not an address"))?;
        let listener = Arc::new(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?);
        let task = tokio::spawn(refuse(Arc::clone(&listener)));
        Ok(Self { listener, server, task })
    }

    pub(crate) fn endpoint(&self) -> Result<String> {
        Ok(format!("http://{}", self.listener.local_addr()?))
    }

    pub(crate) async fn open(&mut self) -> Result<()> {
        self.end_task().await?;
        self.task = tokio::spawn(relay(Arc::clone(&self.listener), self.server));
        Ok(())
    }

    /// When it returns, every connection is closed, and new ones are refused.
    pub(crate) async fn cut(&mut self) -> Result<()> {
        self.end_task().await?;
        self.task = tokio::spawn(refuse(Arc::clone(&self.listener)));
        Ok(())
    }

    async fn end_task(&mut self) -> Result<()> {
        self.task.abort();
        match (&mut self.task).await {
            Err(error) if error.is_cancelled() => Ok(()),
            end => bail!("the relay ended by itself: {end:?}"),
        }
    }
}

/// Relays until it is dropped, with all its connections.
async fn relay(listener: Arc<TcpListener>, server: SocketAddr) -> io::Result<()> {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            client = listener.accept() => connections.push(connect(client?.0, server)),
            // A worker that is killed breaks its connection, as does a server that is not up.
            Some(_broken_or_closed) = connections.next() => {}
        }
    }
}

async fn connect(mut client: TcpStream, server: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

async fn refuse(listener: Arc<TcpListener>) -> io::Result<()> {
    loop {
        drop(listener.accept().await?);
    }
}
