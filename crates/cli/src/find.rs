//! `idempotency find`

use std::process::ExitCode;

use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::Select;

use crate::args::Scan;
use crate::failure::Failure;
use crate::hints::Hints;
use crate::record;
use crate::scan::{Next, Read, scan, stopped};
use crate::stuck::{LeftOut, report};

pub(crate) async fn run(
    idempotency: &Idempotency,
    options: &Scan,
    hash: &str,
    hints: &Hints,
    json: bool,
) -> Result<ExitCode, Failure> {
    let (mut found, mut left_out) = (Vec::new(), LeftOut::default());
    let read = scan(idempotency, options, Select::All, |page| {
        found.extend(page.records.into_iter().filter(|record| record.key_hash() == hash));
        left_out.add(page.unreadable);
        if found.is_empty() { Next::GoesOn } else { Next::IsEnough }
    })
    .await?;
    report(&left_out, json);
    if found.is_empty() {
        return Err(absent(read, hash));
    }
    for record in &found {
        record::show(record, hints, json)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn absent(read: Read, hash: &str) -> Failure {
    let message = format!("none of {} items has a key with the hash {hash}", read.items);
    let resume = read.resume.clone();
    read.end().err().unwrap_or_else(|| stopped(Failure::Absent(message), resume))
}
