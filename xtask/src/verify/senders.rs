//! Checks that the recorded webhooks are what the senders' own libraries sign.

use std::process::{Command, Stdio};

use anyhow::Result;

use super::{Outcome, outcome};
use crate::{
    tools::{NODE, NPM, install_node, missing},
    workspace::Workspace,
};

pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    if let Some(missing) = missing(&[NODE, NPM]) {
        return Ok(Outcome::Skipped(missing));
    }
    let folder = workspace.root.join("tests/webhooks");
    if !install_node(&folder, workspace.target.join("webhooks-npm.lock"))? {
        return Ok(Outcome::Failed);
    }
    let mut sign = Command::new("node");
    outcome(sign.current_dir(&folder).stdin(Stdio::null()).args(["sign.js", "--check"]))
}
