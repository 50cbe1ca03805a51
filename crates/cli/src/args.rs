//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use dynamodb_idempotency::signals::hashed_key;
use dynamodb_idempotency::{Error, Scope};

use crate::failure::Failure;
use crate::resume::{MARK, Resume};

/// Checks a table of dynamodb-idempotency, shows its records, and releases stuck keys.
#[derive(Debug, Parser)]
#[command(name = "idempotency", version, arg_required_else_help = true)]
#[command(
    after_help = "Region and credentials are found as by every AWS tool. Exit code: 0; 1 if something \
    is wrong, 2 for a wrong command line, 3 if there is no such record, 4 if it was refused, 5 if the \
    record has changed, 6 if DynamoDB cannot be reached, 7 if the time is up, 130 after Ctrl-C."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The table to read, and its layout.
#[derive(Debug, Args)]
#[command(next_help_heading = "The table")]
pub(crate) struct Target {
    /// The table's name
    #[arg(long, global = true, env = "IDEMPOTENCY_TABLE", value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// The DynamoDB endpoint, such as `http://127.0.0.1:8000` for DynamoDB Local
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) endpoint_url: Option<String>,
    /// The AWS region
    #[arg(long, global = true)]
    pub(crate) region: Option<String>,
    /// The profile in the AWS configuration files; takes precedence over credentials in the environment
    #[arg(long, global = true)]
    pub(crate) profile: Option<String>,
    /// The partition key that holds `scope#key` [default: pk]
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "composite_key")]
    pub(crate) partition_key: Option<String>,
    /// For a table with a sort key: PARTITION=VALUE,SORT
    #[arg(long, global = true, value_name = "NAMES", value_parser = composite_key)]
    pub(crate) composite_key: Option<CompositeKey>,
    /// The TTL attribute, `expires_at` by default
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) ttl_attribute: Option<String>,
    /// How long a request may take, with its retries: 500ms, 15s, 1m
    #[arg(long, global = true, value_name = "TIME", default_value = "15s", value_parser = some_time)]
    pub(crate) request_timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompositeKey {
    pub(crate) partition: String,
    pub(crate) value: String,
    pub(crate) sort: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create the table, billed on demand and with time to live enabled
    CreateTable,
    /// Check the table, its settings, permissions, the clock and the latency
    ///
    /// Nothing is written. The exit code is 1 if a finding is an error.
    Doctor {
        /// Also check the permission to read and write records of this scope; may be repeated
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        #[command(flatten)]
        tenant: Tenant,
        /// Treat warnings as errors
        #[arg(long)]
        strict: bool,
    },
    /// Show the record of a key
    Show {
        #[command(flatten)]
        key: Key,
    },
    /// Show the record whose key has this hash in the logs
    ///
    /// Reads the table until the record is found.
    Find {
        /// The field `key` of a log line: 16 hex digits
        #[arg(long, value_name = "HASH", value_parser = key_hash)]
        hash: String,
        #[command(flatten)]
        scan: Scan,
    },
    /// List abandoned operations: PENDING with an expired lease, and not blocked
    Stuck {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        scan: Scan,
    },
    /// Count records by operation and state
    Stats {
        /// Count by whole scopes: each tenant separately
        #[arg(long)]
        scopes: bool,
        #[command(flatten)]
        scan: Scan,
    },
    /// Delete records whose retention ended more than an hour ago, for tables without time to live
    ///
    /// Deletes only items that have not changed since they were read. Without `--delete`, only counts
    /// them.
    Sweep {
        /// Delete the items
        #[arg(long)]
        delete: bool,
        #[command(flatten)]
        scan: Scan,
    },
    /// Release the records of keys, so that their next requests run again
    ///
    /// A record is shown first, and released only if it has not changed since. After an interruption,
    /// run the command again: records that are released are no longer stuck.
    Release {
        #[command(flatten)]
        keys: Keys,
        /// Release every operation that `stuck` lists with the same options
        #[arg(long, conflicts_with_all = ["of", "keys"])]
        stuck: bool,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        scan: Scan,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        write: Write,
        #[command(flatten)]
        audit: Audit,
    },
    /// Block keys whose effects have happened and whose records are lost
    ///
    /// Every request with such a key is a mismatch, and none runs. A key that has a record stays as it
    /// is, unless the record has expired, or with `--force`.
    Block {
        /// The operation, and what is below it: `payments`, `payments/v2`
        #[arg(long, value_name = "SCOPE")]
        scope: String,
        #[command(flatten)]
        tenant: Tenant,
        /// The idempotency keys [default: one on each line of standard input]
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
        /// The table stores the SHA-256 of keys (`KeyForm::Sha256`)
        #[arg(long)]
        sha256: bool,
        /// How long: until no client retries a request with the key
        #[arg(long = "for", value_name = "TIME", default_value = "7d", value_parser = some_time)]
        lasts: Duration,
        /// Also replace records that are abandoned, FAILED or RELEASED; their steps are lost
        #[arg(long)]
        force: bool,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        write: Write,
        #[command(flatten)]
        audit: Audit,
    },
    /// Copy the records of one table into another, for a restore
    ///
    /// A record that the target has is replaced only if the source's is further: COMPLETED or FAILED
    /// instead of PENDING, RELEASED or FAILED with no higher attempt, or a later attempt of the same
    /// operation. A failure does not replace a record that was released by hand. A second run copies
    /// what is missing.
    Copy {
        /// The table to read
        #[arg(long, value_name = "TABLE")]
        from: String,
        /// The table to write
        #[arg(long, value_name = "TABLE")]
        to: String,
        /// Write nothing; count what would be done
        #[arg(long)]
        dry_run: bool,
        /// Copy also to a table that has items, but none of this crate among those that are sampled
        #[arg(long)]
        force: bool,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        write: Write,
        #[command(flatten)]
        scan: Scan,
    },
    /// Follow the record of a key until its operation has ended
    Watch {
        #[command(flatten)]
        key: Key,
        /// How often to look: 500ms, 1s, 1m
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
        interval: Duration,
        /// How long to wait; 0s waits without a limit
        #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
        timeout: Duration,
        /// Continue after the operation has ended
        #[arg(long)]
        follow: bool,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write all of them into a folder
    Man {
        /// The folder, which must exist
        folder: Option<PathBuf>,
    },
}

impl Command {
    /// Ties the places of a scan to this command and its tables.
    pub(crate) fn bind(&mut self, table: Option<&str>) {
        let table = table.unwrap_or_default();
        let (scan, of) = match self {
            Self::Find { scan, hash } => (scan, format!("find {hash}")),
            Self::Stuck { scan, which } => (scan, format!("stuck {}", which.failed)),
            Self::Stats { scan, .. } => (scan, "stats".to_owned()),
            Self::Sweep { scan, delete } => (scan, format!("sweep {delete}")),
            Self::Release { scan, which, .. } => (scan, format!("release {}", which.failed)),
            Self::Copy { scan, from, to, dry_run, .. } => {
                (scan, format!("copy {dry_run}\0{from}\0{to}"))
            }
            Self::CreateTable
            | Self::Doctor { .. }
            | Self::Show { .. }
            | Self::Block { .. }
            | Self::Watch { .. }
            | Self::Completions { .. }
            | Self::Man { .. } => return,
        };
        scan.of = format!("{of}\0{table}");
    }
}

/// Scope and key of a record.
#[derive(Debug, Args)]
pub(crate) struct Key {
    /// The operation, and what is below it: `payments`, `payments/v2`, `payments/%t/acme`
    ///
    /// The encoded form, which precedes the `#` in the table: a tenant follows `%t` (or use --tenant),
    /// and in each segment `%`, `#` and `/` are written `%25`, `%23` and `%2F`.
    pub(crate) scope: String,
    #[command(flatten)]
    pub(crate) tenant: Tenant,
    /// The idempotency key
    #[arg(value_name = "KEY")]
    pub(crate) text: String,
    /// The table stores the SHA-256 of keys (`KeyForm::Sha256`)
    #[arg(long)]
    pub(crate) sha256: bool,
}

/// Scope and keys of records.
#[derive(Debug, Args)]
pub(crate) struct Keys {
    /// The operation, as for `show`
    #[arg(id = "of", value_name = "SCOPE", required_unless_present = "stuck")]
    pub(crate) scope: Option<String>,
    /// The idempotency keys
    #[arg(id = "keys", value_name = "KEY", required_unless_present = "stuck")]
    pub(crate) names: Vec<String>,
    /// The table stores the SHA-256 of keys (`KeyForm::Sha256`)
    #[arg(long)]
    pub(crate) sha256: bool,
}

/// Which operations do not run.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Which {
    /// Kept failures instead of abandoned operations
    #[arg(long)]
    pub(crate) failed: bool,
    /// Only those whose lease expired, or that failed, at least this long ago: 90s, 10m, 2h, 3d
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub(crate) older_than: Duration,
}

