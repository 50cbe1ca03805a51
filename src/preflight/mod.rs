//! The checks at a function's start, which the command line's `doctor` uses too, and the connection
//! alone.

pub(crate) mod finding;

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    TableDescription, TableStatus, TimeToLiveDescription, TimeToLiveStatus,
};
use futures_util::future;

use crate::dynamodb::{Access, Look, Table};
use crate::error::{Error, ErrorKind};
use crate::idempotency::Idempotency;
use crate::key::{PartName, RecordKey, Scope};
use crate::kill_switch::DISABLED_VARIABLE;
use crate::policy::Outage;
use crate::preflight::finding::{Finding, Verdict};
use crate::record::Owner;
use crate::schema::Attribute;

/// What the two questions about the table may take each: they are not what a function lives on.
const DESCRIBED_WITHIN: Duration = Duration::from_secs(2);

impl Idempotency {
    /// Checks table and permissions, and opens the connection. Call it when a function starts: then
    /// a wrong deployment is reported at the start, in one line, and not by the first customer's
    /// request.
    ///
    /// It takes two round trips, however many scopes there are: one for the table's state and keys
    /// (`dynamodb:DescribeTable`) and its time to live (`dynamodb:DescribeTimeToLive`), side by
    /// side; and one for all permissions of all `scopes`. Nothing is written: the writes that it tries
    /// require an owner that does not exist, under a key that no record can have (`scope#`).
    ///
    /// It checks whether records of each scope, and the parts of its large answers, may be read and
    /// written, for the write units of some small writes that do not happen. A role that may use
    /// the scope of an operation may use its tenants too: no need to name these. For a role that is
    /// limited to its tenant, name that tenant's scope.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// for finding in idempotency.preflight(["payments", "transfers"]).await? {
    ///     println!("{:7} {}: {finding}", finding.verdict, finding.subject);
    /// }
    /// # Ok(()) });
    /// ```
    ///
    /// | what is found | what happens |
    /// |---|---|
    /// | no table, one with other keys or that is not ready, no credentials, no permission to read or write | [`ErrorKind::Configuration`], all of it in one message, each with its fix |
    /// | the time to live is off, or on another attribute: records stay forever | a warning |
    /// | no permission to describe, or DynamoDB throttles: not checked | a warning |
    /// | idempotency is [switched off](crate::Builder::disabled): nothing is checked | a warning |
    /// | DynamoDB does not answer | [`ErrorKind::Unavailable`]; under [`Outage::Open`] a warning |
    ///
    /// Warnings are in the result, and in the log in one line (`tracing`, level `WARN`).
    ///
    /// # Errors
    /// As the table says.
    pub async fn preflight(
        &self,
        scopes: impl IntoIterator<Item: Into<Scope>>,
    ) -> Result<Vec<Finding>, Error> {
        let core = &self.core;
        if core.table.is_disabled {
            let finding = Finding::warning("idempotency", "idempotency is switched off")
                .fix(format!("unset {DISABLED_VARIABLE}"));
            return Ok(vec![finding]);
        }
        let scopes: Vec<_> = scopes.into_iter().map(Into::into).collect();
        let mut checks = Checks::new(&core.table);
        checks.all(&scopes).await?;
        let Checks { mut findings, silence, .. } = checks;
        if let Some(error) = silence {
            match core.policy.outage {
                Outage::Closed => return Err(error),
                Outage::Open => findings.push(
                    Finding::warning("connection", error.in_full())
                        .fix("handlers run without protection until it is back"),
                ),
            }
        }
        let told = |verdict| {
            let told = findings.iter().filter(|finding| finding.verdict == verdict);
            told.map(Finding::to_string).collect::<Vec<_>>().join("; ")
        };
        let errors = told(Verdict::Error);
        if !errors.is_empty() {
            return Err(Error::new(ErrorKind::Configuration, errors));
        }
        let warnings = told(Verdict::Warning);
        if !warnings.is_empty() {
            tracing::warn!(table = core.table.name, "preflight: {warnings}");
        }
        Ok(findings)
    }

