//! Pooled connections that look open and carry nothing any more, as after a NAT gateway has forgotten them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, Region};
use dynamodb_idempotency::{Idempotency, sdk_config_loader};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use crate::support::{Runs, Store, charge, executed};

const CONNECTIONS: usize = 8;

/// What the connections of a NAT gateway share.
struct Nat {
    store: String,
    /// Holds the first request of each of the first connections until all of them are open.
    together: Barrier,
    opened: AtomicUsize,
    /// Connections with a smaller number carry nothing any more.
    forgotten: AtomicUsize,
    swallowed: AtomicUsize,
}

impl Nat {
    async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            let (client, _) = listener.accept().await.expect("a connection");
            let number = self.opened.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(Arc::clone(&self).carry(client, number));
        }
    }

    async fn carry(self: Arc<Self>, client: TcpStream, number: usize) {
        let store = TcpStream::connect(&self.store).await.expect("the store listens");
        let ((mut from_client, mut to_client), (mut from_store, mut to_store)) =
            (client.into_split(), store.into_split());
        tokio::spawn(async move { tokio::io::copy(&mut from_store, &mut to_client).await });
        let (mut bytes, mut is_first) = (vec![0; 64 * 1024], true);
        while let Ok(length @ 1..) = from_client.read(&mut bytes).await {
            if number < self.forgotten.load(Ordering::SeqCst) {
                self.swallowed.fetch_add(1, Ordering::SeqCst);
                return std::future::pending().await;
            }
            if std::mem::take(&mut is_first) && number < CONNECTIONS {
                self.together.wait().await;
            }
            to_store.write_all(&bytes[..length]).await.expect("the store reads");
        }
    }
}

#[tokio::test]
async fn dead_connections_cost_one_try_together() {
    let store = Store::open_in_real_time().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let nat = Arc::new(Nat {
        store: store.endpoint().trim_start_matches("http://").to_owned(),
        together: Barrier::new(CONNECTIONS),
        opened: AtomicUsize::default(),
        forgotten: AtomicUsize::default(),
        swallowed: AtomicUsize::default(),
    });
    let serving = tokio::spawn(Arc::clone(&nat).serve(listener));
    let config = sdk_config_loader()
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"));
    let client = Client::new(&config.load().await);
    let idempotency = Idempotency::builder(client, store.table()).enabled().build().unwrap();
    let runs = Runs::default();
    let call = |key: String| charge(idempotency.operation("charge").key(key).no_payload(), &runs);
    let warm = (0..CONNECTIONS).map(|number| call(format!("warm-{number}")));
    for warmed in futures::future::join_all(warm).await {
        warmed.unwrap();
    }
    // More if a request was sent before the connection of the one before it was idle again.
    let opened = nat.opened.load(Ordering::SeqCst);
    assert!(opened >= CONNECTIONS, "{opened}");

    nat.forgotten.store(opened, Ordering::SeqCst);
    let outcome = call("k".to_owned()).await;
    assert_eq!(outcome.unwrap(), executed(u32::try_from(CONNECTIONS).unwrap() + 1, 1));
    assert_eq!(nat.swallowed.load(Ordering::SeqCst), 1);
    serving.abort();
}
