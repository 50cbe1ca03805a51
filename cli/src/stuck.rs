//! `idempotency stuck`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::{Select, StoredRecord, Unreadable};
use serde_json::{Value, json};

use crate::args::Scan;
use crate::failure::Failure;
use crate::scan::{Next, Read, scan};
use crate::words::{count, plain, span, time_and_distance};
use crate::{output, record, table};

pub(crate) async fn run(
    idempotency: &Idempotency,
    options: &Scan,
    older_than: Duration,
    json: bool,
) -> Result<ExitCode, Failure> {
    let (mut stuck, mut unreadable) = (Vec::new(), Vec::new());
    let read = scan(idempotency, options, Select::Pending, |page| {
        let is_stuck = |record: &StoredRecord| {
            // Past its retention it counts as absent: no request meets it any more.
            !record.is_expired() && record.abandoned_for().is_some_and(|over| over >= older_than)
        };
        stuck.extend(page.records.into_iter().filter(is_stuck));
        unreadable.extend(page.unreadable);
        Next::GoesOn
    })
    .await?;
    stuck.sort_by_key(|record| std::cmp::Reverse(record.abandoned_for()));
    if json {
        let stuck: Vec<_> = stuck.iter().map(record::summary).collect();
        output::document(json!({"stuck": stuck, "read": document(&read)}))?;
    } else {
        output::print(text(&stuck))?;
        let operations = count(stuck.len() as u64, "operation is", "operations are");
        output::line(format!("{operations} stuck; {}", text_of(&read)))?;
        output::line(next(&stuck))?;
    }
    tell(&unreadable, json);
    read.end().map(|()| ExitCode::SUCCESS)
}

/// What to do now.
fn next(stuck: &[StoredRecord]) -> String {
    match stuck.first() {
        None => "next: nothing".to_owned(),
        Some(first) => {
            let name = format!("{} {}", record::word(&first.scope), record::word(&first.key));
            format!("next: idempotency show {name}")
        }
    }
}

/// How far a scan came, for people.
pub(crate) fn text_of(read: &Read) -> String {
    let items = count(read.items, "item was", "items were");
    let mut text = format!("{items} read for {:.1} read units", read.units);
    if let Some(resume) = &read.resume {
        let _ = write!(text, "\nthat is not all: go on with --resume {resume}");
    }
    text
}

/// How far a scan came, for programs.
pub(crate) fn document(read: &Read) -> Value {
    let resume = read.resume.as_ref().map(ToString::to_string);
    json!({"items": read.items, "read_units": read.units, "resume": resume})
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
                record.key_hash(),
                record.attempt.to_string(),
                time_and_distance(record.created_at, record.seen_at),
                span(record.abandoned_for().unwrap_or_default()),
                record.steps.as_ref().map_or(0, BTreeMap::len).to_string(),
            ]
        })
        .collect();
    table::render(
        &["SCOPE", "KEY", "IN LOGS", "ATTEMPT", "STARTED", "LEASE OVER FOR", "STEPS"],
        &rows,
    )
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
