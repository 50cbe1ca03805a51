//! The command line. Small enough that a parser crate would cost more than it saves.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

const ROUNDS: u32 = 7;

pub(crate) const HELP: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  bench    what a call costs, beside the SDK calls by hand; writes docs/benchmarks.md
      --rounds N                 how often the sides take turns over a socket (default 7)
      --peers                    the same work with Powertools for Python, TypeScript and Java
      --built                    takes the programs as they are, and builds nothing
      --cold-start               the start of the example's payments function alone
      --bootstraps FOLDER        the same for FOLDER/NAME/bootstrap of each NAME; nothing is written
                                 (needs valgrind, DynamoDB Local, Python, Node.js and OpenSSL)

  check    formatting, links, lints, docs, doc tests, feature promises, package, licences, infra
      --keep-going               run the checks after a failed one too
      --require-infra            fail if the tools for infra/ cannot be had; otherwise that is only said

  cost     what answers cost, measured on DynamoDB Local, into docs/cost.md and its chart

  infra    the SAM template and the CDK app: linted, tested, held against the crate
                                 (needs Python and Node.js; fetches pinned tools once)

  playground  the local example's page, clicked through in headless Chromium
                                 (needs Node.js and Chromium; fetches one pinned package once)
      --screenshot               renew docs/playground.png

  test     all tests on the embedded engine, the page in Chromium, then those that need a store on
           DynamoDB Local
      --embedded-only            leave DynamoDB Local out
      --require-dynamodb-local   fail if DynamoDB Local cannot be had; otherwise that is only said
      --require-browser          fail if Chromium cannot be had; otherwise that is only said
      -- ARGS                    passed to the test binaries: a filter, --nocapture ...

  e2e      the example's two functions as Lambda runs them: their binaries under the Lambda Runtime
           Interface Emulator, DynamoDB Local behind it with the SAM template's tables
           (Linux; needs Python; fetches the SAM CLI, which brings the emulator, once)
      --bootstraps DIR           run DIR/FUNCTION/bootstrap, as `cargo lambda build` leaves them in
                                 target/lambda, in place of a debug build
      -- ARGS                    passed to the test binary: a filter, --nocapture ...

  torture  random schedules of lost, late and repeated requests, pauses and deaths, on a model store
      --minutes N                how long (default 10)
      --seed N                   the first schedule; a run prints its own

  torture --kills N              kills so many processes on DynamoDB Local, and checks what they left
                                 (needs Java)
      --minutes N                the longest time for them (default 15)
      --seed N                   which faults and keys; a run prints its own
      --sabotage WHAT            spoils what is stored, so that the check must fail: answer,
                                 status, effect or lost-effect

  -h, --help

Environment:
  CHROMIUM            the browser's path, where `chromium` is not on the PATH
  DYNAMODB_ENDPOINT   a DynamoDB Local that runs already, e.g. http://127.0.0.1:8000. Without it
                      one is started: by Java 17, fetched by Maven once, or by Docker";

