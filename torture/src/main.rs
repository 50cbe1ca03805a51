//! Torture by real faults: worker processes share a stream of keys on a real DynamoDB Local, and are
//! killed, stopped past their leases and restarted, as is the server itself. What they did is
//! checked afterwards.
//!
//! `torture run` is the whole of it, and starts `torture worker` many times. It is made to be
//! called by `cargo xtask torture`, which provides the server.
//!
//! What the processes do is in [`job`], what is done to them in [`run`], and what must be true in
//! spite of it in [`check`]. The faults are drawn from a seed; when they strike is real time, so a
//! seed gives a similar run, not the same one. The schedule search is for that.

mod args;
mod check;
mod event;
mod faults;
mod fleet;
mod history;
mod job;
mod report;
mod run;
mod server;
mod store;
mod worker;

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use args::Command;

/// The command line itself was wrong, as opposed to what it asked for having failed.
const USAGE_ERROR: u8 = 2;

/// One thread: a process that is killed or stopped shall be killed or stopped in the middle of
/// something, not beside it.
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
