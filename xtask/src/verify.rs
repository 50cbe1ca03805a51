//! `cargo xtask verify`: the one list of checks, from formatting to the functions end to end.
//!
//! Steps that build nothing come first. Of the rest, steps with the same features are adjacent, and
//! no step changes `RUSTFLAGS`: otherwise the AWS SDK would be built again. `infra` needs one core and nothing of
//! cargo's, so it runs beside the others.

mod commands;
mod deny;
mod links;
mod openapi;
mod package;
pub(crate) mod promise;
mod senders;
mod wheel;

use std::{
    env,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Result, ensure};

use crate::{
    args::{E2eOptions, VerifyOptions},
    command::Stopwatch,
    e2e, infra, playground, suites,
    tools::succeeds,
    torture,
    workspace::{PACKAGE, Workspace},
};

use promise::Promise;

struct Check {
    name: String,
    action: Action,
    /// Takes too long for each change: runs only if it is named, as in `.github/workflows/weekly.yml`.
    is_weekly: bool,
}

enum Action {
    /// A cargo command that must succeed.
    Cargo(Vec<String>),
    /// The crates that a set of features does not depend on.
    Promise(&'static Promise),
    Run(fn(&Workspace) -> Result<Outcome>),
    /// What has passed if it returns `true`.
    Passes(fn(&Workspace) -> Result<bool>),
}

enum Outcome {
    Passed,
    Failed,
    /// A tool is missing on this machine.
    Skipped(String),
    /// The advisory database is not reachable.
    Unreachable(String),
}

impl Outcome {
    const fn of(passed: bool) -> Self {
        if passed { Self::Passed } else { Self::Failed }
    }
}

/// Returns `false` if a check has failed.
pub(crate) fn run(options: &VerifyOptions) -> Result<bool> {
    let workspace = Workspace::load()?;
    let checks = chosen(checks(&workspace.features), &options.names)?;
    // Without `--keep-going`, it would be stopped halfway when another check fails.
    let has_others = options.keep_going && checks.len() > 1 && infra::missing().is_none();
    let runs_beside = has_others && checks.iter().any(|check| check.name == BESIDE);
    let mut beside = runs_beside.then(|| Beside::start(&workspace)).transpose()?;
    let (mut failed, mut left_out) = (Vec::new(), Vec::new());
    for check in checks {
        let result = match beside.take_if(|_| check.name == BESIDE) {
            Some(beside) => beside.finish()?,
            None => run_one(&check, &workspace, options),
        };
        match result {
            CheckResult::Passed => {}
            CheckResult::LeftOut => left_out.push(check.name),
            CheckResult::Failed => {
                failed.push(check.name);
                if !options.keep_going {
                    break;
                }
            }
        }
    }
    println!("\n{}", summary(&failed, &left_out));
    Ok(failed.is_empty())
}

/// The check that runs beside the others.
const BESIDE: &str = "infra";

/// A check in a process of its own, whose output is kept until it is asked for.
struct Beside {
    process: Child,
    output: PathBuf,
}

impl Beside {
    fn start(workspace: &Workspace) -> Result<Self> {
        let output = workspace.target.join(BESIDE).with_extension("log");
        let file = File::create(&output)?;
        let mut command = Command::new(env::current_exe()?);
        command.args(["verify", BESIDE]).stdin(Stdio::null());
        command.stdout(file.try_clone()?).stderr(file);
        Ok(Self { process: command.spawn()?, output })
    }

