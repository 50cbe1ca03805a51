//! A function with the least memory that Lambda gives, and what that brings of the CPU.

use std::{
    fmt::Write as _,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    RELEASE,
    figures::median,
    share::{Ended, Share},
    sockets::{OURS, Side, sides},
    tls::Front,
};
use crate::BenchOptions;
use xtask::{command::output, dynamodb_local::Server, workspace::Workspace};

const STARTS: &str = "starts";

/// The crate's second way to start.
const READY: (&str, &str) = ("starts-ready", "the crate, after `preflight()`");

/// As Lambda starts Java.
const COMPILER: &str = "-XX:TieredStopAtLevel=1";

/// Shown for a side without figures.
const TOO_LATE: &str = "no end within a minute";
const TOO_LITTLE: &str = "killed: too little memory";

/// The columns: each in milliseconds, taken from a start.
type Column = (&'static str, fn(&Start) -> f64);
const COLUMNS: [Column; 5] = [
    ("start to first answer", |start| start.ready + start.first),
    ("start to ready", |start| start.ready),
    ("first request", |start| start.first),
    ("a later first run", |start| start.later),
    ("a replay", |start| start.replay),
];

/// Figures that one process reported, in milliseconds.
struct Start {
    ready: f64,
    first: f64,
    later: f64,
    replay: f64,
    /// The CPU time and the page faults of the first request and of a later one. Other libraries report
    /// none.
    work: Option<[f64; 4]>,
}

/// One way to start, and what came of it.
struct Row {
    program: Command,
    label: &'static str,
    starts: Vec<Start>,
    /// Why processes ended without figures.
    lost: Vec<&'static str>,
}

/// Starts all sides in turn, each in a separate share of the machine. Returns a table of their figures, and
/// one of what the first request does.
pub(super) fn table(
    workspace: &Workspace,
    server: &Server,
    options: &BenchOptions,
    megabytes: u64,
) -> Result<[String; 2]> {
    let front = Front::start(workspace, server.endpoint())?;
    let java = if options.peers { Some(front.java_options()?) } else { None };
    let java = java.map(|trust| format!("{COMPILER} {trust}"));
    let sides = sides(workspace, &[RELEASE], options)?;
    let program = |side: &Side, case: &str| {
        let mut program = side.run(&front.endpoint, case);
        program.args(["1", "0", "1"]).envs(front.environment());
        program.envs(java.iter().map(|options| ("JAVA_TOOL_OPTIONS", options)));
        program
    };
    for side in &sides {
        // Makes the table that the other cases find, and reads the program from the disk.
        output(side.run(server.endpoint(), "first").args(["1", "1", "1"]))?;
        output(&mut program(side, STARTS))?;
    }
    let mut rows = Vec::new();
    for side in &sides {
        rows.push(Row::new(program(side, STARTS), side.label));
        if side.argument == OURS {
            rows.push(Row::new(program(side, READY.0), READY.1));
        }
    }
    for round in 1..=options.rounds {
        println!("    round {round} of {}", options.rounds);
        for row in &mut rows {
            row.start(megabytes).with_context(|| format!("{} did not start", row.label))?;
        }
        // The order alternates, because a start that takes half a minute slows the next side down.
        rows.reverse();
    }
    if options.rounds % 2 == 1 {
        rows.reverse();
    }
    Ok([in_markdown(&rows), work_in_markdown(&rows)])
}

impl Row {
    fn new(program: Command, label: &'static str) -> Self {
        Self { program, label, starts: Vec::new(), lost: Vec::new() }
    }

    /// Uses a new share, because cached files of the previous process would count as memory of this one.
    fn start(&mut self, megabytes: u64) -> Result<()> {
        let share = Share::of(megabytes)?;
        let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1000.0;
        match share.run(&self.program)? {
            Ended::Said(line) => self.starts.push(Start::read(&line, began)?),
            Ended::TooLate => self.lost.push(TOO_LATE),
            Ended::OutOfMemory => self.lost.push(TOO_LITTLE),
        }
        Ok(())
    }

    /// A figure; of who had none, why.
    fn cell(&self, of: fn(&Start) -> f64) -> String {
        let values: Vec<_> = self.starts.iter().map(of).collect();
        let (lost, rounds) = (self.lost.len(), self.lost.len() + values.len());
        match self.lost.last() {
            None => milliseconds(&values),
            Some(reason) if values.is_empty() => (*reason).to_owned(),
            Some(reason) => format!("{}; {lost} of {rounds} {reason}", milliseconds(&values)),
        }
    }
}

impl Start {
    /// Of a process that began at `began`, in milliseconds of the system's clock.
    fn read(line: &str, began: f64) -> Result<Self> {
        let figures: Value = serde_json::from_str(line)?;
        let part = |name: &str| {
            let micros =
                figures[name].as_f64().with_context(|| format!("no `{name}` in {line}"))?;
            anyhow::Ok(micros / 1000.0)
        };
        Ok(Self {
            ready: part("ready_at_us")? - began,
            first: part("first_us")?,
            later: part("later_us")?,
            replay: part("replay_us")?,
            work: figures.get("first_cpu_us").map(|_| work(&figures)).transpose()?,
        })
    }
}

fn work(figures: &Value) -> Result<[f64; 4]> {
    let mut work = [0.0; 4];
    let names = ["first_cpu_us", "later_cpu_us", "first_faults", "later_faults"];
    for (figure, name) in work.iter_mut().zip(names) {
        *figure = figures[name].as_f64().with_context(|| format!("no `{name}` in {figures}"))?;
    }
    Ok(work)
}

/// What the first request does more than a later one.
fn work_in_markdown(rows: &[Row]) -> String {
    let mut table = "| side | CPU of the first request | of a later first run | page faults | of a later first run |\n\
                     |---|--:|--:|--:|--:|\n"
        .to_owned();
    for row in rows {
        let work: Vec<_> = row.starts.iter().filter_map(|start| start.work).collect();
        if work.is_empty() {
            continue;
        }
        let of = |n: usize| median(&work.iter().map(|work| work[n]).collect::<Vec<_>>());
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "| {} | {:.0} µs | {:.0} µs | {:.0} | {:.0} |",
            row.label,
            of(0),
            of(1),
            of(2),
            of(3)
        );
    }
    table
}