#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    Bench(BenchOptions),
    Check(CheckOptions),
    Cost,
    Infra,
    Playground { renew_screenshot: bool },
    Test(TestOptions),
    E2e(E2eOptions),
    Torture(TortureOptions),
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct BenchOptions {
    pub(crate) rounds: u32,
    /// Whether other libraries take part.
    pub(crate) peers: bool,
    /// Whether nothing is built.
    pub(crate) built: bool,
    /// Whether cold starts under the emulator are all that is measured.
    pub(crate) cold_start: bool,
    /// Builds of the payments function to compare.
    pub(crate) bootstraps: Option<PathBuf>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct CheckOptions {
    pub(crate) keep_going: bool,
    pub(crate) require_infra: bool,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct TestOptions {
    pub(crate) embedded_only: bool,
    pub(crate) require_dynamodb_local: bool,
    pub(crate) require_browser: bool,
    /// What stood after `--`.
    pub(crate) binary_args: Vec<String>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct E2eOptions {
    /// Where the binaries lie that a deployment takes.
    pub(crate) bootstraps: Option<PathBuf>,
    /// What stood after `--`.
    pub(crate) binary_args: Vec<String>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct TortureOptions {
    /// How many processes are killed; without it, schedules are searched.
    pub(crate) kills: Option<u64>,
    pub(crate) minutes: Option<u64>,
    pub(crate) seed: Option<u64>,
    pub(crate) sabotage: Option<String>,
}

pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command> {
    let mut own: Vec<String> = args.into_iter().collect();
    let binary_args = match own.iter().position(|arg| arg == "--") {
        Some(separator) => own.drain(separator..).skip(1).collect(),
        None => Vec::new(),
    };
    // Wherever it stands: who asks does not know the order either.
    if own.iter().any(|arg| arg == "--help" || arg == "-h" || arg == "help") {
        return Ok(Command::Help);
    }
    match own.split_first() {
        None => bail!("which command?"),
        Some((command, flags)) if command == "bench" => {
            bench_options(flags, &binary_args).map(Command::Bench)
        }
        Some((command, flags)) if command == "check" => {
            check_options(flags, &binary_args).map(Command::Check)
        }
        Some((command, flags)) if command == "cost" => {
            let nothing_else = flags.is_empty() && binary_args.is_empty();
            ensure!(nothing_else, "`cost` takes no arguments");
            Ok(Command::Cost)
        }
        Some((command, flags)) if command == "infra" => {
            let nothing_else = flags.is_empty() && binary_args.is_empty();
            ensure!(nothing_else, "`infra` takes no arguments");
            Ok(Command::Infra)
        }
        Some((command, flags)) if command == "playground" => {
            let renew_screenshot = matches!(flags, [flag] if flag == "--screenshot");
            let known = (flags.is_empty() || renew_screenshot) && binary_args.is_empty();
            ensure!(known, "`playground` takes `--screenshot` and nothing else");
            Ok(Command::Playground { renew_screenshot })
        }
        Some((command, flags)) if command == "test" => {
            test_options(flags, binary_args).map(Command::Test)
        }
        Some((command, flags)) if command == "e2e" => {
            e2e_options(flags, binary_args).map(Command::E2e)
        }
        Some((command, flags)) if command == "torture" => {
            torture_options(flags, &binary_args).map(Command::Torture)
        }
        Some((command, _)) => bail!("there is no command `{command}`"),
    }
}

fn bench_options(flags: &[String], binary_args: &[String]) -> Result<BenchOptions> {
    ensure!(binary_args.is_empty(), "`bench` passes nothing on: nothing may follow `--`");
    let mut options = BenchOptions { rounds: ROUNDS, ..BenchOptions::default() };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match flag.as_str() {
            "--peers" => options.peers = true,
            "--built" => options.built = true,
            "--cold-start" => options.cold_start = true,
            "--bootstraps" => {
                let folder = flags.next().context("`--bootstraps` needs a folder")?;
                options.bootstraps = Some(folder.into());
            }
            "--rounds" => {
                let value = flags.next().context("`--rounds` needs a value")?;
                options.rounds = number(flag, value)?.try_into().context("too many rounds")?;
            }
            other => bail!("`bench` does not know `{other}`"),
        }
    }
    ensure!(options.rounds > 0, "`--rounds` is at least 1");
    Ok(options)
}

fn check_options(flags: &[String], binary_args: &[String]) -> Result<CheckOptions> {
    ensure!(binary_args.is_empty(), "`check` passes nothing on: there must be nothing after `--`");
    let mut options = CheckOptions::default();
    for flag in flags {
        match flag.as_str() {
            "--keep-going" => options.keep_going = true,
            "--require-infra" => options.require_infra = true,
            other => bail!("`check` does not know `{other}`"),
        }
    }
    Ok(options)
}

fn test_options(flags: &[String], binary_args: Vec<String>) -> Result<TestOptions> {
    let mut options = TestOptions { binary_args, ..TestOptions::default() };
    for flag in flags {
        match flag.as_str() {
            "--embedded-only" => options.embedded_only = true,
            "--require-dynamodb-local" => options.require_dynamodb_local = true,
            "--require-browser" => options.require_browser = true,
            other => bail!(
                "`test` does not know `{other}`; what is meant for the test binaries comes after `--`"
            ),
        }
    }
    ensure!(
        !(options.embedded_only && options.require_dynamodb_local),
        "--embedded-only and --require-dynamodb-local exclude each other"
    );
    Ok(options)
}

fn e2e_options(flags: &[String], binary_args: Vec<String>) -> Result<E2eOptions> {
    let bootstraps = match flags {
        [] => None,
        [flag, folder] if flag == "--bootstraps" => Some(PathBuf::from(folder)),
        [flag] if flag == "--bootstraps" => bail!("`--bootstraps` needs a folder"),
        [other, ..] => bail!("`e2e` does not know `{other}`"),
    };
    Ok(E2eOptions { bootstraps, binary_args })
}

fn torture_options(flags: &[String], binary_args: &[String]) -> Result<TortureOptions> {
    ensure!(binary_args.is_empty(), "`torture` passes nothing on: nothing may follow `--`");
    let mut options = TortureOptions::default();
    for pair in flags.chunks(2) {
        let [flag, value] = pair else { bail!("`{}` needs a value", pair.concat()) };
        match flag.as_str() {
            "--kills" => options.kills = Some(number(flag, value)?),
            "--minutes" => options.minutes = Some(number(flag, value)?),
            "--seed" => options.seed = Some(number(flag, value)?),
            "--sabotage" => options.sabotage = Some(value.clone()),
            other => bail!("`torture` does not know `{other}`"),
        }
    }
    let can_sabotage = options.kills.is_some() || options.sabotage.is_none();
    ensure!(can_sabotage, "`--sabotage` spoils what killed processes left: it needs `--kills`");
    Ok(options)
}

fn number(flag: &str, value: &str) -> Result<u64> {
    value.parse().with_context(|| format!("`{flag}` needs a number, not `{value}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn test_passes_on_what_follows_the_separator() {
        let command =
            parse_line("test --require-dynamodb-local -- lease --help -- --nocapture").unwrap();
        let binary_args = ["lease", "--help", "--", "--nocapture"].map(String::from).to_vec();
        let expected =
            TestOptions { require_dynamodb_local: true, binary_args, ..TestOptions::default() };
        assert_eq!(command, Command::Test(expected));
    }

    #[test]
    fn test_takes_its_flags() {
        let options =
            TestOptions { embedded_only: true, require_browser: true, ..TestOptions::default() };
        let command = parse_line("test --require-browser --embedded-only").unwrap();
        assert_eq!(command, Command::Test(options));
    }

    #[test]
    fn check_takes_its_flags() {
        assert_eq!(
            parse_line("check").unwrap(),
            Command::Check(CheckOptions { keep_going: false, require_infra: false })
        );
        assert_eq!(
            parse_line("check --require-infra --keep-going").unwrap(),
            Command::Check(CheckOptions { keep_going: true, require_infra: true })
        );
    }

    #[test]
    fn bench_takes_its_rounds_and_peers() {
        let plain = BenchOptions { rounds: ROUNDS, ..BenchOptions::default() };
        let bench = |line: &str| match parse_line(line) {
            Ok(Command::Bench(options)) => options,
            other => panic!("{other:?}"),
        };
        assert_eq!(bench("bench"), plain);
        let options = bench("bench --rounds 3 --peers --built --cold-start --bootstraps builds");
        let [peers, built, cold_start] = [true; 3];
        let bootstraps = Some("builds".into());
        let expected = BenchOptions { rounds: 3, peers, built, cold_start, bootstraps };
        assert_eq!(options, expected);
    }

    #[test]
    fn infra_and_cost_take_nothing() {
        assert_eq!(parse_line("infra").unwrap(), Command::Infra);
        assert_eq!(parse_line("cost").unwrap(), Command::Cost);
    }

    #[test]
    fn e2e_takes_a_folder_and_passes_on_the_rest() {
        assert_eq!(parse_line("e2e").unwrap(), Command::E2e(E2eOptions::default()));
        let options = E2eOptions {
            bootstraps: Some("target/lambda".into()),
            binary_args: vec!["killed".into()],
        };
        let command = parse_line("e2e --bootstraps target/lambda -- killed").unwrap();
        assert_eq!(command, Command::E2e(options));
    }

    #[test]
    fn playground_takes_its_flag() {
        for (line, renew_screenshot) in [("playground", false), ("playground --screenshot", true)] {
            assert_eq!(
                parse_line(line).unwrap(),
                Command::Playground { renew_screenshot },
                "{line}"
            );
        }
    }

    #[test]
    fn torture_takes_its_numbers() {
        let options = TortureOptions { kills: Some(20), minutes: Some(1), ..Default::default() };
        let command = parse_line("torture --minutes 1 --kills 20").unwrap();
        assert_eq!(command, Command::Torture(options));
        let options = TortureOptions { minutes: Some(3), seed: Some(7), ..Default::default() };
        assert_eq!(parse_line("torture --seed 7 --minutes 3").unwrap(), Command::Torture(options));
    }

    #[test]
    fn help_is_found_before_the_separator() {
        for line in ["--help", "-h", "help", "test --help", "check -h", "nonsense --help"] {
            assert_eq!(parse_line(line).unwrap(), Command::Help, "{line}");
        }
    }

    #[test]
    fn a_wrong_line_is_refused_with_its_reason() {
        let cases = [
            ("", "which command"),
            ("tset", "`tset`"),
            ("test lease", "after `--`"),
            ("test --keep-going", "`--keep-going`"),
            ("test --embedded-only --require-dynamodb-local", "exclude each other"),
            ("check --fix", "`--fix`"),
            ("infra --fix", "no arguments"),
            ("infra -- sam", "no arguments"),
            ("playground --fix", "`--screenshot`"),
            ("playground --screenshot -- pay", "nothing else"),
            ("bench --fast", "`--fast`"),
            ("bench --rounds", "needs a value"),
            ("bench --rounds 0", "at least 1"),
            ("bench -- parts", "passes nothing on"),
            ("cost json", "no arguments"),
            ("check -- lease", "passes nothing on"),
            ("e2e --bootstraps", "needs a folder"),
            ("e2e --release", "`--release`"),
            ("torture --kills", "needs a value"),
            ("torture --kills many", "`many`"),
            ("torture --deaths 3", "`--deaths`"),
            ("torture --minutes 1 --sabotage answer", "`--kills`"),
            ("torture -- run", "passes nothing on"),
        ];
        for (line, reason) in cases {
            let error = parse_line(line).unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
