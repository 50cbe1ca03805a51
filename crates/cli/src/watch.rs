//! `idempotency watch`

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use dynamodb_idempotency::admin::{Admin, StoredRecord, StoredState};
use serde_json::json;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::record::Name;
use crate::words::{count, plain, span, time};
use crate::{output, record};

/// The minimum time between two reads.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// How long to watch, and how often to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) interval: Duration,
    /// `None` waits without a limit.
    pub(crate) timeout: Option<Duration>,
    /// Continue after the operation has ended.
    pub(crate) follow: bool,
}

pub(crate) async fn run(
    admin: Admin<'_>,
    name: &Name,
    pace: Pace,
    json: bool,
) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    let mut last = None;
    loop {
        let found = name.record(admin).await?;
        let seen = found.as_ref().map(face);
        if last.as_ref() != Some(&seen) {
            show(found.as_ref(), name, json);
            last = Some(seen);
        }
        if found.as_ref().is_some_and(has_ended) && !pace.follow {
            return Ok(ExitCode::SUCCESS);
        }
        let pause = pace.interval.max(LEAST_INTERVAL);
        let left = pace.timeout.map_or(pause, |timeout| timeout.saturating_sub(began.elapsed()));
        // The reader has closed the pipe, as `head` does when it has its lines.
        let is_left = pace.follow && output::has_ended();
        if left.is_zero() || is_left {
            let after = began.elapsed();
            return time_up(found.as_ref(), name, after).map_or(Ok(ExitCode::SUCCESS), Err);
        }
        tokio::time::sleep(pause.min(left)).await;
    }
}

fn show(found: Option<&StoredRecord>, name: &Name, json: bool) {
    match (found, json) {
        (Some(record), true) => output::document(record::document(record)),
        (None, true) => {
            let (scope, key) = (name.scope.as_str(), &name.key);
            output::document(json!({"status": null, "scope": scope, "key": key}));
        }
        (Some(record), false) => output::line(line(record)),
        (None, false) => output::line(plain(&record::no_record(name))),
    }
}

/// The failure when the time is up; `None` if the operation has ended while following.
fn time_up(found: Option<&StoredRecord>, name: &Name, after: Duration) -> Option<Failure> {
    let after = span(after);
    match found {
        Some(record) if has_ended(record) => None,
        Some(record) => {
            let state = record::state(record);
            Some(Failure::TimeUp(format!("after {after} it has not ended: {state}")))
        }
        None => Some(Failure::Absent(format!("after {after} {}", record::no_record(name)))),
    }
}

fn has_ended(record: &StoredRecord) -> bool {
    !matches!(record.state, StoredState::Pending { .. })
}

/// The fields whose change prints the record again. An expired lease counts as a change.
fn face(record: &StoredRecord) -> (StoredState, u32, String, usize, bool) {
    let steps = record.steps.as_ref().map_or(0, BTreeMap::len);
    let is_live = record.lease_left().is_some();
    (record.state.clone(), record.attempt, record.owner.clone(), steps, is_live)
}

fn line(found: &StoredRecord) -> String {
    let steps = found.steps.as_ref().map_or(0, BTreeMap::len) as u64;
    let steps = match steps {
        0 => String::new(),
        steps => format!(", {} done", count(steps, "step", "steps")),
    };
    let (at, state) = (time(found.seen_at), record::state(found));
    format!("{at}  {}  attempt {}{steps}: {state}", found.key_hash(), found.attempt)
}
