//! The checks of a deployment, for people and pipelines.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    BillingMode, MultiRegionConsistency, PointInTimeRecoveryStatus, TableDescription,
};

use super::Admin;
use crate::dynamodb::{Access, Look};
use crate::error::Error;
use crate::key::{RecordKey, Scope};
use crate::preflight::Checks;
use crate::preflight::finding::Finding;
use crate::record::Owner;

/// How many round trips the latency is the median of.
const ROUND_TRIPS: usize = 5;

impl Admin<'_> {
    /// All checks of [`preflight`](crate::Idempotency::preflight), with the caller's own
    /// credentials, and further checks for people: billing, deletion protection, backups, replicas,
    /// the clock, and the latency. Nothing is written.
    ///
    /// It also needs `dynamodb:DescribeContinuousBackups`. A check that is not permitted is a
    /// warning. The checks stop if the rest makes no sense: without a table, or without a response,
    /// which is an error among the findings.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// use dynamodb_idempotency::{Scope, Verdict};
    ///
    /// let findings = idempotency.admin().doctor(&[Scope::new("payments")]).await?;
    /// for finding in &findings {
    ///     println!("{:8} {}: {finding}", finding.verdict, finding.subject);
    /// }
    /// assert!(findings.iter().all(|finding| finding.verdict < Verdict::Error));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) for a scope without a name.
    pub async fn doctor(&self, scopes: &[Scope]) -> Result<Vec<Finding>, Error> {
        let mut checks = Checks::new(self.table());
        let description = checks.all(scopes).await?;
        if scopes.is_empty() {
            checks.findings.push(
                Finding::warning("records", "which records may be read and written is not checked")
                    .fix("name the scopes of your operations (on the command line by --scope)"),
            );
        }
        if let Some(description) = &description {
            settings(&mut checks, description);
            self.backups(&mut checks).await;
        }
        match checks.silence.take() {
            Some(error) => checks.findings.push(
                Finding::error("connection", error.in_full())
                    .fix("look at the endpoint, the region and the network"),
            ),
            None if description.is_some() => self.time(&mut checks, scopes).await?,
            None => {}
        }
        Ok(checks.findings)
    }

    async fn backups(&self, checks: &mut Checks<'_>) {
        const SUBJECT: &str = "backups";
        let look = match self.table().describe_backups(self.table().request_timeout).await {
            // The table was described a moment ago.
            Look::Silent(error) => Look::Declined(error),
            look => look,
        };
        let action = "dynamodb:DescribeContinuousBackups";
        let Some(description) = checks.seen(SUBJECT, action, look) else { return };
        let recovery = description
            .as_ref()
            .and_then(|description| description.point_in_time_recovery_description())
            .and_then(|recovery| recovery.point_in_time_recovery_status());
        checks.findings.push(match recovery {
            Some(PointInTimeRecoveryStatus::Enabled) => {
                Finding::ok(SUBJECT, "point-in-time recovery is on")
            }
            _ => Finding::warning(
                SUBJECT,
                "point-in-time recovery is off, so a table that is lost makes every payment again",
            )
            .fix("turn it on"),
        });
    }

    /// The clock and the way to the store.
    async fn time(&self, checks: &mut Checks<'_>, scopes: &[Scope]) -> Result<(), Error> {
        let table = self.table();
        let doctors = Scope::new("doctor");
        let key = RecordKey::nobodys(scopes.first().unwrap_or(&doctors))?;
        let nobody = Owner::random()?;
        let mut trips = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let start = table.clock.now().uptime;
            let look = table.try_access(Access::Get, &key, &nobody, table.request_timeout).await;
            let trip = table.clock.now().uptime.since(start);
            match look {
                // Who denies has answered.
                Look::Seen(()) | Look::Denied(_) => trips.push(trip),
                look => {
                    checks.seen("latency", Access::Get.action(), look);
                    break;
                }
            }
        }
        trips.sort_unstable();
        if let Some(median) = trips.get(trips.len() / 2) {
            let detail = format!(
                "a read takes {} ms from here (median of {})",
                median.as_millis(),
                trips.len()
            );
            checks.findings.push(Finding::ok("latency", detail));
        }
        let offset = table.clock.offset();
        let tolerance = self.core.clock_tolerance;
        let is_fine = Duration::from_millis(offset.unsigned_abs()) <= tolerance;
        checks.findings.push(if is_fine {
            let detail = format!("this clock is within {} ms of DynamoDB's", tolerance.as_millis());
            Finding::ok("clock", detail)
        } else {
            let direction = if offset > 0 { "behind" } else { "ahead of" };
            let detail =
                format!("this clock is {} ms {direction} DynamoDB's", offset.unsigned_abs());
            Finding::warning("clock", detail)
                .fix("leases are stamped by DynamoDB's clock, so all is well; but set this one")
        });
        Ok(())
    }
}

/// What the description of a table tells of its settings.
fn settings(checks: &mut Checks<'_>, table: &TableDescription) {
    let billing = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    checks.findings.push(match billing {
        Some(BillingMode::PayPerRequest) => Finding::ok("billing", "the table is on demand"),
        _ => Finding::warning(
            "billing",
            "the table has provisioned capacity, and what is above it is refused",
        )
        .fix("switch it to on demand, or watch its throttles"),
    });
    checks.findings.push(match table.deletion_protection_enabled {
        Some(true) => Finding::ok("deletion protection", "the table is protected from deletion"),
        _ => Finding::warning(
            "deletion protection",
            "the table is not protected from deletion, and without it every payment is made again",
        )
        .fix("turn deletion protection on, but for tables that are to go"),
    });
    if table.replicas().is_empty() {
        checks.findings.push(Finding::ok("replicas", "the table is in one region"));
        return;
    }
    let regions: Vec<_> = table.replicas().iter().filter_map(|one| one.region_name()).collect();
    let regions = regions.join(", ");
    checks.findings.push(match table.multi_region_consistency() {
        Some(MultiRegionConsistency::Strong) => Finding::warning(
            "replicas",
            format!("the table is replicated to {regions}, strongly consistent"),
        )
        .fix("it has no transactions, so commit and run_transaction fail; and no time to live"),
        _ => Finding::warning(
            "replicas",
            format!(
                "the table is replicated to {regions}, eventually consistent: two regions can both \
                 win a key"
            ),
        )
        .fix("keep the requests of a key in one region"),
    });
}
