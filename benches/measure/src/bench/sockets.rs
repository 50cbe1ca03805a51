//! Whole calls over a socket to DynamoDB Local: the sides take turns, and each turn is a process.

use std::{
    collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command, time::Instant,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    PLAIN, RELEASE,
    figures::{median, ratio},
    program,
    tls::Front,
};
use crate::BenchOptions;
use xtask::{archive, command::output, dynamodb_local::Server, workspace::Workspace};

/// What the callers do, over and over.
struct Case {
    name: &'static str,
    /// How many at a time.
    callers: u32,
    /// Calls of each before those that are measured, for sides that are compiled ahead.
    warm_up: u32,
    calls: u32,
}

const CASES: [Case; 6] = [
    Case { name: "first", callers: 1, warm_up: 700, calls: 300 },
    Case { name: "replay", callers: 1, warm_up: 700, calls: 300 },
    Case { name: "in-progress", callers: 1, warm_up: 700, calls: 300 },
    Case { name: CACHED, callers: 1, warm_up: 20_000, calls: 20_000 },
    Case { name: "first", callers: 16, warm_up: 50, calls: 50 },
    Case { name: "first", callers: 64, warm_up: 12, calls: 12 },
];

/// A replay from memory, which plain SDK calls do not have.
const CACHED: &str = "cached";

/// Processes that start for one call, by HTTP and by HTTPS; how many of each side in a round.
const COLD: [&str; 2] = ["HTTP", "TLS"];
const STARTS: usize = 3;

/// The crate's side. Built to deploy, it comes first, and the others are compared with it.
pub(super) const OURS: &str = "ours";

/// One way to do the work.
pub(super) struct Side {
    pub(super) argument: &'static str,
    pub(super) label: &'static str,
    /// The program and its first arguments.
    command: Vec<String>,
    has_cache: bool,
    /// How much longer it warms up, for its just-in-time compiler.
    warm_up_factor: u32,
    /// What is uploaded of it; in bytes. None of the calls by hand, which are in the crate's program.
    zipped: Option<u64>,
}

