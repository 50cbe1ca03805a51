//! `idempotency stuck`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::{Select, StoredRecord, Unreadable};
use serde_json::{Value, json};

use crate::args::{Scan, Which};
use crate::failure::Failure;
use crate::hints::Hints;
use crate::scan::{Next, Read, scan};
use crate::words::{count, plain, span, time_and_distance};
use crate::{output, record, table};

pub(crate) async fn run(
    idempotency: &Idempotency,
    options: &Scan,
    which: Which,
    hints: &Hints,
    json: bool,
) -> Result<ExitCode, Failure> {
    let Found { stuck, left_out, read } = find(idempotency, options, which).await?;
    if json {
        let stuck: Vec<_> = stuck.iter().map(record::summary).collect();
        output::document(json!({"stuck": stuck, "read": document(&read)}));
    } else {
        output::print(text(&stuck));
        let operations = count(stuck.len() as u64, "operation", "operations");
        let state = match (which.failed, stuck.len()) {
            (true, _) => "failed",
            (false, 1) => "is stuck",
            (false, _) => "are stuck",
        };
        output::line(format!("{operations} {state}; {}", text_of(&read)));
        output::line(next(&stuck, &left_out, hints));
    }
    report(&left_out, json);
    if stuck.is_empty() {
        known_scope(idempotency, options, &read).await?;
    }
    read.end().map(|()| ExitCode::SUCCESS)
}

/// Operations that do not run, the oldest first.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) stuck: Vec<StoredRecord>,
    pub(crate) left_out: LeftOut,
    pub(crate) read: Read,
}

pub(crate) async fn find(
    idempotency: &Idempotency,
    options: &Scan,
    which: Which,
) -> Result<Found, Failure> {
    let (mut stuck, mut left_out) = (Vec::new(), LeftOut::default());
    let select = if which.failed { Select::Failed } else { Select::Pending };
    let read = scan(idempotency, options, select, |page| {
        let is_stuck = |record: &StoredRecord| {
            // After its retention a record counts as absent and affects no request.
            !record.is_expired() && over(record).is_some_and(|over| over >= which.older_than)
        };
        stuck.extend(page.records.into_iter().filter(is_stuck));
        left_out.add(page.unreadable);
        Next::GoesOn
    })
    .await?;
    stuck.sort_by_key(|record| std::cmp::Reverse(over(record)));
    Ok(Found { stuck, left_out, read })
}

/// How long a record has been abandoned or failed.
fn over(record: &StoredRecord) -> Option<Duration> {
    record.abandoned_for().or_else(|| record::failed_for(record))
}

/// What to do now.
fn next(stuck: &[StoredRecord], left_out: &LeftOut, hints: &Hints) -> String {
    match stuck.first() {
        None if left_out.unreadable.is_empty() => "next: nothing".to_owned(),
        None => {
            "next: look at the records that cannot be read: no request of their keys runs".into()
        }
        Some(first) => format!("next: {}", hints.command("show", first)),
    }
}

/// How far a scan came, for people.
pub(crate) fn text_of(read: &Read) -> String {
    let items = count(read.items, "item was", "items were");
    let mut text = format!("{items} read for {:.1} read units", read.units);
    if let Some(resume) = &read.resume {
        let _ = write!(text, "\nthat is not all: continue with --resume {resume}");
    }
    text
}

/// How far a scan came, for programs.
pub(crate) fn document(read: &Read) -> Value {
    let resume = read.resume.as_ref().map(ToString::to_string);
    json!({"items": read.items, "read_units": read.units, "resume": resume})
}

pub(crate) fn text(stuck: &[StoredRecord]) -> String {
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
                span(over(record).unwrap_or_default()),
                record.steps.as_ref().map_or(0, BTreeMap::len).to_string(),
            ]
        })
        .collect();
    let is_failed = stuck.iter().all(|record| record::failed_for(record).is_some());
    let over = if is_failed { "FAILED FOR" } else { "LEASE OVER FOR" };
    table::render(&["SCOPE", "KEY", "IN LOGS", "ATTEMPT", "STARTED", over, "STEPS"], &rows)
}

/// How many records of an unknown form are listed. All are counted.
const MOST_LISTED: usize = 100;

/// Reports what a scan has left out: records of an unknown form by their keys, and the items of other
/// programs in one line, without theirs.
pub(crate) fn report(left_out: &LeftOut, json: bool) {
    for one in left_out.unreadable.iter().take(MOST_LISTED) {
        let pk = one.pk.as_deref().unwrap_or("(no text)");
        if json {
            output::note(output::versioned(json!({"unreadable": pk, "reason": one.reason})));
        } else {
            let (pk, reason) = (plain(pk), plain(&one.reason));
            output::note(format_args!("warning: `{pk}` is not counted: {reason}"));
        }
    }
    let more = left_out.unreadable.len().saturating_sub(MOST_LISTED);
    if more > 0 {
        let records = count(more as u64, "record", "records");
        output::remark(format_args!("{records} more cannot be read, and not counted"));
    }
    if left_out.others > 0 && !json {
        let items = count(left_out.others, "item is no record", "items are no records");
        output::note(format_args!("{items} of this crate, and not counted"));
    }
}

/// The failure for a scope of which a scan has found nothing, if other scopes exist.
pub(crate) async fn known_scope(
    idempotency: &Idempotency,
    options: &Scan,
    read: &Read,
) -> Result<(), Failure> {
    match options.scope()? {
        Some(scope) if read.is_whole() && options.resume.is_none() => {
            record::known_scope(idempotency.admin(), &scope).await
        }
        Some(_) | None => Ok(()),
    }
}

/// The items that a scan does not count.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    /// Records that this version does not understand.
    pub(crate) unreadable: Vec<Unreadable>,
    /// How many items belong to other programs.
    pub(crate) others: u64,
}

impl LeftOut {
    pub(crate) fn add(&mut self, found: Vec<Unreadable>) {
        let (records, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.is_record);
        self.unreadable.extend(records);
        self.others += others.len() as u64;
    }
}
