//! `idempotency release`

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::{Admin, Released, StoredRecord};
use serde_json::{Value, json};

use crate::args::{Consent, Scan, Which, Write};
use crate::audit::AuditLog;
use crate::failure::{Failure, named};
use crate::keys::NotDone;
use crate::progress::{Pace, Progress, Steps};
use crate::record::Name;
use crate::stuck::{self, Found};
use crate::words::{count, plain};
use crate::{interrupt, output, record};

pub(crate) async fn run(
    admin: Admin<'_>,
    name: &Name,
    consent: Consent,
    audit: &AuditLog,
    json: bool,
) -> Result<ExitCode, Failure> {
    can_ask(consent, json)?;
    let Some(record) = name.record(admin).await? else {
        return Err(Failure::Absent(record::absent(admin, name).await));
    };
    // The user confirms exactly the record that is printed. JSON output is one document, at the end.
    if !json {
        output::print(record::text(&record));
    }
    let warnings = record::warnings(&record);
    if !consent.force && !warnings.is_empty() {
        let warnings = warnings.join("; ");
        return Err(Failure::Refused(format!("{warnings}; nothing was written: --force does it")));
    }
    let notes: Vec<_> = warnings.into_iter().chain(abandoned(&record)).collect();
    if !consent.yes && !agreed(&notes, RELEASE_ONE).await? {
        let message = "the release was not confirmed, so nothing was written";
        return Err(Failure::Refused(message.to_owned()));
    }
    report(admin, &record, consent, audit, json).await
}

/// Printed when the signal comes.
const INTERRUPTED: &str = "interrupted: the release in flight is finished first. To release other records, run the same command \
                           again. A second interrupt ends the program at once";

const RELEASE_ONE: &str = "Release this record?";

fn can_ask(consent: Consent, json: bool) -> Result<(), Failure> {
    if json && !consent.yes {
        return Err(Failure::Usage("--json cannot ask for consent: add --yes".to_owned()));
    }
    Ok(())
}

/// How several records are released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    consent: Consent,
    max_units: u32,
    max_write_units: u32,
    json: bool,
}

impl Options {
    pub(crate) const fn new(consent: Consent, scan: &Scan, write: Write, json: bool) -> Self {
        let Write { max_write_units } = write;
        Self { consent, max_units: scan.max_units, max_write_units, json }
    }
}

/// The records of keys, before they are released.
#[derive(Debug, Default)]
struct Named {
    records: Vec<StoredRecord>,
    /// Messages about keys without a record.
    absent: Vec<String>,
    unreadable: NotDone,
}

/// One for each 4 KB, of a strongly consistent read, without the parts of an answer.
#[expect(clippy::cast_precision_loss, reason = "of some digits")]
fn read_units(record: &StoredRecord) -> f64 {
    record.write_units().div_ceil(4) as f64
}

impl Named {
    async fn read(
        &mut self,
        admin: Admin<'_>,
        names: &[Name],
        pace: &Pace,
        progress: &Progress,
    ) -> Result<(), Failure> {
        for name in names {
            pace.wait().await;
            match name.record(admin).await.map_err(Failure::from) {
                Ok(Some(record)) => {
                    pace.used(read_units(&record));
                    self.records.push(record);
                }
                Ok(None) => {
                    pace.used(1.0);
                    self.absent.push(record::no_record(name));
                }
                Err(failure) if failure.is_of_one_key() => {
                    self.unreadable.failed(name.scope.as_str(), &name.key, failure);
                }
                Err(failure) => return Err(failure.of(name.scope.as_str(), &name.key)),
            }
            progress.add(1);
        }
        Ok(())
    }
}

/// Several keys of a scope.
pub(crate) async fn keys(
    admin: Admin<'_>,
    names: &[Name],
    options: &Options,
    audit: &AuditLog,
) -> Result<ExitCode, Failure> {
    let json = options.json;
    can_ask(options.consent, json)?;
    let (mut found, pace) = (Named::default(), Pace::new(options.max_units));
    let progress = Progress::new(Steps::Keys(names.len() as u64));
    let reading = found.read(admin, names, &pace, &progress);
    progress.during(|| "nothing is released yet".to_owned(), reading).await?;
    let Named { records, absent, unreadable } = found;
    let done = several(admin, &records, unreadable, options, audit).await?;
    if json {
        output::document(done.document("absent", &json!(absent)));
    } else {
        for message in &absent {
            output::line(plain(message));
        }
        done.print();
    }
    done.end(names.len())?;
    match &absent[..] {
        [] => Ok(ExitCode::SUCCESS),
        [one] => Err(Failure::Absent(one.clone())),
        [first, rest @ ..] => {
            Err(Failure::Absent(format!("{first}, nor of {} more of the keys", rest.len())))
        }
    }
}

