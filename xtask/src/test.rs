//! `cargo xtask test`: all tests on the embedded engine, every state of the protocol's machines, the
//! connections of a program with the SDK's own HTTP client, and the local example's page in a browser.
//! Then the suites that use a store run again on DynamoDB Local, and last a short torture run.
//!
//! Both runs select the whole workspace with all features, and restrict the targets. Selecting fewer
//! packages would change the features of tokio and hyper, and build the AWS SDK again.

mod report;

use std::{
    fmt,
    io::{self, BufRead, BufReader, IsTerminal, Write},
    process::{Command, ExitStatus},
};

use anyhow::{Context, Result, bail};

use crate::{
    args::TestOptions,
    command::{Stopwatch, describe},
    dynamodb_local::{self, ENDPOINT, Server},
    playground, torture,
    workspace::Workspace,
};
use report::Report;

/// The test targets that run on both engines: the library's, the command line's and the example's.
const SUITES: &[&str] = &["suite", "cost", "cli", "api"];

/// How the SDK retries: each engine has it one way.
const NEW_RETRIES: &str = "AWS_NEW_RETRIES_2026";

/// Features of `serde_json` that any crate of a user's program can switch on. DynamoDB Local's runs have
/// them. The SDK does not depend on `serde_json`, so it is not built again.
const JSON_FEATURES: &str =
    "serde_json/arbitrary_precision,serde_json/float_roundtrip,serde_json/preserve_order";

struct Run {
    engine: String,
    report: Report,
    took: String,
    passed: bool,
}

/// `false` if a test has failed, if a suite was empty, or if DynamoDB Local or a browser was required
/// and could not be had.
pub(crate) fn run(options: &TestOptions) -> Result<bool> {
    let workspace = Workspace::load()?;
    // Checked before the build: a wrong endpoint fails at once.
    let running = match dynamodb_local::endpoint_from_environment() {
        Some(endpoint) if !options.embedded_only => Some(dynamodb_local::running(&endpoint)?),
        _ => None,
    };
    let embedded = run_embedded(&workspace, options)?;
    if !embedded.passed && embedded.report.is_empty() {
        bail!("the tests did not start");
    }
    let mut runs = vec![embedded];
    // A filter asks for other tests than these.
    if options.binary_args.is_empty() {
        runs.push(run_one_pool(&workspace)?);
    }
    let states = run_search(&workspace, options)?;
    let page = run_page(&workspace, options)?;
    let mut closing = None;
    let mut torture = None;
    if !options.embedded_only {
        match running.map_or_else(|| dynamodb_local::start(&workspace.target), Ok) {
            Ok(server) => {
                // Java is the way to a server that can be killed; a filter asks for less than that.
                let can_be_killed = server.origin() == dynamodb_local::JAVA;
                runs.extend(run_local(&workspace, options, server)?);
                if can_be_killed && options.binary_args.is_empty() {
                    println!("\n==> torture");
                    torture = Some(torture::run_short(&workspace)?);
                }
            }
            Err(reason) => closing = Some(reason.to_string()),
        }
    }
    summarise(&runs);
    println!("every state: {}", verdict(states));
    println!("playground: {page}");
    println!("torture: {}", verdict(torture));
    let missing_but_required = closing.is_some() && options.require_dynamodb_local;
    match closing {
        Some(reason) if missing_but_required => println!("DynamoDB Local: required, but {reason}"),
        Some(reason) => println!("DynamoDB Local: {reason}; tests ran on the embedded engine only"),
        None => {}
    }
    let failed = [states, torture].contains(&Some(false));
    let passed = runs.iter().all(|run| run.passed) && page.has_passed() && !failed;
    Ok(passed && !missing_but_required)
}

/// The result of the tests of the local example's page.
enum Page {
    Passed,
    Failed,
    LeftOut(String),
    Required(String),
}

impl Page {
    fn has_passed(&self) -> bool {
        matches!(self, Self::Passed | Self::LeftOut(_))
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed => f.write_str("FAILED"),
            Self::LeftOut(reason) => write!(f, "left out, {reason}"),
            Self::Required(reason) => write!(f, "required, but {reason}"),
        }
    }
}

/// The examples are built by now. A filter asks for other tests than these.
fn run_page(workspace: &Workspace, options: &TestOptions) -> Result<Page> {
    if !options.binary_args.is_empty() {
        return Ok(Page::LeftOut("there is a filter".into()));
    }
    match playground::missing() {
        Some(missing) if options.require_browser => Ok(Page::Required(missing)),
        Some(missing) => Ok(Page::LeftOut(missing)),
        None => {
            println!("\n==> playground");
            Ok(if playground::check(workspace)? { Page::Passed } else { Page::Failed })
        }
    }
}

