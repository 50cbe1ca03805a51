//! Describes the table. The library sends none of these requests, because functions lack the
//! permissions.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    ContinuousBackupsDescription, TableDescription, TimeToLiveDescription,
};
use dynamodb_idempotency::{Error, Idempotency};

/// A description, or why it is missing.
pub(crate) type Described<T> = Result<T, Undescribed>;

/// Why DynamoDB does not describe something.
#[derive(Debug)]
pub(crate) enum Undescribed {
    /// It denied the request, with this message.
    Denied(String),
    /// It failed otherwise, or did not respond.
    Failed(Error),
}

pub(crate) async fn table(idempotency: &Idempotency) -> Described<TableDescription> {
    let name = idempotency.admin().table_name();
    let sent = idempotency.client().describe_table().table_name(name).send().await;
    let described = sent.map_err(|error| undescribed(idempotency, error))?.table;
    Ok(described.unwrap_or_else(|| TableDescription::builder().build()))
}

pub(crate) async fn time_to_live(
    idempotency: &Idempotency,
) -> Described<Option<TimeToLiveDescription>> {
    let name = idempotency.admin().table_name();
    let sent = idempotency.client().describe_time_to_live().table_name(name).send().await;
    Ok(sent.map_err(|error| undescribed(idempotency, error))?.time_to_live_description)
}

pub(crate) async fn backups(
    idempotency: &Idempotency,
) -> Described<Option<ContinuousBackupsDescription>> {
    let name = idempotency.admin().table_name();
    let sent = idempotency.client().describe_continuous_backups().table_name(name).send().await;
    Ok(sent.map_err(|error| undescribed(idempotency, error))?.continuous_backups_description)
}

fn undescribed<E>(idempotency: &Idempotency, error: SdkError<E>) -> Undescribed
where
    E: ProvideErrorMetadata + Into<aws_sdk_dynamodb::Error>,
{
    match error.code() {
        Some("AccessDeniedException") => {
            Undescribed::Denied(error.message().unwrap_or("no detail").to_owned())
        }
        _ => Undescribed::Failed(idempotency.admin().explain(error)),
    }
}
