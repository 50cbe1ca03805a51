//! The links between the Markdown files and to their headings, checked by lychee. Links to other hosts are
//! not followed.

use anyhow::Result;

use super::{Outcome, outcome, wheel::Wheel};
use crate::workspace::Workspace;

const OPTIONS: [&str; 6] =
    ["--offline", "--include-fragments", "--no-progress", "--hidden", "--extensions", "md"];
/// Files that git ignores are skipped.
const INPUTS: [&str; 2] = [".", "llms.txt"];

pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    match Wheel::of(workspace, "lychee")? {
        Ok(lychee) => outcome(&mut lychee.command(&[&OPTIONS[..], &INPUTS].concat())),
        Err(missing) => Ok(Outcome::Skipped(missing)),
    }
}