    /// Fetches credentials and opens the connection, with one request, for a function's start
    /// without checks. [`preflight`](Self::preflight) does it too, and takes one round trip more.
    ///
    /// It asks for the table's state (`dynamodb:DescribeTable`), for 2 s at most. "Not allowed" and
    /// "throttled" are answers too: the connection is open. While idempotency is [switched
    /// off](crate::Builder::disabled) nothing is sent.
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), dynamodb_idempotency::Error> {
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::from_env().await?;
    /// if let Err(error) = idempotency.warm().await {
    ///     eprintln!("the first request will have to connect: {error}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] without credentials, region or table;
    /// [`ErrorKind::Unavailable`] if DynamoDB does not answer.
    pub async fn warm(&self) -> Result<(), Error> {
        let table = &self.core.table;
        if table.is_disabled {
            return Ok(());
        }
        match table.describe(DESCRIBED_WITHIN).await {
            Look::Seen(_) | Look::Denied(_) | Look::Declined(_) => Ok(()),
            Look::Wrong(error) | Look::Silent(error) => Err(error),
        }
    }
}

/// Checks of one table, and what they found so far.
pub(crate) struct Checks<'a> {
    table: &'a Table,
    pub(crate) findings: Vec<Finding>,
    /// The store gave no answer, and nothing else came from it since.
    pub(crate) silence: Option<Error>,
}

