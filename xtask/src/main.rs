//! The project's own commands: `cargo xtask check`, `bench`, `cost`, `e2e`, `infra`, `playground`, `test`
//! and `torture`.
//!
//! There is one list of checks and one way to test. Continuous integration runs `check`, `test` and
//! `e2e` and nothing else (`.ci/run`), so what passes on a desk passes there. `cargo xtask --help` tells
//! the options.

mod args;
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
mod test;
mod torture;
mod workspace;

use std::process::ExitCode;

use args::Command;

/// The command line itself was wrong, as opposed to what it asked for having failed.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let command = match args::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("error: {error}\n\n{}", args::HELP);
            return ExitCode::from(USAGE_ERROR);
        }
    };
    match run(command) {
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
        Command::Help => {
            println!("{}", args::HELP);
            Ok(true)
        }
        Command::Bench(options) => bench::run(&options).map(|()| true),
        Command::Check(options) => check::run(&options),
        Command::Cost => cost::run(),
        Command::Infra => infra::run(&workspace::Workspace::load()?),
        Command::Playground { renew_screenshot } => {
            playground::run(&workspace::Workspace::load()?, renew_screenshot)
        }
        Command::Test(options) => test::run(&options),
        Command::E2e(options) => e2e::run(&options),
        Command::Torture(options) if options.kills.is_none() => search::run(&options),
        Command::Torture(options) => torture::run(&options),
    }
}
