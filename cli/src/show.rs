//! `idempotency show`

use std::process::ExitCode;

use dynamodb_idempotency::admin::Admin;

use crate::args::Key;
use crate::failure::Failure;
use crate::record;

pub(crate) async fn run(admin: Admin<'_>, key: &Key, json: bool) -> Result<ExitCode, Failure> {
    match record::find(admin, key).await? {
        Some(record) if json => println!("{}", record::document(&record)),
        Some(record) => print!("{}", record::text(&record)),
        None => return Err(Failure::Other(record::absent(key))),
    }
    Ok(ExitCode::SUCCESS)
}
