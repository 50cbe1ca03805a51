//! A worker: a process that wants keys of the common stream until it is killed.

use std::io::Read;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use futures_util::future::try_join_all;
use tokio::time::sleep;

use crate::args::WorkerOptions;
use crate::event::Log;
use crate::job::{Caller, Plan};
use crate::now;
use crate::store::Store;

/// Calls at a time.
const CALLS: usize = 4;
/// New keys a second, for all workers together.
const KEYS_PER_SECOND: i64 = 12;
/// How many of the newest keys are wanted: for six seconds, which is two leases.
const WANTED: u64 = 72;

pub(crate) async fn run(options: &WorkerOptions) -> Result<()> {
    end_with_the_parent();
    let log = Log::create(&options.log)?;
    let caller = Caller::new(Store::new(&options.endpoint), log)?;
    let mut rng = Rng::with_seed(options.seed);
    let calls = (0..CALLS).map(|_| call_for_ever(&caller, options, rng.fork()));
    try_join_all(calls).await?;
    Ok(())
}

async fn call_for_ever(caller: &Caller, options: &WorkerOptions, mut rng: Rng) -> Result<()> {
    loop {
        let newest = newest_key(options.began, now());
        let key = key(newest.saturating_sub(age(&mut rng)));
        caller.call(&key, Plan::random(options.index, &mut rng)).await?;
        sleep(Duration::from_millis(rng.u64(20..200))).await;
    }
}

/// The number of the newest key of a stream.
pub(crate) fn newest_key(began: i64, now: i64) -> u64 {
    u64::try_from((now - began).max(0) * KEYS_PER_SECOND / 1_000).unwrap_or(0)
}

pub(crate) fn key(number: u64) -> String {
    format!("k{number}")
}

/// Half of the calls want one of the newest keys, at the same time as others do.
fn age(rng: &mut Rng) -> u64 {
    if rng.bool() { rng.u64(..3) } else { rng.u64(..WANTED) }
}

/// Whatever ends the parent ends us: the kernel sees to it on Linux, also while we are stopped;
/// everywhere else standard input does, whose other end the parent holds.
fn end_with_the_parent() {
    #[cfg(target_os = "linux")]
    if let Err(error) =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
    {
        eprintln!("this process may outlive its parent: {error}");
    }
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_moves_with_the_clock() {
        assert_eq!(newest_key(1_000, 900), 0);
        assert_eq!(newest_key(1_000, 1_000), 0);
        assert_eq!(newest_key(1_000, 3_500), 30);
    }
}
