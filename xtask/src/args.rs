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
    /// The example's functions compiled for arm64, by which the templates deploy them
    ///
    /// By cargo-lambda and zig, which are fetched once; needs Python, and rustup or Rust's standard library
    /// for aarch64-unknown-linux-gnu.
    Arm64(Arm64Options),
    /// Cost of a call compared with plain SDK calls; writes benches/figures.md. Runs `benches/measure`
    #[command(disable_help_flag = true)]
    Bench(MeasureOptions),
    /// Formatting, links, lints, docs, doc tests, feature promises, package, dependencies, infra
    Check(CheckOptions),
    /// What answers cost, measured on DynamoDB Local, into tests/cost/figures.md and its chart. By `benches/measure`
    #[command(disable_help_flag = true)]
    Cost(MeasureOptions),
    /// The example's two functions as Lambda runs them, and the commands of the README and the guide
    ///
    /// Their binaries under the Lambda Runtime Interface Emulator, DynamoDB Local behind it with the SAM
    /// template's tables. Linux; needs Python; fetches the SAM CLI, which brings the emulator, once.
    E2e(E2eOptions),
    /// The SAM template and the CDK app: linted, tested, held against the crate
    ///
    /// Needs Python and Node.js; fetches pinned tools once.
    Infra,
    /// The local example's page, clicked through in headless Chromium
    ///
    /// Needs Node.js and Chromium; fetches one pinned package once.
    Playground(PlaygroundOptions),
    /// What users carry: the zipped functions, the number of crates, the CPU time of a clean build
    ///
    /// Fails if the payments function is larger than it may be. Builds for release, which takes minutes.
    /// Linux; needs Python.
    Size(SizeOptions),
    /// All tests on the embedded engine, the page in Chromium, then the suites on DynamoDB Local
    Test(TestOptions),
    /// Random schedules of lost, late and repeated requests, pauses and deaths, on a model store
    ///
    /// With `--kills`: kills so many processes on DynamoDB Local, and checks what they left (needs Java).
    Torture(TortureOptions),
}

#[derive(Args, Debug, PartialEq)]
pub(crate) struct Arm64Options {
    /// Fail where it must be left out for want of a tool; otherwise that is only said
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
pub(crate) struct CheckOptions {
    /// Only these: a check's name or a part of it, such as house, links, 'only http'; a wrong one is
    /// answered with all of them
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Run the checks after a failed one too
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Fail where a check must be left out for want of a tool; otherwise that is only said
    #[arg(long)]
    pub(crate) require_tools: bool,
    /// Fail if the advisory database cannot be had from the network; otherwise that is only said
    #[arg(long)]
    pub(crate) require_advisories: bool,
}

#[derive(Args, Debug, Default, PartialEq)]
pub(crate) struct PlaygroundOptions {
    /// Renew docs/playground.png
    #[arg(long)]
    pub(crate) screenshot: bool,
}

#[derive(Args, Debug, Default, PartialEq)]
pub(crate) struct SizeOptions {
    /// Shows in seconds that the command works: of debug builds, without a limit
    #[arg(long)]
    pub(crate) smoke: bool,
}

#[derive(Args, Debug, Default, PartialEq)]
pub(crate) struct TestOptions {
    /// Leave DynamoDB Local out
    #[arg(long)]
    pub(crate) embedded_only: bool,
    /// Fail if DynamoDB Local cannot be had; otherwise that is only said
    #[arg(long)]
    pub(crate) require_dynamodb_local: bool,
    /// Fail if Chromium cannot be had; otherwise that is only said
    #[arg(long)]
    pub(crate) require_browser: bool,
    /// Passed to the test binaries: a filter, --nocapture ...
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) binary_args: Vec<String>,
}

#[derive(Args, Debug, Default, PartialEq)]
pub(crate) struct E2eOptions {
    /// Run DIR/FUNCTION/bootstrap, as `cargo lambda build` leaves them in target/lambda, in place of a
    /// debug build
    #[arg(long, value_name = "DIR")]
    pub(crate) bootstraps: Option<PathBuf>,
    /// Passed to the test binary: a filter, --nocapture ...
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) binary_args: Vec<String>,
}

#[derive(Args, Debug, Default, PartialEq)]
pub(crate) struct TortureOptions {
    /// Kill so many processes on DynamoDB Local; without it, schedules are searched
    #[arg(long, value_name = "N")]
    pub(crate) kills: Option<u64>,
    /// How long at most [default: 10; with --kills 15]
    #[arg(long, value_name = "N")]
    pub(crate) minutes: Option<u64>,
    /// The first schedule, or which faults and keys; a run prints its own
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Shows in seconds that the search works: for one second, of the tests' own build
    #[arg(long, conflicts_with_all = ["kills", "minutes"])]
    pub(crate) smoke: bool,
    /// Spoil what is stored, so that the check must fail: answer, status, effect or lost-effect
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
    fn test_passes_on_what_follows_the_separator() {
        let binary_args = ["lease", "--help", "--", "--nocapture"].map(String::from).to_vec();
        let expected =
            TestOptions { require_dynamodb_local: true, binary_args, ..TestOptions::default() };
        let line = "test --require-dynamodb-local -- lease --help -- --nocapture";
        assert_eq!(parse(line).unwrap(), Command::Test(expected));
    }

    /// What no run of CI calls breaks unnoticed, when a test or a flag is renamed.
    #[test]
    fn ci_runs_every_command() {
        let ci = [include_str!("../../.ci/run"), include_str!("../../.github/workflows/ci.yml")];
        // `infra` is a part of `check`, and `playground` of `test`.
        let within = ["infra", "playground"];
        for command in Cli::command().get_subcommands().map(clap::Command::get_name) {
            let call = format!("cargo xtask {command}");
            let is_called = ci.iter().any(|file| file.contains(&call));
            assert!(is_called || within.contains(&command), "CI does not run `{call}`");
        }
    }

    #[test]
    fn a_wrong_line_is_refused_with_its_reason() {
        for (line, reason) in [
            ("tset", "'tset'"),
            ("test lease", "'lease'"),
            ("infra -- sam", "'sam'"),
            ("torture --minutes 1 --sabotage answer", "--kills"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }

    /// The lines of the documentation and of CI that call us.
    #[test]
    fn every_command_that_is_written_down_is_known() {
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
