//! Describes the table. The library sends none of these requests, because functions lack the
//! permissions.

use std::pin::Pin;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    ContinuousBackupsDescription, TableDescription, TimeToLiveDescription,
};
use dynamodb_idempotency::{Error, Idempotency};

use crate::failure::Failure;

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
    let request = idempotency.client().describe_table();
    let request = request.table_name(idempotency.admin().table_name()).send();
    let described = answer(idempotency, Box::pin(request)).await?.table;
    Ok(described.unwrap_or_else(|| TableDescription::builder().build()))
}

/// What distinguishes a table from others of its name: in another region or account, or created later.
pub(crate) fn identity(table: &TableDescription) -> String {
    let arn = table.table_arn.as_deref().unwrap_or_default();
    let created = table.creation_date_time.map(|time| time.as_nanos());
    format!("{arn} {}", created.unwrap_or_default())
}

/// The description of a table, for commands that do not work without it.
pub(crate) async fn required(idempotency: &Idempotency) -> Result<TableDescription, Failure> {
    table(idempotency).await.map_err(|missing| match missing {
        Undescribed::Denied(message) => Failure::Other(format!(
            "grant dynamodb:DescribeTable on table `{}` (DynamoDB says: {message})",
            idempotency.admin().table_name()
        )),
        Undescribed::Failed(error) => error.into(),
    })
}

pub(crate) async fn time_to_live(
    idempotency: &Idempotency,
) -> Described<Option<TimeToLiveDescription>> {
    let request = idempotency.client().describe_time_to_live();
    let request = request.table_name(idempotency.admin().table_name()).send();
    Ok(answer(idempotency, Box::pin(request)).await?.time_to_live_description)
}

pub(crate) async fn backups(
    idempotency: &Idempotency,
) -> Described<Option<ContinuousBackupsDescription>> {
    let request = idempotency.client().describe_continuous_backups();
    let request = request.table_name(idempotency.admin().table_name()).send();
    Ok(answer(idempotency, Box::pin(request)).await?.continuous_backups_description)
}

/// Sends a request. It is boxed, because the SDK's futures are large.
async fn answer<T, E>(
    idempotency: &Idempotency,
    request: Pin<Box<impl Future<Output = Result<T, SdkError<E>>>>>,
) -> Described<T>
where
    E: ProvideErrorMetadata + Into<aws_sdk_dynamodb::Error>,
{
    request.await.map_err(|error| match error.code() {
        Some("AccessDeniedException") => Undescribed::Denied(idempotency.admin().says(&error)),
        _ => Undescribed::Failed(idempotency.admin().explain(error)),
    })
}
