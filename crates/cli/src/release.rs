//! `idempotency release`

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use dynamodb_idempotency::admin::{Admin, Released, StoredRecord};
use serde_json::json;

use crate::args::Consent;
use crate::audit::AuditLog;
use crate::failure::Failure;
use crate::record::Name;
use crate::{output, record};

pub(crate) async fn run(
    admin: Admin<'_>,
    name: &Name,
    consent: Consent,
    audit: &AuditLog,
    json: bool,
) -> Result<ExitCode, Failure> {
    if json && !consent.yes {
        return Err(Failure::Usage("--json cannot ask for consent: add --yes".to_owned()));
    }
    let Some(record) = name.record(admin).await? else {
        return Err(Failure::Absent(record::absent(admin, name).await));
    };
    // The user confirms exactly the record that is printed. JSON output is one document, at the end.
    if !json {
        output::print(record::text(&record))?;
    }
    let warnings: Vec<_> = record.dangers().into_iter().map(record::warning).collect();
    if !consent.force && !warnings.is_empty() {
        let warnings = warnings.join("; ");
        return Err(Failure::Refused(format!("{warnings}; nothing was written: --force does it")));
    }
    let notes: Vec<_> =
        warnings.iter().map(|warning| (*warning).to_owned()).chain(abandoned(&record)).collect();
    if !consent.yes && !agreed(&notes)? {
        let message = "the release was not confirmed, so nothing was written";
        return Err(Failure::Refused(message.to_owned()));
    }
    report(admin, &record, consent, audit, json).await
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
    notes.push("Either way the next request runs it again.".to_owned());
    notes
}

async fn report(
    admin: Admin<'_>,
    record: &StoredRecord,
    consent: Consent,
    audit: &AuditLog,
    json: bool,
) -> Result<ExitCode, Failure> {
    audit.intend(record, consent.force)?;
    let released =
        if consent.force { admin.force_release(record).await } else { admin.release(record).await };
    let result = match &released {
        Ok(Released::Released) => "released",
        Ok(Released::Gone) => "gone",
        Ok(Released::Changed(_)) => "changed",
        Err(error) if error.is_outcome_unknown() => "unknown",
        Err(_) => "failed",
    };
    let concluded = audit.conclude(result, record, consent.force);
    let released = released?;
    concluded?;
    if let Released::Changed(now) = released {
        if json {
            output::document(json!({"release": result, "record": record::document(&now)}))?;
        } else {
            output::print(format!("\n{}", record::text(&now)))?;
        }
        let message = "the record has changed meanwhile, to this: nothing was written";
        return Err(Failure::Changed(message.to_owned()));
    }
    if json {
        output::document(json!({"release": result, "record": record::document(record)}))?;
    } else {
        output::line(format!("{result}: the next request runs the operation again"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks for confirmation on a terminal. Fails if standard input is not a terminal.
fn agreed(notes: &[String]) -> Result<bool, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        let message = "standard input is not a terminal, so nothing was written: add --yes";
        return Err(Failure::Refused(message.to_owned()));
    }
    Ok(ask(notes, &mut input.lock(), &mut std::io::stderr())?)
}

/// Returns true only for `y`, `Y` or `yes`; the end of the input is a no.
fn ask(
    notes: &[String],
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> std::io::Result<bool> {
    for note in notes {
        writeln!(output, "{note}")?;
    }
    write!(output, "Release this record? [y/N] ")?;
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
            let answer =
                ask(&["its lease is live".to_owned()], &mut typed.as_bytes(), &mut asked).unwrap();
            assert_eq!(answer, is_yes, "{typed:?}");
            let asked = String::from_utf8(asked).unwrap();
            assert_eq!(asked, "its lease is live\nRelease this record? [y/N] ");
        }
    }

    #[test]
    fn unreadable_input_does_not_confirm() {
        let answer = ask(&[], &mut b"\xff\n".as_slice(), &mut Vec::new());
        assert!(answer.is_err(), "{answer:?}");
    }
}