/// The tenant whose records of a scope are read.
#[derive(Clone, Debug, Args)]
pub(crate) struct Tenant {
    /// The tenant of the scope, as the service names it: `acme`
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    tenant: Option<String>,
}

impl Tenant {
    /// Parses an encoded scope and adds the tenant.
    pub(crate) fn scope(&self, encoded: &str) -> Result<Scope, Error> {
        let scope = Scope::from_encoded(encoded)?;
        Ok(match &self.tenant {
            Some(tenant) => scope.tenant(tenant),
            None => scope,
        })
    }

    /// Parses encoded scopes and adds the tenant to each.
    pub(crate) fn scopes(&self, encoded: &[String]) -> Result<Vec<Scope>, Failure> {
        if encoded.is_empty() && self.tenant.is_some() {
            return Err(without_scope());
        }
        Ok(encoded.iter().map(|scope| self.scope(scope)).collect::<Result<_, _>>()?)
    }
}

/// What the user agrees to in advance.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Consent {
    /// Release even if the lease has not expired, or the operation or some of its steps are done
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// How fast the table is written.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Write {
    /// Write units to use per second, at most; 0 for no limit. One write unit is 1 KB.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_write_units: u32,
}

/// The audit log of releases and blocks.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// The reason; writes an audit line, a JSON document, to the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// The file that audit lines are appended to [default: standard error]. If it is set, a reason
    /// is required
    #[arg(long, value_name = "FILE", env = "IDEMPOTENCY_AUDIT_LOG", requires = "reason")]
    pub(crate) audit_log: Option<PathBuf>,
}

