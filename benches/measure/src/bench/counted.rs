//! What can be counted: allocations, and instructions under callgrind.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{PLAIN, program};
use xtask::{command::output, workspace::Workspace};

/// Calls under callgrind, of each case and side.
const CALLS: u64 = 20;

/// What the program `allocations` has said.
pub(super) struct Allocations(Value);

pub(super) fn allocations(workspace: &Workspace) -> Result<Allocations> {
    allocations_by(&mut Command::new(program(workspace, PLAIN, "allocations")))
}

pub(super) fn allocations_by(program: &mut Command) -> Result<Allocations> {
    Ok(Allocations(serde_json::from_str(&output(program)?)?))
}

impl Allocations {
    fn cases(&self) -> impl Iterator<Item = &Value> {
        self.0["cases"].as_array().into_iter().flatten()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.cases().filter_map(|case| case["name"].as_str()).map(str::to_owned).collect()
    }

    pub(super) fn table(&self) -> String {
        let mut table = "| call | by hand | with the crate | the crate's own | own bytes |\n\
                         |---|--:|--:|--:|--:|\n"
            .to_owned();
        for case in self.cases() {
            let number = |side: &str, what: &str| case[side][what].as_i64().unwrap_or_default();
            let own = |what: &str| number("ours", what) - number("bare", what);
            let _ = writeln!(
                table,
                "| {} | {} | {} | {} | {} |",
                case["name"].as_str().unwrap_or_default(),
                number("bare", "allocations"),
                number("ours", "allocations"),
                own("allocations"),
                own("bytes"),
            );
        }
        let waiting = &self.0["bytes_per_waiting_call"];
        let _ = writeln!(
            table,
            "\nWith 10,000 handlers at work at the same time, each call holds {waiting} bytes: its \
             task, its future and its key."
        );
        table
    }
}

/// Instructions for one call.
pub(super) struct Row {
    pub(super) name: String,
    ours: Count,
    bare: Count,
}

impl Row {
    pub(super) fn ratio(&self) -> f64 {
        ratio(self.ours.total, self.bare.total)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    total: u64,
    /// Of these, in SHA-256, which a processor does with a fraction of them.
    hashing: u64,
}

impl Count {
    fn without_hashing(self) -> u64 {
        self.total - self.hashing
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of some digits")]
fn ratio(ours: u64, bare: u64) -> f64 {
    ours as f64 / bare as f64
}

pub(super) fn instructions(workspace: &Workspace, names: &[String]) -> Result<Vec<Row>> {
    let folder = workspace.target.join("callgrind");
    fs::create_dir_all(&folder)?;
    let mut rows = Vec::new();
    for name in names {
        println!("    {name}");
        let count = |side| count(workspace, &folder.join(side), name, side);
        rows.push(Row { name: name.clone(), ours: count("ours")?, bare: count("bare")? });
    }
    Ok(rows)
}

fn count(workspace: &Workspace, out: &Path, name: &str, side: &str) -> Result<Count> {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", "--toggle-collect=*measured*"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(program(workspace, PLAIN, "calls")).args([name, side, &CALLS.to_string()]);
    // Long copies as a loop: valgrind counts each byte of `rep movsb` as an instruction.
    command.env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=268435456");
    let status = command.status().context("instructions are counted by valgrind")?;
    ensure!(status.success(), "{name}, {side}: {status}");
    let sum = sum(&fs::read_to_string(out)?);
    ensure!(sum.total > 0, "{name}, {side}: callgrind has counted nothing");
    Ok(Count { total: sum.total / CALLS, hashing: sum.hashing / CALLS })
}

/// Adds up a profile ("Callgrind Format Specification", valgrind manual): below `fn=(id) name` a line
/// is a position and a cost, but for the one below `calls=`, which repeats what the callee has.
fn sum(profile: &str) -> Count {
    let (mut count, mut is_hashing, mut is_call) = (Count::default(), false, false);
    let mut hashing = std::collections::HashSet::new();
    for line in profile.lines() {
        if let Some((_, function)) = line.split_once("fn=(") {
            let (id, name) = function.split_once(')').unwrap_or_default();
            if name.contains("sha256") && name.contains("compress") {
                hashing.insert(id);
            }
            if line.starts_with("fn=") {
                is_hashing = hashing.contains(id);
            }
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse().ok()).unwrap_or(0);
            if !std::mem::take(&mut is_call) {
                count.total += cost;
                count.hashing += if is_hashing { cost } else { 0 };
            }
        }
    }
    count
}

pub(super) fn table(rows: &[Row]) -> String {
    let mut table = "| call | by hand | with the crate | ratio | ratio without SHA-256 |\n\
                     |---|--:|--:|--:|--:|\n"
        .to_owned();
    for row in rows {
        let Row { name, ours, bare } = row;
        let _ = writeln!(
            table,
            "| {name} | {} k | {} k | {:.3} | {:.3} |",
            bare.total / 1000,
            ours.total / 1000,
            row.ratio(),
            ratio(ours.without_hashing(), bare.without_hashing()),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_once_and_hashing_apart() {
        let profile = "events: Ir\n\nfn=(1) main\n10 5\ncfn=(2) sha256::soft::compress\n\
                       calls=3 20\n+1 300\n12 5\n\nfn=(2)\n20 300\nfn=(3) other\n* 7\n";
        assert_eq!(sum(profile), Count { total: 317, hashing: 300 });
    }
}
