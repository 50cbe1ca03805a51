//! `cargo xtask bench`: what the crate costs, written into `benches/figures.md`.
//!
//! The work is done by the workspace member `benches`. What is counted (instructions, allocations) is
//! the same in every run; what is timed is compared within a round, in which all sides take turns.

mod chart;
mod counted;
mod cpu_time;
mod curves;
mod figures;
mod fingerprints;
mod lambda;
mod machine;
mod memory;
mod pictures;
mod share;
mod smoke;
mod sockets;
mod tls;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use xtask::{
    command::describe,
    dynamodb_local::{self, Server},
    workspace::Workspace,
};

use crate::{BenchOptions, document::Document};

use share::Share;

/// The profile that cargo has unasked, for figures that others can compare theirs with; and the one of
/// this workspace, by which the example is deployed.
const PLAIN: &str = "plain";
const RELEASE: &str = "release";

/// Repeats the measurements that the options select. If one fails, returns the error and leaves the
/// page unchanged.
pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    let workspace = Workspace::load()?;
    let mut document = Document::open(&workspace.root.join("benches/figures.md"))?;
    if options.smoke {
        document.move_to(&workspace.target.join("smoke"))?;
    }
    if options.charts || options.smoke {
        pictures::draw(&mut document)?;
        document.save()?;
        return if options.smoke { smoke::run(&workspace) } else { Ok(()) };
    }
    if options.curves {
        return grown(&workspace, options, &mut document);
    }
    let machine = machine::described(options.rounds)?;
    if let Some(folder) = &options.bootstraps {
        let server = dynamodb_local::required(&workspace.target)?;
        return lambda(&workspace, &server, builds(folder)?, options, &mut document);
    }
    if let Some(megabytes) = options.memory {
        return in_a_share(&workspace, megabytes, options, &mut document);
    }
    if !options.built {
        build(&workspace, PLAIN, &[])?;
    }
    if options.in_process {
        in_process(&workspace, &mut document)?;
        pictures::draw(&mut document)?;
        return document.save();
    }
    if !options.built {
        build(&workspace, RELEASE, &[])?;
    }
    if !options.cold_start {
        document.replace("machine", &machine)?;
        in_process(&workspace, &mut document)?;
        println!("\n==> fingerprints");
        document.replace("fingerprints", &fingerprints::table(&workspace)?)?;
        document.save()?;
    }
    let server = dynamodb_local::required(&workspace.target)?;
    if !options.cold_start {
        println!("\n==> over a socket");
        let sockets = sockets::measure(&workspace, &server, options)?;
        document.replace("sockets", &sockets.table())?;
        document.replace("cold", &sockets.cold_table())?;
        pictures::draw(&mut document)?;
        document.save()?;
    }
    let builds = [PLAIN, RELEASE]
        .map(|profile| (format!("`{profile}`"), program(&workspace, profile, "payments")));
    lambda(&workspace, &server, builds.to_vec(), options, &mut document)
}

/// How the cost of a call grows.
fn grown(workspace: &Workspace, options: &BenchOptions, document: &mut Document) -> Result<()> {
    if !options.built {
        build(workspace, PLAIN, &["--features", "benches/messages"])?;
    }
    curves::measure(workspace, document)?;
    document.save()?;
    println!("\nwritten: benches/figures.md");
    Ok(())
}

/// Starts and requests of a small function, where this machine can be divided.
fn in_a_share(
    workspace: &Workspace,
    megabytes: u64,
    options: &BenchOptions,
    document: &mut Document,
) -> Result<()> {
    if let Err(reason) = Share::of(megabytes) {
        println!("bench: left out, no share of this machine can be had: {reason:#}");
        return Ok(());
    }
    if !options.built {
        build(workspace, RELEASE, &[])?;
    }
    println!("\n==> in a function of {megabytes} MB");
    let machine = machine::described(options.rounds)?;
    let server = dynamodb_local::required(&workspace.target)?;
    let [table, first_request] = memory::table(workspace, &server, options, megabytes)?;
    document.replace("memory", &format!("{machine}\n{table}"))?;
    document.replace("first-request", &first_request)?;
    pictures::draw(document)?;
    document.save()?;
    println!("\nwritten: benches/figures.md");
    Ok(())
}

/// What a call takes in the process: allocations, instructions and CPU time.
fn in_process(workspace: &Workspace, document: &mut Document) -> Result<()> {
    println!("\n==> allocations");
    let allocations = counted::allocations(workspace)?;
    document.replace("allocations", &allocations.table())?;

    println!("\n==> instructions");
    let instructions = counted::instructions(workspace, &allocations.names())?;
    document.replace("instructions", &counted::table(&instructions))?;

    println!("\n==> CPU time");
    let machine = machine::described(cpu_time::TURNS)?;
    let cpu_time = cpu_time::table(workspace, &allocations.names())?;
    document.replace("cpu-time", &format!("{machine}\n{cpu_time}"))?;
    document.save()
}

/// The cold start of the example's payments function; then all is written.
fn lambda(
    workspace: &Workspace,
    server: &Server,
    builds: Vec<(String, PathBuf)>,
    options: &BenchOptions,
    document: &mut Document,
) -> Result<()> {
    println!("\n==> under the Runtime Interface Emulator");
    let table = lambda::table(workspace, server, builds, options.rounds)?;
    document.replace("lambda", &table)?;
    if options.bootstraps.is_some() {
        return Ok(());
    }
    document.save()?;
    println!("\nwritten: benches/figures.md");
    Ok(())
}

/// `FOLDER/NAME/bootstrap`: each a build of the payments function.
fn builds(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("no folder {}", folder.display()))?;
    let mut builds = Vec::new();
    for entry in entries {
        let entry = entry?;
        let bootstrap = entry.path().join("bootstrap").canonicalize()?;
        builds.push((entry.file_name().to_string_lossy().into_owned(), bootstrap));
    }
    builds.sort();
    Ok(builds)
}

/// A program of `benches`, or of the example.
fn program(workspace: &Workspace, profile: &str, name: &str) -> PathBuf {
    workspace.target.join(profile).join(name)
}

/// Builds the example too: a separate build would compile the SDK again, with other features.
fn build(workspace: &Workspace, profile: &str, features: &[&str]) -> Result<()> {
    let mut command = workspace.cargo(["build", "--profile", profile, "--bins"]);
    command.args(["--package", "benches", "--package", "lambda-example"]).args(features);
    println!("==> {}", describe(&command));
    ensure!(command.status()?.success(), "the benchmarks could not be built");
    Ok(())
}
