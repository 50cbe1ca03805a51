//! Checks a deployment at the start of a process, and opens the connection. `doctor` of the command
//! line uses the checks too. Both send item requests only, because DynamoDB allows an account ten
//! `DescribeTimeToLive` requests per second, and a deployment can start a thousand processes at once.

pub(crate) mod finding;

use futures_util::future;

use crate::error::{Error, ErrorKind};
use crate::idempotency::Idempotency;
use crate::ops::preflight::finding::{Finding, Severity};
use crate::policy::Outage;
use crate::run::kill_switch::DISABLED_ENV;
use crate::store::key::{PartName, RecordKey, Scope};
use crate::store::record::{OwnerId, random_owner};
use crate::store::{Access, Inspection, Obstacle, Table};

/// The scope of a read without the scope of an operation.
pub(crate) const OWN_SCOPE: &str = "preflight";

impl Idempotency {
    /// Checks the table and the permissions, and opens the connection.
    ///
    /// Call it when a process starts: it then reports a wrong deployment in one line, before the
    /// first customer's request fails.
    ///
    /// It sends only item requests, all of them concurrently, so it takes one round trip for any
    /// number of scopes, and no additional permissions. Nothing is written: its writes require an
    /// owner that does not exist, under a key that no record can have (`scope#`). Each costs one
    /// write unit.
    ///
    /// It checks whether the records of each scope, and the parts of its large answers, may be read
    /// and written. A role that may use the scope of an operation may also use its tenants, so do
    /// not name them. For a role that is limited to a tenant, name that tenant's scope.
    ///
    /// The settings of the table, such as its time to live, are not checked:
    /// `idempotency doctor` checks them, and [`create_table`](Self::create_table) sets them.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// for finding in idempotency.preflight(["payments", "transfers"]).await? {
    ///     println!("{:7} {}: {finding}", finding.severity, finding.subject);
    /// }
    /// # Ok(()) });
    /// ```
    ///
    /// | finding | result |
    /// |---|---|
    /// | the table, credentials or permissions are missing, or the table has other keys | [`ErrorKind::Configuration`], with all findings in one message, each with its fix |
    /// | no scope is named, or DynamoDB throttles: permissions are not checked | a warning |
    /// | idempotency is [switched off](crate::Builder::disabled): nothing is checked | a warning |
    /// | DynamoDB does not answer | [`ErrorKind::Unavailable`]; under [`Outage::Open`] a warning |
    ///
    /// Warnings are returned, and logged in one line at WARN.
    ///
    /// # Errors
    /// See the table.
    pub async fn preflight(
        &self,
        scopes: impl IntoIterator<Item: Into<Scope>>,
    ) -> Result<Vec<Finding>, Error> {
        let core = &self.core;
        if core.is_disabled {
            let finding = Finding::warning("idempotency", "idempotency is switched off")
                .fix(format!("unset {DISABLED_ENV}"));
            return Ok(vec![finding]);
        }
        let scopes: Vec<_> = scopes.into_iter().map(Into::into).collect();
        let mut checks = Checks::new(&core.table);
        checks.records(&scopes).await?;
        let Checks { mut findings, no_response, .. } = checks;
        if let Some(error) = no_response {
            if core.policy.outage != Outage::Open {
                return Err(error);
            }
            findings.push(
                Finding::warning("connection", error.in_full())
                    .fix("handlers run without protection until DynamoDB responds again"),
            );
        }
        let reported = |severity| {
            let reported = findings.iter().filter(|finding| finding.severity == severity);
            reported.map(Finding::to_string).collect::<Vec<_>>().join("; ")
        };
        let errors = reported(Severity::Error);
        if !errors.is_empty() {
            return Err(Error::new(ErrorKind::Configuration, errors));
        }
        let warnings = reported(Severity::Warning);
        if !warnings.is_empty() {
            tracing::warn!(table = core.table.name, "preflight: {warnings}");
        }
        Ok(findings)
    }

