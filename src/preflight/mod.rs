//! The checks at the start of a process, which the command line's `doctor` uses too, and the
//! connection alone. Both send item requests only: DynamoDB allows an account ten
//! `DescribeTimeToLive` requests a second, and a deployment can start a thousand processes at once.

pub(crate) mod finding;

use futures_util::future;

use crate::dynamodb::{Access, Look, Table};
use crate::error::{Error, ErrorKind};
use crate::idempotency::Idempotency;
use crate::key::{PartName, RecordKey, Scope};
use crate::kill_switch::DISABLED_VARIABLE;
use crate::policy::Outage;
use crate::preflight::finding::{Finding, Verdict};
use crate::record::{OwnerId, random_owner};

/// The scope of a read that is made without the scope of an operation.
pub(crate) const OWN_SCOPE: &str = "preflight";

impl Idempotency {
    /// Checks the table and the permissions, and opens the connection. Call it when a process
    /// starts: then a wrong deployment is reported at the start, in one line, instead of by the
    /// first customer's request.
    ///
    /// It sends item requests only, all of them at once, so it takes one round trip for any number
    /// of scopes, and no permission that calls do not need. Nothing is written: the writes that it
    /// tries require an owner that does not exist, under a key that no record can have (`scope#`).
    /// Each costs one write unit.
    ///
    /// It checks whether records of each scope, and the parts of its large answers, may be read and
    /// written. A role that may use the scope of an operation may use its tenants too: no need to
    /// name these. For a role that is limited to its tenant, name that tenant's scope.
    ///
    /// The settings of the table, such as its time to live, are not checked:
    /// `idempotency doctor` checks them, and [`create_table`](Self::create_table) sets them.
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
    /// | no table, one with other keys, no credentials, no permission to read or write | [`ErrorKind::Configuration`], all of it in one message, each with its fix |
    /// | no scope is named, or DynamoDB throttles: permissions are not checked | a warning |
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
        if core.is_disabled {
            let finding = Finding::warning("idempotency", "idempotency is switched off")
                .fix(format!("unset {DISABLED_VARIABLE}"));
            return Ok(vec![finding]);
        }
        let scopes: Vec<_> = scopes.into_iter().map(Into::into).collect();
        let mut checks = Checks::new(&core.table);
        checks.records(&scopes).await?;
        let Checks { mut findings, silence, .. } = checks;
        if let Some(error) = silence {
            if core.policy.outage != Outage::Open {
                return Err(error);
            }
            findings.push(
                Finding::warning("connection", error.in_full())
                    .fix("handlers run without protection until it is back"),
            );
        }
        let reported = |verdict| {
            let reported = findings.iter().filter(|finding| finding.verdict == verdict);
            reported.map(Finding::to_string).collect::<Vec<_>>().join("; ")
        };
        let errors = reported(Verdict::Error);
        if !errors.is_empty() {
            return Err(Error::new(ErrorKind::Configuration, errors));
        }
        let warnings = reported(Verdict::Warning);
        if !warnings.is_empty() {
            tracing::warn!(table = core.table.name, "preflight: {warnings}");
        }
        Ok(findings)
    }

    /// Fetches credentials, opens the connection and learns DynamoDB's time, with one request, for the start
    /// of a process without checks. [`preflight`](Self::preflight) does this too.
    ///
    /// It reads the item `preflight#`, which no record can have, for half a read unit. "Not
    /// allowed" and "throttled" are answers too: the connection is open. While idempotency is
    /// [switched off](crate::Builder::disabled) nothing is sent.
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
    /// [`ErrorKind::Configuration`] without credentials, region or table, and for a table with
    /// other keys; [`ErrorKind::Unavailable`] if DynamoDB does not answer.
    pub async fn warm(&self) -> Result<(), Error> {
        let table = &self.core.table;
        if self.core.is_disabled {
            return Ok(());
        }
        let key = RecordKey::nobodys(&Scope::new(OWN_SCOPE))?;
        match table.try_read(&key).await {
            Look::Seen(()) | Look::Denied(_) | Look::Declined(_) => Ok(()),
            Look::Wrong(error) | Look::Silent(error) => Err(error),
        }
    }
}

