//! How the cost of a call grows: `cargo xtask bench --curves`. The test target `cost` counts requests and units on
//! the embedded engine, the program `curves` measures CPU and memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};
use xtask::{command::output, workspace::Workspace};

use super::{PLAIN, machine, program};
use crate::cost::{self, chart::from_f64, size};
use crate::document::Document;
use crate::lines::{self, Axis, BLUE, GREEN, Line, ORANGE, RED};

/// The turns of each point in the program `curves`.
const TURNS: u32 = 7;

/// A table, with its head and the figures of its columns. The first column is the axis.
struct Curve {
    name: &'static str,
    head: &'static str,
    figures: &'static [&'static str],
}

const CURVES: [Curve; 7] = [
    Curve {
        name: "steps",
        head: "| steps of 1 KB | write units | requests | write units of a renewal at the end | \
               of a rejected repeat then |",
        figures: &["writes", "requests", "renewal", "repeat"],
    },
    Curve {
        name: "answer",
        head: "| JSON answer | first run: write units | requests | CPU, µs | \
               replay: write units | read units | requests | CPU, µs |",
        figures: &[
            "first_writes",
            "first_requests",
            "first_cpu",
            "replay_writes",
            "replay_reads",
            "replay_requests",
            "replay_cpu",
        ],
    },
    Curve {
        name: "waiting",
        head: "| callers that wait | requests | requests of a caller |",
        figures: &["requests", "requests_each"],
    },
    Curve {
        name: "concurrent",
        head: "| calls in flight | CPU of a call, µs | memory of a call, bytes |",
        figures: &["cpu", "bytes"],
    },
    Curve {
        name: "batch",
        head: "| messages of an event | requests | requests of a message | CPU of a message, µs |",
        figures: &["requests", "requests_each", "cpu"],
    },
    Curve {
        name: "cache",
        head: "| cached answers | CPU of a replay, µs | memory of an answer, bytes |",
        figures: &["cpu", "bytes"],
    },
    Curve {
        name: "tenants",
        head: "| tenants | requests of a first run | CPU of a first run, µs |",
        figures: &["requests", "cpu"],
    },
];

/// A chart of columns of the tables, whose axes are the tables' first columns.
struct Chart {
    name: &'static str,
    title: &'static str,
    /// Table, column and label.
    lines: &'static [(&'static str, usize, &'static str)],
    /// Of the axis, as in the tables.
    labels: &'static [&'static str],
    is_time: bool,
}

const SIZES: &[&str] = &["100 B", "1 KB", "4 KB", "16 KB", "64 KB", "256 KB", "1 MB", "4 MB"];

const CHARTS: [Chart; 4] = [
    Chart {
        name: "curve-steps",
        title: "Write units and requests, by the number of steps of 1 KB",
        lines: &[
            ("steps", 1, "write units of the operation"),
            ("steps", 2, "its requests"),
            ("steps", 3, "write units of a renewal at the end"),
        ],
        labels: &["1", "2", "5", "10", "20", "50", "100", "200"],
        is_time: false,
    },
    Chart {
        name: "curve-answers",
        title: "Units and requests, by the size of the JSON answer",
        lines: &[
            ("answer", 1, "first run: write units"),
            ("answer", 2, "first run: requests"),
            ("answer", 4, "replay: write units"),
            ("answer", 5, "replay: read units"),
        ],
        labels: SIZES,
        is_time: false,
    },
    Chart {
        name: "curve-answers-cpu",
        title: "CPU of a call, by the size of the JSON answer",
        lines: &[("answer", 3, "first run"), ("answer", 7, "replay")],
        labels: SIZES,
        is_time: true,
    },
    Chart {
        name: "curve-cpu",
        title: "CPU of a call, by the number of what the lines name",
        lines: &[
            ("concurrent", 1, "first run, by calls in flight"),
            ("batch", 3, "message, by messages of its event"),
            ("tenants", 2, "first run, by tenants"),
            ("cache", 1, "replay from the local cache, by its answers"),
        ],
        labels: &["1", "10", "100", "1000", "10000", "100000"],
        is_time: true,
    },
];

/// The figures of each point of each curve.
type Rows = BTreeMap<(String, u64), Map<String, Value>>;

/// Measures all curves, and writes their tables and charts.
pub(super) fn measure(workspace: &Workspace, document: &mut Document) -> Result<()> {
    let machine = machine::described(TURNS)?;
    let rows = rows(workspace, PLAIN, "curves::print_all_points", &[])?;
    document.replace("curves-machine", &machine)?;
    for curve in &CURVES {
        document.replace(&format!("curves-{}", curve.name), &curve.table(&rows)?)?;
    }
    draw(document)
}

/// The first points of each curve.
pub(super) fn smoke(workspace: &Workspace, profile: &str) -> Result<()> {
    let rows = rows(workspace, profile, "curves::print_first_points", &["2"])?;
    CURVES.iter().try_for_each(|curve| curve.table(&rows).map(drop))
}

fn rows(workspace: &Workspace, profile: &str, test: &str, points: &[&str]) -> Result<Rows> {
    println!("\n==> curves");
    let timed = output(Command::new(program(workspace, profile, "curves")).args(points))?;
    let counted = cost::measure(workspace, None, &["--ignored", test])?;
    let counted = counted.context("the test target `cost` has failed")?;
    let counted = counted.lines().filter_map(|line| line.strip_prefix("curve "));
    let mut rows = Rows::new();
    for line in timed.lines().chain(counted) {
        let row: Map<String, Value> = serde_json::from_str(line)?;
        let curve = row["curve"].as_str().with_context(|| format!("no curve: {line}"))?.to_owned();
        let x = row["x"].as_u64().with_context(|| format!("no place: {line}"))?;
        rows.entry((curve, x)).or_default().extend(row);
    }
    Ok(rows)
}

