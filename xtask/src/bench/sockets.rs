//! Whole calls over a socket to DynamoDB Local: the sides take turns, and each turn is a process.

use std::{
    collections::BTreeMap, env, fmt::Write as _, path::Path, process::Command, time::Instant,
};

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use super::{chart::Bar, counted::program};
use crate::{args::BenchOptions, command::output, dynamodb_local, workspace::Workspace};

/// Case, callers at a time, calls of each.
const CASES: [(&str, u32, u32); 6] = [
    ("first", 1, 300),
    ("replay", 1, 300),
    ("in-progress", 1, 300),
    ("first", 16, 50),
    ("first", 64, 20),
    (COLD, 1, 1),
];

/// A process that makes one call: from its start to its end.
const COLD: &str = "cold";

/// What every other is compared with.
const MEASURE: &str = "ours";

/// One way to do the work.
struct Side {
    argument: &'static str,
    label: &'static str,
    /// The program and its first arguments.
    command: Vec<String>,
}

fn sides(workspace: &Workspace, with_peers: bool) -> Result<Vec<Side>> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let own = vec![text(&program(workspace, "end-to-end"))];
    let own = |argument, label| Side { argument, label, command: own.clone() };
    let mut sides = vec![
        own(MEASURE, "the crate, `current_thread`"),
        own("bare", "SDK by hand, `current_thread`"),
        own("bare-threads", "SDK by hand, `multi_thread`"),
    ];
    if with_peers {
        let (peers, sources) =
            (workspace.target.join("peers"), workspace.root.join("benches/peers"));
        println!("    set-up.sh");
        let status = Command::new(sources.join("set-up.sh")).arg(&peers).status()?;
        ensure!(status.success(), "the peers could not be set up");
        let python = [peers.join("python/bin/python"), sources.join("python/main.py")];
        let typescript = peers.join("typescript/main.mjs");
        sides.push(Side {
            argument: "python",
            label: "Powertools for Python",
            command: python.iter().map(|path| text(path)).collect(),
        });
        sides.push(Side {
            argument: "typescript",
            label: "Powertools for TypeScript",
            command: vec!["node".into(), "--no-warnings".into(), text(&typescript)],
        });
    }
    Ok(sides)
}

type Key = (usize, usize);

pub(super) struct Sockets {
    labels: Vec<&'static str>,
    /// By case and side: one result a round.
    results: BTreeMap<Key, Vec<Value>>,
}

pub(super) fn measure(workspace: &Workspace, options: &BenchOptions) -> Result<Sockets> {
    let sides = sides(workspace, options.peers)?;
    let server = match env::var("DYNAMODB_ENDPOINT") {
        Ok(endpoint) => dynamodb_local::running(&endpoint)?,
        Err(_) => dynamodb_local::start(&workspace.target)
            .map_err(|unavailable| anyhow!("{unavailable}"))?,
    };
    let mut results = BTreeMap::<Key, Vec<Value>>::new();
    for round in 1..=options.rounds {
        for (case, (name, callers, calls)) in CASES.iter().enumerate() {
            println!("    round {round} of {}: {name}, callers: {callers}", options.rounds);
            for (side, Side { argument, command, .. }) in sides.iter().enumerate() {
                let mut program = Command::new(&command[0]);
                program.args(&command[1..]).args([argument, server.endpoint(), name]);
                program.args([callers.to_string(), calls.to_string()]);
                let start = Instant::now();
                let said = output(&mut program)?;
                let result = if *name == COLD {
                    json!({ "wall_us": start.elapsed().as_secs_f64() * 1e6 })
                } else {
                    serde_json::from_str(&said)?
                };
                results.entry((case, side)).or_default().push(result);
            }
        }
    }
    Ok(Sockets { labels: sides.iter().map(|side| side.label).collect(), results })
}

