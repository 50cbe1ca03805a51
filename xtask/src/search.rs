//! `cargo xtask torture` without kills: the random part of the fault search (`tests/faults/`) for as
//! long as one likes, each time from another seed. `cargo xtask verify` runs the exhaustive part, and some
//! schedules of this one, the same each time.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::{
    args::TortureOptions,
    command::describe,
    workspace::{PACKAGE, Workspace},
};

const MINUTES: u64 = 10;

/// `false` if a schedule violates a guarantee; how to replay it has been printed then.
pub(crate) fn run(options: &TortureOptions) -> Result<bool> {
    let workspace = Workspace::load()?;
    // Two runs may begin within one second. A run counts its schedules up from its seed.
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let fresh = seconds << 32 | u64::from(std::process::id() & 0xff) << 24;
    let seed = options.seed.unwrap_or(fresh);
    // The profile `torture` shares no artifacts with the tests, so only this package is built.
    let mut command = if options.smoke {
        workspace.cargo_all("test", &[])
    } else {
        let package = ["--package", PACKAGE, "--all-features"];
        workspace.cargo(["test", "--profile", "torture"].into_iter().chain(package))
    };
    command.args(["--test", "faults", "--", "--nocapture", "random_schedules"]);
    let seconds = if options.smoke { 1 } else { options.minutes.unwrap_or(MINUTES) * 60 };
    command.env("FAULT_SECONDS", seconds.to_string());
    command.env("FAULT_SEED", seed.to_string());
    println!("{}, from seed {seed}", describe(&command));
    Ok(command.status()?.success())
}
