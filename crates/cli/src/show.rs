//! `idempotency show`

use std::process::ExitCode;

use dynamodb_idempotency::admin::Admin;
use dynamodb_idempotency::{Error, ErrorKind};
use serde_json::json;

use crate::failure::Failure;
use crate::hints::Hints;
use crate::output;
use crate::record::{self, Name};
use crate::words::plain;

pub(crate) async fn run(
    admin: Admin<'_>,
    name: &Name,
    hints: &Hints,
    json: bool,
) -> Result<ExitCode, Failure> {
    match name.record(admin).await {
        Ok(Some(record)) => record::show(&record, hints, json),
        Ok(None) => return Err(Failure::Absent(record::absent(admin, name).await)),
        Err(error) => {
            let is_unreadable =
                matches!(error.kind(), ErrorKind::UnknownRecord | ErrorKind::NewerRecord);
            if is_unreadable && json {
                raw(admin, name, &error).await?;
            } else if is_unreadable {
                let message =
                    format!("{}; `show --json` prints the item", plain(&error.to_string()));
                return Err(Failure::Other(message));
            }
            return Err(error.into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints an item that cannot be read as a record.
async fn raw(admin: Admin<'_>, name: &Name, error: &Error) -> Result<(), Failure> {
    let is_newer = error.kind() == ErrorKind::NewerRecord;
    output::document(json!({
        "scope": name.scope.as_str(),
        "key": name.key,
        "key_hash": name.key_hash(admin)?,
        "status": if is_newer { "newer" } else { "unreadable" },
        "item": name.raw(admin).await?,
    }));
    Ok(())
}