impl Sockets {
    fn values(&self, key: Key, what: &str) -> impl Iterator<Item = f64> {
        let results = self.results.get(&key).into_iter().flatten();
        results.map(move |result| result[what].as_f64().unwrap_or(f64::NAN))
    }

    fn median(&self, key: Key, what: &str) -> f64 {
        let mut values: Vec<f64> = self.values(key, what).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// A side as a multiple of the crate, the first side: median, least and most of the rounds.
    fn ratios(&self, (case, side): Key, what: &str) -> Option<(f64, f64, f64)> {
        let (theirs, ours) = (self.values((case, side), what), self.values((case, 0), what));
        let mut ratios: Vec<f64> = theirs.zip(ours).map(|(theirs, ours)| theirs / ours).collect();
        ratios.sort_by(f64::total_cmp);
        Some((*ratios.get(ratios.len() / 2)?, *ratios.first()?, *ratios.last()?))
    }

    pub(super) fn table(&self) -> String {
        let mut table = "| call | callers | side | CPU | × the crate (least – most) | p50 | p99 | \
                         calls a second | RSS |\n|---|--:|---|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
        let warm = CASES.iter().enumerate().filter(|(_, (name, ..))| *name != COLD);
        for (case, (name, callers, _)) in warm {
            for (side, label) in self.labels.iter().enumerate() {
                let median = |what| self.median((case, side), what);
                let ratio = self.ratio((case, side), "cpu_us");
                // Writing to a string does not fail.
                let _ = writeln!(
                    table,
                    "| {name} | {callers} | {label} | {:.0} µs | {ratio} | {:.2} ms | {:.2} ms | \
                     {:.0} | {:.1} MB |",
                    median("cpu_us"),
                    median("p50_us") / 1000.0,
                    median("p99_us") / 1000.0,
                    median("per_second"),
                    median("rss_kb") / 1000.0,
                );
            }
        }
        table
    }

    /// The time of a process that makes one call.
    pub(super) fn cold_table(&self) -> String {
        let mut table =
            "| side | start to end | × the crate (least – most) |\n|---|--:|--:|\n".to_owned();
        let cold = CASES.iter().position(|(name, ..)| *name == COLD);
        for (key, label) in cold.into_iter().flat_map(|case| {
            self.labels.iter().enumerate().map(move |(side, label)| ((case, side), label))
        }) {
            let (median, ratio) = (self.median(key, "wall_us"), self.ratio(key, "wall_us"));
            let _ = writeln!(table, "| {label} | {:.0} ms | {ratio} |", median / 1000.0);
        }
        table
    }

    fn ratio(&self, key: Key, what: &str) -> String {
        let (median, least, most) = self.ratios(key, what).unwrap_or_default();
        format!("{median:.2} ({least:.2} – {most:.2})")
    }

    /// The CPU of calls by one caller.
    pub(super) fn bars(&self) -> Vec<Bar> {
        let alone = |(_, callers, _): &(&str, u32, u32)| *callers == 1;
        let cases = CASES.iter().enumerate().filter(|(_, case)| alone(case) && case.0 != COLD);
        let bars = cases.flat_map(|(case, (name, ..))| {
            self.labels.iter().enumerate().map(move |(side, label)| Bar {
                name: format!("{name}: {}", label.replace('`', "")),
                value: self.median((case, side), "cpu_us"),
            })
        });
        bars.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_compared_within_a_round() {
        let results = |values: [f64; 3]| values.map(|cpu| json!({ "cpu_us": cpu })).to_vec();
        // The second round was slow for everybody.
        let results = BTreeMap::from([
            ((0, 0), results([100.0, 400.0, 100.0])),
            ((0, 1), results([110.0, 440.0, 120.0])),
        ]);
        let sockets = Sockets { labels: vec!["ours", "theirs"], results };
        assert_eq!(sockets.ratio((0, 1), "cpu_us"), "1.10 (1.10 – 1.20)");
        assert_eq!(sockets.ratio((0, 0), "cpu_us"), "1.00 (1.00 – 1.00)");
    }
}