    /// Opens the connection: fetches credentials and learns DynamoDB's time with one request.
    ///
    /// For the start of a process without checks; [`preflight`](Self::preflight) does this too. It
    /// reads the item `preflight#`, which no record can have, for half a read unit. A response that
    /// denies or throttles the request also succeeds, because the connection is open. While
    /// idempotency is [switched off](crate::Builder::disabled), nothing is sent.
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
    /// [`ErrorKind::Configuration`] if the credentials, the region or the table are missing, or if
    /// the table has other keys; [`ErrorKind::Unavailable`] if DynamoDB does not respond.
    pub async fn warm(&self) -> Result<(), Error> {
        let table = &self.core.table;
        if self.core.is_disabled {
            return Ok(());
        }
        let key = RecordKey::probe(&Scope::new(OWN_SCOPE))?;
        match table.try_read(&key).await {
            Err(obstacle) if obstacle.is_general() => {
                Err(obstacle.into_error(&table.name, Access::Get.action()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// The checks of one table and their findings.
pub(crate) struct Checks<'a> {
    pub(crate) table: &'a Table,
    pub(crate) findings: Vec<Finding>,
    /// DynamoDB did not respond, so further checks are skipped.
    pub(crate) no_response: Option<Error>,
}

/// The accesses that were tried, described in words, and the responses.
type AccessResults = (&'static str, Vec<(Access, Inspection<()>)>);

/// Tries all accesses to the records of a scope and to the parts of its large answers, whose leading
/// keys differ. Sends all requests concurrently, with an owner that no call has.
async fn probe(table: &Table, key: &RecordKey, owner: OwnerId) -> Vec<AccessResults> {
    let part = key.part(&PartName { owner, digest: &[], number: 0 }, table.schema.max_key_bytes());
    let of_parts = part.iter().map(|part| ("parts of answers", &Access::OF_PARTS[..], part));
    let all = std::iter::once(("records", &Access::ALL[..], key)).chain(of_parts);
    let probes = all.map(async |(what, accesses, key)| {
        let tried = accesses
            .iter()
            .map(async |&access| (access, table.try_access(access, key, &owner).await));
        (what, future::join_all(tried).await)
    });
    future::join_all(probes).await
}

impl<'a> Checks<'a> {
    pub(crate) fn new(table: &'a Table) -> Self {
        Self { table, findings: Vec::new(), no_response: None }
    }

    /// Tries the requests that calls of these scopes send.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if a scope has no name.
    pub(crate) async fn records(&mut self, scopes: &[Scope]) -> Result<(), Error> {
        if scopes.is_empty() {
            return self.table_alone().await;
        }
        let (table, owner) = (self.table, random_owner()?);
        let keys = scopes.iter().map(RecordKey::probe).collect::<Result<Vec<_>, _>>()?;
        let tried = future::join_all(keys.iter().map(|key| probe(table, key, owner))).await;
        for (scope, tried) in scopes.iter().zip(tried) {
            if !self.may_use(scope, tried) {
                break;
            }
        }
        Ok(())
    }

    /// Without a scope, one read detects a missing table or other keys, but checks no permissions.
    async fn table_alone(&mut self) -> Result<(), Error> {
        const SUBJECT: &str = "records";
        let result = self.table.try_read(&RecordKey::probe(&Scope::new(OWN_SCOPE))?).await;
        if result.as_ref().is_err_and(Obstacle::is_general) {
            self.response(SUBJECT, Access::Get.action(), result);
            return Ok(());
        }
        self.findings.push(
            Finding::warning(SUBJECT, "no scope is named, so no permission is checked")
                .fix("name the scopes of your operations (on the command line: --scope)"),
        );
        Ok(())
    }

    /// Evaluates the accesses to a scope. Returns `false` if the other scopes would have the same
    /// finding.
    fn may_use(&mut self, scope: &Scope, tried: Vec<AccessResults>) -> bool {
        let (table, scope) = (self.table.name.clone(), scope.as_str());
        let subject = format!("records of {scope}");
        for (what, results) in tried {
            let (mut denied, mut words, mut is_whole) = (Vec::new(), String::new(), true);
            for (access, result) in results {
                if let Err(Obstacle::Denied(message)) = result {
                    denied.push(access.action());
                    words = message;
                    continue;
                }
                let is_general = result.as_ref().is_err_and(Obstacle::is_general);
                is_whole &= self.response(&subject, access.action(), result).is_some();
                if is_general {
                    return false;
                }
            }
            if !denied.is_empty() {
                let actions = denied.join(", ");
                let detail = format!(
                    "the role is not allowed {actions} on {what} of `{scope}` in table `{table}`"
                );
                self.findings.push(Finding::error(subject, detail).fix(format!(
                    "grant it, for the dynamodb:LeadingKeys `{scope}#*` and `{scope}/*#*` \
                     if the policy limits them (DynamoDB says: {words})"
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

    /// Returns the response. Anything else becomes a finding, or is recorded as no response.
    pub(crate) fn response<T>(
        &mut self,
        subject: &str,
        action: &str,
        result: Inspection<T>,
    ) -> Option<T> {
        let table = &self.table.name;
        let unchecked = format!("the {subject} of table `{table}` cannot be checked");
        let finding = match result {
            Ok(seen) => return Some(seen),
            Err(Obstacle::NoResponse(error)) => {
                self.no_response = Some(error);
                return None;
            }
            Err(Obstacle::Denied(message)) => Finding::warning(subject, unchecked)
                .fix(format!("grant {action} on the table (DynamoDB says: {message})")),
            Err(Obstacle::Failed(error)) if error.kind() == ErrorKind::Configuration => {
                Finding::error(subject, error.to_string())
            }
            Err(Obstacle::Failed(error)) => {
                Finding::warning(subject, format!("{unchecked} now: {error}"))
            }
        };
        self.findings.push(finding);
        None
    }
}
