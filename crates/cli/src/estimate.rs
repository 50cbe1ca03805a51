//! Estimates how long reading a whole table takes and what it costs, before reading it.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use aws_sdk_dynamodb::types::TableDescription;
use dynamodb_idempotency::Idempotency;
use serde_json::json;

use crate::args::Scan;
use crate::describe;
use crate::failure::Failure;
use crate::output;
use crate::words::{count, span};

/// On demand in us-east-1 (docs/cost.md).
const DOLLARS_PER_MILLION_UNITS: f64 = 0.125;

/// A scan that takes longer prints its estimate even without `--estimate`.
const LONG: Duration = Duration::from_secs(60);

/// The size of a table, which DynamoDB updates about every six hours.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableSize {
    pub(crate) items: u64,
    bytes: u64,
}

impl TableSize {
    pub(crate) async fn of(idempotency: &Idempotency) -> Result<Self, Failure> {
        Ok(Self::described(&describe::required(idempotency).await?))
    }

    pub(crate) fn described(table: &TableDescription) -> Self {
        let count = |count: Option<i64>| count.and_then(|it| it.try_into().ok()).unwrap_or(0);
        Self { items: count(table.item_count), bytes: count(table.table_size_bytes) }
    }

    /// The write units of all items, at most: one for each KB of an item that has begun.
    pub(crate) const fn write_units(self) -> u64 {
        self.items + self.bytes / 1024
    }

    /// The read units of a complete scan: half a unit for each 4 KB.
    const fn read_units(self) -> u64 {
        self.bytes.div_ceil(8 * 1024)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    size: TableSize,
    units: u64,
    /// `None` without a limit on read units.
    time: Option<Duration>,
}

impl Estimate {
    pub(crate) fn of(size: TableSize, max_units: u32) -> Self {
        let units = size.read_units();
        let seconds = units.checked_div(u64::from(max_units));
        Self { size, units, time: seconds.map(Duration::from_secs) }
    }

    /// That many times the units and the time.
    pub(crate) fn times(self, times: u32) -> Self {
        let time = self.time.map(|time| time.saturating_mul(times));
        Self { units: self.units * u64::from(times), time, ..self }
    }

    pub(crate) const fn units(&self) -> u64 {
        self.units
    }

    pub(crate) fn seconds(&self) -> Option<u64> {
        self.time.map(|time| time.as_secs())
    }

    pub(crate) fn is_long(&self) -> bool {
        self.time.is_some_and(|time| time > LONG)
    }

    #[expect(clippy::cast_precision_loss, reason = "of some digits")]
    fn dollars(&self) -> f64 {
        self.units as f64 / 1e6 * DOLLARS_PER_MILLION_UNITS
    }
}

impl fmt::Display for Estimate {
    #[expect(clippy::cast_precision_loss, reason = "of some digits")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = count(self.size.items, "item", "items");
        let megabytes = self.size.bytes as f64 / 1e6;
        let time = self.time.map_or_else(|| "no limit of time".to_owned(), span);
        write!(
            f,
            "{} read units (about ${:.2} on demand in us-east-1) and {time}: about {items}, \
             {megabytes:.1} MB",
            self.units,
            self.dollars()
        )
    }
}

/// For `--estimate`: nothing is read.
pub(crate) async fn run(
    idempotency: &Idempotency,
    options: &Scan,
    json: bool,
) -> Result<ExitCode, Failure> {
    let size = TableSize::of(idempotency).await?;
    let estimate = Estimate::of(size, options.max_units);
    if json {
        output::document(json!({
            "items": size.items,
            "bytes": size.bytes,
            "read_units": estimate.units,
            "seconds": estimate.time.map(|time| time.as_secs()),
            "dollars": estimate.dollars(),
        }));
    } else {
        output::line(estimate);
    }
    Ok(ExitCode::SUCCESS)
}
