//! `cargo xtask bench`: what the crate costs, written into `docs/benchmarks.md`.
//!
//! The work is done by the workspace member `benches`. What is counted (instructions, allocations) is
//! the same in every run; what is timed is compared within a round, in which all sides take turns.

mod chart;
mod counted;
mod document;
mod parts;
mod sockets;

use anyhow::{Result, ensure};

use crate::{args::BenchOptions, command::describe, workspace::Workspace};

use chart::{Bar, chart};
use document::Document;

/// Measures all of it anew; what cannot be measured is an error, and the page stays as it is.
pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    let workspace = Workspace::load()?;
    let mut document = Document::open(&workspace.root.join("docs/benchmarks.md"))?;
    build(&workspace)?;

    println!("\n==> allocations");
    let allocations = counted::allocations(&workspace)?;
    document.replace("allocations", &allocations.table())?;

    println!("\n==> instructions");
    let instructions = counted::instructions(&workspace, &allocations.names())?;
    document.replace("instructions", &counted::table(&instructions))?;
    let bars = instructions.iter().map(|row| Bar { name: row.name.clone(), value: row.ratio() });
    let title = "Instructions of a call, as a multiple of the same SDK calls by hand";
    document
        .picture("benchmarks-instructions.svg", &chart(title, 1.0, &bars.collect::<Vec<_>>()))?;

    println!("\n==> parts");
    document.replace("parts", &parts::table(&workspace)?)?;

    println!("\n==> over a socket");
    let sockets = sockets::measure(&workspace, options)?;
    document.replace("sockets", &sockets.table())?;
    document.replace("cold", &sockets.cold_table())?;
    let title = "CPU of the calling process for a call, in microseconds";
    document.picture("benchmarks-cpu.svg", &chart(title, 0.0, &sockets.bars()))?;

    document.save()?;
    println!("\nwritten: docs/benchmarks.md");
    Ok(())
}

fn build(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo(["build", "--release", "--package", "benches", "--bins"]);
    println!("==> {}", describe(&command));
    ensure!(command.status()?.success(), "the benchmarks could not be built");
    Ok(())
}
