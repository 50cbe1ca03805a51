//! cargo-deny: licenses, bans, sources, and known vulnerabilities.

use std::time::Duration;

use anyhow::Result;

use super::{Outcome, outcome, wheel::Wheel};
use crate::{command::quiet_within, workspace::Workspace};

const PROGRAM: &str = "cargo-deny";

/// Longer than a download of the database takes. Without a network, some requests never end.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    let deny = match Wheel::of(workspace, PROGRAM)? {
        Ok(deny) => deny,
        Err(missing) => return Ok(Outcome::Skipped(missing)),
    };
    outcome(&mut deny.command(&["check", "licenses", "bans", "sources"]))
}

/// Checks the versions in `Cargo.lock` for known vulnerabilities. The database is a repository on the
/// network.
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
