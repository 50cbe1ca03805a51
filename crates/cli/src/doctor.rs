//! `idempotency doctor`: checks the table, its settings and the caller's permissions. Nothing is
//! written.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_sdk_dynamodb::types::{
    BillingMode, ContinuousBackupsDescription, MultiRegionConsistency, PointInTimeRecoveryStatus,
    TableDescription, TableStatus, TimeToLiveDescription, TimeToLiveStatus,
};
use dynamodb_idempotency::admin::{Admin, Page, Select, StoredAnswer, StoredRecord, StoredState};
use dynamodb_idempotency::policy::KeyForm;
use dynamodb_idempotency::{Error, ErrorKind, Finding, Idempotency, Scope, Severity};
use futures_util::future;
use serde_json::{Value, json};

use crate::describe::{self, Described, Undescribed};
use crate::failure::Failure;
use crate::output;
use crate::words::{count, plain};

/// The number of reads from which the median latency is computed.
const READS: usize = 5;

pub(crate) async fn run(
    idempotency: &Idempotency,
    scopes: &[Scope],
    strict: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let (findings, is_reachable) = findings(idempotency, scopes).await;
    if json {
        let findings: Vec<_> = findings.iter().map(document).collect();
        output::document(json!({"findings": findings}));
    } else {
        for finding in &findings {
            let (subject, detail) = (plain(&finding.subject), plain(&finding.detail));
            output::line(format!("{:8} {subject}: {detail}", finding.severity));
            if let Some(fix) = &finding.fix {
                output::line(format!("{:8} - {}", "", plain(fix)));
            }
        }
    }
    if !is_reachable {
        return Ok(UNAVAILABLE.into());
    }
    let worst = findings.iter().map(|finding| finding.severity).max();
    Ok(match worst {
        Some(Severity::Error) => ExitCode::FAILURE,
        Some(Severity::Warning) if strict => ExitCode::FAILURE,
        Some(Severity::Warning | Severity::Ok) | None => ExitCode::SUCCESS,
    })
}

fn document(finding: &Finding) -> Value {
    json!({
        "subject": finding.subject,
        "severity": finding.severity.as_str(),
        "detail": finding.detail,
        "fix": finding.fix,
    })
}

const TABLE: &str = "table";

/// What only the description of the table says.
const IN_DESCRIPTION: &str = "status, keys, billing, deletion protection, replicas and restore";

/// The findings, and whether DynamoDB could be reached.
async fn findings(idempotency: &Idempotency, scopes: &[Scope]) -> (Vec<Finding>, bool) {
    let admin = idempotency.admin();
    let (table, ttl, backups, permissions) = future::join4(
        describe::table(idempotency),
        describe::time_to_live(idempotency),
        describe::backups(idempotency),
        admin.permissions(scopes),
    )
    .await;
    let (permissions, connection) = match permissions {
        Ok(findings) => (findings, None),
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            let finding = Finding::error("connection", error.in_full());
            (Vec::new(), Some(finding.fix("look at the endpoint, the region and the network")))
        }
        Err(error) => (vec![Finding::error("records", error.to_string())], None),
    };
    let mut checks = Checks { idempotency, findings: Vec::new(), recoverable_since: None };
    let table = match table {
        // Reported as the connection's.
        Err(Undescribed::Failed(error))
            if connection.is_some() && error.kind() == ErrorKind::Unavailable =>
        {
            None
        }
        table => checks.described(TABLE, "dynamodb:DescribeTable", table),
    };
    // A table that cannot be described is checked as far as possible.
    let is_there =
        |checks: &Checks<'_>| checks.findings.iter().all(|one| one.severity < Severity::Error);
    let is_checked = table.is_some() || (connection.is_none() && is_there(&checks));
    if let Some(table) = &table {
        checks.shape(table);
    }
    if is_checked {
        checks.time_to_live(ttl);
    }
    // Requests to a missing table, or to one with other keys, prove nothing.
    let is_ours = is_there(&checks);
    if is_ours {
        checks.findings.extend(permissions);
    }
    if let Some(table) = &table {
        checks.settings(table);
        checks.replicas(table);
    }
    if is_checked {
        checks.backups(backups);
    }
    if let Some(table) = &table {
        checks.restore(table);
    }
    let is_reachable = connection.is_none();
    if is_ours && is_reachable && is_checked {
        checks.sample(scopes).await;
    }
    match connection {
        Some(finding) => checks.findings.push(finding),
        None if is_checked => checks.time().await,
        None => {}
    }
    (checks.findings, is_reachable)
}

