//! `idempotency show`

use std::process::ExitCode;

use dynamodb_idempotency::admin::Admin;

use crate::args::Key;
use crate::failure::Failure;
use crate::record;

pub(crate) async fn run(admin: Admin<'_>, key: &Key, json: bool) -> Result<ExitCode, Failure> {
    match record::find(admin, key).await? {
        Some(record) => record::show(&record, json)?,
        None => return Err(Failure::Absent(record::absent(admin, key).await)),
    }
    Ok(ExitCode::SUCCESS)
}
