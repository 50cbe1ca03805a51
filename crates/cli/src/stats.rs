//! `idempotency stats`

use std::collections::BTreeMap;
use std::process::ExitCode;

use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::{Select, StoredRecord, StoredState};
use serde_json::{Value, json};

use crate::args::Scan;
use crate::failure::Failure;
use crate::scan::{Next, scan};
use crate::stuck::{self, LeftOut, report};
use crate::words::plain;
use crate::{output, table};

/// Records of one operation, by what a request with their key would meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    in_progress: u64,
    abandoned: u64,
    completed: u64,
    failed: u64,
    released: u64,
    blocked: u64,
    expired: u64,
    /// Of all of these, those that were started more than once.
    retried: u64,
}

impl Counts {
    fn add(&mut self, record: &StoredRecord) {
        let which = match record.state {
            _ if record.is_expired() => &mut self.expired,
            StoredState::Completed { .. } => &mut self.completed,
            StoredState::Failed { .. } => &mut self.failed,
            StoredState::Released => &mut self.released,
            StoredState::Blocked => &mut self.blocked,
            StoredState::Pending { .. } if record.lease_left().is_some() => &mut self.in_progress,
            StoredState::Pending { .. } => &mut self.abandoned,
        };
        *which += 1;
        self.retried += u64::from(record.attempt > 1);
    }
}

pub(crate) async fn run(
    idempotency: &Idempotency,
    options: &Scan,
    by_scope: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let (mut counts, mut left_out) = (BTreeMap::<String, Counts>::new(), LeftOut::default());
    let read = scan(idempotency, options, Select::All, |page| {
        for record in &page.records {
            let operation = record.scope.split('/').next().unwrap_or_default();
            let name = if by_scope { &record.scope } else { operation };
            counts.entry(name.to_owned()).or_default().add(record);
        }
        left_out.add(page.unreadable);
        Next::GoesOn
    })
    .await?;
    if json {
        let operations = counts.iter().map(|(name, counts)| (name.clone(), document(counts)));
        let operations = Value::Object(operations.collect());
        let document = json!({
            "operations": operations,
            "unreadable": left_out.unreadable.len(),
            "newer": left_out.unreadable.iter().filter(|one| one.is_newer).count(),
            "other_items": left_out.others,
            "read": stuck::document(&read),
        });
        output::document(document);
    } else {
        let name = if by_scope { "SCOPE" } else { "OPERATION" };
        let header = [
            name,
            "IN PROGRESS",
            "ABANDONED",
            "COMPLETED",
            "FAILED",
            "RELEASED",
            "BLOCKED",
            "EXPIRED",
            "RETRIED",
        ];
        let rows: Vec<_> = counts.iter().map(|(name, counts)| row(name, counts)).collect();
        output::print(table::render(&header, &rows));
        output::line(stuck::text_of(&read));
    }
    report(&left_out, json);
    if counts.is_empty() && left_out.unreadable.is_empty() {
        stuck::known_scope(idempotency, options, &read).await?;
    }
    read.end().map(|()| ExitCode::SUCCESS)
}

fn row(name: &str, counts: &Counts) -> Vec<String> {
    let Counts { in_progress, abandoned, completed, failed, released, blocked, expired, retried } =
        *counts;
    let numbers = [in_progress, abandoned, completed, failed, released, blocked, expired, retried];
    std::iter::once(plain(name)).chain(numbers.map(|number| number.to_string())).collect()
}

fn document(counts: &Counts) -> Value {
    let Counts { in_progress, abandoned, completed, failed, released, blocked, expired, retried } =
        *counts;
    json!({
        "in_progress": in_progress,
        "abandoned": abandoned,
        "completed": completed,
        "failed": failed,
        "released": released,
        "blocked": blocked,
        "expired": expired,
        "retried": retried,
    })
}
