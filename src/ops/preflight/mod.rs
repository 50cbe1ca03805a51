//! Checks a deployment at the start of a process, and opens the connection. It sends item requests
//! only, because DynamoDB allows an account ten `DescribeTimeToLive` requests per second, and a
//! deployment can start a thousand processes at once.

pub(crate) mod finding;

use futures_util::future;

use crate::call::kill_switch::DISABLED_ENV;
use crate::error::{Error, ErrorKind};
use crate::idempotency::Idempotency;
use crate::ops::preflight::finding::{Finding, Severity};
use crate::policy::Outage;
use crate::store::key::{PartName, RecordKey, Scope};
use crate::store::record::{OwnerId, random_owner};
use crate::store::{Access, Obstacle, Table};

/// The scope of the read that is sent if no scope of an operation is named.
const OWN_SCOPE: &str = "preflight";

impl Idempotency {
    /// Checks the table and the permissions, and opens the connection.
    ///
    /// Call it when a process starts. It reports a wrong deployment in one line, before the first
    /// customer's request fails.
    ///
    /// It needs no additional permissions, and takes one round trip for any number of scopes,
    /// because all its requests are concurrent. Nothing is written: its writes require an owner that
    /// does not exist, under a key that no record can have (`scope#`). Each write costs one write unit.
    ///
    /// It checks whether the records of each scope, and the parts of its large answers, may be read
    /// and written. A role that may use the scope of an operation may also use the scopes of its tenants,
    /// so do not name those. For a role that is limited to one tenant, name that tenant's scope.
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
    /// | DynamoDB's responses have no `Date` header, and [`local_store_time`](crate::Builder::local_store_time) is not declared | [`ErrorKind::Configuration`] |
    /// | no scope is named, or DynamoDB throttles: permissions are not checked | a warning |
    /// | idempotency is [switched off](crate::Builder::disabled): nothing is checked | a warning |
    /// | the credentials have lapsed | [`ErrorKind::Unavailable`] |
    /// | DynamoDB does not answer | [`ErrorKind::Unavailable`]; under [`Outage::Open`] a warning |
    ///
    /// Warnings are returned. While idempotency is on, they are also logged, in one line at WARN.
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
        let findings = match check_scopes(&core.table, &scopes).await {
            Err(error) if error.is_outage() && core.policy.outage == Outage::Open => {
                vec![
                    Finding::warning("connection", error.in_full())
                        .fix("handlers run without protection until DynamoDB responds again"),
                ]
            }
            checked => checked?,
        };
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
    /// Use it at the start of a process if you do not call [`preflight`](Self::preflight), which
    /// opens the connection too. It reads the item `preflight#`, which no record can have, for half
    /// a read unit. It also succeeds if DynamoDB denies or throttles the request, because the
    /// connection is open then. While idempotency is [switched off](crate::Builder::disabled),
    /// nothing is sent.
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
    /// the table has other keys; [`ErrorKind::Unavailable`] if DynamoDB does not respond or the
    /// credentials have lapsed.
    pub async fn warm(&self) -> Result<(), Error> {
        if self.core.is_disabled {
            return Ok(());
        }
        read_own_key(&self.core.table).await?;
        Ok(())
    }
}

/// Learns DynamoDB's time with one read, unless a response has shown it already. Any response shows it,
/// also one that denies the request because the clock of this machine is wrong.
///
/// # Errors
/// If no time was learned: those of [`Idempotency::warm`], or [`ErrorKind::Unavailable`].
#[cfg(feature = "http")]
pub(crate) async fn learn_time(table: &Table) -> Result<(), Error> {
    if table.clock.knows_store_time() {
        return Ok(());
    }
    let read = read_own_key(table).await;
    if table.clock.knows_store_time() {
        return Ok(());
    }
    read?;
    let message = "DynamoDB rejected the request that learns its time, and the response has no `Date` \
                   header. Try again";
    Err(Error::new(ErrorKind::Unavailable, message))
}

