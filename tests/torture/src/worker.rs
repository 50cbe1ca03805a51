//! A worker: a process that calls with keys of the common stream until it is killed.

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

/// The number of concurrent calls.
const CALLS: usize = 4;
/// The number of new keys per second, for all workers together.
const KEYS_PER_SECOND: i64 = 12;
/// The age of a key, in keys, at which its first owner's lease expires: 2 to 5 seconds.
const LEASE_ENDS: std::ops::Range<u64> = 24..60;

pub(crate) async fn run(options: &WorkerOptions) -> Result<()> {
    end_with_the_parent();
    let log = Log::create(&options.log)?;
    let caller = Caller::new(Store::new(&options.endpoint), log)?;
    let mut rng = Rng::with_seed(options.seed);
    let calls = (0..CALLS).map(|_| call_forever(&caller, options, rng.fork()));
    try_join_all(calls).await?;
    Ok(())
}

async fn call_forever(caller: &Caller, options: &WorkerOptions, mut rng: Rng) -> Result<()> {
    loop {
        let newest = newest_key(options.began, now());
        let key = key(newest.saturating_sub(age(&mut rng)));
        caller.call(&key, Plan::random(options.index, &mut rng)).await?;
        sleep(Duration::from_millis(rng.u64(10..100))).await;
    }
}

/// The number of the newest key of a stream.
pub(crate) fn newest_key(began: i64, now: i64) -> u64 {
    u64::try_from((now - began).max(0) * KEYS_PER_SECOND / 1_000).unwrap_or(0)
}

pub(crate) fn key(number: u64) -> String {
    format!("k{number}")
}

/// Half of the calls use one of the newest keys, concurrently with other calls. The rest use keys that may
/// be abandoned.
fn age(rng: &mut Rng) -> u64 {
    if rng.bool() { rng.u64(..3) } else { rng.u64(LEASE_ENDS) }
}

/// Ends this process when its parent ends. On Linux the kernel does it, even while this process is
/// stopped. Elsewhere this process ends when its standard input is closed.
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