/// The findings so far.
struct Checks<'a> {
    idempotency: &'a Idempotency,
    findings: Vec<Finding>,
    /// The first state to which point-in-time recovery can return.
    recoverable_since: Option<DateTime>,
}

impl Checks<'_> {
    fn table_name(&self) -> &str {
        self.idempotency.admin().table_name()
    }

    /// Adds the finding about a setting of the table: `fine`, or a warning with its fix.
    fn setting(&mut self, subject: &str, is_fine: bool, fine: &str, warning: &str, fix: &str) {
        self.findings.push(if is_fine {
            Finding::ok(subject, fine)
        } else {
            Finding::warning(subject, warning).fix(fix)
        });
    }

    /// Returns the description. A missing one becomes a finding.
    fn described<T>(&mut self, subject: &str, action: &str, described: Described<T>) -> Option<T> {
        let what = if subject == TABLE { IN_DESCRIPTION } else { subject };
        let unchecked = format!("the {what} of table `{}` cannot be checked", self.table_name());
        self.findings.push(match described {
            Ok(description) => return Some(description),
            Err(Undescribed::Denied(message)) => Finding::warning(subject, unchecked)
                .fix(format!("grant {action} on the table (DynamoDB says: {message})")),
            Err(Undescribed::Failed(error)) if error.kind() == ErrorKind::Configuration => {
                Finding::error(subject, error.to_string())
            }
            Err(Undescribed::Failed(error)) => {
                Finding::warning(subject, format!("{unchecked} now: {error}"))
            }
        });
        None
    }

    /// Checks the state of the table and its keys.
    fn shape(&mut self, table: &TableDescription) {
        let name = self.table_name().to_owned();
        self.findings.push(match &table.table_status {
            Some(TableStatus::Active | TableStatus::Updating) => {
                Finding::ok("table", format!("table `{name}` exists"))
            }
            status => {
                let status = status.as_ref().map_or("in an unknown state", TableStatus::as_str);
                Finding::error("table", format!("table `{name}` is {status}"))
                    .fix("wait until it is ACTIVE, or restore it and its encryption key")
            }
        });
        let (keys, expected) = self.idempotency.admin().keys(table);
        self.findings.push(if keys == expected {
            Finding::ok("keys", format!("its key is {keys}"))
        } else {
            let detail =
                format!("table `{name}` has the key {keys}, but the TableSchema has {expected}");
            Finding::error("keys", detail).fix(
                "use another table, or describe this one with TableSchema::partition_key or \
                 composite_key (on the command line: --partition-key or --composite-key)",
            )
        });
    }

    fn time_to_live(&mut self, described: Described<Option<TimeToLiveDescription>>) {
        const SUBJECT: &str = "time to live";
        let Some(ttl) = self.described(SUBJECT, "dynamodb:DescribeTimeToLive", described) else {
            return;
        };
        let ours = self.idempotency.admin().schema().ttl_name().to_owned();
        let ttl = ttl.filter(|ttl| {
            use TimeToLiveStatus::{Enabled, Enabling};
            matches!(ttl.time_to_live_status, Some(Enabled | Enabling))
        });
        let (state, fix) = match ttl.as_ref().and_then(|ttl| ttl.attribute_name()) {
            Some(name) if name == ours => {
                let detail = format!("time to live is on for the attribute `{name}`");
                return self.findings.push(Finding::ok(SUBJECT, detail));
            }
            Some(name) => (
                format!("on for `{name}`"),
                format!(
                    "turn it off and on again for `{ours}`, or set TableSchema::ttl_attribute (on the \
                     command line: --ttl-attribute)"
                ),
            ),
            None => ("off".to_owned(), format!("turn it on for the attribute `{ours}`")),
        };
        let table = self.table_name();
        let detail =
            format!("the time to live of table `{table}` is {state}, so no record is deleted");
        self.findings.push(Finding::warning(SUBJECT, detail).fix(fix));
    }

    fn settings(&mut self, table: &TableDescription) {
        let billing = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
        self.setting(
            "billing",
            billing == Some(&BillingMode::PayPerRequest),
            "the table is on demand",
            "the table has provisioned capacity: DynamoDB throttles requests above it",
            "switch it to on demand, or watch its throttled requests",
        );
        self.setting(
            "deletion protection",
            table.deletion_protection_enabled == Some(true),
            "the table is protected from deletion",
            "the table is not protected from deletion: without it, every payment can be made again",
            "turn deletion protection on, except for tables that you plan to delete",
        );
    }

    fn replicas(&mut self, table: &TableDescription) {
        if table.replicas().is_empty() {
            return self.findings.push(Finding::ok("replicas", "the table is in one region"));
        }
        let regions: Vec<_> = table.replicas().iter().filter_map(|one| one.region_name()).collect();
        let regions = regions.join(", ");
        let (consistency, fix) = match table.multi_region_consistency() {
            Some(MultiRegionConsistency::Strong) => (
                "strongly consistent",
                "it supports neither transactions (commit and run_transaction fail) nor time to live",
            ),
            _ => (
                "eventually consistent: two regions can both win a key",
                "keep the requests of a key in one region",
            ),
        };
        let detail = format!("the table is replicated to {regions}, {consistency}");
        self.findings.push(Finding::warning("replicas", detail).fix(fix));
    }

    fn backups(&mut self, described: Described<Option<ContinuousBackupsDescription>>) {
        const SUBJECT: &str = "backups";
        let action = "dynamodb:DescribeContinuousBackups";
        let Some(backups) = self.described(SUBJECT, action, described) else { return };
        let recovery = backups.and_then(|backups| backups.point_in_time_recovery_description);
        let status = recovery.as_ref().and_then(|it| it.point_in_time_recovery_status.clone());
        self.recoverable_since = recovery.and_then(|it| it.earliest_restorable_date_time);
        self.setting(
            SUBJECT,
            status == Some(PointInTimeRecoveryStatus::Enabled),
            "point-in-time recovery is on",
            "point-in-time recovery is off: if the table is lost, every payment can be made again",
            "turn it on",
        );
    }

    /// Says which settings a restored table still lacks, of which a restore copies none, and always which steps
    /// only its operator can check.
    fn restore(&mut self, table: &TableDescription) {
        const SUBJECT: &str = "restore";
        let Some(restore) = table.restore_summary() else { return };
        let source = restore.source_table_arn().or(restore.source_backup_arn());
        let source = source.map_or_else(String::new, |source| format!(" from {source}"));
        if restore.restore_in_progress() {
            let detail = format!("the table is being restored{source}");
            let finding = Finding::error(SUBJECT, detail);
            return self.findings.push(finding.fix("wait until it is ACTIVE"));
        }
        let settings = ["time to live", "deletion protection", "backups"];
        let is_missing = |subject: &&str| {
            let mut findings = self.findings.iter();
            findings.any(|one| one.subject == *subject && one.severity > Severity::Ok)
        };
        let missing: Vec<_> = settings.into_iter().filter(is_missing).collect();
        let time = |at: &DateTime| at.fmt(DateTimeFormat::DateTime).unwrap_or_default();
        let of = time(restore.restore_date_time());
        let mut fix = format!(
            "doctor cannot see the other steps: its tags and its table policy; `copy` from the old table, \
             or `block`, for keys that were completed after {of}"
        );
        if let Some(since) = self.recoverable_since.as_ref().map(time) {
            let _ = write!(fix, "; for states before {since}, recover the old table");
        }
        self.findings.push(if missing.is_empty() {
            let detail =
                format!("the table was restored{source} as of {of} and has its settings again");
            Finding::ok(SUBJECT, detail).fix(fix)
        } else {
            let missing = missing.join(", ");
            let detail = format!("the table was restored{source} as of {of}, without: {missing}");
            Finding::warning(SUBJECT, detail).fix(format!("set them (above); {fix}"))
        });
    }

    /// Reads records of each scope, or of the whole table, and reports those that cannot be read.
    async fn sample(&mut self, scopes: &[Scope]) {
        let admin = self.idempotency.admin();
        let mut sample = Sample::default();
        let result = if scopes.is_empty() {
            sample.read(admin).await
        } else {
            let mut result = Ok(());
            for scope in scopes {
                if result.is_ok() {
                    result = sample.read_scope(admin, scope).await;
                }
            }
            result
        };
        match result {
            Ok(()) => self.findings.extend(sample.findings()),
            // A missing permission.
            Err(error) if error.kind() == ErrorKind::Configuration => {
                let detail = "no record was read to see whether it can be".to_owned();
                self.findings.push(Finding::warning(SAMPLE, detail).fix(error.to_string()));
            }
            Err(error) => {
                let detail = format!("no record could be read now: {error}");
                self.findings.push(Finding::warning(SAMPLE, detail));
            }
        }
    }

    /// Checks the latency and the clock.
    async fn time(&mut self) {
        let mut reads = Vec::with_capacity(READS);
        for _ in 0..READS {
            let start = Instant::now();
            if let Err(error) = self.idempotency.warm().await {
                let failed = Err::<(), _>(Undescribed::Failed(error));
                self.described("latency", "dynamodb:GetItem", failed);
                break;
            }
            reads.push(start.elapsed());
        }
        reads.sort_unstable();
        if let Some(median) = reads.get(reads.len() / 2) {
            let (median, count) = (median.as_millis(), reads.len());
            let detail = format!("a read takes {median} ms from here (median of {count})");
            self.findings.push(Finding::ok("latency", detail));
        }
        let (offset, tolerance) = self.idempotency.admin().clock_offset();
        let (off, at_most) = (offset.unsigned_abs(), tolerance.as_millis());
        let direction = if offset > 0 { "behind" } else { "ahead of" };
        self.setting(
            "clock",
            Duration::from_millis(off) <= tolerance,
            &format!("this clock is within {at_most} ms of DynamoDB's"),
            &format!("this clock is {off} ms {direction} DynamoDB's"),
            "leases follow DynamoDB's clock and are not affected, but set this clock",
        );
    }
}

