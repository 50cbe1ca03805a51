//! `cargo xtask bench --smoke`: each program once, on a small case. A test or flag that was renamed
//! shows here.

use std::process::Command;

use anyhow::{Result, ensure};
use xtask::{
    command::{describe, output},
    dynamodb_local,
    workspace::Workspace,
};

use super::{counted, curves, fingerprints, program, sockets};

/// The folder of the profile `dev`: CI has built these programs for the tests.
const DEBUG: &str = "debug";

pub(super) fn run(workspace: &Workspace) -> Result<()> {
    // An integration test brings the programs of its package, with the features of all tests.
    let mut command = workspace.cargo_all("test", &["--no-run", "--test", "twins"]);
    println!("==> {}", describe(&command));
    ensure!(command.status()?.success(), "the benchmarks could not be built");

    let mut allocations = Command::new(program(workspace, DEBUG, "allocations"));
    let names = counted::allocations_by(allocations.arg("1"))?.names();
    ensure!(!names.is_empty(), "the program `allocations` has printed no case");
    for name in &names {
        for side in ["ours", "bare"] {
            let mut calls = Command::new(program(workspace, DEBUG, "calls"));
            output(calls.args([name, side, "1"]))?;
        }
    }
    fingerprints::smoke(workspace, DEBUG)?;
    curves::smoke(workspace, DEBUG)?;
    sockets::smoke(workspace, DEBUG, &dynamodb_local::required(&workspace.target)?)
}
