//! `idempotency release`

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use dynamodb_idempotency::admin::{Admin, Released, StoredRecord};
use serde_json::json;

use crate::args::Key;
use crate::failure::Failure;
use crate::{output, record};

/// What the caller has agreed to beforehand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Consent {
    /// To what is dangerous.
    pub(crate) force: bool,
    /// To all that is left.
    pub(crate) yes: bool,
}

pub(crate) async fn run(
    admin: Admin<'_>,
    key: &Key,
    consent: Consent,
    json: bool,
) -> Result<ExitCode, Failure> {
    if json && !consent.yes {
        return Err(Failure::Usage("nobody is asked with --json: add --yes".to_owned()));
    }
    let Some(record) = record::find(admin, key).await? else {
        return Err(Failure::Other(record::absent(key)));
    };
    // What is shown is what is agreed to; programs get one document, at the end.
    if !json {
        output::print(record::text(&record))?;
    }
    let warnings: Vec<_> = record.dangers().into_iter().map(record::warning).collect();
    if !consent.force && !warnings.is_empty() {
        let warnings = warnings.join("; ");
        return Err(Failure::Other(format!("{warnings}; nothing was written: --force does it")));
    }
    if !consent.yes && !agreed(&warnings)? {
        return Err(Failure::Other("nothing was written".to_owned()));
    }
    report(admin, &record, consent, json).await
}

async fn report(
    admin: Admin<'_>,
    record: &StoredRecord,
    consent: Consent,
    json: bool,
) -> Result<ExitCode, Failure> {
    let released = if consent.force {
        admin.release_in_spite(record).await?
    } else {
        admin.release(record).await?
    };
    let (said, code) = match released {
        Released::Released => ("released", ExitCode::SUCCESS),
        Released::Gone => ("gone", ExitCode::SUCCESS),
        Released::Changed(now) => {
            if json {
                output::line(json!({"release": "changed", "record": record::document(&now)}))?;
                return Ok(ExitCode::FAILURE);
            }
            output::print(format!("\n{}", record::text(&now)))?;
            let message = "the record has changed meanwhile, to this: nothing was written";
            return Err(Failure::Other(message.to_owned()));
        }
    };
    if json {
        output::line(json!({"release": said, "record": record::document(record)}))?;
    } else {
        output::line(format!("{said}: the next request runs anew"))?;
    }
    Ok(code)
}

/// Asks, where there is somebody to ask.
fn agreed(warnings: &[&str]) -> Result<bool, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        let message = "nobody is there to ask, so nothing was written: --yes does it";
        return Err(Failure::Other(message.to_owned()));
    }
    Ok(ask(warnings, &mut input.lock(), &mut std::io::stderr())?)
}

/// Nothing but a yes is one; nor is the end of the input.
fn ask(
    warnings: &[&str],
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> std::io::Result<bool> {
    for warning in warnings {
        writeln!(output, "{warning}")?;
    }
    write!(output, "Delete this record? [y/N] ")?;
    output.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_yes_is_one() {
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
            let answer = ask(&["its lease is live"], &mut typed.as_bytes(), &mut asked).unwrap();
            assert_eq!(answer, is_yes, "{typed:?}");
            let asked = String::from_utf8(asked).unwrap();
            assert_eq!(asked, "its lease is live\nDelete this record? [y/N] ");
        }
    }

    #[test]
    fn an_input_that_cannot_be_read_is_no_yes() {
        let answer = ask(&[], &mut b"\xff\n".as_slice(), &mut Vec::new());
        assert!(answer.is_err(), "{answer:?}");
    }
}