/// Checks of one table, and what they found so far.
pub(crate) struct Checks<'a> {
    pub(crate) table: &'a Table,
    pub(crate) findings: Vec<Finding>,
    /// DynamoDB did not answer: further checks make no sense.
    pub(crate) silence: Option<Error>,
}

/// What was tried of some items, in words, and how DynamoDB answered.
type Looks = (&'static str, Vec<(Access, Look<()>)>);

/// Every access to the records of a scope, and to the parts of its large answers, which have other
/// leading keys.
struct Probes {
    unowned: OwnerId,
    key: RecordKey,
}

impl Probes {
    fn new(scope: &Scope) -> Result<Self, Error> {
        Ok(Self { unowned: random_owner()?, key: RecordKey::nobodys(scope)? })
    }

    /// Sends them all at once.
    async fn send(&self, table: &Table) -> Vec<Looks> {
        let name = PartName { owner: self.unowned, digest: &[], number: 0 };
        let part = self.key.part(&name, table.schema.max_key_bytes());
        let of_parts = part.iter().map(|part| ("parts of answers", &Access::OF_PARTS[..], part));
        let all = std::iter::once(("records", &Access::ALL[..], &self.key)).chain(of_parts);
        let probes = all.map(async |(what, accesses, key)| {
            let tried = accesses
                .iter()
                .map(async |&access| (access, table.try_access(access, key, &self.unowned).await));
            (what, future::join_all(tried).await)
        });
        future::join_all(probes).await
    }
}

impl<'a> Checks<'a> {
    pub(crate) fn new(table: &'a Table) -> Self {
        Self { table, findings: Vec::new(), silence: None }
    }

    /// Tries what calls of these scopes send.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for a scope without a name.
    pub(crate) async fn records(&mut self, scopes: &[Scope]) -> Result<(), Error> {
        let table = self.table;
        if scopes.is_empty() {
            return self.table_alone().await;
        }
        let probes = scopes.iter().map(Probes::new).collect::<Result<Vec<_>, _>>()?;
        let tried = future::join_all(probes.iter().map(|probes| probes.send(table))).await;
        for (scope, tried) in scopes.iter().zip(tried) {
            if !self.may_use(scope, tried) {
                break;
            }
        }
        Ok(())
    }

    /// Without a scope one read shows a missing table or other keys, and nothing of permissions.
    async fn table_alone(&mut self) -> Result<(), Error> {
        const SUBJECT: &str = "records";
        let look = self.table.try_read(&RecordKey::nobodys(&Scope::new(OWN_SCOPE))?).await;
        match look {
            Look::Wrong(_) | Look::Silent(_) => {
                self.seen(SUBJECT, Access::Get.action(), look);
            }
            Look::Seen(()) | Look::Denied(_) | Look::Declined(_) => self.findings.push(
                Finding::warning(SUBJECT, "no scope is named, so no permission is checked")
                    .fix("name the scopes of your operations (on the command line by --scope)"),
            ),
        }
        Ok(())
    }

    /// Judges the accesses to a scope; `false` if the other scopes would give the same finding.
    fn may_use(&mut self, scope: &Scope, tried: Vec<Looks>) -> bool {
        let (table, scope) = (self.table.name.clone(), scope.as_str());
        let subject = format!("records of {scope}");
        for (what, looks) in tried {
            let (mut denied, mut words, mut is_whole) = (Vec::new(), String::new(), true);
            for (access, look) in looks {
                match look {
                    Look::Denied(said) => {
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

    /// What DynamoDB answered; anything else becomes a finding, or the silence.
    pub(crate) fn seen<T>(&mut self, subject: &str, action: &str, look: Look<T>) -> Option<T> {
        let table = &self.table.name;
        let unchecked = format!("the {subject} of table `{table}` cannot be checked");
        let finding = match look {
            Look::Seen(seen) => return Some(seen),
            Look::Silent(error) => {
                self.silence = Some(error);
                return None;
            }
            Look::Denied(said) => Finding::warning(subject, unchecked)
                .fix(format!("grant {action} on the table (DynamoDB says: {said})")),
            Look::Wrong(error) => Finding::error(subject, error.to_string()),
            Look::Declined(error) => Finding::warning(subject, format!("{unchecked} now: {error}")),
        };
        self.findings.push(finding);
        None
    }
}
