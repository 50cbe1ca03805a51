//! Torture test with real faults: worker processes share a stream of keys on DynamoDB Local. Workers
//! and the server are killed, stopped past the leases, and restarted. Afterwards the history is
//! checked.
//!
//! `torture run` is the whole test; it starts many `torture worker` processes. `cargo xtask torture`
//! calls it and provides the server.
//!
//! The work of the processes is in [`job`], the faults in [`run`], and the properties that must hold
//! in [`check`]. Faults are generated from a seed but strike in real time, so a seed gives a similar
//! run, not the same one. For repeatable runs there is the schedule search.

mod args;
mod check;
mod event;
mod faults;
mod fleet;
mod history;
mod job;
mod relay;
mod report;
mod run;
mod server;
mod store;
mod worker;

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use args::Command;

/// The exit code of an invalid command line.
const USAGE_ERROR: u8 = 2;

/// One thread, so that a kill or stop always interrupts the work in progress.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let command = match args::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("error: {error:#}\n\n{}", args::HELP);
            return ExitCode::from(USAGE_ERROR);
        }
    };
    let result = match command {
        Command::Run(options) => run::run(options).await,
        Command::Worker(options) => worker::run(&options).await.map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Milliseconds since the Unix epoch. All processes, and the store, share this clock.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    millis(since)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
