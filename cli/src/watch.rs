//! `idempotency watch`

use std::process::ExitCode;
use std::time::Duration;

use dynamodb_idempotency::admin::{Admin, StoredRecord, StoredState};
use serde_json::json;

use crate::args::Key;
use crate::failure::Failure;
use crate::words::{count, time};
use crate::{output, record};

/// The least time between two looks: each is a read.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn run(
    admin: Admin<'_>,
    key: &Key,
    interval: Duration,
    follow: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let mut last = None;
    loop {
        let found = record::find(admin, key).await?;
        let seen = found.as_ref().map(face);
        if last.as_ref() != Some(&seen) {
            match (&found, json) {
                (Some(record), true) => output::line(record::document(record))?,
                (None, true) => output::line(json!(null))?,
                (Some(record), false) => output::line(line(record))?,
                (None, false) => output::line("there is no record")?,
            }
            last = Some(seen);
        }
        let has_ended =
            found.is_some_and(|record| !matches!(record.state, StoredState::Pending { .. }));
        if has_ended && !follow {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(interval.max(LEAST_INTERVAL)).await;
    }
}

/// What has to change for a record to be shown again: a lease that merely runs out is news too.
fn face(record: &StoredRecord) -> (StoredState, u32, String, usize, bool) {
    let steps = record.steps.as_ref().map_or(0, Vec::len);
    let is_live = record.lease_left().is_some();
    (record.state.clone(), record.attempt, record.owner.clone(), steps, is_live)
}

fn line(found: &StoredRecord) -> String {
    let steps = found.steps.as_ref().map_or(0, Vec::len) as u64;
    let steps = match steps {
        0 => String::new(),
        steps => format!(", {} done", count(steps, "step", "steps")),
    };
    let (at, state) = (time(found.seen_at), record::state(found));
    format!("{at}  attempt {}{steps}: {state}", found.attempt)
}
