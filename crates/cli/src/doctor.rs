//! `idempotency doctor`: checks the table, its settings and the caller's permissions. Nothing is
//! written.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::{
    BillingMode, ContinuousBackupsDescription, MultiRegionConsistency, PointInTimeRecoveryStatus,
    TableDescription, TableStatus, TimeToLiveDescription, TimeToLiveStatus,
};
use dynamodb_idempotency::{Attribute, ErrorKind, Finding, Idempotency, Scope, Severity};
use futures_util::future;
use serde_json::{Value, json};

use crate::describe::{self, Described, Undescribed};
use crate::failure::Failure;
use crate::output;
use crate::words::plain;

/// The number of reads from which the median latency is computed.
const READS: usize = 5;

pub(crate) async fn run(
    idempotency: &Idempotency,
    scopes: &[Scope],
    strict: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let findings = findings(idempotency, scopes).await;
    if json {
        let findings: Vec<_> = findings.iter().map(document).collect();
        output::document(json!({"findings": findings}))?;
    } else {
        for finding in &findings {
            let (subject, detail) = (plain(&finding.subject), plain(&finding.detail));
            output::line(format!("{:8} {subject}: {detail}", finding.severity))?;
            if let Some(fix) = &finding.fix {
                output::line(format!("{:8} - {}", "", plain(fix)))?;
            }
        }
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

async fn findings(idempotency: &Idempotency, scopes: &[Scope]) -> Vec<Finding> {
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
    let mut checks = Checks { idempotency, findings: Vec::new() };
    let table = match table {
        // Reported as the connection's.
        Err(Undescribed::Failed(error))
            if connection.is_some() && error.kind() == ErrorKind::Unavailable =>
        {
            None
        }
        table => checks.described("table", "dynamodb:DescribeTable", table),
    };
    if let Some(table) = &table {
        checks.shape(table);
        checks.time_to_live(ttl);
    }
    // Requests to a missing table, or to one with other keys, prove nothing.
    if checks.findings.iter().all(|finding| finding.severity < Severity::Error) {
        checks.findings.extend(permissions);
    }
    if let Some(table) = &table {
        checks.settings(table);
        checks.replicas(table);
        checks.backups(backups);
    }
    match connection {
        Some(finding) => checks.findings.push(finding),
        None if table.is_some() => checks.time().await,
        None => {}
    }
    checks.findings
}

/// The findings so far.
struct Checks<'a> {
    idempotency: &'a Idempotency,
    findings: Vec<Finding>,
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
        let unchecked = format!("the {subject} of table `{}` cannot be checked", self.table_name());
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
        let ours = self.idempotency.admin().schema().name(Attribute::ExpiresAt).to_owned();
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
                    "turn it off and on again for `{ours}`, or rename Attribute::ExpiresAt in the \
                     TableSchema"
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
        let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status);
        self.setting(
            SUBJECT,
            status == Some(PointInTimeRecoveryStatus::Enabled),
            "point-in-time recovery is on",
            "point-in-time recovery is off: if the table is lost, every payment can be made again",
            "turn it on",
        );
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