fn in_markdown(rows: &[Row]) -> String {
    let names = COLUMNS.map(|(name, _)| name).join(" | ");
    let mut table = format!("| side | {names} |\n|---|{}\n", "--:|".repeat(COLUMNS.len()));
    for row in rows {
        let cells = COLUMNS.map(|(_, of)| row.cell(of)).join(" | ");
        // Writing to a string does not fail.
        let _ = writeln!(table, "| {} | {cells} |", row.label);
    }
    table
}

/// `22.3 ms (13.1 – 29.8)`, with the digits that matter.
fn milliseconds(values: &[f64]) -> String {
    let median = median(values);
    let digits = usize::from(median < 100.0);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{median:.digits$} ms ({least:.digits$} – {most:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        r#"{"ready_at_us": 5000000, "first_us": 40000.0, "later_us": 9100, "replay_us": 3000}"#;

    #[test]
    fn a_start_counts_from_when_the_process_was_begun() {
        let start = Start::read(LINE, 4900.0).unwrap();
        let columns = COLUMNS.map(|(_, of)| format!("{:.0}", of(&start)));
        assert_eq!(columns, ["140", "100", "40", "9", "3"]);
        assert!(Start::read(r#"{"ready_at_us": 5000000}"#, 4900.0).is_err());
    }

    #[test]
    fn the_work_of_a_request_is_shown_where_it_was_reported() {
        let line = LINE.replace(
            '}',
            r#", "first_cpu_us": 900, "later_cpu_us": 500, "first_faults": 60, "later_faults": 2}"#,
        );
        let row = |line: &str| Row {
            program: Command::new("true"),
            label: "a side",
            starts: vec![Start::read(line, 4900.0).unwrap()],
            lost: vec![],
        };
        let table = work_in_markdown(&[row(&line), row(LINE)]);
        assert_eq!(table.matches("a side").count(), 1, "{table}");
        assert!(table.ends_with("| a side | 900 µs | 500 µs | 60 | 2 |\n"), "{table}");
        assert!(Start::read(&line.replace("later_faults", "other"), 4900.0).is_err());
    }

    #[test]
    fn who_is_ended_has_no_figure_but_a_reason() {
        let starts = |n: u32| {
            let began = (0..n).map(|round| 4900.0 - f64::from(round));
            began.map(|began| Start::read(LINE, began).unwrap()).collect()
        };
        let row = |starts, lost| {
            in_markdown(&[Row { program: Command::new("true"), label: "a peer", starts, lost }])
        };
        let reason = TOO_LITTLE;
        let table = row(starts(3), vec![]);
        assert!(table.ends_with("| 9.1 ms (9.1 – 9.1) | 3.0 ms (3.0 – 3.0) |\n"), "{table}");
        assert!(table.contains("| a peer | 141 ms (140 – 142) |"), "{table}");
        let table = row(starts(1), vec![reason; 2]);
        assert!(table.contains(&format!("140 ms (140 – 140); 2 of 3 {reason}")), "{table}");
        let table = row(vec![], vec![reason]);
        assert!(table.contains(&format!("| a peer | {reason} | {reason} |")), "{table}");
    }
}
