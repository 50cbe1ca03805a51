//! Classifies SDK errors: whether the request was executed, and who can fix the error.

use std::error::Error as StdError;
use std::time::Duration;

pub(super) use aws_sdk_dynamodb::Error as DynamoError;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use super::WriteResult;
use super::error_code::{Destination, NoCredentials, chain, explain, says};
use crate::error::{Error, ErrorKind};

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum RequestError {
    /// DynamoDB responded that it did not execute the request.
    NotExecuted(DynamoError),
    /// Not sent: it could not be built or signed. DynamoDB cannot be the cause, and a retry does not
    /// help.
    Unsent(SdkError<DynamoError>),
    /// DynamoDB responded with a server error. The request may have been executed.
    Failed(DynamoError),
    /// The response was lost.
    Lost(SdkError<DynamoError>),
    /// There was no response within this time.
    TimedOut(Duration),
}

impl RequestError {
    pub(super) fn new<E: Into<DynamoError>>(error: SdkError<E>, was_sent: bool) -> Self {
        match error.map_service_error(Into::into) {
            SdkError::ServiceError(context) => {
                let is_client_error = context.raw().status().is_client_error();
                let error = context.into_err();
                if is_client_error { Self::NotExecuted(error) } else { Self::Failed(error) }
            }
            error @ SdkError::ConstructionFailure(_) => Self::Unsent(error),
            error @ SdkError::DispatchFailure(_) if !was_sent => Self::Unsent(error),
            // An earlier try may have been executed, before the credentials expired: `in_doubt` says so.
            error if NoCredentials::of(&error).is_some() || has_no_scheme(&error) => {
                Self::Unsent(error)
            }
            // A timeout, a dispatch failure, an unreadable response, or a kind of a later version.
            error => Self::Lost(error),
        }
    }

    /// Whether the request may have been executed.
    pub(super) const fn is_unknown(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Lost(_) | Self::TimedOut(_))
    }

    /// What DynamoDB says, if IAM denies the request.
    pub(super) fn denied(&self) -> Option<String> {
        match self {
            Self::NotExecuted(error) if error.code() == Some("AccessDeniedException") => {
                Some(says(error))
            }
            _ => None,
        }
    }

    /// Whether there was no response in time.
    #[cfg(feature = "admin")]
    pub(super) const fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::Lost(SdkError::TimeoutError(_)))
    }

    /// The result of a conditional write. `in_doubt`: an earlier try of the SDK may have been executed.
    pub(super) fn write_result<I>(self, to: Destination<'_>, in_doubt: bool) -> WriteResult<I> {
        let result = match self {
            Self::NotExecuted(DynamoError::ConditionalCheckFailedException(failed)) => {
                return WriteResult::Rejected(failed.item);
            }
            _ if in_doubt || self.is_unknown() => WriteResult::Unknown,
            Self::NotExecuted(ref error) => match error.code() {
                Some("ValidationException") => WriteResult::Invalid,
                Some(
                    "TransactionConflictException"
                    | "TransactionInProgressException"
                    | "ReplicatedWriteConflictException",
                ) => WriteResult::Conflict,
                _ => WriteResult::NotApplied,
            },
            _ => WriteResult::NotApplied,
        };
        result(self.explain(to))
    }

    /// Returns the error for the caller: what happened, and who can fix it.
    pub(super) fn explain(self, to: Destination<'_>) -> Error {
        match self {
            Self::NotExecuted(error) | Self::Failed(error) => explain(to, &error),
            Self::Unsent(error) => unsent(error),
            Self::Lost(error) => {
                let at = to.endpoint.map(|endpoint| format!(" at {endpoint}")).unwrap_or_default();
                let message =
                    format!("DynamoDB could not be reached{at}, or its response was lost");
                Error::new(ErrorKind::Unavailable, message).with_source(error)
            }
            Self::TimedOut(after) => {
                let message = format!("DynamoDB did not respond within {} ms", after.as_millis());
                Error::new(ErrorKind::Unavailable, message)
            }
        }
    }
}

fn unsent(error: SdkError<DynamoError>) -> Error {
    let contains = |text| source_containing(&error, text).is_some();
    let misconfigured = |message: &str| Error::new(ErrorKind::Configuration, message);
    let explained = if let Some(message) = missing_feature(&error) {
        misconfigured(&message)
    } else if let Some(no_credentials) = NoCredentials::of(&error) {
        no_credentials.explain()
    } else if contains("Missing Region") || contains("missing signing region") {
        misconfigured(
            "no AWS region is set: set AWS_REGION, or a region in the profile; DynamoDB Local accepts \
             any, such as us-east-1",
        )
    } else if has_no_scheme(&error) {
        misconfigured(
            "the DynamoDB endpoint has no scheme: AWS_ENDPOINT_URL_DYNAMODB must begin with http:// or \
             https://, and so must an endpoint set in code",
        )
    } else {
        misconfigured(
            "the DynamoDB client could not build or sign the request: it needs credentials, a region, a \
             valid endpoint and the table's name",
        )
    };
    explained.with_source(error)
}

/// Returns the first text in the chain of an error and its sources that contains `part`. The SDK
/// has no type for some causes, only a sentence.
fn source_containing(error: &(dyn StdError + 'static), part: &str) -> Option<String> {
    chain(error).map(ToString::to_string).find(|text| text.contains(part))
}

/// Returns the hint if the profile needs a feature of `aws-config` that this program was built
/// without.
fn missing_feature(error: &(dyn StdError + 'static)) -> Option<String> {
    const SAYS: &str = "cargo feature(s) enabled: ";
    let text = source_containing(error, SAYS)?;
    let (_, rest) = text.split_once(SAYS)?;
    let feature = rest.split(['.', ' ']).next().unwrap_or(rest);
    let fix = match feature {
        "sso" | "credentials-process" => {
            "enable the feature `developer-credentials` of dynamodb-idempotency".to_owned()
        }
        other => format!("enable the feature `{other}` of aws-config in this program"),
    };
    Some(format!(
        "the AWS profile needs `{feature}`, which this program was built without: {fix}, or set \
         AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    ))
}

fn has_no_scheme(error: &(dyn StdError + 'static)) -> bool {
    source_containing(error, "endpoint must contain scheme").is_some()
}

#[cfg(test)]
mod tests {
    use aws_credential_types::provider::error::CredentialsError;

    use super::*;

    /// As `aws-config` 1.13 reports it.
    fn without_feature(feature: &str) -> CredentialsError {
        CredentialsError::invalid_configuration(format!(
            "ProfileFile provider could not be built: This behavior requires following cargo \
             feature(s) enabled: {feature}. In order to continue, do something."
        ))
    }

    #[test]
    fn a_profile_that_needs_a_missing_feature_is_reported_with_the_feature_to_enable() {
        for (feature, fix) in [
            ("sso", "the feature `developer-credentials` of dynamodb-idempotency"),
            ("credentials-process", "the feature `developer-credentials` of dynamodb-idempotency"),
            ("credentials-login", "the feature `credentials-login` of aws-config"),
        ] {
            let message = missing_feature(&without_feature(feature)).unwrap();
            assert!(message.contains(&format!("needs `{feature}`")), "{message}");
            assert!(message.contains(fix), "{message}");
        }
        let not_loaded = CredentialsError::not_loaded("no profile");
        assert_eq!(missing_feature(&not_loaded), None);
    }
}