/// Tries the requests that calls of these scopes send, all of them concurrently. Nothing is written.
///
/// # Errors
/// The error that every request to the table meets, if no access is denied;
/// [`ErrorKind::Configuration`] or [`ErrorKind::InvalidInput`] if a scope has no name.
pub(crate) async fn check_scopes(table: &Table, scopes: &[Scope]) -> Result<Vec<Finding>, Error> {
    if scopes.is_empty() {
        let was_answered = read_own_key(table).await?;
        let finding = Finding::warning("records", "no scope is named, so no permission is checked")
            .fix("name the scopes of your operations (on the command line: --scope)");
        return Ok([Some(finding), check_time(table, was_answered)]
            .into_iter()
            .flatten()
            .collect());
    }
    let owner = random_owner()?;
    let keys = scopes.iter().map(RecordKey::probe).collect::<Result<Vec<_>, _>>()?;
    let checks = keys.iter().map(|key| check_scope(table, key, owner));
    let checked = future::join_all(checks).await;
    let is_denied = |finding: &Finding| finding.severity == Severity::Error;
    // A denied access is certain, even if requests of other scopes got no response.
    if checked.iter().flatten().any(is_denied) {
        return Ok(checked.into_iter().flatten().collect());
    }
    let mut findings = checked.into_iter().collect::<Result<Vec<_>, _>>()?;
    let was_answered = findings.iter().any(|finding| finding.severity == Severity::Ok);
    findings.extend(check_time(table, was_answered));
    Ok(findings)
}

/// An error if the responses so far show no time.
fn check_time(table: &Table, was_answered: bool) -> Option<Finding> {
    let is_unknown = was_answered && !table.clock.knows_store_time();
    is_unknown.then(|| {
        let detail =
            "DynamoDB's responses have no `Date` header, so its time is unknown and no call runs";
        Finding::error("time", detail).fix(
            "let the header pass through what is between this program and DynamoDB, or declare \
             Builder::local_store_time()",
        )
    })
}

/// Reads a key that no record can have. A missing permission is no error, because a role may be limited
/// to the scopes of its operations. Returns whether DynamoDB has executed the read.
async fn read_own_key(table: &Table) -> Result<bool, Error> {
    match table.try_read(&RecordKey::probe(&Scope::new(OWN_SCOPE))?).await {
        Err(Obstacle::General(error)) => Err(error),
        Ok(()) => Ok(true),
        Err(Obstacle::Denied(_) | Obstacle::Failed(_)) => Ok(false),
    }
}

/// Tries all accesses to the records of a scope, and to the parts of its large answers, which have other
/// leading keys than the records. `owner` is the id of no call.
async fn check_scope(table: &Table, key: &RecordKey, owner: OwnerId) -> Result<Finding, Error> {
    let part = key.part(&PartName { owner, digest: &[], number: 0 }, table.schema.max_key_bytes());
    let records = Access::ALL.iter().map(|access| ("records", access, key));
    let parts = part.iter().flat_map(|part| {
        Access::OF_PARTS.iter().map(move |access| ("parts of answers", access, part))
    });
    let tries = records.chain(parts).map(async |(what, &access, key)| {
        (what, access.action(), table.try_access(access, key, &owner).await)
    });
    let (mut denied, mut failed, mut general) = (Vec::new(), None, None);
    for (what, action, result) in future::join_all(tries).await {
        match result {
            Ok(()) => {}
            Err(Obstacle::Denied(message)) => denied.push((what, action, message)),
            Err(Obstacle::Failed(error)) => failed = Some(error),
            Err(Obstacle::General(error)) => general = Some(error),
        }
    }
    let (table, scope) = (&table.name, key.scope());
    let subject = format!("records of {scope}");
    if let Some((what, _, says)) = denied.first() {
        let actions = denied.iter().filter(|(of, ..)| of == what).map(|(_, action, _)| *action);
        let actions = actions.collect::<Vec<_>>().join(", ");
        let detail =
            format!("the role is not allowed {actions} on {what} of `{scope}` in table `{table}`");
        return Ok(Finding::error(subject, detail).fix(format!(
            "grant it, for the dynamodb:LeadingKeys `{scope}#*` and `{scope}/*#*` \
             if the policy limits them (DynamoDB says: {says})"
        )));
    }
    if let Some(error) = general {
        return Err(error);
    }
    if let Some(error) = failed {
        let detail = format!("the {subject} of table `{table}` cannot be checked now: {error}");
        return Ok(Finding::warning(subject, detail));
    }
    let detail = format!("records of `{scope}` may be read and written");
    Ok(Finding::ok(subject, detail))
}
