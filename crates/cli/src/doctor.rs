//! `idempotency doctor`

use std::process::ExitCode;

use dynamodb_idempotency::admin::Admin;
use dynamodb_idempotency::{Finding, Scope, Severity};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output;
use crate::words::plain;

pub(crate) async fn run(
    admin: Admin<'_>,
    scopes: &[Scope],
    strict: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let findings = admin.doctor(scopes).await?;
    if json {
        let findings: Vec<_> = findings.iter().map(document).collect();
        output::document(json!({"findings": findings}))?;
    } else {
        for finding in &findings {
            let (subject, detail) = (plain(&finding.subject), plain(&finding.detail));
            output::line(format!("{:8} {subject}: {detail}", finding.severity))?;
            if let Some(fix) = &finding.fix {
                output::line(format!("{:8} - {}", "", plain(fix)))?;
            }
        }
    }
    let worst = findings.iter().map(|finding| finding.severity).max();
    Ok(match worst {
        Some(Severity::Error) => ExitCode::FAILURE,
        Some(Severity::Warning) if strict => ExitCode::FAILURE,
        Some(Severity::Warning | Severity::Ok) | None => ExitCode::SUCCESS,
    })
}

fn document(finding: &Finding) -> Value {
    json!({
        "subject": finding.subject,
        "severity": finding.severity.as_str(),
        "detail": finding.detail,
        "fix": finding.fix,
    })
}
