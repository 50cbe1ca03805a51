//! `idempotency find`

use std::process::ExitCode;

use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::Select;

use crate::args::Scan;
use crate::failure::Failure;
use crate::record;
use crate::scan::{Next, Read, scan};
use crate::stuck::tell;

pub(crate) async fn run(
    idempotency: &Idempotency,
    options: &Scan,
    hash: &str,
    json: bool,
) -> Result<ExitCode, Failure> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    let read = scan(idempotency, options, Select::All, |page| {
        found.extend(page.records.into_iter().filter(|record| record.key_hash() == hash));
        unreadable.extend(page.unreadable);
        if found.is_empty() { Next::GoesOn } else { Next::IsEnough }
    })
    .await?;
    tell(&unreadable, json);
    if found.is_empty() {
        return Err(absent(read, hash));
    }
    for record in &found {
        record::show(record, json)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn absent(read: Read, hash: &str) -> Failure {
    let rest = read.resume.as_ref().map(|resume| format!("; go on with --resume {resume}"));
    let said = format!(
        "none of {} items has a key with the hash {hash}{}",
        read.items,
        rest.unwrap_or_default()
    );
    read.end().err().unwrap_or(Failure::Absent(said))
}
