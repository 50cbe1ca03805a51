//! DynamoDB Local with its data on disk, killed and restarted on the same port.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::time::sleep;

use crate::fleet::Process;
use crate::relay::Relay;
use crate::store::Store;

/// The limit for a response. From the start to the first one it usually takes 3 to 5 seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
enum State {
    Up(Process),
    Down { until: Instant },
    Starting { process: Process, since: Instant },
}

#[derive(Debug)]
pub(crate) struct Server {
    command: Vec<String>,
    log: PathBuf,
    store: Store,
    relay: Relay,
    state: State,
}

impl Server {
    /// `store` talks to the server directly, the workers through `relay`.
    pub(crate) fn new(command: Vec<String>, log: PathBuf, store: Store, relay: Relay) -> Self {
        Self { command, log, store, relay, state: State::Down { until: Instant::now() } }
    }

    /// Kills the server if it is up, once it has committed what it has confirmed.
    pub(crate) async fn kill(&mut self, until: Instant) -> Result<bool> {
        let is_up = matches!(self.state, State::Up(_));
        if is_up {
            self.relay.cut().await?;
            self.wait_until_committed().await?;
            self.state = State::Down { until };
        }
        Ok(is_up)
    }

    /// The server gives SQLite one job after another, so what it answers now comes after every commit
    /// of a response that was sent.
    async fn wait_until_committed(&self) -> Result<()> {
        let start = Instant::now();
        while !self.store.answers().await {
            ensure!(start.elapsed() < RESPONSE_TIMEOUT, "the server does not respond");
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Makes progress with restarting the server.
    pub(crate) async fn tend(&mut self, now: Instant) -> Result<()> {
        match &mut self.state {
            State::Up(process) => {
                if let Some(end) = process.end()? {
                    bail!("the server ended unexpectedly ({end}): see {}", self.log.display());
                }
            }
            State::Down { until } if *until <= now => {
                self.state = State::Starting { process: self.start()?, since: now };
            }
            State::Down { .. } => {}
            State::Starting { process, since } => {
                if let Some(end) = process.end()? {
                    bail!("the server did not start ({end}): see {}", self.log.display());
                }
                ensure!(now - *since < RESPONSE_TIMEOUT, "the server does not respond");
                if self.store.answers().await {
                    self.rise();
                    self.relay.open().await?;
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn wait_until_up(&mut self) -> Result<()> {
        while !matches!(self.state, State::Up(_)) {
            self.tend(Instant::now()).await?;
            sleep(PAUSE).await;
        }
        Ok(())
    }

    fn rise(&mut self) {
        let down = State::Down { until: Instant::now() };
        self.state = match std::mem::replace(&mut self.state, down) {
            State::Starting { process, .. } => State::Up(process),
            other @ (State::Up(_) | State::Down { .. }) => other,
        };
    }

    fn start(&self) -> Result<Process> {
        let log = OpenOptions::new().append(true).create(true).open(&self.log)?;
        let (program, args) = self.command.split_first().context("no server command")?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Process::start(&mut command)
    }
}