/// How the whole table is read.
#[derive(Clone, Debug, Args)]
pub(crate) struct Scan {
    /// Only this scope and the scopes below it
    ///
    /// With a composite key only these items are read. Otherwise the whole table is read and billed.
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    #[command(flatten)]
    tenant: Tenant,
    /// Stop after the page in which this many items are read, and print how to continue
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Continue a stopped scan at the place that it printed
    #[arg(long, value_name = "PLACE", conflicts_with = "parts")]
    pub(crate) resume: Option<Resume>,
    /// Print how long reading the table would take and what it would cost, and read nothing
    #[arg(long)]
    pub(crate) estimate: bool,
    /// How many parts of the table are read in parallel
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) parts: u32,
    /// Read units to use per second, at most; 0 for no limit. One read unit is 8 KB.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) max_units: u32,
    /// Items to read in a request, at most [default: 1 MB of them]. After a timeout, half of them are
    /// requested.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) page_size: Option<u32>,
    /// The command and the tables, to which a place belongs
    #[arg(skip)]
    pub(crate) of: String,
}

impl Scan {
    /// The scope that the scan is restricted to.
    pub(crate) fn scope(&self) -> Result<Option<Scope>, Failure> {
        match (&self.scope, &self.tenant.tenant) {
            (Some(scope), _) => Ok(Some(self.tenant.scope(scope)?)),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(without_scope()),
        }
    }

    /// The same, from the start of the table.
    pub(crate) fn without_place(&self) -> Self {
        Self { resume: None, ..self.clone() }
    }

    /// The mark of the places of this scan: a short hash of the command, the tables and the scope. Another one follows
    /// of what distinguishes the table from others of its name, if that is known.
    pub(crate) fn mark(&self, table: Option<&str>) -> Result<String, Failure> {
        let scope = self.scope()?;
        let scope = scope.as_ref().map_or("", Scope::as_str);
        let short = |text: &str| hashed_key(text)[..MARK].to_owned();
        let names = short(&format!("{}\0{scope}", self.of));
        Ok(names + &table.map(short).unwrap_or_default())
    }

    /// The scope of keys that are named. Nothing is scanned for them.
    pub(crate) fn scope_of_keys(&self, scope: &str) -> Result<Scope, Failure> {
        let is_scan =
            self.scope.is_some() || self.limit.is_some() || self.resume.is_some() || self.estimate;
        if is_scan {
            let message = "the keys are named, so no table is scanned: leave out --scope, --limit, \
                           --resume and --estimate, or use --stuck instead of keys";
            return Err(Failure::Usage(message.to_owned()));
        }
        Ok(self.tenant.scope(scope)?)
    }
}

/// The error for `--tenant` without `--scope`.
fn without_scope() -> Failure {
    Failure::Usage("--tenant names a tenant of a scope: add --scope".to_owned())
}

fn key_hash(text: &str) -> Result<String, String> {
    let is_hash = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| text.to_ascii_lowercase()).ok_or_else(|| "it has 16 hex digits".to_owned())
}

fn composite_key(text: &str) -> Result<CompositeKey, String> {
    let parts = text.split_once('=').and_then(|(partition, rest)| {
        let (value, sort) = rest.rsplit_once(',')?;
        Some((partition, value, sort))
    });
    match parts {
        Some((partition, value, sort)) => Ok(CompositeKey {
            partition: partition.to_owned(),
            value: value.to_owned(),
            sort: sort.to_owned(),
        }),
        None => Err("it is PARTITION=VALUE,SORT, as in `PK=IDEMPOTENCY,SK`".to_owned()),
    }
}

/// A duration that is not zero.
fn some_time(text: &str) -> Result<Duration, String> {
    let read = duration(text)?;
    if read.is_zero() { Err("it is longer than zero".to_owned()) } else { Ok(read) }
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "it is a number and a unit, as in `10m`")?;
    let seconds = match unit {
        "ms" => return Ok(Duration::from_millis(number)),
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err("its unit is ms, s, m, h or d".to_owned()),
    };
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(|| "it is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_a_unit() {
        let seconds = |text| duration(text).map(|read| read.as_secs_f64());
        for (text, expected) in
            [("500ms", 0.5), ("0s", 0.0), ("10m", 600.0), ("2h", 7_200.0), ("3d", 259_200.0)]
        {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in [
            "",
            "10",
            "m",
            "-1s",
            "1.5h",
            "10 m",
            "1w",
            "99999999999999999999s",
            "9999999999999999999d",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_composite_key_has_three_parts() {
        let read = composite_key("PK=a=b,c,SK").unwrap();
        assert_eq!((&*read.partition, &*read.value, &*read.sort), ("PK", "a=b,c", "SK"));
        for wrong in ["", "PK", "PK=V", "PK,SK"] {
            assert!(composite_key(wrong).is_err(), "{wrong}");
        }
    }
}
