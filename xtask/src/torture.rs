//! `cargo xtask torture --kills N`: processes that are killed, on a DynamoDB Local that is killed too.
//!
//! The work is done by the workspace member `torture`. It is given the command of a server with its
//! data on disk, since it must start the server itself, more than once.

use std::{fs, path::Path, process};

use anyhow::{Context, Result, ensure};

use crate::{args::TortureOptions, command::describe, dynamodb_local, workspace::Workspace};

const MINUTES: u64 = 15;

/// `false` if something was wrong; the logs and the data are then kept.
pub(crate) fn run(options: &TortureOptions) -> Result<bool> {
    run_on(&Workspace::load()?, options)
}

/// Half a minute of it, so that it cannot rot: enough kills to meet each kind of fault.
pub(crate) fn run_short(workspace: &Workspace) -> Result<bool> {
    let options = TortureOptions { kills: Some(20), minutes: Some(1), ..TortureOptions::default() };
    run_on(workspace, &options)
}

fn run_on(workspace: &Workspace, options: &TortureOptions) -> Result<bool> {
    build(workspace)?;
    let folder = workspace.target.join("torture").join(format!("run-{}", process::id()));
    let is_clean = run_in(&folder, &workspace.target, options)?;
    if is_clean {
        fs::remove_dir_all(&folder)?;
    } else {
        println!("the logs and the data are kept in {}", folder.display());
    }
    Ok(is_clean)
}

/// The example activates the development dependencies, as the tests do. Without them the AWS SDK would be built
/// again, with other features.
fn build(workspace: &Workspace) -> Result<()> {
    let mut command =
        workspace.cargo_all("build", &["--quiet", "--bin", "torture", "--example", "local"]);
    println!("{}", describe(&command));
    ensure!(command.status()?.success(), "the torture could not be built");
    Ok(())
}

fn run_in(folder: &Path, target: &Path, options: &TortureOptions) -> Result<bool> {
    let data = folder.join("data");
    fs::create_dir_all(&data)?;
    let (server, endpoint) = dynamodb_local::durable(target, &data)
        .context("DynamoDB Local is not available here (needs Java 17 with Maven)")?;
    let mut command = process::Command::new(target.join("debug/torture"));
    command.args(["run", "--endpoint", &endpoint]).arg("--folder").arg(folder);
    command.args(["--kills", &options.kills.unwrap_or_default().to_string()]);
    command.args(["--seconds", &(options.minutes.unwrap_or(MINUTES) * 60).to_string()]);
    if let Some(seed) = options.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if let Some(what) = &options.sabotage {
        command.args(["--sabotage", what]);
    }
    command.arg("--").arg(server.get_program()).args(server.get_args());
    Ok(command.status().context("the torture did not start")?.success())
}
