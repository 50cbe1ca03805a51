//! CPU time of a call in the process, with responses from memory.

use std::{fmt::Write as _, process::Command};

use anyhow::{Context, Result};

use super::{
    PLAIN,
    figures::{median, ratio},
    program,
};
use xtask::{command::output, workspace::Workspace};

/// What a turn of one side takes.
const TURN_NANOS: f64 = 150e6;

/// Turns of each side. They alternate, so both meet what else the machine does.
pub(super) const TURNS: u32 = 45;

/// The CPU time of each case.
pub(super) fn table(workspace: &Workspace, names: &[String]) -> Result<String> {
    let mut table = "| call | by hand | with the crate | ratio (least – most) |\n\
                     |---|--:|--:|--:|\n"
        .to_owned();
    for name in names {
        println!("    {name}");
        let Turns { ours, bare } = turns(workspace, name)?;
        writeln!(
            table,
            "| {name} | {:.1} µs | {:.1} µs | {} |",
            median(&bare) / 1000.0,
            median(&ours) / 1000.0,
            ratio(&ours, &bare),
        )?;
    }
    Ok(table)
}

/// Nanoseconds of a call, of each turn.
#[derive(Default)]
struct Turns {
    ours: Vec<f64>,
    bare: Vec<f64>,
}

fn turns(workspace: &Workspace, name: &str) -> Result<Turns> {
    let nanos = |side: &str, times: u64| {
        let mut calls = Command::new(program(workspace, PLAIN, "calls"));
        let printed = output(calls.args([name, side, &times.to_string(), "cpu"]))?;
        printed.trim().parse::<f64>().with_context(|| format!("{name}, {side}: {printed}"))
    };
    let times = calls_in_a_turn(nanos("ours", 50)?);
    let mut turns = Turns::default();
    for turn in 0..TURNS {
        // Neither side is always the first.
        let sides = if turn % 2 == 0 { ["ours", "bare"] } else { ["bare", "ours"] };
        for side in sides {
            let of_side = if side == "ours" { &mut turns.ours } else { &mut turns.bare };
            of_side.push(nanos(side, times)?);
        }
    }
    Ok(turns)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number")]
fn calls_in_a_turn(nanos: f64) -> u64 {
    (TURN_NANOS / nanos.max(1.0)).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_the_same_length_for_each_case() {
        assert_eq!(calls_in_a_turn(100_000.0), 1500);
        assert_eq!(calls_in_a_turn(1e12), 1);
    }
}