const SAMPLE: &str = "sample";

/// The exit code of every command that cannot reach DynamoDB.
const UNAVAILABLE: u8 = 6;

/// How many items are read, about; in how many parts of the table; and how many in a request.
const SAMPLED_ITEMS: u64 = 1000;
/// How many are read, about, while fewer than so many records of a scope are among them.
const SAMPLED_FOR_A_SCOPE: u64 = 10_000;
const ENOUGH_OF_A_SCOPE: u64 = 100;
const SAMPLED_PARTS: u32 = 8;
const SAMPLED_AT_ONCE: u32 = 64;

/// How many answers are read whose bytes are in separate items.
const SAMPLED_ANSWERS: usize = 8;

/// How many records that cannot be read are listed.
const MOST_LISTED: usize = 5;

/// Records from all over the table.
#[derive(Debug, Default)]
struct Sample {
    operations: BTreeSet<String>,
    records: u64,
    answers_read: usize,
    /// A key and the reason, of the first ones.
    unreadable: Vec<(String, String)>,
    unreadable_in_all: u64,
    /// Items that are no records.
    others: u64,
    /// The scopes of which no item was found, although the table was not read to its end, and how many items were
    /// read.
    unseen: Vec<(String, u64)>,
}

impl Sample {
    async fn read(&mut self, admin: Admin<'_>) -> Result<(), Error> {
        self.read_until(admin, |_, items| items >= SAMPLED_ITEMS).await.map(drop)
    }