/// All operations that `stuck` lists.
pub(crate) async fn stuck(
    idempotency: &Idempotency,
    options: &Scan,
    which: Which,
    release: &Options,
    audit: &AuditLog,
) -> Result<ExitCode, Failure> {
    let json = release.json;
    can_ask(release.consent, json)?;
    let Found { stuck, left_out, read } = stuck::find(idempotency, options, which).await?;
    if !json {
        output::line(stuck::text_of(&read));
    }
    let none = NotDone::default();
    let done = several(idempotency.admin(), &stuck, none, release, audit).await?;
    if json {
        output::document(done.document("read", &stuck::document(&read)));
    } else {
        done.print();
    }
    stuck::report(&left_out, json);
    done.end(stuck.len())?;
    if stuck.is_empty() {
        stuck::known_scope(idempotency, options, &read).await?;
    }
    read.end().map(|()| ExitCode::SUCCESS)
}

/// The outcomes of several releases.
#[derive(Debug, Default)]
struct Done {
    /// By the outcome of an audit line, and `refused` for a record that needs `--force`.
    counts: BTreeMap<&'static str, u64>,
    documents: Vec<Value>,
    left: NotDone,
}

impl Done {
    fn add(&mut self, outcome: &'static str, record: &StoredRecord) {
        *self.counts.entry(outcome).or_default() += 1;
        let mut document = record::summary(record);
        document["release"] = json!(outcome);
        self.documents.push(document);
    }

    fn end_of(&mut self, record: &StoredRecord, ended: Ended) {
        match ended.released {
            Ok(_) => self.add(ended.outcome, record),
            Err(failure) if ended.outcome == UNKNOWN => {
                self.add(UNKNOWN, record);
                self.left.stop(failure.of(&record.scope, &record.key));
            }
            Err(failure) => self.left.failed(&record.scope, &record.key, failure),
        }
        if let Err(failure) = ended.audit {
            self.left.stop(failure);
        }
    }

    /// For programs, with one member more.
    fn document(&self, name: &str, value: &Value) -> Value {
        let mut document = json!({"releases": self.documents, name: value});
        self.left.document(&mut document);
        document
    }

    fn print(&self) {
        for line in self.left.lines("released") {
            output::line(line);
        }
        if !self.counts.is_empty() || self.left.is_empty() {
            output::line(self.text());
        }
    }

