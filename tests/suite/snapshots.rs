//! A snapshot of the machine takes no connection along, no answer and no idea of the time, and what is
//! restored machine gets new ones.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dynamodb_idempotency::{ErrorKind, Idempotency};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::{Charging, Link, Runs, Store, charge, executed, replayed};

const THREE_DAYS: i64 = 3 * 24 * 3600;

/// The network between a machine and the store. After the machine is restored elsewhere, data on its old
/// connections is lost without an error.
struct Network {
    address: SocketAddr,
    shared: Arc<Shared>,
    _accepting: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    alive: Mutex<Arc<AtomicBool>>,
    accepted: AtomicUsize,
    /// Bytes that were sent by connections that are gone.
    lost: AtomicUsize,
}

impl Network {
    async fn to(store: &Store) -> Self {
        let store = store.endpoint().trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::<Shared>::default();
        *shared.alive.lock().expect("no panic") = Arc::new(AtomicBool::new(true));
        let mut accepting = JoinSet::new();
        let accepted = Arc::clone(&shared);
        accepting.spawn(async move {
            let mut carried = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.expect("it listens");
                accepted.accepted.fetch_add(1, Ordering::SeqCst);
                let alive = Arc::clone(&accepted.alive.lock().expect("no panic"));
                carried.spawn(carry(client, store.clone(), alive, Arc::clone(&accepted)));
            }
        });
        Self { address, shared, _accepting: accepting }
    }

    /// The machine is stopped, and goes on elsewhere.
    fn move_machine(&self) {
        let mut alive = self.shared.alive.lock().expect("no panic");
        alive.store(false, Ordering::SeqCst);
        *alive = Arc::new(AtomicBool::new(true));
    }

    fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    fn lost(&self) -> usize {
        self.shared.lost.load(Ordering::SeqCst)
    }
}

async fn carry(client: TcpStream, store: String, alive: Arc<AtomicBool>, shared: Arc<Shared>) {
    let store = TcpStream::connect(store).await.expect("the store is there");
    let (from_client, to_client) = client.into_split();
    let (from_store, to_store) = store.into_split();
    let there = pump(from_client, to_store, &alive, &shared.lost);
    let back = pump(from_store, to_client, &alive, &shared.lost);
    tokio::join!(there, back);
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    alive: &AtomicBool,
    lost: &AtomicUsize,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        if !alive.load(Ordering::SeqCst) {
            lost.fetch_add(bytes, Ordering::SeqCst);
        } else if to.write_all(&buffer[..bytes]).await.is_err() {
            break;
        }
    }
}

/// A process behind that network.
fn process(store: &Store, network: &Network, link: &Link) -> Idempotency {
    let config = store.client(link).config().to_builder();
    let config = config.endpoint_url(format!("http://{}", network.address)).build();
    let client = aws_sdk_dynamodb::Client::from_conf(config);
    Idempotency::builder(client, store.table()).local_cache(1 << 20).build().unwrap()
}

#[tokio::test]
async fn no_request_uses_a_connection_from_before_the_snapshot() {
    let (store, runs) = (Store::open_in_real_time().await, Runs::default());
    let (network, link) = (Network::to(&store).await, Link::default());
    let idempotency = process(&store, &network, &link);
    let hooks = idempotency.snapshot_hooks();
    // It sends several requests at once, so opens several connections.
    idempotency.preflight(["charge"]).await.unwrap();
    let opened = network.accepted();
    assert!(opened > 1, "{opened}");
    hooks.before_snapshot().unwrap();
    assert_eq!(network.accepted(), opened, "nothing is sent");
    network.move_machine();
    hooks.after_restore().await;
    assert_eq!(network.accepted(), opened + 1);
    let charges = (0..opened).map(|number| {
        let operation = idempotency.operation("charge").key(number.to_string()).no_payload();
        charge(operation, &runs)
    });
    for outcome in futures::future::join_all(charges).await {
        assert!(!outcome.unwrap().is_replayed());
    }
    assert_eq!((network.lost(), runs.count()), (0, u32::try_from(opened).unwrap()));
}

