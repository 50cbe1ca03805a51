//! Fingerprints, timed by the program of that name.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{PLAIN, RELEASE, program};
use xtask::{command::output, workspace::Workspace};

pub(super) fn table(workspace: &Workspace) -> Result<String> {
    let of = |profile| -> Result<Vec<Value>> {
        let said = output(&mut Command::new(program(workspace, profile, "fingerprints")))?;
        Ok(serde_json::from_str(&said)?)
    };
    let mut table = "| | time | 10 % – 90 % of the turns | speed | built to deploy | speed |\n\
                     |---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for (case, deployed) in of(PLAIN)?.iter().zip(&of(RELEASE)?) {
        table.push_str(&row(case, deployed)?);
    }
    Ok(table)
}

/// One turn of each case.
pub(super) fn smoke(workspace: &Workspace, profile: &str) -> Result<()> {
    let printed = output(Command::new(program(workspace, profile, "fingerprints")).arg("1"))?;
    let cases: Vec<Value> = serde_json::from_str(&printed)?;
    ensure!(!cases.is_empty(), "the program `fingerprints` has printed nothing");
    cases.iter().try_for_each(|case| row(case, case).map(drop))
}

/// The row of one case, with cargo's default profile and with the profile `release`.
fn row(case: &Value, deployed: &Value) -> Result<String> {
    let name = case["name"].as_str().context("no name")?;
    ensure!(deployed["name"] == name, "`{name}` in one build, {} in the other", deployed["name"]);
    let number = |case: &Value, what: &str| {
        case[what].as_f64().with_context(|| format!("no `{what}` of `{name}`"))
    };
    let speed = |case: &Value| anyhow::Ok(number(case, "bytes")? / number(case, "ns")?);
    Ok(format!(
        "| {name} | {} | {} – {} | {:.2} GB/s | {} | {:.2} GB/s |\n",
        time(number(case, "ns")?),
        time(number(case, "low")?),
        time(number(case, "high")?),
        speed(case)?,
        time(number(deployed, "ns")?),
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
        let case =
            json!({ "name": "a", "bytes": 1000, "ns": 500.0, "low": 490.0, "high": 12_345.0 });
        let mut deployed = json!({ "name": "a", "bytes": 1000, "ns": 1000.0 });
        let expected = "| a | 500 ns | 490 ns – 12.3 µs | 2.00 GB/s | 1000 ns | 1.00 GB/s |\n";
        assert_eq!(row(&case, &deployed).unwrap(), expected);
        deployed["name"] = json!("b");
        assert!(row(&case, &deployed).is_err());
    }
}
