//! A Lambda Runtime Interface Emulator with one function: one execution environment, as Lambda
//! creates for each concurrent invocation.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::PATIENCE;
use crate::deployment::{Deployment, Function};
use crate::dynamodb::unique;
use crate::process::{running, signal};

const PAUSE: Duration = Duration::from_millis(20);

/// A port that was free may be taken when the emulator wants it.
const TRIES: u32 = 3;

pub struct Emulator {
    process: Child,
    /// Takes the events.
    address: SocketAddr,
    /// With `bootstrap` and `log`.
    folder: PathBuf,
}

impl Emulator {
    pub async fn start(deployment: &Deployment, function: &Function) -> Self {
        for _ in 0..TRIES {
            let mut emulator = Self::spawn(deployment, function);
            if emulator.listens().await {
                return emulator;
            }
            eprintln!("{}", emulator.log());
        }
        panic!("the emulator does not start");
    }

    fn spawn(deployment: &Deployment, function: &Function) -> Self {
        let name = unique(function.name);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("e2e").join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let bootstrap = folder.join("bootstrap");
        // A link: a copy that is still open for writing, in a child of another test, does not start.
        fs::hard_link(&function.binary, &bootstrap).expect("the function's binary");
        let log = File::create(folder.join("log")).expect("a log");
        let [address, runtime_api] = free_addresses();
        let process = Command::new(&deployment.emulator)
            .args(["--runtime-interface-emulator-address", &address.to_string()])
            .args(["--runtime-api-address", &runtime_api.to_string()])
            .arg(bootstrap)
            .env_clear()
            .envs(deployment.lambda_environment(function))
            .env("AWS_LAMBDA_FUNCTION_TIMEOUT", function.timeout_s.to_string())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("the emulator");
        Self { process, address, folder }
    }

    /// `false` if it has ended.
    async fn listens(&mut self) -> bool {
        let listening = async {
            loop {
                let connected = TcpStream::connect(self.address).await.is_ok();
                if self.process.try_wait().expect("a child").is_some() {
                    return false;
                }
                if connected {
                    return true;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(PATIENCE, listening).await.expect("an emulator that listens")
    }

    /// What the function answers; null if it gave no answer at all, which is in the log then.
    pub async fn invoke(&self, event: &Value) -> Value {
        let event = event.to_string();
        let answer = post(self.address, &event);
        let answer = tokio::time::timeout(PATIENCE, answer).await.expect("an answer in time");
        if answer.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&answer).expect("a JSON answer")
    }

    /// Sends a signal to the function.
    pub fn signal(&self, name: &str) {
        let processes = running(&self.bootstrap());
        let [function] = processes[..] else {
            panic!("one process should run the function, not {processes:?}");
        };
        assert!(signal(function, name), "the function is gone");
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).expect("a log")
    }

    fn bootstrap(&self) -> PathBuf {
        self.folder.join("bootstrap")
    }
}

impl Drop for Emulator {
    /// The function is no child of ours: it would outlive its emulator, if it is stopped.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of {}:\n{}", self.folder.display(), self.log());
        }
        let ended = self.process.kill().and_then(|()| self.process.wait());
        if let Err(error) = ended {
            eprintln!("the emulator {} could not be ended: {error}", self.process.id());
        }
        for function in running(&self.bootstrap()) {
            signal(function, "KILL");
        }
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{} could not be removed: {error}", self.folder.display());
        }
    }
}

/// The emulator takes no port 0. Both are held until both are known, so that they differ.
pub fn free_addresses() -> [SocketAddr; 2] {
    let listeners =
        [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("its address"))
}

/// By HTTP/1.0: the answer ends with the connection, and comes in one piece.
async fn post(address: SocketAddr, body: &str) -> String {
    let request = format!(
        "POST /2015-03-31/functions/function/invocations HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("a listening emulator");
    stream.write_all(request.as_bytes()).await.expect("an emulator that reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (_head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    body.to_owned()
}
