//! `idempotency doctor`

use std::process::ExitCode;

use dynamodb_idempotency::admin::Admin;
use dynamodb_idempotency::{Finding, Scope, Verdict};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::words::plain;

pub(crate) async fn run(
    admin: Admin<'_>,
    scopes: &[Scope],
    strict: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let findings = admin.doctor(scopes).await?;
    if json {
        println!("{}", Value::Array(findings.iter().map(document).collect()));
    } else {
        for finding in &findings {
            println!(
                "{:8} {}: {}",
                finding.verdict,
                plain(&finding.subject),
                plain(&finding.detail)
            );
            if let Some(mend) = &finding.mend {
                println!("{:8} - {}", "", plain(mend));
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
        "mend": finding.mend,
    })
}
