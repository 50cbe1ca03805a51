//! `idempotency show`

use std::process::ExitCode;

use dynamodb_idempotency::admin::Admin;

use crate::failure::Failure;
use crate::hints::Hints;
use crate::record::{self, Name};

pub(crate) async fn run(
    admin: Admin<'_>,
    name: &Name,
    hints: &Hints,
    json: bool,
) -> Result<ExitCode, Failure> {
    match name.record(admin).await? {
        Some(record) => record::show(&record, hints, json)?,
        None => return Err(Failure::Absent(record::absent(admin, name).await)),
    }
    Ok(ExitCode::SUCCESS)
}
