//! A Lambda Runtime API with a function behind it that takes several invocations at once, as Lambda
//! Managed Instances have it; the emulator gives one after the other.

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use crate::PATIENCE;
use crate::deployment::{Deployment, Function};
use crate::dynamodb::unique;

const PREFIX: &str = "/2018-06-01/runtime";
const PAUSE: Duration = Duration::from_millis(10);

/// An execution environment of a Managed Instance.
pub struct Environment {
    shared: Arc<Shared>,
    process: Child,
    log: PathBuf,
    server: tokio::task::JoinHandle<()>,
}

/// What the routes see.
struct Shared {
    /// How many of the function's tasks wait for an invocation.
    waiting: AtomicUsize,
    events: mpsc::UnboundedSender<Invocation>,
    next: tokio::sync::Mutex<mpsc::UnboundedReceiver<Invocation>>,
    /// The receivers of the answers, by request id.
    in_flight: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    snapshot: watch::Sender<Snapshot>,
}

/// Where an environment is that starts from a snapshot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Snapshot {
    Ahead,
    Taken,
    Restored,
}

struct Invocation {
    id: String,
    event: Value,
    deadline: SystemTime,
}

impl Environment {
    /// Starts the function with `concurrency` invocations at once, and waits until it asks for all.
    pub async fn start(deployment: &Deployment, function: &Function, concurrency: usize) -> Self {
        let variable = ("AWS_LAMBDA_MAX_CONCURRENCY", concurrency.to_string());
        let environment = Self::serve(deployment, function, variable).await;
        environment.waits_for(concurrency).await;
        environment
    }

    /// Starts the function to where its snapshot is taken: it is not called before.
    pub async fn snapshot(deployment: &Deployment, function: &Function) -> Self {
        let variable = ("AWS_LAMBDA_INITIALIZATION_TYPE", "snap-start".to_owned());
        let environment = Self::serve(deployment, function, variable).await;
        let mut snapshot = environment.shared.snapshot.subscribe();
        let taken = snapshot.wait_for(|snapshot| *snapshot == Snapshot::Taken);
        let taken = tokio::time::timeout(PATIENCE, taken).await;
        taken.expect("a function that is ready for its snapshot").expect("a server");
        assert_eq!(environment.shared.waiting.load(Ordering::SeqCst), 0);
        environment
    }

    /// Lets it go on.
    pub async fn restore(&self) {
        self.shared.snapshot.send_replace(Snapshot::Restored);
        self.waits_for(1).await;
    }

    async fn serve(
        deployment: &Deployment,
        function: &Function,
        (name, value): (&str, String),
    ) -> Self {
        let (events, next) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            waiting: AtomicUsize::new(0),
            events,
            next: tokio::sync::Mutex::new(next),
            in_flight: Mutex::default(),
            snapshot: watch::Sender::new(Snapshot::Ahead),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let routes = routes(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            axum::serve(listener, routes).await.expect("a server");
        });
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("e2e");
        fs::create_dir_all(&folder).expect("a folder");
        let log = folder.join(unique(function.name));
        let output = File::create(&log).expect("a log");
        let process = Command::new(&function.binary)
            .env_clear()
            .envs(deployment.lambda_environment(function))
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env(name, value)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a log"))
            .stderr(output)
            .spawn()
            .expect("the function");
        Self { shared, process, log, server }
    }

    /// Waits until so many of the function's tasks ask for an invocation.
    pub async fn waits_for(&self, tasks: usize) {
        let asked = async {
            while self.shared.waiting.load(Ordering::SeqCst) < tasks {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.expect("a function that asks for invocations");
    }

    /// What the function answers to an invocation that may take so long.
    pub async fn invoke(&self, event: Value, timeout: Duration) -> Value {
        self.invoke_until(event, SystemTime::now() + timeout).await
    }

    /// What the function answers to an invocation of any deadline.
    pub async fn invoke_until(&self, event: Value, deadline: SystemTime) -> Value {
        let id = unique("request");
        let (sender, answer) = oneshot::channel();
        self.shared.in_flight.lock().expect("no panic").insert(id.clone(), sender);
        let invocation = Invocation { id, event, deadline };
        self.shared.events.send(invocation).expect("a server");
        tokio::time::timeout(PATIENCE, answer).await.expect("an answer in time").expect("a server")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of {}:\n{}", self.log.display(), self.log());
        }
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            eprintln!("the function {} could not be ended: {error}", self.process.id());
        }
        self.server.abort();
        if let Err(error) = fs::remove_file(&self.log) {
            eprintln!("{} could not be removed: {error}", self.log.display());
        }
    }
}

fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route(&format!("{PREFIX}/invocation/next"), get(next))
        .route(&format!("{PREFIX}/invocation/{{id}}/response"), post(response))
        .route(&format!("{PREFIX}/invocation/{{id}}/error"), post(response))
        .route(&format!("{PREFIX}/restore/next"), get(restore))
        .route(&format!("{PREFIX}/init/error"), post(StatusCode::ACCEPTED))
        .with_state(shared)
}

/// The function's first answer comes when the machine goes on.
async fn restore(State(shared): State<Arc<Shared>>) -> StatusCode {
    let mut snapshot = shared.snapshot.subscribe();
    shared.snapshot.send_replace(Snapshot::Taken);
    let restored = snapshot.wait_for(|snapshot| *snapshot == Snapshot::Restored).await;
    restored.map(|_| StatusCode::OK).expect("a server")
}

async fn next(State(shared): State<Arc<Shared>>) -> (HeaderMap, Json<Value>) {
    shared.waiting.fetch_add(1, Ordering::SeqCst);
    let next = shared.next.lock().await.recv().await.expect("a test that goes on");
    shared.waiting.fetch_sub(1, Ordering::SeqCst);
    let deadline = next.deadline.duration_since(UNIX_EPOCH).expect("a time after 1970").as_millis();
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("lambda-runtime-aws-request-id", next.id),
        ("lambda-runtime-deadline-ms", deadline.to_string()),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:0:function:f".into()),
    ] {
        headers.insert(name, HeaderValue::try_from(value).expect("a header"));
    }
    (headers, Json(next.event))
}

/// An answer, or the error of an invocation that has failed.
async fn response(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    body: Bytes,
) -> StatusCode {
    let invocation = shared.in_flight.lock().expect("no panic").remove(&id);
    let answer = serde_json::from_slice(&body).expect("a JSON answer");
    invocation
        .expect("an invocation that has no answer yet")
        .send(answer)
        .expect("a test that waits");
    StatusCode::ACCEPTED
}
