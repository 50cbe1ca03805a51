//! The project's own commands; `cargo xtask --help` lists them.
//!
//! There is one list of checks and one way to test. Continuous integration runs `check`, `test` and
//! `e2e` and nothing else (`.ci/run`), so what passes on a desk passes there.

mod archive;
mod args;
mod arm64;
mod bench;
mod check;
mod command;
mod cost;
mod document;
mod dynamodb_local;
mod e2e;
mod infra;
mod playground;
mod search;
mod size;
mod test;
mod tools;
mod torture;
mod workspace;

use std::process::ExitCode;

use args::{Cli, Command};
use clap::Parser;

fn main() -> ExitCode {
    if cfg!(windows) {
        eprintln!("error: not on Windows: `cargo xtask` is for Linux and macOS (or WSL)");
        return ExitCode::FAILURE;
    }
    match run(Cli::parse().command) {
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
        Command::Bench(options) => bench::run(&options).map(|()| true),
        Command::Check(options) => check::run(&options),
        Command::Cost => cost::run(),
        Command::E2e(options) => e2e::run(&options),
        Command::Infra => infra::run(&workspace::Workspace::load()?),
        Command::Playground(options) => {
            playground::run(&workspace::Workspace::load()?, options.screenshot)
        }
        Command::Size => size::run(),
        Command::Test(options) => test::run(&options),
        Command::Torture(options) if options.kills.is_none() => search::run(&options),
        Command::Torture(options) => torture::run(&options),
    }
}
