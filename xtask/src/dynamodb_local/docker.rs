//! DynamoDB Local in a container.

use std::{
    io,
    path::Path,
    process::{self, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use super::{Server, VERSION, endpoint_at, free_port, process::ServerProcess, server_folder};
use crate::command::{quiet, quiet_within};

/// A Docker client whose remote engine is unreachable would wait for minutes.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn start(cache: &Path) -> Result<Server> {
    check_engine()?;
    let image = format!("amazon/dynamodb-local:{VERSION}");
    pull(&image)?;
    let port = free_port()?;
    let name = format!("dynamodb-idempotency-{}", process::id());
    let mut stop = Command::new("docker");
    stop.args(["rm", "--force", &name]);
    let server = server(&image, &name, port);
    let process = ServerProcess::start(&server, Some(stop), port, server_folder(cache, port))?;
    Ok(Server { endpoint: endpoint_at(port), origin: "Docker", process: Some(process) })
}

/// Runs in the foreground: the client is a child process, forwards signals to the container, and ends with
/// it.
fn server(image: &str, name: &str, port: u16) -> Command {
    let mut docker = Command::new("docker");
    docker.args(["run", "--rm", "--name", name, "--publish"]).arg(format!("127.0.0.1:{port}:8000"));
    docker.args([image, "-jar", "DynamoDBLocal.jar", "-inMemory", "-disableTelemetry"]);
    docker
}

fn check_engine() -> Result<()> {
    match quiet_within(ENGINE_TIMEOUT, Command::new("docker").arg("info")) {
        Ok(status) => ensure!(status.success(), "no engine responds to `docker info`"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("`docker` is not on PATH"),
        Err(error) => return Err(error).context("`docker` did not start"),
    }
    Ok(())
}

/// Fetches the image before the start, so that the time limit of the start does not include the download.
fn pull(image: &str) -> Result<()> {
    if quiet(Command::new("docker").args(["image", "inspect", image]))?.success() {
        return Ok(());
    }
    println!("fetching {image} with Docker, once");
    let status =
        Command::new("docker").args(["pull", "--quiet", image]).stdin(Stdio::null()).status()?;
    ensure!(status.success(), "the image could not be fetched ({status})");
    Ok(())
}