    fn text(&self) -> String {
        let counts = self.counts.iter().map(|(outcome, number)| format!("{number} {outcome}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        if counts.is_empty() { "nothing to release".to_owned() } else { counts }
    }

    /// The failure for the exit code, after the counts are printed.
    fn end(self, asked: usize) -> Result<(), Failure> {
        let number = |outcome| self.counts.get(outcome).copied().unwrap_or(0);
        let (refused, changed) = (number("refused"), number("changed"));
        self.left.end(asked, "released")?;
        if refused > 0 {
            let records = count(refused, "record is", "records are");
            let message = format!(
                "{records} as they were: their release can do harm (`show` says \
                                   which): --force does it"
            );
            return Err(Failure::Refused(message));
        }
        if changed > 0 {
            let records = count(changed, "record has", "records have");
            return Err(Failure::Changed(format!("{records} changed meanwhile: run it again")));
        }
        Ok(())
    }
}

/// Shows the records, asks once, and releases each that has not changed since. After a failure that is
/// not of one key, the rest stays as it is.
async fn several(
    admin: Admin<'_>,
    records: &[StoredRecord],
    left: NotDone,
    options: &Options,
    audit: &AuditLog,
) -> Result<Done, Failure> {
    let Options { consent, max_write_units, json, .. } = *options;
    let mut done = Done { left, ..Done::default() };
    let (safe, dangerous): (Vec<_>, Vec<_>) =
        records.iter().partition(|record| consent.force || record.dangers().is_empty());
    if !json {
        output::print(stuck::text(records));
        for record in &dangerous {
            let name = named(&record.scope, &record.key);
            output::line(format!("left out: {name}: {}", record::warnings(record).join("; ")));
        }
    }
    for record in dangerous {
        done.add("refused", record);
    }
    if safe.is_empty() {
        return Ok(done);
    }
    let notes = [
        "Have their effects happened? Check that in the systems that the operations write to."
            .to_owned(),
        "The next request of each key runs the operation again.".to_owned(),
    ];
    let records = count(safe.len() as u64, "record", "records");
    if !consent.yes && !agreed(&notes, &format!("Release {records}?")).await? {
        let message = "the release was not confirmed, so nothing was written";
        return Err(Failure::Refused(message.to_owned()));
    }
    interrupt::finish_first(INTERRUPTED);
    let progress = Progress::audited(Steps::Keys(safe.len() as u64), audit);
    let (pace, shared) = (Pace::new(max_write_units), RefCell::new(done));
    let work = async {
        for record in safe {
            let is_stopped = || shared.borrow().left.is_stopped();
            if !is_stopped() {
                pace.wait().await;
            }
            if interrupt::has_come() {
                shared.borrow_mut().left.stop(Failure::Interrupted);
            }
            // The records that are left are still listed by the same command.
            if is_stopped() {
                shared.borrow_mut().left.untried(&record.scope, &record.key);
                continue;
            }
            pace.wrote(record.write_units());
            let ended = release(admin, record, consent, audit).await;
            shared.borrow_mut().end_of(record, ended);
            progress.add(1);
        }
    };
    progress.during(|| shared.borrow().text(), work).await;
    Ok(shared.into_inner())
}

/// What to consider before an abandoned record is released.
fn abandoned(record: &StoredRecord) -> Vec<String> {
    if record.is_expired() || record.abandoned_for().is_none() {
        return Vec::new();
    }
    let mut notes = vec![
        "Has its effect happened? Its owner ended without an answer, and may have got that far."
            .to_owned(),
        format!("First {}: by the key, the time it started, or a derived key.", record::LOOK),
    ];
    notes.push(
        "A release is needed only under Takeover::Reject: by default the next request takes over."
            .to_owned(),
    );
    if record.may_have_sent().is_empty() {
        notes.push("Either way the next request runs it again.".to_owned());
    }
    notes
}

/// The outcome of a release whose response was lost, also in the audit lines.
const UNKNOWN: &str = "unknown";

/// How a release ended.
struct Ended {
    outcome: &'static str,
    released: Result<Released, Failure>,
    /// Whether the second audit line is written.
    audit: Result<(), Failure>,
}

/// Releases one record, with its audit lines.
async fn release(
    admin: Admin<'_>,
    record: &StoredRecord,
    consent: Consent,
    audit: &AuditLog,
) -> Ended {
    if let Err(failure) = audit.intend(record, consent.force) {
        return Ended { outcome: "failed", released: Err(failure), audit: Ok(()) };
    }
    let released =
        if consent.force { admin.force_release(record).await } else { admin.release(record).await };
    let outcome = match &released {
        Ok(Released::Released) => "released",
        Ok(Released::Gone) => "gone",
        Ok(Released::Changed(_)) => "changed",
        Err(error) if error.is_outcome_unknown() => UNKNOWN,
        Err(_) => "failed",
    };
    let concluded = audit.conclude(outcome, record, consent.force);
    let concluded = concluded.map_err(|failure| failure.of(&record.scope, &record.key));
    Ended { outcome, released: released.map_err(Failure::from), audit: concluded }
}

async fn report(
    admin: Admin<'_>,
    record: &StoredRecord,
    consent: Consent,
    audit: &AuditLog,
    json: bool,
) -> Result<ExitCode, Failure> {
    interrupt::finish_first(INTERRUPTED);
    let Ended { outcome: result, released, audit } = release(admin, record, consent, audit).await;
    let released = released?;
    audit?;
    if let Released::Changed(now) = released {
        if json {
            output::document(json!({"release": result, "record": record::document(&now)}));
        } else {
            output::print(format!("\n{}", record::text(&now)));
        }
        let message = "the record has changed meanwhile, to this: nothing was written";
        return Err(Failure::Changed(message.to_owned()));
    }
    if json {
        output::document(json!({"release": result, "record": record::document(record)}));
    } else {
        output::line(format!("{result}: the next request runs the operation again"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks for confirmation on a terminal. Fails if standard input is not a terminal.
pub(crate) async fn agreed(notes: &[String], question: &str) -> Result<bool, Failure> {
    interrupt::end_at_once()?;
    let input = std::io::stdin();
    if !input.is_terminal() {
        let message = "standard input is not a terminal, so nothing was written: add --yes";
        return Err(Failure::Refused(message.to_owned()));
    }
    let (notes, question) = (notes.to_vec(), question.to_owned());
    let ask = move || ask(&notes, &question, &mut input.lock(), &mut std::io::stderr());
    Ok(interrupt::blocking(ask).await??)
}

/// Returns true only for `y`, `Y` or `yes`; the end of the input is a no.
fn ask(
    notes: &[String],
    question: &str,
    input: &mut impl BufRead,
    output: &mut impl std::io::Write,
) -> std::io::Result<bool> {
    for note in notes {
        writeln!(output, "{note}")?;
    }
    write!(output, "{question} [y/N] ")?;
    output.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_typed_yes_confirms() {
        for (typed, is_yes) in [
            ("y\n", true),
            ("Y\n", true),
            (" yes \r\n", true),
            ("yes", true),
            ("n\n", false),
            ("no\n", false),
            ("\n", false),
            ("", false),
            ("yes please\n", false),
            ("x\ny\n", false),
        ] {
            let mut asked = Vec::new();
            let answer = ask(
                &["its lease is live".to_owned()],
                RELEASE_ONE,
                &mut typed.as_bytes(),
                &mut asked,
            )
            .unwrap();
            assert_eq!(answer, is_yes, "{typed:?}");
            let asked = String::from_utf8(asked).unwrap();
            assert_eq!(asked, "its lease is live\nRelease this record? [y/N] ");
        }
    }

    #[test]
    fn unreadable_input_does_not_confirm() {
        let answer = ask(&[], RELEASE_ONE, &mut b"\xff\n".as_slice(), &mut Vec::new());
        assert!(answer.is_err(), "{answer:?}");
    }
}
