//! The command line.

use std::time::Duration;

use crate::rows::{self, Row};

#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) help: bool,
    /// The rows that have too many states for each change.
    weekly: bool,
    row: Option<String>,
    callers: Option<usize>,
    faults: Option<u8>,
    ticks: Option<u8>,
    pub(crate) limit: Duration,
}

pub(crate) const USAGE: &str = "usage: protocol-search [--help] [--weekly] [--row NAME] [--callers 1..3] \
                                [--faults N] [--ticks N] [--seconds N]";

impl Args {
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let limit = Duration::from_secs(3600);
        let (row, callers, faults, ticks) = (None, None, None, None);
        let mut args = Self { help: false, weekly: false, row, callers, faults, ticks, limit };
        while let Some(name) = given.next() {
            if matches!(name.as_str(), "--help" | "-h") {
                return Ok(Self { help: true, ..args });
            }
            if name == "--weekly" {
                args.weekly = true;
                continue;
            }
            let value = given.next().ok_or_else(|| format!("{name} needs a value. {USAGE}"))?;
            let number = || value.parse::<u8>().map_err(|_| format!("{name} {value}: no number"));
            match name.as_str() {
                "--row" => args.row = Some(value),
                "--callers" => args.callers = Some(number()?.into()),
                "--faults" => args.faults = Some(number()?),
                "--ticks" => args.ticks = Some(number()?),
                "--seconds" => {
                    let seconds =
                        value.parse().map_err(|_| format!("{name} {value}: no number"))?;
                    args.limit = Duration::from_secs(seconds);
                }
                _ => return Err(format!("{name}? {USAGE}")),
            }
        }
        args.check().map(|()| args)
    }

    fn check(&self) -> Result<(), String> {
        if let Some(row) = self.row.as_deref().filter(|row| rows::named(row).is_none()) {
            let names: Vec<_> = rows::ALL.iter().map(|row| row.name).collect();
            return Err(format!("no row {row}; there are: {}", names.join(", ")));
        }
        match (self.callers, self.faults) {
            (Some(_), _) | (_, Some(_)) if self.weekly => {
                Err("--weekly has its own callers and faults".to_owned())
            }
            (Some(0 | 4..), _) => Err("one to three callers".to_owned()),
            _ => Ok(()),
        }
    }

    /// The rows to search: each with two callers and with three, unless callers or faults are given.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let is_asked = |row: &&Row| self.row.as_deref().is_none_or(|name| name == row.name);
        let mut rows = Vec::new();
        for row in rows::ALL.iter().filter(is_asked) {
            let (bound, weekly) = (row.bound, row.weekly);
            let bounds = match (self.callers, self.faults) {
                (None, None) if self.weekly => [(2, bound.0, weekly.0), (3, bound.1, weekly.1)]
                    .into_iter()
                    .filter(|(_, bound, weekly)| weekly > bound)
                    .map(|(callers, _, weekly)| (callers, weekly))
                    .collect(),
                (None, None) => vec![(2, bound.0), (3, bound.1)],
                (Some(3), None) => vec![(3, bound.1)],
                (callers, faults) => vec![(callers.unwrap_or(2), faults.unwrap_or(bound.0))],
            };
            for (callers, faults) in bounds {
                let ticks = self.ticks.unwrap_or(row.ticks);
                rows.push(Row { ticks, ..row.with(callers, faults) });
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Args, String> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_bound_that_is_given_is_the_one_that_is_searched() {
        let args = parsed("--row commit --callers 3 --faults 2 --ticks 4").expect("it is right");
        let rows = args.rows();
        let bounds: Vec<_> = rows.iter().map(|row| (row.name, row.callers, row.faults)).collect();
        assert_eq!(bounds, [("commit", 3, 2)]);
        assert_eq!(rows[0].ticks, 4);
    }

    #[test]
    fn weekly_searches_what_is_beyond_the_bounds_of_a_change() {
        let bounds = |row: &str| {
            let rows = parsed(&format!("--weekly --row {row}")).expect("it is right").rows();
            rows.iter().map(|row| (row.callers, row.faults)).collect::<Vec<_>>()
        };
        assert_eq!(bounds("transaction"), []);
        assert_eq!(bounds("default"), [(2, 3)]);
        assert_eq!(bounds("wait"), [(2, 3), (3, 1)]);
    }

    #[test]
    fn help_is_not_an_error() {
        for line in ["--help", "-h", "--row commit --help"] {
            assert!(parsed(line).expect("it is known").help, "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for line in [
            "--row nonsense",
            "--callers 4",
            "--faults",
            "--faults many",
            "--depth 3",
            "--weekly --faults 2",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