impl Curve {
    fn table(&self, rows: &Rows) -> Result<String> {
        let Self { name, head, figures } = self;
        let rows: Vec<_> = rows.iter().filter(|((curve, _), _)| curve == name).collect();
        for figure in *figures {
            let is_there =
                rows.iter().any(|(_, row)| row.get(*figure).is_some_and(Value::is_number));
            ensure!(is_there, "the curve `{name}` has no `{figure}`");
        }
        let mut table = format!("{head}\n|{}\n", "--:|".repeat(figures.len() + 1));
        for ((_, x), row) in rows {
            let x = if *name == "answer" { size(*x) } else { x.to_string() };
            let cells = figures.iter().map(|figure| cell(row.get(*figure).and_then(Value::as_f64)));
            let cells: Vec<_> = std::iter::once(x).chain(cells).collect();
            writeln!(table, "| {} |", cells.join(" | "))?;
        }
        Ok(table)
    }
}

fn cell(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// What a cell says, or a size in bytes. `None` if it says nothing.
fn number(cell: &str) -> Option<f64> {
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let factor = match unit {
        "KB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        _ => 1.0,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// Draws the charts of the tables. The caller saves the page.
pub(super) fn draw(document: &mut Document) -> Result<()> {
    for chart in &CHARTS {
        let svg = chart.draw(document)?;
        document.picture(chart.name, svg)?;
    }
    Ok(())
}

impl Chart {
    fn draw(&self, document: &Document) -> Result<String> {
        let colors = [RED, BLUE, GREEN, ORANGE];
        let mut lines = Vec::new();
        for (&(table, column, label), color) in self.lines.iter().zip(colors) {
            let table = document.table(&format!("curves-{table}"))?;
            let points =
                table.iter().filter_map(|row| Some((number(&row[0])?, number(&row[column])?)));
            // A logarithmic scale has no zero.
            let points: Vec<_> = points.filter(|(x, y)| *x > 0.0 && *y > 0.0).collect();
            ensure!(!points.is_empty(), "{}: no points of {label}", self.name);
            lines.push(Line { label, color, is_dashed: false, points });
        }
        let points = || lines.iter().flat_map(|line| &line.points);
        let bounds = |of: fn(&(f64, f64)) -> f64| {
            let least = points().map(of).fold(f64::INFINITY, f64::min);
            (least, points().map(of).fold(0.0, f64::max))
        };
        let ((left, right), (low, high)) = (bounds(|point| point.0), bounds(|point| point.1));
        // With room for the names of the lines.
        let powers = powers_of_ten(low, high * 4.0);
        let is_size = self.labels == SIZES;
        let x = Axis {
            range: left / 1.3..right * 1.3,
            labels: self.labels.iter().filter_map(|label| number(label)).collect(),
            format: &|x| if is_size { size(from_f64(x)) } else { x.to_string() },
        };
        let y = Axis {
            range: powers[0]..powers[powers.len() - 1],
            labels: powers.clone(),
            format: &|y| if self.is_time { time(y) } else { y.to_string() },
        };
        lines::draw(self.title, x, y, &lines)
    }
}

fn time(micros: f64) -> String {
    if micros < 1000.0 { format!("{micros} µs") } else { format!("{} ms", micros / 1000.0) }
}

/// Those that `low` and `high` are between, and all between these.
fn powers_of_ten(low: f64, high: f64) -> Vec<f64> {
    let mut power = 1e-3;
    while power * 10.0 <= low {
        power *= 10.0;
    }
    let mut powers = vec![power];
    while power < high {
        power *= 10.0;
        powers.push(power);
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_figures_of_its_curve_and_a_missing_one_is_an_error() {
        let mut rows = Rows::new();
        let mut add = |curve: &str, x: u64, row: Value| {
            rows.entry((curve.to_owned(), x)).or_default().extend(row.as_object().unwrap().clone());
        };
        add("cache", 0, serde_json::json!({ "cpu": 123.4, "bytes": null }));
        add("cache", 10, serde_json::json!({ "cpu": 1.234 }));
        add("cache", 10, serde_json::json!({ "bytes": 650 }));
        add("tenants", 1, serde_json::json!({ "cpu": 1 }));
        let curve = |name: &str| CURVES.iter().find(|curve| curve.name == name).unwrap();
        let table = curve("cache").table(&rows).unwrap();
        assert!(
            table.ends_with("|--:|--:|--:|\n| 0 | 123 | – |\n| 10 | 1.23 | 650 |\n"),
            "{table}"
        );
        let error = curve("tenants").table(&rows).unwrap_err();
        assert_eq!(error.to_string(), "the curve `tenants` has no `requests`");
    }

    #[test]
    fn cells_are_read_as_they_are_written() {
        for bytes in [100, 600, 4096, 399_360, 4 << 20] {
            assert_eq!(number(&size(bytes)).map(from_f64), Some(bytes));
        }
        assert_eq!([number("1.25"), number("–")], [Some(1.25), None]);
    }

    #[test]
    fn an_axis_ends_at_powers_of_ten() {
        assert_eq!(powers_of_ten(1.5, 400.0), [1.0, 10.0, 100.0, 1000.0]);
    }
}
