//! The pure parts, timed by the program `parts`.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{PLAIN, RELEASE, program};
use xtask::{command::output, workspace::Workspace};

pub(super) fn table(workspace: &Workspace) -> Result<String> {
    let of = |profile| -> Result<Vec<Value>> {
        let said = output(&mut Command::new(program(workspace, profile, "parts")))?;
        Ok(serde_json::from_str(&said)?)
    };
    let mut table =
        "| part | time | 10 % – 90 % of the turns | speed | built to deploy | speed |\n\
                     |---|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for (part, deployed) in of(PLAIN)?.iter().zip(&of(RELEASE)?) {
        table.push_str(&row(part, deployed)?);
    }
    Ok(table)
}

/// One turn of each part.
pub(super) fn smoke(workspace: &Workspace, profile: &str) -> Result<()> {
    let printed = output(Command::new(program(workspace, profile, "parts")).arg("1"))?;
    let parts: Vec<Value> = serde_json::from_str(&printed)?;
    ensure!(!parts.is_empty(), "the program `parts` has printed no part");
    parts.iter().try_for_each(|part| row(part, part).map(drop))
}

/// The row of one part, with cargo's default profile and with the profile `release`.
fn row(part: &Value, deployed: &Value) -> Result<String> {
    let name = part["name"].as_str().context("no name")?;
    ensure!(deployed["name"] == name, "`{name}` in one build, {} in the other", deployed["name"]);
    let nanos = |part: &Value, what: &str| {
        part[what].as_f64().with_context(|| format!("no `{what}` of `{name}`"))
    };
    let speed = |part: &Value| match part["bytes"].as_f64() {
        Some(bytes) => Ok(format!("{:.2} GB/s", bytes / nanos(part, "ns")?)),
        None => anyhow::Ok("–".to_owned()),
    };
    Ok(format!(
        "| {name} | {} | {} – {} | {} | {} | {} |\n",
        time(nanos(part, "ns")?),
        time(nanos(part, "low")?),
        time(nanos(part, "high")?),
        speed(part)?,
        time(nanos(deployed, "ns")?),
        speed(deployed)?,
    ))
}

fn time(nanos: f64) -> String {
    if nanos < 10_000.0 { format!("{nanos:.0} ns") } else { format!("{:.1} µs", nanos / 1000.0) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_has_both_builds() {
        let mut part =
            json!({ "name": "a", "bytes": 1000, "ns": 500.0, "low": 490.0, "high": 12_345.0 });
        let mut deployed = json!({ "name": "a", "bytes": 1000, "ns": 1000.0 });
        let expected = "| a | 500 ns | 490 ns – 12.3 µs | 2.00 GB/s | 1000 ns | 1.00 GB/s |\n";
        assert_eq!(row(&part, &deployed).unwrap(), expected);
        (part["bytes"], deployed["bytes"]) = (Value::Null, Value::Null);
        let expected = "| a | 500 ns | 490 ns – 12.3 µs | – | 1000 ns | – |\n";
        assert_eq!(row(&part, &deployed).unwrap(), expected);
        deployed["name"] = json!("b");
        assert!(row(&part, &deployed).is_err());
    }
}