#[tokio::test]
async fn the_time_that_has_passed_is_known_before_the_first_call() {
    let (store, runs, link) = (Store::open_in_real_time().await, Runs::default(), Link::default());
    let idempotency = store.over(&link);
    let hooks = idempotency.snapshot_hooks();
    charge(idempotency.operation("charge").key("before").no_payload(), &runs).await.unwrap();
    hooks.before_snapshot().unwrap();
    // The clock of the restored machine is not set; only the store gives the time.
    link.wire.shift_date(THREE_DAYS);
    hooks.after_restore().await;
    link.wire.forget();
    let outcome =
        charge(idempotency.operation("charge").key("after").no_payload(), &runs).await.unwrap();
    assert_eq!(outcome, executed(2, 1));
    assert_eq!(link.wire.requests(), ["PutItem", "PutItem"], "no stamp has to be fixed");
}

#[tokio::test]
async fn no_answer_goes_into_the_snapshot() {
    let (store, runs, link) = (Store::open_in_real_time().await, Runs::default(), Link::default());
    let idempotency = store.builder(&link).local_cache(1 << 20).build().unwrap();
    let on = || idempotency.charging();
    charge(on(), &runs).await.unwrap();
    link.wire.forget();
    assert_eq!(charge(on(), &runs).await.unwrap(), replayed(1, 1));
    assert_eq!(link.wire.requests(), [""; 0], "it is kept");
    idempotency.snapshot_hooks().before_snapshot().unwrap();
    assert_eq!(charge(on(), &runs).await.unwrap(), replayed(1, 1));
    assert_eq!(link.wire.requests(), ["GetItem"], "neither the answer nor the time is kept");
}

#[tokio::test]
async fn hooks_that_are_registered_twice_are_reported_before_the_snapshot() {
    let store = Store::open_in_real_time().await;
    let idempotency = store.idempotency();
    let (hooks, others) = (idempotency.snapshot_hooks(), idempotency.clone().snapshot_hooks());
    hooks.before_snapshot().unwrap();
    for again in [&hooks, &others] {
        let error = again.before_snapshot().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        let message = error.to_string();
        assert!(message.contains(store.table()) && message.contains("once"), "{message}");
    }
    // After a restore another snapshot may be taken.
    hooks.after_restore().await;
    idempotency.snapshot_hooks().before_snapshot().unwrap();
}

#[cfg(feature = "event")]
#[tokio::test]
async fn the_runtime_takes_them_for_snap_start() {
    use lambda_http::lambda_runtime::SnapStartResource;

    let (store, link) = (Store::open_in_real_time().await, Link::default());
    let resource: Arc<dyn SnapStartResource> = Arc::new(store.over(&link).snapshot_hooks());
    resource.before_snapshot().await.unwrap();
    assert!(resource.before_snapshot().await.unwrap_err().to_string().contains("once"));
    resource.after_restore().await.unwrap();
    assert_eq!(link.wire.requests(), ["GetItem"]);
}

#[cfg(feature = "metrics")]
#[tokio::test]
async fn a_store_that_is_silent_after_the_restore_is_a_warning() {
    use crate::support::Act;
    use crate::support::listener::Listener;

    const WARNING: &str = "no connection could be opened when a snapshot was restored";
    let (store, link, runs) =
        (Store::open_in_real_time().await, Link::without_retries(), Runs::default());
    let idempotency = store.over(&link);
    let hooks = idempotency.snapshot_hooks();
    hooks.before_snapshot().unwrap();
    let listener = Listener::start();
    link.wire.next("GetItem", Act::LoseRequest);
    hooks.after_restore().await;
    assert_eq!(listener.logged(WARNING).len(), 1);
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 1));
}
