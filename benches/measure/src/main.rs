//! What the crate costs: `cargo xtask bench` and `cargo xtask cost` run this program, which runs the
//! others of `benches/` and the test target `cost`, and writes `benches/figures.md` and `tests/cost/figures.md`.

mod bench;
mod cost;
mod document;
mod lines;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser};

/// Measures the cost of a call, compared with plain SDK calls, and the cost of answers
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Cost of a call compared with plain SDK calls; writes benches/figures.md
    ///
    /// Needs valgrind, DynamoDB Local, Python, Node.js and OpenSSL.
    Bench(BenchOptions),
    /// What answers cost, measured on DynamoDB Local, into tests/cost/figures.md and its chart
    Cost(CostOptions),
}

#[derive(Args, Debug)]
struct CostOptions {
    /// Shows in seconds that the command works: on the embedded engine, into target/smoke
    #[arg(long)]
    smoke: bool,
}

#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
struct BenchOptions {
    /// How often the sides take turns over a socket
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The same work with Powertools for Python, TypeScript and Java
    #[arg(long)]
    peers: bool,
    /// How cost grows with steps, sizes, callers, messages, entries and tenants; needs neither DynamoDB Local nor valgrind
    #[arg(long)]
    curves: bool,
    /// Draw the charts again from the page's tables, and measure nothing
    #[arg(long)]
    charts: bool,
    /// Check within seconds that each program runs and the charts are drawn: into target/smoke
    #[arg(long)]
    smoke: bool,
    /// Use the existing programs, and build nothing
    #[arg(long)]
    built: bool,
    /// The work of a call in the process alone: allocations, instructions and CPU time
    #[arg(long)]
    in_process: bool,
    /// The start of the example's payments function alone
    #[arg(long)]
    cold_start: bool,
    /// Starts and requests of a function with so many MB, and the CPU that Lambda gives with them
    ///
    /// Needs Linux and the right to create control groups; otherwise fails with a message.
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(128..=10_240))]
    memory: Option<u64>,
    /// The same for FOLDER/NAME/bootstrap of each NAME; nothing is written
    #[arg(long, value_name = "FOLDER")]
    bootstraps: Option<PathBuf>,
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Bench(options) => bench::run(&options).map(|()| true),
        Command::Cost(options) => cost::run(&options),
    };
    xtask::ended(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the documentation that call us.
    #[test]
    fn every_measurement_that_is_written_down_is_known() {
        let files = [
            include_str!("../../../CONTRIBUTING.md"),
            include_str!("../../../docs/benchmarks.md"),
            include_str!("../../figures.md"),
            include_str!("../../../docs/cost.md"),
            include_str!("../../../tests/cost/figures.md"),
        ];
        let calls = files.iter().flat_map(|file| file.split("`cargo xtask ").skip(1));
        let calls = calls.filter_map(|rest| rest.split('`').next());
        let ours: Vec<_> = calls.filter(|it| it.starts_with("bench") || *it == "cost").collect();
        assert!(ours.len() > 4, "{ours:?}");
        for call in ours {
            let words = std::iter::once("xtask").chain(call.split_whitespace());
            let parsed = Command::try_parse_from(words);
            assert!(parsed.is_ok(), "{call}: {parsed:?}");
        }
    }

    #[test]
    fn no_round_is_no_measurement() {
        let error = Command::try_parse_from(["xtask", "bench", "--rounds", "0"]).unwrap_err();
        assert!(error.to_string().contains("0 is not in 1.."), "{error}");
    }
}