/// The examples are built before, as what they are: the suite `api` starts one. `--all-targets` would
/// make test binaries of them.
fn run_embedded(workspace: &Workspace, options: &TestOptions) -> Result<Run> {
    let mut build = workspace.cargo(["build", "--workspace", "--all-features", "--examples"]);
    println!("\n==> examples\n    {}", describe(&build));
    if !build.status().context("cargo did not start")?.success() {
        bail!("the examples could not be built");
    }
    let mut command = cargo_test(workspace, &["--lib", "--bins", "--tests"], options);
    command.env_remove(ENDPOINT).env(NEW_RETRIES, "false");
    run_on("embedded engine", command, SUITES)
}

/// Counts the connections of programs that use the SDK's own HTTP client. The crate is outside the
/// workspace so that nothing else is built with that client.
fn run_one_pool(workspace: &Workspace) -> Result<Run> {
    let mut command = workspace.cargo(["test", "--manifest-path", "tests/one-pool/Cargo.toml"]);
    command.args(["--test", "one_connection", "--target-dir"]).arg(&workspace.target);
    run_on("the SDK's own HTTP client", command, &["one_connection"])
}

/// Every state of the machines, and then with each of their rules broken. A filter asks for other tests.
fn run_search(workspace: &Workspace, options: &TestOptions) -> Result<Option<bool>> {
    if !options.binary_args.is_empty() {
        return Ok(None);
    }
    let mut passed = true;
    for mode in [&[][..], &["--features", "internals", "--", "--mutants"]] {
        let mut command =
            workspace.cargo(["run", "--profile", "search", "--package", "protocol-search"]);
        command.args(mode);
        println!("\n==> every state\n    {}", describe(&command));
        passed &= command.status().context("cargo did not start")?.success();
    }
    Ok(Some(passed))
}

/// The suites, and then the fault search's model store, which must answer as the real one does.
fn run_local(workspace: &Workspace, options: &TestOptions, mut server: Server) -> Result<Vec<Run>> {
    let suites = SUITES.iter().flat_map(|suite| ["--test", suite]);
    let targets: Vec<&str> =
        ["--features", JSON_FEATURES, "--lib"].into_iter().chain(suites).collect();
    let mut command = cargo_test(workspace, &targets, options);
    command.env(ENDPOINT, server.endpoint()).env(NEW_RETRIES, "true");
    let engine =
        format!("DynamoDB Local ({}), {NEW_RETRIES}, serde_json's features", server.origin());
    let mut runs = vec![run_on(&engine, command, SUITES)?];
    if options.binary_args.is_empty() {
        let mut command =
            cargo_test(workspace, &["--features", JSON_FEATURES, "--test", "faults"], options);
        command.args(["--", "differential"]).env(ENDPOINT, server.endpoint());
        let mut model = run_on("the model store compared with DynamoDB Local", command, &[])?;
        model.passed &= model.report.executed() > 0;
        runs.push(model);
    }
    if let Some(end) = server.early_end() {
        eprintln!("DynamoDB Local ended while the tests ran: {end}");
        runs[0].passed = false;
    }
    Ok(runs)
}

/// One suite alone; `false` if a test has failed, or none was executed.
pub(crate) fn run_suite(name: &str, engine: &str, command: Command) -> Result<bool> {
    let run = run_on(engine, command, &[name])?;
    let passed = run.passed;
    summarise(&[run]);
    Ok(passed)
}

fn cargo_test(workspace: &Workspace, targets: &[&str], options: &TestOptions) -> Command {
    let mut command = workspace.cargo(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    command.args(targets);
    if !options.binary_args.is_empty() {
        command.arg("--").args(&options.binary_args);
    }
    command
}

fn run_on(engine: &str, command: Command, suites: &[&str]) -> Result<Run> {
    println!("\n==> {engine}\n    {}", describe(&command));
    let watch = Stopwatch::start();
    let (status, report) = tee(command)?;
    let empty = if report.is_empty() { Vec::new() } else { report.without_tests(suites) };
    for suite in &empty {
        eprintln!("{engine}: the suite `{suite}` ran no tests");
    }
    let passed = status.success() && empty.is_empty();
    Ok(Run { engine: engine.to_owned(), report, took: watch.to_string(), passed })
}

/// Runs `cargo test`, forwards its output, and counts its tests.
///
/// Both streams go to one pipe: cargo names the test binary on standard error, and the binary prints
/// its counts on standard output. Their order assigns each count to its binary.
fn tee(mut command: Command) -> Result<(ExitStatus, Report)> {
    let (reader, writer) = io::pipe()?;
    if io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().context("cargo did not start")?;
    // It holds the writing ends too: the pipe would never end.
    drop(command);
    let mut report = Report::default();
    let mut lines = BufReader::new(reader);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        io::stdout().write_all(&line)?;
        report.read(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok((child.wait()?, report))
}

fn verdict(torture: Option<bool>) -> &'static str {
    match torture {
        Some(true) => "passed",
        Some(false) => "FAILED",
        None => "left out (needs DynamoDB Local, started by Java, and no filter)",
    }
}

fn summarise(runs: &[Run]) {
    println!();
    for run in runs {
        let verdict = if run.passed { "passed" } else { "FAILED" };
        println!("{}: {verdict} in {}", run.engine, run.took);
        println!("{}", run.report);
    }
}
