//! The project's own commands; `cargo xtask --help` lists them. What is public here is what
//! `benches/measure` needs as well.
//!
//! There is one list of checks. Continuous integration runs `cargo test` and `verify` (`.ci/run`), so what
//! passes on your machine passes there.

pub mod archive;
mod args;
mod arm64;
pub mod command;
pub mod dynamodb_local;
pub mod e2e;
mod infra;
mod playground;
mod search;
mod size;
mod suites;
mod tools;
mod torture;
mod verify;
pub mod workspace;

use std::process::ExitCode;

use args::{Cli, Command, MeasureOptions};
use clap::Parser;

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    if cfg!(windows) {
        eprintln!("error: not on Windows: `cargo xtask` is for Linux and macOS (or WSL)");
        return ExitCode::FAILURE;
    }
    ended(run(Cli::parse().command))
}

/// The exit code of a tool. An error is printed.
#[must_use]
pub fn ended(done: anyhow::Result<bool>) -> ExitCode {
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `false`: the command did its work, and something that it ran has failed (and was reported).
fn run(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Arm64(options) => arm64::run(&options),
        Command::Bench(options) => measure("bench", &options),
        Command::Cost(options) => measure("cost", &options),
        Command::E2e(options) => e2e::run(&options),
        Command::Playground(options) => {
            playground::run(&workspace::Workspace::load()?, options.screenshot)
        }
        Command::Size(options) => size::run(&options),
        Command::Torture(options) if options.kills.is_none() => search::run(&options),
        Command::Torture(options) => torture::run(&options),
        Command::Verify(options) => verify::run(&options),
    }
}

/// `benches/measure` draws charts: who only runs checks does not build it.
fn measure(what: &str, options: &MeasureOptions) -> anyhow::Result<bool> {
    let mut command =
        workspace::Workspace::load()?.cargo(["run", "--quiet", "--package", "measure", "--"]);
    Ok(command.arg(what).args(&options.args).status()?.success())
}
