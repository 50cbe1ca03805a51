//! cargo-deny: licences, bans, sources, and known vulnerabilities. Where the machine has none, a pinned
//! one is installed below `target`.

use std::{
    io,
    path::PathBuf,
    process::{Command, ExitStatus},
    time::Duration,
};

use anyhow::Result;

use super::Outcome;
use crate::{
    command::{quiet, quiet_within},
    tools::{PYTHON, install_python, missing, succeeds},
    workspace::Workspace,
};

/// Longer than the database takes to come; without a network, some do not answer at all.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    let deny = match Deny::of(workspace)? {
        Ok(deny) => deny,
        Err(missing) => return Ok(Outcome::Skipped(missing)),
    };
    outcome(&mut deny.command(&["check", "licenses", "bans", "sources"]))
}

/// What is known against the versions in `Cargo.lock`. The database is a repository in the network.
pub(super) fn advisories(workspace: &Workspace) -> Result<Outcome> {
    let deny = match Deny::of(workspace)? {
        Ok(deny) => deny,
        Err(missing) => return Ok(Outcome::Skipped(missing)),
    };
    if !quiet_within(PATIENCE, &mut deny.command(&["fetch", "db"]))?.success() {
        let reason =
            "the advisory database cannot be fetched: known vulnerabilities are not checked";
        return Ok(Outcome::Unreachable(reason.into()));
    }
    outcome(&mut deny.command(&["check", "--disable-fetch", "advisories"]))
}

fn outcome(command: &mut Command) -> Result<Outcome> {
    Ok(if succeeds(command)? { Outcome::Passed } else { Outcome::Failed })
}

struct Deny {
    program: PathBuf,
    root: PathBuf,
}

impl Deny {
    /// The machine's own, or the pinned one; or why there is none.
    fn of(workspace: &Workspace) -> Result<Result<Self, String>> {
        let with = |program| Self { program, root: workspace.root.clone() };
        let own = with("cargo-deny".into());
        if own.runs().is_ok_and(|status| status.success()) {
            return Ok(Ok(own));
        }
        if let Some(missing) = missing(&[PYTHON]) {
            return Ok(Err(format!("cargo-deny is not installed, and {missing}")));
        }
        let venv = workspace.target.join("cargo-deny");
        let requirements = workspace.root.join("xtask/cargo-deny/requirements.txt");
        if !install_python(&venv, &requirements, None)? {
            return Ok(Err("cargo-deny could not be installed".into()));
        }
        Ok(Ok(with(venv.join("bin/cargo-deny"))))
    }

    fn runs(&self) -> io::Result<ExitStatus> {
        quiet(&mut self.command(&["--version"]))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.root).args(args);
        command
    }
}
