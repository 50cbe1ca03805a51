//! What an SDK error means: did the request happen, and who can fix it?

use std::error::Error as StdError;
use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::error::{Error, ErrorKind};

/// An SDK error, sorted by what is known of the request.
#[derive(Debug)]
pub(super) enum Fault {
    /// It was not sent, or the store answered that it did not execute it.
    Refused(Error),
    /// The store did not execute it, because another write or transaction was at the item.
    Conflict(Error),
    /// The store will never execute it as it is.
    Invalid(Error),
    /// It may have been executed.
    Unknown(Error),
}

impl Fault {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Refused(error)
            | Self::Conflict(error)
            | Self::Invalid(error)
            | Self::Unknown(error) => error,
        }
    }
}

pub(super) fn timed_out(after: Duration) -> Error {
    let message = format!("DynamoDB gave no answer within {} ms", after.as_millis());
    Error::new(ErrorKind::Unavailable, message)
}

/// What could not be built or signed and so was never sent: no store can be the cause, and no
/// later try will do better.
pub(super) fn unsent<E>(error: SdkError<E>) -> Fault
where
    E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
{
    let message = if has_no_credentials(&error) {
        if is_function() {
            "there are no usable AWS credentials: give the function a role"
        } else {
            "there are no usable AWS credentials: sign in (`aws sso login`), name a profile \
             (AWS_PROFILE), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
    } else if has_no_region(&error) {
        "there is no AWS region: set AWS_REGION, or give the profile one"
    } else {
        "the DynamoDB client could not build or sign the request: it needs credentials, a region, a \
         valid endpoint and the table's name"
    };
    Fault::Refused(Error::new(ErrorKind::Configuration, message).with_source(error))
}

pub(super) fn sort<E>(table: &str, error: SdkError<E>) -> Fault
where
    E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
{
    match &error {
        SdkError::ConstructionFailure(_) => unsent(error),
        // A later try, after the credentials ran out.
        _ if has_no_credentials(&error) => unsent(error),
        SdkError::ServiceError(context) => {
            let refused = context.raw().status().is_client_error();
            let code = context.err().code().map(str::to_owned);
            let (kind, message) = explain(table, context.err().code(), context.err().message());
            let sorted = Error::new(kind, message).with_source(error);
            match code.as_deref() {
                _ if !refused => Fault::Unknown(sorted),
                Some("ValidationException") => Fault::Invalid(sorted),
                Some(
                    "TransactionConflictException"
                    | "TransactionInProgressException"
                    | "ReplicatedWriteConflictException",
                ) => Fault::Conflict(sorted),
                _ => Fault::Refused(sorted),
            }
        }
        // Time-out, dispatch failure, a response that could not be read, and whatever comes.
        _ => {
            let message = "DynamoDB could not be reached, or its answer was lost";
            Fault::Unknown(Error::new(ErrorKind::Unavailable, message).with_source(error))
        }
    }
}

/// What each of DynamoDB's error codes asks for ("Error handling with DynamoDB", developer guide).
fn explain(table: &str, code: Option<&str>, detail: Option<&str>) -> (ErrorKind, String) {
    let detail = detail.unwrap_or("no detail");
    match code {
        Some("ResourceNotFoundException") => (
            ErrorKind::Configuration,
            format!(
                "there is no table `{table}` in this account and region: create it, or correct \
                     the table's name"
            ),
        ),
        Some("ValidationException") => (
            ErrorKind::Configuration,
            format!(
                "table `{table}` refuses the record: are its key attributes those of the \
                     TableSchema (default: partition key `pk`, string)? DynamoDB says: {detail}"
            ),
        ),
        Some(
            code @ ("AccessDeniedException"
            | "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "IncompleteSignatureException"
            | "MissingAuthenticationTokenException"
            | "ExpiredTokenException"),
        ) => (
            ErrorKind::Configuration,
            format!(
                "DynamoDB denies access to table `{table}` ({code}): {}",
                needs(denied_action(detail))
            ),
        ),
        code => {
            let code = code.unwrap_or("an unnamed error");
            (ErrorKind::Unavailable, format!("DynamoDB answered with {code}: {detail}"))
        }
    }
}

/// Who reads the hint: the author of a function, or somebody at a desk.
fn is_function() -> bool {
    std::env::var_os("AWS_LAMBDA_FUNCTION_NAME").is_some()
}

fn needs(action: Option<&str>) -> String {
    let who = if is_function() { "the function's role needs" } else { "your credentials need" };
    match action {
        Some(action) => format!("{who} {action} on it"),
        None => format!("{who} dynamodb:GetItem, PutItem and UpdateItem on it"),
    }
}

/// The action that DynamoDB names: "… is not authorized to perform: dynamodb:PutItem on resource: …".
fn denied_action(said: &str) -> Option<&str> {
    let (_, action) = said.split_once("perform: ")?;
    action.split_whitespace().next().filter(|action| action.starts_with("dynamodb:"))
}

/// Found in no type of its own: the SDK's endpoint rules say it in words.
fn has_no_region(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.to_string().contains("Missing Region") {
            return true;
        }
        next = error.source();
    }
    false
}

/// The SDK reports missing credentials as a failure to dispatch, as it does a broken connection;
/// only the chain of sources tells them apart.
fn has_no_credentials(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<aws_credential_types::provider::error::CredentialsError>() {
            return true;
        }
        next = error.source();
    }
    false
}