/// Those of our own in these profiles, and the peers where they are asked for.
pub(super) fn sides(
    workspace: &Workspace,
    profiles: &[&str],
    options: &BenchOptions,
) -> Result<Vec<Side>> {
    let own = |profile, argument, label| {
        let program = program(workspace, profile, "end-to-end");
        let is_ours = argument == OURS;
        anyhow::Ok(Side {
            argument,
            label,
            command: vec![text(&program)],
            has_cache: is_ours,
            warm_up_factor: 1,
            zipped: if is_ours { Some(archive::zipped(&[&program])?) } else { None },
        })
    };
    let all = [
        (RELEASE, OURS, "the crate, built to deploy"),
        (RELEASE, "bare", "SDK by hand, built to deploy"),
        (PLAIN, OURS, "the crate, built plainly"),
        (PLAIN, "bare", "SDK by hand, built plainly"),
        (PLAIN, "bare-threads", "SDK by hand, built plainly, many threads"),
    ];
    let all = all.into_iter().filter(|(profile, ..)| profiles.contains(profile));
    let mut sides = all
        .map(|(profile, argument, label)| own(profile, argument, label))
        .collect::<Result<Vec<_>>>()?;
    if options.peers {
        sides.extend(peers(workspace)?);
    }
    Ok(sides)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Sets the libraries for other languages up.
fn peers(workspace: &Workspace) -> Result<[Side; 3]> {
    let (peers, sources) = (workspace.target.join("peers"), workspace.root.join("benches/peers"));
    println!("    set-up.sh");
    let status = Command::new(sources.join("set-up.sh")).arg(&peers).status()?;
    ensure!(status.success(), "the peers could not be set up");
    let python = [peers.join("python/bin/python"), sources.join("python/main.py")];
    let packages = fs::read_dir(peers.join("python/lib"))?.next().context("no Python")??;
    let python_side = Side {
        argument: "python",
        label: "Powertools for Python",
        command: python.iter().map(|path| text(path)).collect(),
        has_cache: true,
        warm_up_factor: 1,
        zipped: Some(archive::zipped(&[&packages.path().join("site-packages")])?),
    };
    let typescript = peers.join("typescript");
    let typescript_side = Side {
        argument: "typescript",
        label: "Powertools for TypeScript",
        command: vec!["node".into(), "--no-warnings".into(), text(&typescript.join("main.mjs"))],
        has_cache: true,
        warm_up_factor: 5,
        zipped: Some(archive::zipped(&[&typescript.join("node_modules")])?),
    };
    let java = text(&peers.join("java"));
    let classpath = format!("{java}:{java}/*");
    let java_side = Side {
        argument: "java",
        label: "Powertools for Java",
        command: vec!["java".into(), "-cp".into(), classpath, "Peer".into()],
        has_cache: true,
        warm_up_factor: 20,
        zipped: Some(archive::zipped(&[&peers.join("java")])?),
    };
    Ok([python_side, typescript_side, java_side])
}

type Key = (usize, usize);

pub(super) struct Sockets {
    labels: Vec<&'static str>,
    zipped: Vec<Option<u64>>,
    /// By case and side: one result a round.
    results: BTreeMap<Key, Vec<Value>>,
    /// By scheme and side: milliseconds from the start of a process to its end, the median of a
    /// round's starts.
    cold: BTreeMap<Key, Vec<f64>>,
}

pub(super) fn measure(
    workspace: &Workspace,
    server: &Server,
    options: &BenchOptions,
) -> Result<Sockets> {
    let sides = sides(workspace, &[PLAIN, RELEASE], options)?;
    let front = Front::start(workspace, server.endpoint())?;
    let java = if options.peers { Some(front.java_options()?) } else { None };
    let (mut results, mut cold) =
        (BTreeMap::<Key, Vec<Value>>::new(), BTreeMap::<_, Vec<_>>::new());
    for round in 1..=options.rounds {
        println!("    round {round} of {}", options.rounds);
        // Each round starts with another side, so that no side always follows the same one.
        let first = usize::try_from(round)?;
        let turns = || (0..sides.len()).map(|turn| (turn + first) % sides.len());
        for (index, case) in CASES.iter().enumerate() {
            for side in turns() {
                let it = &sides[side];
                if case.name == CACHED && !it.has_cache {
                    continue;
                }
                let warm_up = case.warm_up * it.warm_up_factor;
                let numbers = [case.callers, warm_up, case.calls].map(|n| n.to_string());
                let said = output(it.run(server.endpoint(), case.name).args(numbers))?;
                results.entry((index, side)).or_default().push(serde_json::from_str(&said)?);
            }
        }
        for (scheme, endpoint) in [server.endpoint(), &front.endpoint].into_iter().enumerate() {
            for side in turns() {
                let mut program = sides[side].run(endpoint, "cold");
                program.args(["1", "0", "1"]).envs(front.environment());
                program.envs(java.iter().map(|options| ("JAVA_TOOL_OPTIONS", options)));
                // One that does not count: it reads the program from the disk.
                output(&mut program)?;
                let mut took = Vec::with_capacity(STARTS);
                for _ in 0..STARTS {
                    let start = Instant::now();
                    output(&mut program)?;
                    took.push(start.elapsed().as_secs_f64() * 1000.0);
                }
                cold.entry((scheme, side)).or_default().push(median(&took));
            }
        }
    }
    let zipped = sides.iter().map(|side| side.zipped).collect();
    Ok(Sockets { labels: sides.iter().map(|side| side.label).collect(), zipped, results, cold })
}

/// One call of each case and side, and one start of each side.
pub(super) fn smoke(workspace: &Workspace, profile: &str, server: &Server) -> Result<()> {
    let program = program(workspace, profile, "end-to-end").to_string_lossy().into_owned();
    for argument in [OURS, "bare", "bare-threads"] {
        let side = Side {
            argument,
            label: argument,
            command: vec![program.clone()],
            has_cache: argument == OURS,
            warm_up_factor: 1,
            zipped: None,
        };
        for case in CASES.iter().filter(|case| case.name != CACHED || side.has_cache) {
            let printed = output(side.run(server.endpoint(), case.name).args(["1", "1", "1"]))?;
            let result: Value = serde_json::from_str(&printed)?;
            ensure!(result["cpu_us"].is_number(), "{argument}, {}: {printed}", case.name);
        }
        for start in ["cold", "starts"] {
            output(side.run(server.endpoint(), start).args(["1", "0", "1"]))?;
        }
    }
    Ok(())
}

impl Side {
    pub(super) fn run(&self, endpoint: &str, case: &str) -> Command {
        let mut program = Command::new(&self.command[0]);
        program
            .args(&self.command[1..])
            .args([self.argument, endpoint, case])
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
            .env("IDEMPOTENCY_TABLE", "idempotency");
        program
    }
}

impl Sockets {
    fn values(&self, key: Key, what: &str) -> Vec<f64> {
        let results = self.results.get(&key).into_iter().flatten();
        results.map(|result| result[what].as_f64().unwrap_or(f64::NAN)).collect()
    }

    pub(super) fn table(&self) -> String {
        let mut table = "| call | callers | side | CPU | × the crate (least – most) | p50 | p99 | \
                         calls a second | RSS |\n|---|--:|---|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
        for (case, Case { name, callers, .. }) in CASES.iter().enumerate() {
            for (side, label) in self.labels.iter().enumerate() {
                let key = (case, side);
                if !self.results.contains_key(&key) {
                    continue;
                }
                let of = |what| median(&self.values(key, what));
                let ratio = ratio(&self.values(key, "cpu_us"), &self.values((case, 0), "cpu_us"));
                // Writing to a string does not fail.
                let _ = writeln!(
                    table,
                    "| {name} | {callers} | {label} | {} | {ratio} | {} | {} | {:.0} | {:.1} MB |",
                    time(of("cpu_us")),
                    time(of("p50_us")),
                    time(of("p99_us")),
                    of("per_second"),
                    of("rss_kb") / 1000.0,
                );
            }
        }
        table
    }

    /// A process that makes one call, and what is uploaded.
    pub(super) fn cold_table(&self) -> String {
        let mut table =
            "| side | HTTP | × the crate (least – most) | TLS | × the crate (least – most) \
                         | zipped |\n|---|--:|--:|--:|--:|--:|\n"
                .to_owned();
        let none = Vec::new();
        for (side, label) in self.labels.iter().enumerate() {
            let _ = write!(table, "| {label} |");
            for scheme in 0..COLD.len() {
                let of = |side| self.cold.get(&(scheme, side)).unwrap_or(&none);
                let _ = write!(table, " {:.1} ms | {} |", median(of(side)), ratio(of(side), of(0)));
            }
            let zipped = self.zipped[side].map(|it| format!("{:.1} MB", archive::megabytes(it)));
            let _ = writeln!(table, " {} |", zipped.unwrap_or_else(|| "–".to_owned()));
        }
        table
    }
}

fn time(micros: f64) -> String {
    match micros {
        ..10.0 => format!("{micros:.1} µs"),
        ..1000.0 => format!("{micros:.0} µs"),
        _ => format!("{:.1} ms", micros / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_digits_that_matter() {
        assert_eq!([1.23, 123.4, 1234.0].map(time), ["1.2 µs", "123 µs", "1.2 ms"]);
    }
}
