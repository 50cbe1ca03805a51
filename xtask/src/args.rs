//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// The project's own commands: checks, tests, measurements.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
#[command(after_help = "\
Environment:
  CHROMIUM            the browser's path, where `chromium` is not on the PATH
  DYNAMODB_ENDPOINT   a DynamoDB Local that runs already, e.g. http://127.0.0.1:8000. Without it
                      one is started: by Java 17, fetched by Maven once, or by Docker")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, PartialEq, Subcommand)]
pub(crate) enum Command {
    /// The example's functions compiled for arm64, as the templates deploy them
    ///
    /// Uses cargo-lambda and zig, which are fetched once. Needs Python, and rustup or Rust's standard library
    /// for aarch64-unknown-linux-gnu.
    Arm64(Arm64Options),
    /// Cost of a call compared with plain SDK calls; writes benches/figures.md. Runs `benches/measure`
    #[command(disable_help_flag = true)]
    Bench(MeasureOptions),
    /// Cost of answers, measured on DynamoDB Local; writes tests/cost/figures.md. Runs `benches/measure`
    #[command(disable_help_flag = true)]
    Cost(MeasureOptions),
    /// The example's two functions as Lambda runs them, and the commands of the README and the guide
    ///
    /// Their binaries under the Lambda Runtime Interface Emulator, DynamoDB Local behind it with the SAM
    /// template's tables. Linux; needs Python; fetches the SAM CLI, which brings the emulator, once.
    E2e(E2eOptions),
    /// The tests of the local example's page in headless Chromium
    ///
    /// Needs Node.js and Chromium; fetches one pinned package once.
    Playground(PlaygroundOptions),
    /// Costs for users: size of the zipped functions, number of crates, CPU time of a clean build
    ///
    /// Fails if the payments function exceeds its limit. Builds for release, which takes minutes.
    /// Linux; needs Python.
    Size(SizeOptions),
    /// Random schedules of lost, delayed and repeated requests, pauses and crashes, on a model store
    ///
    /// With `--kills`: kills that many processes on DynamoDB Local, and checks the result (needs Java).
    Torture(TortureOptions),
    /// All checks: formatting, lints, documents, infra, tests on DynamoDB Local, every state, end to end
    ///
    /// What `cargo test` runs is not run again, except on DynamoDB Local.
    Verify(VerifyOptions),
}

#[derive(Args, Debug, PartialEq)]
pub(crate) struct Arm64Options {
    /// Fail if a tool is missing; otherwise the command is skipped
    #[arg(long)]
    pub(crate) require: bool,
}

#[derive(Args, Debug, PartialEq)]
pub(crate) struct MeasureOptions {
    /// Passed on; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    pub(crate) args: Vec<String>,
}

#[derive(Args, Debug, Default, PartialEq)]
pub(crate) struct VerifyOptions {
    /// Run only these checks: a name or a part of it, such as links, infra, 'only http'; an unknown name
    /// prints all names
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Continue after a failed check
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Fail if the tool of a check is missing; otherwise the check is skipped
    #[arg(long)]
    pub(crate) require_tools: bool,
    /// Fail if the advisory database is not reachable; otherwise the check is skipped
    #[arg(long)]
    pub(crate) require_advisories: bool,
}

#[derive(Args, Debug, Default, PartialEq)]
pub(crate) struct PlaygroundOptions {
    /// Update docs/playground.png
    #[arg(long)]
    pub(crate) screenshot: bool,
}

#[derive(Args, Debug, Default, PartialEq)]
pub(crate) struct SizeOptions {
    /// Check in seconds that the command works: with debug builds, without a limit
    #[arg(long)]
    pub(crate) smoke: bool,
}

#[derive(Args, Debug, Default, PartialEq)]
pub(crate) struct E2eOptions {
    /// Run DIR/FUNCTION/bootstrap instead of a debug build; `cargo lambda build` writes them to
    /// target/lambda
    #[arg(long, value_name = "DIR")]
    pub(crate) bootstraps: Option<PathBuf>,
    /// Passed to the test binary: a filter, --nocapture ...
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) binary_args: Vec<String>,
}

#[derive(Args, Debug, Default, PartialEq)]
pub(crate) struct TortureOptions {
    /// Kill this many processes on DynamoDB Local; without it, search schedules
    #[arg(long, value_name = "N")]
    pub(crate) kills: Option<u64>,
    /// The longest duration [default: 10; with --kills 15]
    #[arg(long, value_name = "N")]
    pub(crate) minutes: Option<u64>,
    /// The seed of the schedules, or of faults and keys; a run prints its seed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Check that the search works: one second, with the build of the tests
    #[arg(long, conflicts_with_all = ["kills", "minutes"])]
    pub(crate) smoke: bool,
    /// Corrupt stored data, so that the check must fail: answer, status, effect or lost-effect
    #[arg(long, value_name = "WHAT", requires = "kills")]
    pub(crate) sabotage: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        let words = std::iter::once("xtask").chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.command)
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn e2e_passes_on_what_follows_the_separator() {
        let binary_args = ["lease", "--help", "--", "--nocapture"].map(String::from).to_vec();
        let expected = E2eOptions { binary_args, bootstraps: None };
        let line = "e2e -- lease --help -- --nocapture";
        assert_eq!(parse(line).unwrap(), Command::E2e(expected));
    }

    /// A command that CI never runs could break unnoticed when a test or a flag is renamed.
    #[test]
    fn ci_runs_every_command() {
        let ci = [include_str!("../../.ci/run"), include_str!("../../.github/workflows/ci.yml")];
        // Parts of `verify`.
        let within = ["e2e", "playground"];
        for command in Cli::command().get_subcommands().map(clap::Command::get_name) {
            let call = format!("cargo xtask {command}");
            let is_called = ci.iter().any(|file| file.contains(&call));
            assert!(is_called || within.contains(&command), "CI does not run `{call}`");
        }
    }

    #[test]
    fn an_invalid_line_is_rejected_with_the_reason() {
        for (line, reason) in [
            ("verfy", "'verfy'"),
            ("e2e lease", "'lease'"),
            ("torture --what", "'--what'"),
            ("torture --minutes 1 --sabotage answer", "--kills"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }

    /// The lines of the documentation and of CI that call `cargo xtask`.
    #[test]
    fn every_documented_command_exists() {
        const CALL: &str = "cargo xtask ";
        let files = [
            include_str!("../../README.md"),
            include_str!("../../CONTRIBUTING.md"),
            include_str!("../../infra/README.md"),
            include_str!("../../.ci/run"),
            include_str!("../../.github/workflows/ci.yml"),
            include_str!("../../.github/workflows/weekly.yml"),
        ];
        let mut calls = 0;
        for line in files.iter().flat_map(|file| file.lines()) {
            for rest in line.split(CALL).skip(1) {
                let call = rest.split(['`', '#', '"', ';']).next().unwrap_or_default();
                let parsed = parse(call.trim());
                assert!(parsed.is_ok(), "{CALL}{call}: {parsed:?}");
                calls += 1;
            }
        }
        assert!(calls > 10, "{calls}");
    }
}
