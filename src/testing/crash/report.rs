//! What a failed run is reported as.

use std::fmt;

use super::plan::Chosen;
use super::world::Log;

/// The variable with the places of the one run to make.
pub(super) const PLACE_ENV: &str = "DYNAMODB_IDEMPOTENCY_CRASH";

/// A failed run.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) chosen: Chosen,
    /// Counted from 1.
    pub(super) number: u32,
    pub(super) log: Log,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chosen, number, log } = self;
        let plan = &chosen.plan;
        writeln!(f, "every_crash found a failure in run {number}.\n")?;
        if plan.places.is_empty() {
            writeln!(f, "where: in a run that nothing disturbed")?;
        }
        let label = |index| if index == 0 { "where:" } else { "then: " };
        for (index, fault) in log.faults.iter().enumerate() {
            writeln!(f, "{} {fault}", label(index))?;
        }
        let reached = log.faults.len();
        let missing = plan.places.get(reached);
        if let Some(&place) = missing {
            let expected = plan.expected.get(place).map(|place| place.text.clone());
            let place = expected.unwrap_or_else(|| format!("place {place}"));
            writeln!(f, "{} in a run that did not reach its place: {place}", label(reached))?;
        }
        let failure = log.failure.as_deref().unwrap_or_default();
        writeln!(f, "what:  {}", failure.replace('\n', "\n       "))?;
        writeln!(f, "\nWhat the world saw:")?;
        for event in &log.events {
            writeln!(f, "{:>10.3} s  {}", event.at.as_secs_f64(), event.text)?;
        }
        // A run that was not disturbed as planned differs from the earlier one, and can end otherwise.
        if plan.places.is_empty() || missing.is_some() {
            return Ok(());
        }
        write!(f, "\nOnly this place again:\n{PLACE_ENV}={chosen} {}", command())
    }
}

/// The command that runs this test.
fn command() -> String {
    let package = std::env::var("CARGO_PKG_NAME");
    let package = package.map(|name| format!(" -p {name}")).unwrap_or_default();
    let thread = std::thread::current();
    // The harness names a test's thread after the test, except with one thread for all tests.
    match thread.name().filter(|name| *name != "main") {
        Some(test) => format!("cargo test{package} -- --exact {test}"),
        None => format!("cargo test{package}"),
    }
}
