//! Searches every state that the protocol's machines can reach. The machines are those that are shipped.
//!
//! `cargo test` searches each row with two callers and one fault, and breaks each rule.
//! `cargo run --profile search -p protocol-search --no-default-features` searches all rows, within bounds that CI
//! can complete. `-- --callers 3 --faults 2 --row default --seconds 600` goes further. `README.md` has the
//! figures.

mod args;
mod clock;
mod explore;
mod handler;
mod hash;
mod liveness;
mod model;
#[cfg(all(test, feature = "internals"))]
mod mutants;
mod oracle;
mod process;
mod rows;
mod store;
mod turn;

use std::process::ExitCode;

use args::Args;
use explore::{Found, Violation, search};
use rows::Row;

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    if args.help {
        println!("{}", args::USAGE);
        return ExitCode::SUCCESS;
    }
    ExitCode::from(u8::from(!all_hold(&args)))
}

/// Searches the requested rows. Returns whether no guarantee was violated.
fn all_hold(args: &Args) -> bool {
    println!(
        "{:<28} {:>7} {:>6} {:>10} {:>5} {:>6} {:>9}",
        "row", "callers", "faults", "states", "depth", "s", "states/s"
    );
    let (mut holds, mut states, mut seconds) = (true, 0, 0.0);
    for row in args.rows() {
        let found = search(&row, args.limit, &[]);
        print_found(&row, &found);
        holds &= found.violation.is_none();
        states += found.states;
        seconds += found.took.as_secs_f64();
        if let Some(violation) = &found.violation {
            print_violation(violation);
        }
    }
    println!("{states} states in {seconds:.1} s");
    holds
}

fn print_found(row: &Row, found: &Found) {
    let Found { states, depth, took, is_whole, violation } = found;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = *states as f64 / took.as_secs_f64();
    let whole = match (violation, is_whole) {
        (Some(_), _) => "VIOLATED",
        (None, true) => "",
        (None, false) => "not whole",
    };
    let Row { name, callers, faults, .. } = row;
    let took = took.as_secs_f64();
    println!(
        "{name:<28} {callers:>7} {faults:>6} {states:>10} {depth:>5} {took:>6.1} {rate:>9.0} {whole}"
    );
}

fn print_violation(violation: &Violation) {
    println!("  VIOLATION: {}", violation.what);
    println!("  {}", violation.schedule());
    for (number, (step, state)) in violation.steps.iter().enumerate() {
        let record = state.store.record.as_ref().map(|stored| {
            let meta = &stored.meta;
            format!(
                "{:?} of {:?}, attempt {}, steps {:?}",
                meta.state, meta.owner, meta.attempt, meta.steps
            )
        });
        let record = record.unwrap_or_else(|| "absent".to_owned());
        let late = state.store.late.len();
        println!(
            "  {:>3} {:<18} t{} {record}, {late} late",
            number + 1,
            step.to_string(),
            state.tick
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{rows, search};

    #[test]
    fn one_fault_violates_no_row() {
        for row in rows::ALL {
            let found = search(&row.with(2, 1), Duration::from_secs(600), &[]);
            let schedule = found.violation.map(|violation| violation.schedule());
            assert_eq!(schedule, None, "{}", row.name);
            assert!(found.is_whole, "{}", row.name);
        }
    }

    #[cfg(feature = "internals")]
    #[test]
    fn each_broken_rule_is_found() {
        assert!(super::mutants::are_found(super::mutants::ALL));
    }

    #[cfg(feature = "internals")]
    #[test]
    #[ignore = "takes about a minute; `cargo xtask verify` runs it"]
    fn each_broken_rule_that_lies_deep_is_found() {
        assert!(super::mutants::are_found(super::mutants::DEEP));
    }
}
