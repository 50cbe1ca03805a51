//! `idempotency stuck`

use std::process::ExitCode;
use std::time::Duration;

use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::{Select, StoredRecord, Unreadable};
use serde_json::{Value, json};

use crate::args::Scan;
use crate::failure::Failure;
use crate::scan::scan;
use crate::words::{count, plain, span, time_and_distance};
use crate::{output, record, table};

pub(crate) async fn run(
    idempotency: &Idempotency,
    options: &Scan,
    older_than: Duration,
    json: bool,
) -> Result<ExitCode, Failure> {
    let (mut stuck, mut unreadable) = (Vec::new(), Vec::new());
    let cost = scan(idempotency, options, Select::Pending, |page| {
        let is_stuck = |record: &StoredRecord| {
            // Past its retention it counts as absent: no request meets it any more.
            !record.is_expired() && record.abandoned_for().is_some_and(|over| over >= older_than)
        };
        stuck.extend(page.records.into_iter().filter(is_stuck));
        unreadable.extend(page.unreadable);
    })
    .await?;
    stuck.sort_by_key(|record| std::cmp::Reverse(record.abandoned_for()));
    if json {
        output::line(Value::Array(stuck.iter().map(record::summary).collect()))?;
    } else {
        output::print(text(&stuck))?;
        let operations = count(stuck.len() as u64, "operation is", "operations are");
        let items = count(cost.items, "item", "items");
        output::line(format!(
            "{operations} stuck, of {items} that were read for {:.1} read units",
            cost.units
        ))?;
    }
    tell(&unreadable, json);
    Ok(ExitCode::SUCCESS)
}

fn text(stuck: &[StoredRecord]) -> String {
    if stuck.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = stuck
        .iter()
        .map(|record| {
            vec![
                plain(&record.scope),
                plain(&record.key),
                record.attempt.to_string(),
                time_and_distance(record.created_at, record.seen_at),
                span(record.abandoned_for().unwrap_or_default()),
                record.steps.as_ref().map_or(0, Vec::len).to_string(),
            ]
        })
        .collect();
    table::render(&["SCOPE", "KEY", "ATTEMPT", "STARTED", "LEASE OVER FOR", "STEPS"], &rows)
}

/// Items that are not understood are told, and left alone.
pub(crate) fn tell(unreadable: &[Unreadable], json: bool) {
    for one in unreadable {
        let pk = one.pk.as_deref().unwrap_or("(no text)");
        if json {
            eprintln!("{}", json!({"unreadable": pk, "reason": one.reason}));
        } else {
            eprintln!("warning: `{}` is not counted: {}", plain(pk), plain(&one.reason));
        }
    }
}
