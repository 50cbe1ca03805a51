//! `cargo xtask cost`: what each way of storing and replaying answers costs, measured on DynamoDB Local
//! by the test target `cost`, and written into `tests/cost/figures.md` and its chart.

pub(crate) mod chart;

use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{CostOptions, document::Document};
use xtask::command::describe;
use xtask::dynamodb_local::{self, ENDPOINT, Server};
use xtask::workspace::Workspace;

const WAYS: [&str; 4] = ["obvious", "write first", "read first", "read first, consistent"];

/// What one way takes for one kind and size of answers; in dollars a million calls.
#[derive(Debug, PartialEq)]
struct Row {
    kind: String,
    bytes: u64,
    way: String,
    first: f64,
    /// None where there is nothing to replay.
    replay: Option<f64>,
    in_progress: f64,
    mismatch: f64,
}

/// `false` if the measuring failed, which it has said.
pub(crate) fn run(options: &CostOptions) -> Result<bool> {
    let workspace = Workspace::load()?;
    let server =
        if options.smoke { None } else { Some(dynamodb_local::required(&workspace.target)?) };
    let server = server.as_ref();
    let Some(text) = measure(&workspace, server, &["--ignored", "table::print"])? else {
        return Ok(false);
    };
    let rows = text.lines().filter_map(|line| line.strip_prefix("cost ")).map(Row::read);
    let rows: Vec<Row> = rows.collect::<Result<_>>()?;
    ensure!(!rows.is_empty(), "the test target `cost` has printed no rows");
    let tables = tables(&rows);
    let Some(text) = measure(&workspace, server, &["memory::"])? else { return Ok(false) };
    let memory = memory_table(&text)?;
    let mut document = Document::open(&workspace.root.join("tests/cost/figures.md"))?;
    if options.smoke {
        document.move_to(&workspace.target.join("smoke/cost"))?;
    }
    document.replace("costs", &tables)?;
    document.replace("memory", &memory)?;
    document.picture("replays", chart::draw(&rows)?)?;
    document.save()?;
    println!("written: {}", document.path().display());
    Ok(true)
}

/// What a test of the target `cost` prints; `None` if it failed, which is said.
pub(crate) fn measure(
    workspace: &Workspace,
    server: Option<&Server>,
    test: &[&str],
) -> Result<Option<String>> {
    let mut command = workspace.cargo_all("test", &["--test", "cost", "--", "--nocapture"]);
    command.args(test);
    match server {
        Some(server) => command.env(ENDPOINT, server.endpoint()),
        // The embedded engine.
        None => command.env_remove(ENDPOINT),
    };
    command.stderr(std::process::Stdio::inherit());
    println!("{}", describe(&command));
    let output = command.output().context("cargo did not start")?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        println!("{printed}");
        return Ok(None);
    }
    Ok(Some(printed))
}

impl Row {
    fn read(line: &str) -> Result<Self> {
        let row: Value = serde_json::from_str(line)?;
        let text = |name: &str| row[name].as_str().map(String::from).context("a row lacks a name");
        let dollars = |name: &str| row[name]["dollars"].as_f64();
        let known = |name: &str| dollars(name).with_context(|| format!("a row lacks `{name}`"));
        Ok(Self {
            kind: text("kind")?,
            bytes: row["bytes"].as_u64().context("a row lacks its size")?,
            way: text("way")?,
            first: known("first")?,
            replay: dollars("replay"),
            in_progress: known("in_progress")?,
            mismatch: known("mismatch")?,
        })
    }
}

fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    for kind in ["Json", "Html", "Random"] {
        let title = if kind == "Random" { "Random bytes" } else { &kind.to_uppercase() };
        let _ = write!(
            text,
            "\n**{title}**, $ a million calls\n\n\
             | answer | first run: obvious | write first | read first | \
             replay: obvious | write first | read first | read first, consistent |\n\
             |---|---|---|---|---|---|---|---|\n"
        );
        for bytes in sizes(rows) {
            let of = |way: &str| find(rows, kind, bytes, way);
            let first = |way| of(way).map(|row| row.first);
            let replay = |way| of(way).and_then(|row| row.replay);
            let cells = [
                first(WAYS[0]),
                first(WAYS[1]),
                first(WAYS[2]),
                replay(WAYS[0]),
                replay(WAYS[1]),
                replay(WAYS[2]),
                replay(WAYS[3]),
            ];
            let cells: Vec<String> = cells.into_iter().map(cell).collect();
            let _ = writeln!(text, "| {} | {} |", size(bytes), cells.join(" | "));
        }
    }
    text.push_str(
        "\n**A repeat that is refused**, $ a million calls (JSON)\n\n\
         | answer | in progress: obvious | write first | read first | read first, consistent | \
         mismatch: obvious | write first | read first | read first, consistent |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for bytes in sizes(rows) {
        let of = |way: &str| find(rows, "Json", bytes, way);
        let in_progress = WAYS.map(|way| cell(of(way).map(|row| row.in_progress)));
        let mismatch = WAYS.map(|way| cell(of(way).map(|row| row.mismatch)));
        let cells = [in_progress.join(" | "), mismatch.join(" | ")].join(" | ");
        let _ = writeln!(text, "| {} | {cells} |", size(bytes));
    }
    text
}

/// What `tests/cost/memory.rs` prints, as a table.
fn memory_table(text: &str) -> Result<String> {
    let mut table = "\n| answer | stored | replayed |\n|---|---|---|\n".to_owned();
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("memory ")).collect();
    ensure!(!lines.is_empty(), "the test of the memory has printed no lines");
    for line in lines {
        let words: Vec<&str> =
            line.split([' ', ':', ',']).filter(|word| !word.is_empty()).collect();
        let [kind, bytes, storing, "%", "to", "store", replaying, "%", "to", "replay"] = words[..]
        else {
            bail!("the test of the memory has printed `{line}`");
        };
        let kind = match kind {
            "Random" => "random bytes",
            "Base64" => "base64",
            other => &other.to_uppercase(),
        };
        let times = |percent: &str| Ok::<_, anyhow::Error>(percent.parse::<f64>()? / 100.0);
        let size = size(bytes.parse()?);
        let (stored, replayed) = (times(storing)?, times(replaying)?);
        let _ = writeln!(table, "| {size} {kind} | {stored:.1} × | {replayed:.1} × |");
    }
    Ok(table)
}

fn find<'a>(rows: &'a [Row], kind: &str, bytes: u64, way: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.kind == kind && row.bytes == bytes && row.way == way)
}

fn sizes(rows: &[Row]) -> Vec<u64> {
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn cell(dollars: Option<f64>) -> String {
    dollars.map_or_else(|| "–".to_owned(), |dollars| format!("{dollars:.3}"))
}

pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KB", bytes / 1024),
        _ => format!("{} MB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"kind":"Json","bytes":10240,"way":"obvious",
        "first":{"dollars":7.5},"replay":null,
        "in_progress":{"dollars":0.625},"mismatch":{"dollars":6.875}}"#;

    #[test]
    fn a_row_is_read_and_written() {
        let row = Row::read(LINE).unwrap();
        assert_eq!((row.bytes, row.first, row.replay), (10_240, 7.5, None));
        let tables = tables(&[row]);
        assert!(tables.contains("| 10 KB | 7.500 | – | – | – | – | – | – |"), "{tables}");
        assert!(tables.contains("| 10 KB | 0.625 | – | – | – | 6.875 | – | – | – |"), "{tables}");
        assert!(Row::read(r#"{"kind":"Json"}"#).is_err());
    }

    #[test]
    fn memory_is_reported_in_percent_of_the_answer() {
        let printed = "running\nmemory Random 399360: 221 % to store, 104 % to replay\nok";
        let table = memory_table(printed).unwrap();
        assert!(table.ends_with("| 390 KB random bytes | 2.2 × | 1.0 × |\n"), "{table}");
        assert!(memory_table("running").is_err());
        assert!(memory_table("memory Random 1: much").is_err());
    }

    #[test]
    fn sizes_are_printed_in_the_largest_unit() {
        let sizes = [200, 1024, 399_360, 5_242_880].map(size);
        assert_eq!(sizes, ["200 B", "1 KB", "390 KB", "5 MB"]);
    }
}
