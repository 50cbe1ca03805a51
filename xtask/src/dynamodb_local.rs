//! A real DynamoDB Local: one that runs already, or one started here by Java or by Docker.
//!
//! A started one lives no longer than this process. It is stopped when [`Server`] is dropped, so
//! also when tests fail. Ctrl-C goes to the whole foreground group and ends it with us; should we
//! be killed alone, the kernel ends it (see `process`).

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

/// The newest in Maven Central with its files. Also the tag of the Docker image.
const VERSION: &str = "2.6.1";

/// The variable that names one which runs already; the test binaries read it too.
pub const ENDPOINT: &str = "DYNAMODB_ENDPOINT";

type Start = fn(&Path) -> Result<Server>;

/// The way to a server whose process is ours, and its data too.
pub(crate) const JAVA: &str = "Java";

/// In the order in which they are tried.
const WAYS: [(&str, Start); 2] = [(JAVA, java::start), ("Docker", docker::start)];

/// DynamoDB Local, answering. Stopped on drop if it was started here.
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

    /// Where it comes from, for the summary.
    pub(crate) fn origin(&self) -> &'static str {
        self.origin
    }

    /// How it ended, if it is no longer running.
    pub(crate) fn early_end(&mut self) -> Option<String> {
        self.process.as_mut()?.early_end()
    }
}

/// Why there is none: each way that was tried, and what stood against it. One line.
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

/// Where the user says that one runs. An empty variable is how a shell says "not set" for one command.
pub(crate) fn endpoint_from_environment() -> Option<String> {
    env::var(ENDPOINT).ok().filter(|endpoint| !endpoint.is_empty())
}

/// The one that the environment names, or else one that is started.
///
/// # Errors
/// Where there is neither.
pub fn required(target: &Path) -> Result<Server> {
    match endpoint_from_environment() {
        Some(endpoint) => running(&endpoint),
        None => start(target).map_err(|reason| anyhow!("DynamoDB Local is {reason}")),
    }
}

/// The one that runs at `endpoint`, if it takes connections.
pub(crate) fn running(endpoint: &str) -> Result<Server> {
    probe::connect(endpoint).with_context(|| format!("{ENDPOINT} is {endpoint}, but"))?;
    Ok(Server { endpoint: endpoint.to_owned(), origin: "running already", process: None })
}

/// Starts one in the first way that serves.
pub(crate) fn start(target: &Path) -> Result<Server, Unavailable> {
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

/// Has a server do an operation whose answer does not matter.
pub(crate) fn perform(server: &Server, operation: &str, body: &Value) -> Result<()> {
    probe::perform(server.endpoint(), operation, body)
}

/// How to start one that keeps its data in `folder`, and where it then listens. It is the caller's to
/// start and to end.
pub(crate) fn durable(target: &Path, folder: &Path) -> Result<(Command, String)> {
    let port = free_port()?;
    let command = java::durable(&target.join("dynamodb-local"), folder, port)?;
    Ok((process::ending_with_its_parent(&command), endpoint_at(port)))
}

/// A port of the loopback address that was free a moment ago. DynamoDB Local cannot be asked to
/// choose one itself; if another process is quicker, it ends at once, and that is reported.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// For one server's log and temporary files.
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
    fn the_reason_tells_every_way_on_one_line() {
        let tried = vec![
            ("Java", anyhow::anyhow!("`java` is not on PATH")),
            ("Docker", anyhow::anyhow!("no engine").context("`docker info` failed")),
        ];
        let expected = "not available here (needs Java 17 with Maven, or Docker; \
                        Java: `java` is not on PATH; Docker: `docker info` failed: no engine)";
        assert_eq!(Unavailable { tried }.to_string(), expected);
    }
}
