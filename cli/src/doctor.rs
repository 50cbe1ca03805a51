//! `idempotency doctor`

use std::process::ExitCode;

use dynamodb_idempotency::admin::Admin;
use dynamodb_idempotency::{Finding, Scope, Verdict};
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
            output::line(format!("{:8} {subject}: {detail}", finding.verdict))?;
            if let Some(fix) = &finding.fix {
                output::line(format!("{:8} - {}", "", plain(fix)))?;
            }
        }
    }
    let worst = findings.iter().map(|finding| finding.verdict).max();
    Ok(match worst {
        Some(Verdict::Error) => ExitCode::FAILURE,
        Some(Verdict::Warning) if strict => ExitCode::FAILURE,
        Some(Verdict::Warning | Verdict::Ok) | None => ExitCode::SUCCESS,
    })
}

fn document(finding: &Finding) -> Value {
    json!({
        "subject": finding.subject,
        "verdict": finding.verdict.as_str(),
        "detail": finding.detail,
        "fix": finding.fix,
    })
}
