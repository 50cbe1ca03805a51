//! The checks of a deployment, for operators and pipelines.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    BillingMode, MultiRegionConsistency, PointInTimeRecoveryStatus, TableDescription, TableStatus,
    TimeToLiveDescription, TimeToLiveStatus,
};
use futures_util::future;

use super::Admin;
use crate::error::Error;
use crate::ops::preflight::finding::{Finding, Severity};
use crate::ops::preflight::{Checks, OWN_SCOPE};
use crate::store::key::{RecordKey, Scope};
use crate::store::schema::Attribute;
use crate::store::{Access, Inspection, Obstacle, keys_of};

/// The number of round trips from which the median latency is computed.
const ROUND_TRIPS: usize = 5;

impl Admin<'_> {
    /// Checks a deployment: the table, its settings and the caller's permissions.
    ///
    /// It runs all checks of [`preflight`](crate::Idempotency::preflight) with the caller's own
    /// credentials. It also checks the table's state, keys, time to live, billing, deletion
    /// protection, backups and replicas, the clock, and the latency. Nothing is written.
    ///
    /// It additionally needs `dynamodb:DescribeTable`, `DescribeTimeToLive` and
    /// `DescribeContinuousBackups`. A check that is not permitted is a warning. The checks stop at
    /// an error that makes the rest meaningless, such as a missing table or no response.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::{Scope, Severity};
    ///
    /// let findings = idempotency.admin().doctor(&[Scope::new("payments")]).await?;
    /// for finding in &findings {
    ///     println!("{:8} {}: {finding}", finding.severity, finding.subject);
    /// }
    /// assert!(findings.iter().all(|finding| finding.severity < Severity::Error));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if a scope has no name.
    pub async fn doctor(&self, scopes: &[Scope]) -> Result<Vec<Finding>, Error> {
        let mut checks = Checks::new(self.table());
        let description = self.described(&mut checks).await;
        let has_errors = checks.findings.iter().any(|finding| finding.severity == Severity::Error);
        if !has_errors && checks.no_response.is_none() {
            checks.records(scopes).await?;
        }
        if let Some(description) = &description {
            settings(&mut checks, description);
            self.backups(&mut checks).await;
        }
        match checks.no_response.take() {
            Some(error) => checks.findings.push(
                Finding::error("connection", error.in_full())
                    .fix("look at the endpoint, the region and the network"),
            ),
            None if description.is_some() => self.time(&mut checks, scopes).await?,
            None => {}
        }
        Ok(checks.findings)
    }

    /// Describes the table, and finds problems of its state, keys and time to live.
    async fn described(&self, checks: &mut Checks<'_>) -> Option<TableDescription> {
        let table = self.table();
        let (described, ttl) = future::join(table.describe(), table.describe_ttl()).await;
        let description = checks.response("table", "dynamodb:DescribeTable", described)?;
        shape(checks, &description);
        time_to_live(checks, ttl);
        Some(description)
    }

    async fn backups(&self, checks: &mut Checks<'_>) {
        const SUBJECT: &str = "backups";
        let result = self.table().describe_backups().await.map_err(only_this_request);
        let action = "dynamodb:DescribeContinuousBackups";
        let Some(description) = checks.response(SUBJECT, action, result) else { return };
        let recovery = description.and_then(|backups| backups.point_in_time_recovery_description);
        let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status);
        checks.setting(
            SUBJECT,
            status == Some(PointInTimeRecoveryStatus::Enabled),
            "point-in-time recovery is on",
            "point-in-time recovery is off: if the table is lost, every payment can be made again",
            "turn it on",
        );
    }

    /// Checks the clock and the latency.
    async fn time(&self, checks: &mut Checks<'_>, scopes: &[Scope]) -> Result<(), Error> {
        let table = self.table();
        let own = Scope::new(OWN_SCOPE);
        let key = RecordKey::probe(scopes.first().unwrap_or(&own))?;
        let mut trips = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let start = table.clock.now().uptime;
            let result = table.try_read(&key).await;
            let trip = table.clock.now().uptime.since(start);
            match result {
                // An AccessDenied response has the same latency.
                Ok(()) | Err(Obstacle::Denied(_)) => trips.push(trip),
                Err(_) => {
                    checks.response("latency", Access::Get.action(), result);
                    break;
                }
            }
        }
        trips.sort_unstable();
        if let Some(median) = trips.get(trips.len() / 2) {
            let (median, count) = (median.as_millis(), trips.len());
            let detail = format!("a read takes {median} ms from here (median of {count})");
            checks.findings.push(Finding::ok("latency", detail));
        }
        let (offset, tolerance) = (table.clock.offset(), self.core.clock_tolerance);
        let (off, at_most) = (offset.unsigned_abs(), tolerance.as_millis());
        let direction = if offset > 0 { "behind" } else { "ahead of" };
        checks.setting(
            "clock",
            Duration::from_millis(off) <= tolerance,
            &format!("this clock is within {at_most} ms of DynamoDB's"),
            &format!("this clock is {off} ms {direction} DynamoDB's"),
            "leases follow DynamoDB's clock and are not affected, but set this clock",
        );
        Ok(())
    }
}

