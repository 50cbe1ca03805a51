//! A run: a period with faults, a period without faults in which every key is finished, and the check.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use futures_util::future::try_join_all;
use tokio::time::sleep;

use crate::args::RunOptions;
use crate::check::check;
use crate::event::Log;
use crate::faults::Faults as Plan;
use crate::fleet::Fleet;
use crate::history::{Logs, gather};
use crate::job;
use crate::relay::Relay;
use crate::server::Server;
use crate::store::Store;
use crate::worker::{key, newest_key};
use crate::{now, report};

const TICK: Duration = Duration::from_millis(20);
/// After the faults end, each key must have its answer within this time: a lease, and the rest of an
/// outage.
const FINISH: Duration = Duration::from_secs(20);
/// Concurrent calls after the faults end.
const LANES: u64 = 8;

/// The faults so far.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) kills: u64,
    pub(crate) stops: u64,
    pub(crate) restarts: u64,
    pub(crate) operations: u64,
    pub(crate) seconds: u64,
}

/// Returns `false` if a property is violated. Every process that it starts ends before it returns, also
/// after an error and Ctrl-C.
pub(crate) async fn run(options: RunOptions) -> Result<bool> {
    tokio::select! {
        result = torture(options) => result,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}

async fn torture(options: RunOptions) -> Result<bool> {
    println!("seed {}, up to {} kills", options.seed, options.kills);
    let start = Instant::now();
    let folder = options.folder.join("logs");
    fs::create_dir_all(&folder)?;
    let store = Store::new(&options.endpoint);
    let log = options.folder.join("server.log");
    let relay = Relay::new(&options.endpoint).await?;
    let for_workers = relay.endpoint()?;
    let mut server = Server::new(options.server.clone(), log, store.clone(), relay);
    server.wait_until_up().await?;
    store.create_tables().await?;

    let mut logs = Logs::new(folder.clone());
    let (mut faults, newest) = strike(&options, for_workers, &mut server, &mut logs).await?;
    server.wait_until_up().await?;
    finish(&store, &folder, newest).await?;
    if let Some(how) = options.sabotage {
        let effects = store.effects().await?;
        // The only effect of its key: if a key has several, the loss of one may not be a violation.
        let alone = effects
            .iter()
            .filter(|effect| effects.iter().filter(|other| other.key == effect.key).count() == 1);
        let unlucky = Rng::with_seed(options.seed).choice(alone.collect::<Vec<_>>());
        store.spoil(unlucky.context("no effect can be corrupted")?, how).await?;
    }

    logs.read()?;
    faults.operations = logs.operations;
    faults.seconds = start.elapsed().as_secs();
    let keys = (0..=newest).map(key);
    let histories = gather(keys, logs.entries, store.effects().await?, store.records().await?);
    let findings = check(&histories);
    report::print(&faults, &findings, &histories);
    Ok(findings.violations.is_empty())
}

/// Runs the workers, and injects faults into them and the server, until there were enough kills or the
/// time is over. Also returns the number of the newest key.
async fn strike(
    options: &RunOptions,
    endpoint: String,
    server: &mut Server,
    logs: &mut Logs,
) -> Result<(Faults, u64)> {
    let mut rng = Rng::with_seed(options.seed);
    let began = now();
    let folder = options.folder.join("logs");
    let mut fleet = Fleet::new(endpoint, folder, began, rng.fork());
    let start = Instant::now();
    let mut plan = Plan::new(rng, start);
    let mut faults = Faults::default();
    let mut progress = Progress::new(start);
    while faults.kills < options.kills && start.elapsed() < options.time {
        let now = Instant::now();
        fleet.tend(now)?;
        server.tend(now).await?;
        if let Some(away) = plan.kill(now) {
            let place = plan.choose(fleet.len());
            faults.kills += u64::from(fleet.kill(place, now + away));
        }
        if let Some(length) = plan.stop(now) {
            let place = plan.choose(fleet.len());
            faults.stops += u64::from(fleet.stop(place, now + length)?);
        }
        if let Some(away) = plan.server(now) {
            faults.restarts += u64::from(server.kill(now + away).await?);
        }
        progress.show(now, &faults, logs, newest_key(began, crate::now()))?;
        sleep(TICK).await;
    }
    progress.end();
    Ok((faults, newest_key(began, now())))
}

/// Calls every key until it has its answer. The check reports a key without one.
async fn finish(store: &Store, folder: &Path, newest: u64) -> Result<()> {
    println!("finishing {} keys", newest + 1);
    let log = Log::create(&folder.join("finish.jsonl"))?;
    let caller = job::Caller::new(store.clone(), log)?;
    let lane = async |lane: u64| -> Result<()> {
        for number in (lane..=newest).step_by(usize::try_from(LANES)?) {
            let key = key(number);
            let start = Instant::now();
            while !caller.call(&key, job::Plan::quick()).await? && start.elapsed() < FINISH {
                sleep(TICK).await;
            }
        }
        Ok(())
    };
    try_join_all((0..LANES).map(lane)).await?;
    Ok(())
}

/// A progress line: rewritten on a terminal, printed from time to time in a log.
struct Progress {
    next: Instant,
    is_terminal: bool,
}

impl Progress {
    fn new(start: Instant) -> Self {
        Self { next: start, is_terminal: io::stdout().is_terminal() }
    }

    fn show(&mut self, now: Instant, faults: &Faults, logs: &mut Logs, newest: u64) -> Result<()> {
        if now < self.next {
            return Ok(());
        }
        self.next = now + Duration::from_secs(if self.is_terminal { 1 } else { 15 });
        logs.read()?;
        let Faults { kills, stops, restarts, .. } = faults;
        let line = format!(
            "{kills} kills, {stops} stops, {restarts} server restarts; {} keys, {} operations",
            newest + 1,
            logs.operations
        );
        let mut out = io::stdout();
        let (before, after) = if self.is_terminal { ("\r", "\u{1b}[K") } else { ("", "\n") };
        write!(out, "{before}{line}{after}")?;
        Ok(out.flush()?)
    }

    fn end(&self) {
        if self.is_terminal {
            println!();
        }
    }
}
