//! DynamoDB Local: a running one, or one that is started here with Java or Docker.
//!
//! A server that is started here ends with this process. It is stopped when [`Server`] is dropped, also
//! when tests fail. Ctrl-C ends the whole foreground process group. If only this process is killed, the
//! kernel ends the server (see `process`).

mod docker;
mod java;
mod probe;
mod process;

use std::{
    env, fmt,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use process::ServerProcess;

/// The newest version in Maven Central, and the tag of the Docker image.
const VERSION: &str = "2.6.1";

/// The variable with the endpoint of a running server. The test binaries read it too.
pub const ENDPOINT: &str = "DYNAMODB_ENDPOINT";

type Start = fn(&Path) -> Result<Server>;

/// How to start a server whose process and data belong to this program.
pub(crate) const JAVA: &str = "Java";

/// In the order in which they are tried.
const WAYS: [(&str, Start); 2] = [(JAVA, java::start), ("Docker", docker::start)];

/// A DynamoDB Local that responds. Stopped on drop if it was started here.
#[derive(Debug)]
pub struct Server {
    endpoint: String,
    origin: &'static str,
    process: Option<ServerProcess>,
}

impl Server {
    /// Where it listens: `http://127.0.0.1:8000`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// How it was started, for the summary.
    pub(crate) fn origin(&self) -> &'static str {
        self.origin
    }

    /// Its exit status, if it is no longer running.
    pub(crate) fn early_end(&mut self) -> Option<String> {
        self.process.as_mut()?.early_end()
    }
}

/// Why no server is available: each way that was tried and its error, in one line.
#[derive(Debug)]
pub(crate) struct Unavailable {
    tried: Vec<(&'static str, anyhow::Error)>,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not available here (needs Java 17 with Maven, or Docker")?;
        for (way, error) in &self.tried {
            write!(f, "; {way}: {error:#}")?;
        }
        f.write_str(")")
    }
}

/// The user's endpoint. An empty variable counts as unset.
fn endpoint_from_environment() -> Option<String> {
    env::var(ENDPOINT).ok().filter(|endpoint| !endpoint.is_empty())
}

/// Returns the server in the environment, or starts one.
///
/// # Errors
/// If neither is possible.
pub fn required(target: &Path) -> Result<Server> {
    available(target)?.map_err(|reason| anyhow!("DynamoDB Local is {reason}"))
}

/// Returns the server in the environment, or starts one, or says why that is not possible here.
///
/// # Errors
/// If the server in the environment does not respond.
pub(crate) fn available(target: &Path) -> Result<Result<Server, Unavailable>> {
    match endpoint_from_environment() {
        Some(endpoint) => running(&endpoint).map(Ok),
        None => Ok(start(target)),
    }
}

/// Returns the server at `endpoint`, if it accepts connections.
fn running(endpoint: &str) -> Result<Server> {
    probe::connect(endpoint).with_context(|| format!("{ENDPOINT} is {endpoint}, but"))?;
    Ok(Server { endpoint: endpoint.to_owned(), origin: "running already", process: None })
}

/// Starts a server in the first way that works.
fn start(target: &Path) -> Result<Server, Unavailable> {
    let cache = target.join("dynamodb-local");
    let mut tried = Vec::new();
    for (way, start) in WAYS {
        match start(&cache) {
            Ok(server) => return Ok(server),
            Err(error) => tried.push((way, error)),
        }
    }
    Err(Unavailable { tried })
}

/// Sends an operation whose response does not matter.
pub(crate) fn perform(server: &Server, operation: &str, body: &Value) -> Result<()> {
    probe::perform(server.endpoint(), operation, body)
}

/// Returns the command of a server that stores its data in `folder`, and its endpoint. The caller starts
/// and ends it.
pub(crate) fn durable(target: &Path, folder: &Path) -> Result<(Command, String)> {
    let port = free_port()?;
    let command = java::durable(&target.join("dynamodb-local"), folder, port)?;
    Ok((process::ending_with_its_parent(&command), endpoint_at(port)))
}

/// Starts another emulator of DynamoDB, which responds as this one does. `server` returns its command, which
/// listens at the given port of the loopback address.
pub(crate) fn emulated(
    name: &'static str,
    cache: &Path,
    server: impl FnOnce(u16) -> Command,
) -> Result<Server> {
    let port = free_port()?;
    let process = ServerProcess::start(&server(port), None, port, server_folder(cache, port))?;
    Ok(Server { endpoint: endpoint_at(port), origin: name, process: Some(process) })
}

/// Returns a port of the loopback address that was free just now. DynamoDB Local cannot choose a port
/// itself. If another process takes the port first, the server ends at once, which is reported.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A folder for the log and temporary files of one server.
fn server_folder(cache: &Path, port: u16) -> PathBuf {
    cache.join(format!("server-{port}"))
}

fn endpoint_at(port: u16) -> String {
    format!("http://{}:{port}", Ipv4Addr::LOCALHOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_every_way_in_one_line() {
        let tried = vec![
            ("Java", anyhow::anyhow!("`java` is not on PATH")),
            ("Docker", anyhow::anyhow!("no engine").context("`docker info` failed")),
        ];
        let expected = "not available here (needs Java 17 with Maven, or Docker; \
                        Java: `java` is not on PATH; Docker: `docker info` failed: no engine)";
        assert_eq!(Unavailable { tried }.to_string(), expected);
    }
}
