//! `idempotency find`

use std::process::ExitCode;

use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::{Select, Unreadable};
use dynamodb_idempotency::signals::hashed_key;

use crate::args::Scan;
use crate::failure::Failure;
use crate::hints::Hints;
use crate::record;
use crate::scan::{Next, Read, scan, stopped};
use crate::stuck::{self, LeftOut, report};
use crate::words::plain;

pub(crate) async fn run(
    idempotency: &Idempotency,
    options: &Scan,
    hash: &str,
    hints: &Hints,
    json: bool,
) -> Result<ExitCode, Failure> {
    let (mut found, mut left_out) = (Vec::new(), LeftOut::default());
    // An item that cannot be read has a key too.
    let mut unreadable: Option<Unreadable> = None;
    let has_hash = |one: &Unreadable| one.pk.as_deref().is_some_and(|pk| hashed_key(pk) == hash);
    let read = scan(idempotency, options, Select::All, |page| {
        found.extend(page.records.into_iter().filter(|record| record.key_hash() == hash));
        if unreadable.is_none() {
            unreadable = page.unreadable.iter().find(|one| has_hash(one)).cloned();
        }
        left_out.add(page.unreadable);
        if found.is_empty() && unreadable.is_none() { Next::GoesOn } else { Next::IsEnough }
    })
    .await?;
    if let Some(one) = unreadable {
        let (pk, reason) = (plain(&one.pk.unwrap_or_default()), one.reason);
        let message = format!("`{pk}` has this hash, and cannot be read: {reason}");
        return Err(Failure::Other(message));
    }
    report(&left_out, json);
    if found.is_empty() {
        stuck::known_scope(idempotency, options, &read).await?;
        return Err(absent(read, hash));
    }
    for record in &found {
        record::show(record, hints, json);
    }
    Ok(ExitCode::SUCCESS)
}

fn absent(read: Read, hash: &str) -> Failure {
    let message = format!("none of {} items has a key with the hash {hash}", read.items);
    let resume = read.resume.clone();
    read.end().err().unwrap_or_else(|| stopped(Failure::Absent(message), resume))
}
