//! `idempotency sweep`

use std::cell::Cell;
use std::process::ExitCode;

use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::{Page, Select};
use futures_util::future::join_all;
use serde_json::json;

use crate::args::Scan;
use crate::failure::Failure;
use crate::scan::{Next, scan_after};
use crate::stuck::{LeftOut, document, report, text_of};
use crate::words::count;
use crate::{interrupt, output};

/// How many items a part of the scan deletes at once.
const AT_ONCE: usize = 16;

pub(crate) async fn run(
    idempotency: &Idempotency,
    options: &Scan,
    delete: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let admin = idempotency.admin();
    let (deleted, mut expired, mut left_out) = (Cell::new(0_u64), 0_u64, LeftOut::default());
    let sweep = async |page: &Page| -> Result<(), Failure> {
        if !delete {
            return Ok(());
        }
        for some in page.expired.chunks(AT_ONCE) {
            if interrupt::has_come() {
                return Err(Failure::Interrupted);
            }
            let mut failed = None;
            for is_gone in join_all(some.iter().map(|one| admin.delete_expired(one))).await {
                match is_gone {
                    Ok(is_gone) => deleted.set(deleted.get() + u64::from(is_gone)),
                    Err(error) => failed = Some(error),
                }
            }
            failed.map_or(Ok(()), Err)?;
        }
        Ok(())
    };
    let done = || if delete { format!("{} deleted", deleted.get()) } else { String::new() };
    let read = scan_after(idempotency, options, Select::Expired, sweep, done, |page| {
        expired += page.expired.len() as u64;
        left_out.add(page.unreadable);
        Next::GoesOn
    })
    .await?;
    let deleted = deleted.get();
    if json {
        output::document(json!({"expired": expired, "deleted": deleted, "read": document(&read)}));
    } else {
        let items = count(expired, "item has", "items have");
        let hint = if delete { "" } else { " (--delete deletes them)" };
        output::line(format!(
            "{items} been expired for more than an hour, {deleted} deleted{hint}"
        ));
        output::line(text_of(&read));
    }
    report(&left_out, json);
    read.end().map(|()| ExitCode::SUCCESS)
}