impl Checks<'_> {
    /// Adds the finding about a setting of the table: `fine`, or a warning with its fix.
    fn setting(&mut self, subject: &str, is_fine: bool, fine: &str, warning: &str, fix: &str) {
        self.findings.push(if is_fine {
            Finding::ok(subject, fine)
        } else {
            Finding::warning(subject, warning).fix(fix)
        });
    }
}

/// Checks the state of the table and its keys.
fn shape(checks: &mut Checks<'_>, description: &TableDescription) {
    let name = &checks.table.name;
    checks.findings.push(match &description.table_status {
        Some(TableStatus::Active | TableStatus::Updating) => {
            Finding::ok("table", format!("table `{name}` exists"))
        }
        status => {
            let status = status.as_ref().map_or("in an unknown state", TableStatus::as_str);
            Finding::error("table", format!("table `{name}` is {status}"))
                .fix("wait until it is ACTIVE, or restore it and its encryption key")
        }
    });
    let (keys, expected) = (keys_of(description), checks.table.expected_keys());
    checks.findings.push(if keys == expected {
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

/// DynamoDB has responded to another request just before, or at the same time.
fn only_this_request(obstacle: Obstacle) -> Obstacle {
    match obstacle {
        Obstacle::NoResponse(error) => Obstacle::Failed(error),
        obstacle => obstacle,
    }
}

fn time_to_live(checks: &mut Checks<'_>, result: Inspection<Option<TimeToLiveDescription>>) {
    const SUBJECT: &str = "time to live";
    let result = result.map_err(only_this_request);
    let Some(ttl) = checks.response(SUBJECT, "dynamodb:DescribeTimeToLive", result) else { return };
    let (table, ours) = (&checks.table.name, checks.table.schema.name(Attribute::ExpiresAt));
    let ttl = ttl.filter(|ttl| {
        use TimeToLiveStatus::{Enabled, Enabling};
        matches!(ttl.time_to_live_status, Some(Enabled | Enabling))
    });
    let (state, fix) = match ttl.as_ref().and_then(|ttl| ttl.attribute_name()) {
        Some(name) if name == ours => {
            let detail = format!("time to live is on for the attribute `{name}`");
            return checks.findings.push(Finding::ok(SUBJECT, detail));
        }
        Some(name) => (
            format!("on for `{name}`"),
            format!(
                "turn it off and on again for `{ours}`, or rename Attribute::ExpiresAt in the TableSchema"
            ),
        ),
        None => ("off".to_owned(), format!("turn it on for the attribute `{ours}`")),
    };
    let detail = format!("the time to live of table `{table}` is {state}, so no record is deleted");
    checks.findings.push(Finding::warning(SUBJECT, detail).fix(fix));
}

/// Checks the settings in the description of a table.
fn settings(checks: &mut Checks<'_>, table: &TableDescription) {
    let billing = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    checks.setting(
        "billing",
        billing == Some(&BillingMode::PayPerRequest),
        "the table is on demand",
        "the table has provisioned capacity: DynamoDB throttles requests above it",
        "switch it to on demand, or watch its throttled requests",
    );
    checks.setting(
        "deletion protection",
        table.deletion_protection_enabled == Some(true),
        "the table is protected from deletion",
        "the table is not protected from deletion: without it, every payment can be made again",
        "turn deletion protection on, except for tables that you plan to delete",
    );
    if table.replicas().is_empty() {
        checks.findings.push(Finding::ok("replicas", "the table is in one region"));
        return;
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
    checks.findings.push(Finding::warning("replicas", detail).fix(fix));
}