/// What was tried of some items, in words, and what became of it.
type Looks = (&'static str, Vec<(Access, Look<()>)>);

/// Every access to the records of a scope, and to the parts of its large answers, which have other
/// leading keys.
struct Probes {
    nobody: Owner,
    key: RecordKey,
}

impl Probes {
    fn new(scope: &Scope) -> Result<Self, Error> {
        Ok(Self { nobody: Owner::random()?, key: RecordKey::nobodys(scope)? })
    }

    /// Sends them all at once.
    async fn send(&self, table: &Table) -> Vec<Looks> {
        let name = PartName { owner: self.nobody.as_str(), digest: &[], number: 0 };
        let part = self.key.part(&name, table.schema.max_key_bytes());
        let of_parts = part.iter().map(|part| ("parts of answers", &Access::OF_PARTS[..], part));
        let all = std::iter::once(("records", &Access::ALL[..], &self.key)).chain(of_parts);
        let probes = all.map(async |(what, accesses, key)| {
            let tried = accesses.iter().map(async |&access| {
                let limit = table.request_timeout;
                (access, table.try_access(access, key, &self.nobody, limit).await)
            });
            (what, future::join_all(tried).await)
        });
        future::join_all(probes).await
    }
}

impl<'a> Checks<'a> {
    pub(crate) fn new(table: &'a Table) -> Self {
        Self { table, findings: Vec::new(), silence: None }
    }

    /// Each check, as long as it makes sense; gives what the table was described as.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for a scope without a name.
    pub(crate) async fn all(
        &mut self,
        scopes: &[Scope],
    ) -> Result<Option<TableDescription>, Error> {
        let probes = scopes.iter().map(Probes::new).collect::<Result<Vec<_>, _>>()?;
        let table = self.table;
        let (shape, time_to_live) =
            future::join(table.describe(DESCRIBED_WITHIN), table.describe_ttl(DESCRIBED_WITHIN))
                .await;
        let description = self.shape(shape);
        if self.has_errors() {
            return Ok(description);
        }
        // The first silence is enough to know; the writes say whether it was the whole store's.
        if self.silence.is_none() {
            self.time_to_live(time_to_live);
        }
        let tried = future::join_all(probes.iter().map(|probes| probes.send(table))).await;
        for (scope, tried) in scopes.iter().zip(tried) {
            if !self.may_use(scope, tried) {
                break;
            }
        }
        Ok(description)
    }

    fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict == Verdict::Error)
    }

    fn shape(&mut self, look: Look<TableDescription>) -> Option<TableDescription> {
        let description = self.seen("table", "dynamodb:DescribeTable", look)?;
        let name = &self.table.name;
        self.findings.push(match &description.table_status {
            Some(TableStatus::Active | TableStatus::Updating) => {
                Finding::ok("table", format!("table `{name}` is there"))
            }
            status => {
                let status = status.as_ref().map_or("in no known state", TableStatus::as_str);
                Finding::error("table", format!("table `{name}` is {status}"))
                    .fix("wait until it is ACTIVE, or restore it and its encryption key")
            }
        });
        let (keys, are_ours) = self.table.compare_keys(&description);
        self.findings.push(if are_ours {
            Finding::ok("keys", format!("its key is {keys}"))
        } else {
            let expected = self.table.expected_keys();
            let detail =
                format!("table `{name}` has the key {keys}, and the TableSchema says {expected}");
            Finding::error("keys", detail).fix(
                "name another table, or describe this one by TableSchema::partition_key or \
                 composite_key (on the command line by --partition-key or --composite-key)",
            )
        });
        Some(description)
    }

    fn time_to_live(&mut self, look: Look<TimeToLiveDescription>) {
        const SUBJECT: &str = "time to live";
        let look = match look {
            // The table was described at the same time: this question only was too much.
            Look::Silent(error) => Look::Declined(error),
            look => look,
        };
        let Some(ttl) = self.seen(SUBJECT, "dynamodb:DescribeTimeToLive", look) else { return };
        let (table, ours) = (&self.table.name, self.table.schema.name(Attribute::ExpiresAt));
        let is_on = matches!(
            ttl.time_to_live_status,
            Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
        );
        self.findings.push(match ttl.attribute_name() {
            Some(name) if is_on && name == ours => {
                Finding::ok(SUBJECT, format!("its time to live is on, by `{name}`"))
            }
            Some(name) if is_on => Finding::warning(
                SUBJECT,
                format!(
                    "the time to live of table `{table}` is on `{name}`, so no record is deleted"
                ),
            )
            .fix(format!(
                "turn it off and on again for `{ours}`, or rename Attribute::ExpiresAt in the \
                 TableSchema"
            )),
            _ => Finding::warning(
                SUBJECT,
                format!("the time to live of table `{table}` is off, so no record is deleted"),
            )
            .fix(format!("turn it on for the attribute `{ours}`")),
        });
    }

    /// Judges what became of the accesses to a scope; `false` if the next scope needs no word.
    fn may_use(&mut self, scope: &Scope, tried: Vec<Looks>) -> bool {
        let (table, scope) = (self.table.name.clone(), scope.as_str());
        let subject = format!("records of {scope}");
        for (what, looks) in tried {
            let (mut denied, mut words, mut is_whole) = (Vec::new(), String::new(), true);
            for (access, look) in looks {
                match look {
                    Look::Denied(said) => {
                        self.answered();
                        denied.push(access.action());
                        words = said;
                    }
                    look @ (Look::Wrong(_) | Look::Silent(_)) => {
                        self.seen(&subject, access.action(), look);
                        return false;
                    }
                    look => is_whole &= self.seen(&subject, access.action(), look).is_some(),
                }
            }
            if !denied.is_empty() {
                let actions = denied.join(", ");
                let detail = format!(
                    "the role may not do {actions} on {what} of `{scope}` in table `{table}`"
                );
                self.findings.push(Finding::error(subject, detail).fix(format!(
                    "grant it, for the dynamodb:LeadingKeys `{scope}#*` and `{scope}/*#*` \
                     where they are limited (DynamoDB says: {words})"
                )));
                return true;
            }
            if !is_whole {
                return true;
            }
        }
        let detail = format!("records of `{scope}` may be read and written");
        self.findings.push(Finding::ok(subject, detail));
        true
    }

    /// What was seen; what was not is a finding, or a silence.
    pub(crate) fn seen<T>(&mut self, subject: &str, action: &str, look: Look<T>) -> Option<T> {
        let table = &self.table.name;
        let unchecked = format!("the {subject} of table `{table}` cannot be checked");
        let finding = match look {
            Look::Seen(seen) => {
                self.answered();
                return Some(seen);
            }
            Look::Silent(error) => {
                self.silence = Some(error);
                return None;
            }
            Look::Denied(said) => Finding::warning(subject, unchecked)
                .fix(format!("grant {action} on the table (DynamoDB says: {said})")),
            Look::Wrong(error) => Finding::error(subject, error.to_string()),
            Look::Declined(error) => Finding::warning(subject, format!("{unchecked} now: {error}")),
        };
        self.answered();
        self.findings.push(finding);
        None
    }

    /// The store speaks: if it was silent before, that was about one question.
    fn answered(&mut self) {
        if let Some(error) = self.silence.take() {
            let detail = format!("the table `{}` cannot be checked now: {error}", self.table.name);
            self.findings.push(Finding::warning("table", detail));
        }
    }
}