    async fn read_scope(&mut self, admin: Admin<'_>, scope: &Scope) -> Result<(), Error> {
        let before = self.found();
        let is_enough = |sample: &Self, items| {
            let is_seen = sample.found() - before >= ENOUGH_OF_A_SCOPE;
            items >= SAMPLED_FOR_A_SCOPE || (is_seen && items >= SAMPLED_ITEMS)
        };
        let (items, is_whole) = self.read_until(admin.within(scope), is_enough).await?;
        if self.found() == before && !is_whole {
            self.unseen.push((scope.as_str().to_owned(), items));
        }
        Ok(())
    }

    fn found(&self) -> u64 {
        self.records + self.unreadable_in_all
    }

    /// Returns how many items were read, and whether these are all.
    async fn read_until(
        &mut self,
        admin: Admin<'_>,
        is_enough: impl Fn(&Self, u64) -> bool,
    ) -> Result<(u64, bool), Error> {
        let admin = admin.page_size(Some(SAMPLED_AT_ONCE));
        let mut rest: Vec<_> = (0..SAMPLED_PARTS).map(|part| (part, None::<String>)).collect();
        let mut items = 0;
        while !rest.is_empty() && !is_enough(self, items) {
            let pages = rest.iter().map(|(part, after)| {
                admin.page(*part, SAMPLED_PARTS, Select::All, after.as_deref())
            });
            let pages = future::try_join_all(pages).await?;
            let parts = rest.into_iter().map(|(part, _)| part);
            rest = parts
                .zip(&pages)
                .filter_map(|(part, page)| page.next.clone().map(|next| (part, Some(next))))
                .collect();
            for page in pages {
                items += page.scanned;
                self.add(admin, page).await?;
            }
        }
        Ok((items, rest.is_empty()))
    }

