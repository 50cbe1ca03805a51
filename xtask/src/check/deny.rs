//! cargo-deny: licenses, bans, sources, and known vulnerabilities.

use std::time::Duration;

use anyhow::Result;

use super::{Outcome, outcome, wheel::Wheel};
use crate::{command::quiet_within, workspace::Workspace};

const PROGRAM: &str = "cargo-deny";

/// Longer than the database takes to come; without a network, some do not answer at all.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    let deny = match Wheel::of(workspace, PROGRAM)? {
        Ok(deny) => deny,
        Err(missing) => return Ok(Outcome::Skipped(missing)),
    };
    outcome(&mut deny.command(&["check", "licenses", "bans", "sources"]))
}

/// What is known against the versions in `Cargo.lock`. The database is a repository in the network.
pub(super) fn advisories(workspace: &Workspace) -> Result<Outcome> {
    let deny = match Wheel::of(workspace, PROGRAM)? {
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
