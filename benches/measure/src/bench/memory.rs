//! A function with the least memory that Lambda gives, and what that brings of the CPU.

use std::{fmt::Write as _, time::Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use super::{
    RELEASE,
    figures::{median, spread},
    share::Share,
    sockets::{OURS, Side, sides},
    tls::Front,
};
use crate::BenchOptions;
use xtask::{command::output, dynamodb_local::Server, workspace::Workspace};

/// Of the crate alone: how it starts, and what its requests take then.
const STARTS: [(&str, &str); 2] = [("starts", "as it is"), ("starts-ready", "after `preflight()`")];

/// What is measured of a start; each a member of the program's answer.
const PARTS: [(&str, &str); 4] = [
    ("ready_us", "start to ready"),
    ("first_us", "first request"),
    ("warm_us", "a later first run"),
    ("replay_us", "a replay"),
];

/// What was measured in a share of the machine.
pub(super) struct Memory {
    /// By side: milliseconds from the start of a process to its end, after one first call. None of a
    /// side that does not live in so little memory.
    cold: Vec<(&'static str, Vec<f64>)>,
    /// By way to start: one answer a round.
    starts: [Vec<Value>; STARTS.len()],
}

pub(super) fn measure(
    workspace: &Workspace,
    server: &Server,
    options: &BenchOptions,
    share: &Share,
) -> Result<Memory> {
    let front = Front::start(workspace, server.endpoint())?;
    let java = if options.peers { Some(front.java_options()?) } else { None };
    let sides = sides(workspace, &[RELEASE], options)?;
    let mut memory = Memory {
        cold: sides.iter().map(|side| (side.label, Vec::new())).collect(),
        starts: Default::default(),
    };
    let run = |side: &Side, case: &str| {
        let mut program = side.run(&front.endpoint, case);
        program.args(["1", "0", "1"]).envs(front.environment());
        program.envs(java.iter().map(|options| ("JAVA_TOOL_OPTIONS", options)));
        program
    };
    let Some(ours) = sides.iter().find(|side| side.argument == OURS) else {
        bail!("the crate's own side is not there");
    };
    for side in &sides {
        // Makes the table that the other cases find, and reads the program from the disk.
        output(side.run(server.endpoint(), "first").args(["1", "1", "1"]))?;
        output(&mut run(side, "cold"))?;
    }
    for round in 1..=options.rounds {
        println!("    round {round} of {}", options.rounds);
        for (side, (label, took)) in sides.iter().zip(&mut memory.cold) {
            let start = Instant::now();
            match output(&mut share.around(&run(side, "cold"))) {
                Ok(_) => took.push(start.elapsed().as_secs_f64() * 1000.0),
                Err(error) => println!("    {label}: {error}"),
            }
        }
        for ((case, _), starts) in STARTS.iter().zip(&mut memory.starts) {
            let said = output(&mut share.around(&run(ours, case)))?;
            starts.push(serde_json::from_str(&said)?);
        }
    }
    Ok(memory)
}

impl Memory {
    pub(super) fn tables(&self) -> String {
        let mut tables = "| side | start to first answer |\n|---|--:|\n".to_owned();
        for (label, took) in &self.cold {
            let took = if took.is_empty() {
                "no answer within a minute".to_owned()
            } else {
                format!("{:.0} ms ({})", median(took), spread(took))
            };
            // Writing to a string does not fail.
            let _ = writeln!(tables, "| {label} | {took} |");
        }
        let names = PARTS.map(|(_, name)| name).join(" | ");
        let _ = write!(
            tables,
            "\n| the crate, built to deploy | {names} |\n|---|{}\n",
            "--:|".repeat(PARTS.len())
        );
        for ((_, label), starts) in STARTS.iter().zip(&self.starts) {
            let _ = write!(tables, "| {label} |");
            for (part, _) in PARTS {
                let values: Vec<_> =
                    starts.iter().filter_map(|it| Some(it[part].as_f64()? / 1000.0)).collect();
                let _ = write!(tables, " {:.1} ms ({}) |", median(&values), spread(&values));
            }
            tables.push('\n');
        }
        tables
    }
}