    /// Waits for its end, and prints its output.
    fn finish(mut self) -> Result<CheckResult> {
        let passed = self.process.wait()?.success();
        print!("{}", String::from_utf8_lossy(&fs::read(&self.output)?));
        Ok(if passed { CheckResult::Passed } else { CheckResult::Failed })
    }
}

/// Returns the checks of each change, or the selected ones: by name, or by a part of the name if no check has that
/// name.
fn chosen(checks: Vec<Check>, asked: &[String]) -> Result<Vec<Check>> {
    let names: Vec<_> = checks.iter().map(|check| check.name.replace('`', "")).collect();
    let mut wanted: Vec<_> =
        checks.iter().map(|check| asked.is_empty() && !check.is_weekly).collect();
    for word in asked.iter().map(|word| word.replace('`', "")) {
        let whole = names.contains(&word);
        let fits = |name: &String| if whole { *name == word } else { name.contains(&word) };
        ensure!(
            names.iter().any(fits),
            "unknown check {word:?}; the checks are: {}",
            names.join("; ")
        );
        for (wanted, name) in wanted.iter_mut().zip(&names) {
            *wanted |= fits(name);
        }
    }
    Ok(checks
        .into_iter()
        .zip(wanted)
        .filter_map(|(check, wanted)| wanted.then_some(check))
        .collect())
}

fn summary(failed: &[String], left_out: &[String]) -> String {
    match (failed, left_out) {
        ([], []) => "all checks passed".to_owned(),
        ([], left_out) => format!("the others passed; LEFT OUT: {}", left_out.join("; ")),
        (failed, []) => format!("failed: {}", failed.join("; ")),
        (failed, left_out) => {
            format!("failed: {}; LEFT OUT: {}", failed.join("; "), left_out.join("; "))
        }
    }
}

#[derive(Debug, PartialEq)]
enum CheckResult {
    Passed,
    LeftOut,
    Failed,
}

fn run_one(check: &Check, workspace: &Workspace, options: &VerifyOptions) -> CheckResult {
    println!("\n==> {}", check.name);
    let watch = Stopwatch::start();
    let (result, said) = judged(perform(&check.action, workspace), options);
    println!("    {}: {said} ({watch})", check.name);
    result
}

fn judged(outcome: Result<Outcome>, options: &VerifyOptions) -> (CheckResult, String) {
    match outcome {
        Ok(Outcome::Passed) => (CheckResult::Passed, "passed".to_owned()),
        Ok(Outcome::Skipped(reason)) if options.require_tools => {
            (CheckResult::Failed, format!("FAILED, {reason}"))
        }
        Ok(Outcome::Unreachable(reason)) if options.require_advisories => {
            (CheckResult::Failed, format!("FAILED, {reason}"))
        }
        Ok(Outcome::Skipped(reason) | Outcome::Unreachable(reason)) => {
            (CheckResult::LeftOut, format!("LEFT OUT, {reason}"))
        }
        Ok(Outcome::Failed) => (CheckResult::Failed, "FAILED".to_owned()),
        Err(error) => (CheckResult::Failed, format!("FAILED, {error:#}")),
    }
}

/// The feature that is not linted alone, because it has no code of its own.
const NEVER_ALONE: &str = "developer-credentials";

fn checks(features: &[String]) -> Vec<Check> {
    let mut checks = vec![
        cargo("format", &["fmt", "--all", "--check"]),
        check("links", links::check),
        check("commands", commands::check),
    ];
    checks.extend(promise::ALL.iter().map(|promise| Check {
        name: format!("promise: {}", promise.name),
        action: Action::Promise(promise),
        is_weekly: false,
    }));
    checks.extend([
        check("the core's crates", promise::check_core_crates),
        check("the tests and the example build the SDK once", promise::check_shared_build),
        check("package", package::check),
        check("deny", deny::check),
        check("advisories", deny::advisories),
        check("openapi", openapi::check),
        check("webhooks", senders::check),
        clippy("clippy", &["--workspace", "--all-targets", "--all-features"]),
        check("docs", |workspace| {
            let args = ["doc", "--workspace", "--no-deps", "--all-features"];
            outcome(workspace.cargo(args).env("RUSTDOCFLAGS", "-D warnings"))
        }),
    ]);
    let alone = ["--package", PACKAGE, "--lib", "--no-default-features"];
    checks.push(clippy("clippy, no features", &alone));
    let alone_too = features.iter().filter(|feature| *feature != NEVER_ALONE);
    checks.extend(alone_too.map(|feature| {
        let name = format!("clippy, only `{feature}`");
        weekly(clippy(&name, &[&alone[..], &["--features", feature.as_str()]].concat()))
    }));
    checks.extend([
        passes("doc tests", suites::run_doc_tests),
        check("tests on DynamoDB Local", |workspace| {
            Ok(match suites::run_on_dynamodb_local(workspace)? {
                Ok(passed) => Outcome::of(passed),
                Err(missing) => Outcome::Skipped(missing),
            })
        }),
        passes("schedules", suites::run_schedules),
        passes("the SDK's own HTTP client", suites::run_one_pool),
        passes("every state", suites::run_search),
        weekly(passes("every state, to the weekly bounds", suites::run_weekly_search)),
        check("playground", |workspace| match playground::missing() {
            Some(missing) => Ok(Outcome::Skipped(missing)),
            None => playground::check(workspace).map(Outcome::of),
        }),
        passes("kills", torture::run_short),
        check(BESIDE, |workspace| match infra::missing() {
            Some(missing) => Ok(Outcome::Skipped(missing)),
            None => infra::check(workspace).map(Outcome::of),
        }),
        // After `infra`: both install the SAM CLI.
        passes("e2e", |_| e2e::run(&E2eOptions::default())),
    ]);
    checks
}

fn passes(name: &str, run: fn(&Workspace) -> Result<bool>) -> Check {
    Check { name: name.into(), action: Action::Passes(run), is_weekly: false }
}

fn check(name: &str, run: fn(&Workspace) -> Result<Outcome>) -> Check {
    Check { name: name.into(), action: Action::Run(run), is_weekly: false }
}

fn cargo(name: &str, args: &[&str]) -> Check {
    let args = args.iter().copied().map(String::from).collect();
    Check { name: name.into(), action: Action::Cargo(args), is_weekly: false }
}

fn weekly(check: Check) -> Check {
    Check { is_weekly: true, ..check }
}

/// `-D warnings` goes to clippy alone and reaches workspace members only: dependencies stay built.
fn clippy(name: &str, selection: &[&str]) -> Check {
    cargo(name, &[&["clippy"], selection, &["--", "-D", "warnings"]].concat())
}

fn perform(action: &Action, workspace: &Workspace) -> Result<Outcome> {
    match action {
        Action::Cargo(args) => outcome(&mut workspace.cargo(args.iter().map(String::as_str))),
        Action::Promise(promise) => promise.check(workspace),
        Action::Run(run) => run(workspace),
        Action::Passes(run) => run(workspace).map(Outcome::of),
    }
}

fn outcome(command: &mut Command) -> Result<Outcome> {
    succeeds(command).map(Outcome::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_check_has_not_passed() {
        let skipped = || Ok(Outcome::Skipped("no tool".into()));
        let unreachable = || Ok(Outcome::Unreachable("no network".into()));
        let lenient = VerifyOptions::default();
        let strict = VerifyOptions { require_tools: true, ..VerifyOptions::default() };
        let online = VerifyOptions { require_advisories: true, ..VerifyOptions::default() };
        for (outcome, options, result) in [
            (skipped(), &lenient, CheckResult::LeftOut),
            (skipped(), &strict, CheckResult::Failed),
            (unreachable(), &lenient, CheckResult::LeftOut),
            (unreachable(), &strict, CheckResult::LeftOut),
            (unreachable(), &online, CheckResult::Failed),
        ] {
            assert_eq!(judged(outcome, options).0, result, "{options:?}");
        }
        let deny = ["deny".to_owned()];
        assert_eq!(summary(&[], &deny), "the others passed; LEFT OUT: deny");
    }

    #[test]
    fn a_check_is_chosen_by_its_name_or_a_part_of_it() {
        let names = |asked: &[&str]| {
            let asked: Vec<_> = asked.iter().copied().map(String::from).collect();
            let chosen = chosen(checks(&["axum".into(), "http".into()]), &asked);
            chosen.map(|checks| checks.into_iter().map(|check| check.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["only axum"]).unwrap(), ["clippy, only `axum`"]);
        assert_eq!(names(&["clippy"]).unwrap(), ["clippy"]);
        assert_eq!(
            names(&["clippy, only", "links"]).unwrap(),
            ["links", "clippy, only `axum`", "clippy, only `http`"]
        );
        let error = names(&["links", "lniks"]).unwrap_err().to_string();
        assert!(error.contains("\"lniks\""), "{error}");
        let unasked = names(&[]).unwrap();
        assert!(unasked.len() > 10);
        assert!(!unasked.iter().any(|name| name.contains("clippy, only")), "{unasked:?}");
    }

    #[test]
    fn every_feature_is_linted_separately() {
        let features = ["http", "lambda"].map(String::from);
        let names: Vec<_> = checks(&features).into_iter().map(|check| check.name).collect();
        for expected in ["clippy, no features", "clippy, only `http`", "clippy, only `lambda`"] {
            assert!(names.iter().any(|name| name == expected), "{expected} is not in {names:?}");
        }
    }

    #[test]
    fn a_feature_is_linted_without_the_default_ones() {
        let checks = checks(&["http".into()]);
        let check = checks.iter().find(|check| check.name == "clippy, only `http`").unwrap();
        let expected = "clippy --package dynamodb-idempotency --lib --no-default-features \
                        --features http -- -D warnings";
        assert!(matches!(&check.action, Action::Cargo(args) if args.join(" ") == expected));
    }
}
