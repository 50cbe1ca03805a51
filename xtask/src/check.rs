//! `cargo xtask check`: the one list of checks.
//!
//! What builds nothing comes first. Of the rest, steps with the same set of features follow each
//! other, and no step changes `RUSTFLAGS`: either would build the AWS SDK once more. The doc tests
//! are here and not in `cargo xtask test`: `cargo test --all-targets` leaves them out, and as the
//! last step they leave behind the very artefacts that `test` starts from.

mod links;
mod promise;

use std::{io, process::Command, time::Instant};

use anyhow::{Context, Result, bail};

use crate::{
    args::CheckOptions,
    command::{describe, quiet},
    infra,
    workspace::{PACKAGE, Workspace},
};

use promise::Promise;

struct Check {
    name: String,
    action: Action,
}

enum Action {
    /// A cargo command that has to succeed.
    Cargo(Vec<String>),
    /// The documentation, with warnings as errors.
    Docs,
    /// The relative links of the Markdown files.
    Links,
    /// What a set of features promises not to depend on.
    Promise(&'static Promise),
    /// Licences, bans and sources. Not the advisories: they need the network.
    Deny,
    /// What `infra/` would deploy. Needs tools that not every machine has.
    Infra { required: bool },
}

enum Outcome {
    Passed,
    Failed,
    Skipped(String),
}

/// `false` if a check has failed.
pub(crate) fn run(options: &CheckOptions) -> Result<bool> {
    let workspace = Workspace::load()?;
    let mut failed = Vec::new();
    for check in checks(&workspace.features, options.require_infra) {
        if !run_one(&check, &workspace) {
            failed.push(check.name);
            if !options.keep_going {
                break;
            }
        }
    }
    match failed.as_slice() {
        [] => println!("\nall checks passed"),
        failed => println!("\nfailed: {}", failed.join("; ")),
    }
    Ok(failed.is_empty())
}

/// `false` if it has failed.
fn run_one(check: &Check, workspace: &Workspace) -> bool {
    println!("\n==> {}", check.name);
    let start = Instant::now();
    let (verdict, passed) = match perform(&check.action, workspace) {
        Ok(Outcome::Passed) => ("passed".to_owned(), true),
        Ok(Outcome::Skipped(reason)) => (format!("skipped, {reason}"), true),
        Ok(Outcome::Failed) => ("FAILED".to_owned(), false),
        Err(error) => (format!("FAILED, {error:#}"), false),
    };
    println!("    {}: {verdict} ({:.1} s)", check.name, start.elapsed().as_secs_f64());
    passed
}

fn checks(features: &[String], require_infra: bool) -> Vec<Check> {
    let links = Check { name: "links".into(), action: Action::Links };
    let mut checks = vec![cargo("format", &["fmt", "--all", "--check"]), links];
    checks.extend(promise::ALL.iter().map(|promise| Check {
        name: format!("promise: {}", promise.name),
        action: Action::Promise(promise),
    }));
    // What would be published; that it builds, the other checks say.
    let package = ["package", "--package", PACKAGE, "--no-verify", "--offline", "--allow-dirty"];
    checks.push(cargo("package", &package));
    checks.push(Check { name: "deny".into(), action: Action::Deny });
    let infra = Action::Infra { required: require_infra };
    checks.push(Check { name: "infra".into(), action: infra });
    checks.push(clippy("clippy", &["--workspace", "--all-targets", "--all-features"]));
    checks.push(Check { name: "docs".into(), action: Action::Docs });
    let alone = ["--package", PACKAGE, "--lib", "--no-default-features"];
    checks.push(clippy("clippy, no features", &alone));
    checks.extend(features.iter().map(|feature| {
        let name = format!("clippy, only `{feature}`");
        clippy(&name, &[&alone[..], &["--features", feature.as_str()]].concat())
    }));
    checks.push(cargo("doc tests", &["test", "--workspace", "--doc", "--all-features"]));
    checks
}

fn cargo(name: &str, args: &[&str]) -> Check {
    let args = args.iter().copied().map(String::from).collect();
    Check { name: name.into(), action: Action::Cargo(args) }
}

/// `-D warnings` goes to clippy alone and reaches workspace members only: dependencies stay built.
fn clippy(name: &str, selection: &[&str]) -> Check {
    cargo(name, &[&["clippy"], selection, &["--", "-D", "warnings"]].concat())
}

fn perform(action: &Action, workspace: &Workspace) -> Result<Outcome> {
    match action {
        Action::Cargo(args) => finish(&mut workspace.cargo(args.iter().map(String::as_str))),
        Action::Docs => {
            let args = ["doc", "--workspace", "--no-deps", "--all-features"];
            finish(workspace.cargo(args).env("RUSTDOCFLAGS", "-D warnings"))
        }
        Action::Links => links::check(workspace),
        Action::Promise(promise) => promise.check(workspace),
        Action::Deny if !deny_is_installed(workspace)? => {
            Ok(Outcome::Skipped("cargo-deny is not installed".into()))
        }
        Action::Deny => {
            finish(&mut workspace.cargo(["deny", "check", "licenses", "bans", "sources"]))
        }
        Action::Infra { required } => match infra::missing() {
            Some(missing) if *required => bail!("{missing}"),
            Some(missing) => Ok(Outcome::Skipped(missing)),
            None if infra::check(workspace)? => Ok(Outcome::Passed),
            None => Ok(Outcome::Failed),
        },
    }
}

fn finish(command: &mut Command) -> Result<Outcome> {
    println!("    {}", describe(command));
    let status = command.status().with_context(|| format!("{command:?} did not start"))?;
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed })
}

fn deny_is_installed(workspace: &Workspace) -> io::Result<bool> {
    Ok(quiet(&mut workspace.cargo(["deny", "--version"]))?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_linted_alone() {
        let features = ["http", "lambda"].map(String::from);
        let names: Vec<_> = checks(&features, true).into_iter().map(|check| check.name).collect();
        for expected in ["clippy, no features", "clippy, only `http`", "clippy, only `lambda`"] {
            assert!(names.iter().any(|name| name == expected), "{expected} is not in {names:?}");
        }
    }

    #[test]
    fn a_feature_is_linted_without_the_default_ones() {
        let checks = checks(&["http".into()], true);
        let check = checks.iter().find(|check| check.name == "clippy, only `http`").unwrap();
        let expected = "clippy --package dynamodb-idempotency --lib --no-default-features \
                        --features http -- -D warnings";
        assert!(matches!(&check.action, Action::Cargo(args) if args.join(" ") == expected));
    }
}
