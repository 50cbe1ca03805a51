//! The pure parts, timed by the program `parts`.

use std::{fmt::Write as _, process::Command};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{PLAIN, program};
use crate::{command::output, workspace::Workspace};

pub(super) fn table(workspace: &Workspace) -> Result<String> {
    let said = output(&mut Command::new(program(workspace, PLAIN, "parts")))?;
    let parts: Vec<Value> = serde_json::from_str(&said)?;
    let mut table =
        "| part | time | 10 % – 90 % of the turns | speed |\n|---|--:|--:|--:|\n".to_owned();
    for part in &parts {
        table.push_str(&row(part)?);
    }
    Ok(table)
}

fn row(part: &Value) -> Result<String> {
    let name = part["name"].as_str().context("no name")?;
    let nanos = |what: &str| part[what].as_f64().with_context(|| format!("no `{what}`"));
    let (median, low, high) = (nanos("ns")?, nanos("low")?, nanos("high")?);
    let mut row = format!("| {name} | {} | {} – {} |", time(median), time(low), time(high));
    // Writing to a string does not fail.
    let _ = match part["bytes"].as_f64() {
        Some(bytes) => writeln!(row, " {:.2} GB/s |", bytes / median),
        None => writeln!(row, " |"),
    };
    Ok(row)
}

fn time(nanos: f64) -> String {
    if nanos < 10_000.0 { format!("{nanos:.0} ns") } else { format!("{:.1} µs", nanos / 1000.0) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_has_the_median_and_the_speed() {
        let mut part =
            json!({ "name": "a", "bytes": 1000, "ns": 500.0, "low": 490.0, "high": 12_345.0 });
        assert_eq!(row(&part).unwrap(), "| a | 500 ns | 490 ns – 12.3 µs | 2.00 GB/s |\n");
        part["bytes"] = Value::Null;
        assert_eq!(row(&part).unwrap(), "| a | 500 ns | 490 ns – 12.3 µs | |\n");
    }
}