    async fn add(&mut self, admin: Admin<'_>, page: Page) -> Result<(), Error> {
        for one in page.unreadable {
            // The items of other programs in the table are not ours to judge.
            if !one.is_record {
                self.others += 1;
                continue;
            }
            self.unreadable(one.pk.unwrap_or_default(), one.reason);
        }
        for record in page.records {
            self.records += 1;
            self.operations.extend(record.scope.split('/').next().map(str::to_owned));
            if let Some(reason) = self.unreadable_answer(admin, &record).await? {
                self.unreadable(format!("{}#{}", record.scope, record.key), reason);
            }
        }
        Ok(())
    }

    fn unreadable(&mut self, pk: String, reason: String) {
        self.unreadable_in_all += 1;
        if self.unreadable.len() < MOST_LISTED {
            self.unreadable.push((pk, reason));
        }
    }

    /// Why an answer that is stored cannot be read.
    async fn unreadable_answer(
        &mut self,
        admin: Admin<'_>,
        record: &StoredRecord,
    ) -> Result<Option<String>, Error> {
        if record.is_expired() {
            return Ok(None);
        }
        let StoredState::Completed { answer, .. } = &record.state else { return Ok(None) };
        match answer {
            StoredAnswer::InParts { .. } if self.answers_read < SAMPLED_ANSWERS => {
                self.answers_read += 1;
                let scope = Scope::from_encoded(&record.scope)?;
                let whole = admin.record(&scope, &record.key, KeyForm::Verbatim).await?;
                Ok(match whole.map(|record| record.state) {
                    Some(StoredState::Completed {
                        answer: StoredAnswer::Unavailable(reason),
                        ..
                    }) => Some(reason),
                    _ => None,
                })
            }
            // Its owner has stored the reason instead of the answer.
            StoredAnswer::Unavailable(_) if is_stored_reason(record) => Ok(None),
            StoredAnswer::Unavailable(reason) => Ok(Some(reason.clone())),
            StoredAnswer::Json(_)
            | StoredAnswer::Http { .. }
            | StoredAnswer::InParts { .. }
            | StoredAnswer::Encoded { .. } => Ok(None),
        }
    }

    fn findings(self) -> Vec<Finding> {
        const FIX: &str = "if a newer version wrote it, finish the rollout; if it is damaged, delete it \
                           and copy it from a backup (`copy`)";
        let finding = |(pk, reason)| {
            let detail = format!("`{pk}` cannot be read, so no request of its key runs: {reason}");
            Finding::error(SAMPLE, detail).fix(FIX)
        };
        let listed = self.unreadable.len() as u64;
        let mut findings: Vec<_> = self.unreadable.into_iter().map(finding).collect();
        let records = count(self.records, "record", "records");
        let operations = self.operations.into_iter().collect::<Vec<_>>().join(", ");
        if self.unreadable_in_all > listed {
            let more = self.unreadable_in_all - listed;
            findings.push(Finding::error(SAMPLE, format!("{more} more cannot be read")));
        } else if listed == 0 && self.records == 0 && self.others > 0 {
            let items = count(self.others, "item is none", "items are none");
            let detail = format!("there was no record to read; {items}");
            let fix = "look whether this is the right table, and whether its records are damaged";
            findings.push(Finding::warning(SAMPLE, detail).fix(fix));
        } else if listed == 0 && self.records == 0 {
            if self.unseen.is_empty() {
                findings.push(Finding::ok(SAMPLE, "there was no record to read"));
            }
        } else if listed == 0 {
            let mut detail = format!("{records} of {operations} can be read");
            if self.others > 0 {
                let items = count(self.others, "item is no record", "items are no records");
                let _ = write!(detail, "; {items}");
            }
            findings.push(Finding::ok(SAMPLE, detail));
        }
        findings.extend(self.unseen.into_iter().map(|(scope, items)| {
            let scope = plain(&scope);
            Finding::ok(
                SAMPLE,
                format!("no record of `{scope}` is among the {items} items that were read"),
            )
        }));
        findings
    }
}

fn is_stored_reason(record: &StoredRecord) -> bool {
    let response = record.raw();
    response.as_object().is_some_and(|item| {
        item.values()
            .any(|value| value.get("M").is_some_and(|map| map.get("unavailable").is_some()))
    })
}
