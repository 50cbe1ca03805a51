//! What DynamoDB's error codes, and the SDK's errors about credentials, mean for the caller.

use std::error::Error as StdError;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::RequestId as _;

use super::service_text::{first_line, without_values};
use crate::error::{Error, ErrorKind};

/// Who can fix an error, and whether a later try can succeed without that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The table is missing.
    NoTable,
    /// The request's contents are invalid. Only such a message can quote them.
    Invalid,
    /// An operator has to change a policy, with which the message begins.
    Forbidden,
    /// An operator has to change the client or the network, as the text says.
    Unsigned(&'static str),
    /// The credentials or the clock are wrong now and can be right later, because both are renewed while
    /// the process runs. If they stay wrong, an operator has to do what the text says.
    Lapsed(&'static str),
    /// DynamoDB is too busy or fails.
    Temporary,
}

const PROXY: &str = "a proxy changes its headers, or this client does not sign it";
const EXPIRED: &str = "renew the credentials (`aws sso login`), or use a source that renews them";
const CLOCK: &str = "correct this host's clock, and check the secret access key";
const UNKNOWN_KEY: &str = "check the access key, whether it is active, and the region";

/// Codes of "Error handling with DynamoDB" (developer guide) and "Common error types" (API reference).
/// Unlisted codes count as temporary, and their messages as quoting the request.
const CODES: &[(&str, Meaning)] = &[
    ("ResourceNotFoundException", Meaning::NoTable),
    ("ValidationException", Meaning::Invalid),
    // The role's policies. A change of a policy needs an operator.
    ("AccessDeniedException", Meaning::Forbidden),
    ("NotAuthorized", Meaning::Forbidden),
    // The account is not subscribed to DynamoDB, or not in this region.
    ("OptInRequired", Meaning::Forbidden),
    // Credentials that lapse are refused with other codes. Here, no signature arrived, or half of one.
    ("IncompleteSignature", Meaning::Unsigned(PROXY)),
    ("IncompleteSignatureException", Meaning::Unsigned(PROXY)),
    ("MissingAuthenticationToken", Meaning::Unsigned(PROXY)),
    ("MissingAuthenticationTokenException", Meaning::Unsigned(PROXY)),
    // Temporary credentials ended before the SDK fetched new ones.
    ("ExpiredToken", Meaning::Lapsed(EXPIRED)),
    ("ExpiredTokenException", Meaning::Lapsed(EXPIRED)),
    // The signature is too old: the clock is wrong, or the request was delayed.
    ("RequestExpired", Meaning::Lapsed(CLOCK)),
    // Either the clock, which the SDK corrects from the response, or a secret, for example one that is
    // being rotated. The code does not say which.
    ("InvalidSignatureException", Meaning::Lapsed(CLOCK)),
    ("SignatureDoesNotMatch", Meaning::Lapsed(CLOCK)),
    // The key was deactivated or deleted in a rotation, or is so new that DynamoDB does not know it yet.
    ("InvalidClientTokenId", Meaning::Lapsed(UNKNOWN_KEY)),
    ("UnrecognizedClientException", Meaning::Lapsed(UNKNOWN_KEY)),
    ("InternalFailure", Meaning::Temporary),
    ("InternalServerError", Meaning::Temporary),
    ("LimitExceededException", Meaning::Temporary),
    ("ProvisionedThroughputExceededException", Meaning::Temporary),
    ("RequestLimitExceeded", Meaning::Temporary),
    ("ResourceInUseException", Meaning::Temporary),
    ("ServiceUnavailable", Meaning::Temporary),
    ("ThrottlingException", Meaning::Temporary),
];

fn meaning(code: &str) -> Option<Meaning> {
    CODES.iter().find(|(name, _)| *name == code).map(|(_, meaning)| *meaning)
}

/// Returns the part of DynamoDB's message that an error or a log may contain, or says that nothing of it is
/// known to be safe.
pub(super) fn says(error: &impl ProvideErrorMetadata) -> String {
    says_of(error.code(), error.message()).unwrap_or_else(|| LEFT_OUT.to_owned())
}

/// The part that is known to be safe of a message with this code.
pub(super) fn says_of(code: Option<&str>, message: Option<&str>) -> Option<String> {
    match code.and_then(meaning) {
        None | Some(Meaning::Invalid) => without_values(message?),
        Some(
            Meaning::NoTable
            | Meaning::Forbidden
            | Meaning::Unsigned(_)
            | Meaning::Lapsed(_)
            | Meaning::Temporary,
        ) => first_line(message?),
    }
}

/// Stands for a message of which nothing is known to be safe.
const LEFT_OUT: &str = "its message is left out, because it can quote the request";

/// The cause of an error with which DynamoDB responded: the code and the request's id, for AWS Support.
#[derive(Debug, derive_more::Display)]
#[display("{_0}")]
pub(super) struct Response(String);

impl StdError for Response {}

impl Response {
    pub(super) fn of(error: &impl ProvideErrorMetadata) -> Self {
        let code = error.code().unwrap_or("an unnamed error");
        Self(match error.meta().request_id() {
            Some(id) => format!("{code} (request id {id})"),
            None => code.to_owned(),
        })
    }
}

/// Where a request is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination<'a> {
    pub(super) table: &'a str,
    pub(super) region: Option<&'a str>,
    /// `None` if no request was sent yet.
    pub(super) endpoint: Option<&'a str>,
}

impl Destination<'_> {
    /// Names the region and the endpoint, which decide with the account which tables exist.
    pub(super) fn place(&self) -> String {
        let region = self.region.map(str::to_owned);
        let parts = region.into_iter().chain(self.endpoint.map(str::to_owned)).collect::<Vec<_>>();
        if parts.is_empty() {
            return "in this account and region".to_owned();
        }
        format!("in this account and region ({})", parts.join(", "))
    }
}

/// Returns the error for the caller: what happened, and who can fix it.
pub(super) fn explain(to: Destination<'_>, error: &impl ProvideErrorMetadata) -> Error {
    let table = to.table;
    let code = error.code().unwrap_or("an unnamed error");
    let detail = says(error);
    let configuration = |message: String| Error::new(ErrorKind::Configuration, message);
    let explained = match meaning(code) {
        Some(Meaning::NoTable) => configuration(format!(
            "table `{table}` does not exist {}: create it, or correct the table's name, the region or \
             the endpoint",
            to.place()
        )),
        Some(Meaning::Invalid) if table.starts_with("arn:") => configuration(format!(
            "table `{table}` rejects the request as invalid: use the table's name if this is not AWS, \
             because emulators know no ARNs; or compare the table's key attributes with those of the \
             TableSchema (default: partition key `pk`, string). DynamoDB says: {detail}"
        )),
        Some(Meaning::Invalid) => configuration(format!(
            "table `{table}` rejects the request as invalid: compare its key attributes with those of \
             the TableSchema (default: partition key `pk`, string). DynamoDB says: {detail}"
        )),
        Some(Meaning::Forbidden) => configuration(format!(
            "DynamoDB denies access to table `{table}` ({code}): {}",
            needs(denied_action(&detail))
        )),
        Some(Meaning::Unsigned(cause)) => configuration(format!(
            "DynamoDB denies access to table `{table}` ({code}): the request arrived without a complete \
             signature, because {cause}"
        )),
        Some(Meaning::Lapsed(advice)) => lapsed(format!(
            "DynamoDB does not accept the AWS credentials at the moment ({code}: {detail}). Retry; if it \
             persists, {advice}"
        )),
        Some(Meaning::Temporary) | None => {
            let message = format!("DynamoDB responded with {code}: {detail}");
            Error::new(ErrorKind::Unavailable, message)
        }
    };
    explained.with_source(Response::of(error))
}

/// The error of credentials that can be right again at the next try. It is no outage of DynamoDB.
fn lapsed(message: String) -> Error {
    Error::new(ErrorKind::Unavailable, message).of_denial()
}

/// Why a request has no credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoCredentials {
    /// This process was given none. A later try fails too.
    Missing,
    /// Their source did not return them this time.
    Lapsed,
}

impl NoCredentials {
    /// The SDK reports credentials that it could not get as a dispatch failure, like a broken connection.
    /// Only the chain of sources distinguishes them.
    pub(super) fn of(error: &(dyn StdError + 'static)) -> Option<Self> {
        chain(error).find_map(|cause| match cause.downcast_ref::<CredentialsError>() {
            // No source of the SDK's chain is set up. A source that has worked before keeps its last
            // credentials, or reports another error.
            Some(
                CredentialsError::CredentialsNotLoaded(_)
                | CredentialsError::InvalidConfiguration(_),
            ) => Some(Self::Missing),
            // STS, the metadata service or a container's endpoint failed or did not respond
            // (`ProviderTimedOut`, `ProviderError`), an SSO session has ended, the response was unreadable
            // (`Unhandled`), or a later version has another kind.
            Some(_) => Some(Self::Lapsed),
            // The SDK has no public type for this one.
            None => {
                cause.to_string().contains("identity resolver timed out").then_some(Self::Lapsed)
            }
        })
    }

    pub(super) fn explain(self) -> Error {
        match self {
            Self::Missing if is_function() => {
                let message = "there are no usable AWS credentials: give the function a role";
                Error::new(ErrorKind::Configuration, message)
            }
            Self::Missing => {
                let message = "there are no usable AWS credentials: sign in (`aws sso login`), name a profile \
                               (AWS_PROFILE), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
                Error::new(ErrorKind::Configuration, message)
            }
            Self::Lapsed => lapsed(
                "the source of the AWS credentials failed or did not respond. Retry; if it persists, sign \
                 in (`aws sso login`), or look at the cause of this error"
                    .to_owned(),
            ),
        }
    }
}

/// Whether this process is a Lambda function. If so, hints name its role; if not, your credentials.
fn is_function() -> bool {
    std::env::var_os("AWS_LAMBDA_FUNCTION_NAME").is_some()
}

fn needs(action: Option<&str>) -> String {
    let who = if is_function() { "the function's role needs" } else { "your credentials need" };
    let what = action.unwrap_or("dynamodb:GetItem, PutItem and UpdateItem");
    format!("{who} {what} on it")
}

/// Returns the action that DynamoDB names: "… is not authorized to perform: dynamodb:PutItem on
/// resource: …".
fn denied_action(message: &str) -> Option<&str> {
    let (_, action) = message.split_once("perform: ")?;
    action.split_whitespace().next().filter(|action| action.starts_with("dynamodb:"))
}

/// The error and its sources.
pub(super) fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aws_sdk_dynamodb::error::ErrorMetadata;

    use super::*;

    fn explained(code: &str, message: &str) -> Error {
        let to = Destination { table: "t", region: None, endpoint: None };
        explain(to, &ErrorMetadata::builder().code(code).message(message).build())
    }

    #[test]
    fn credentials_that_lapse_are_transient_and_no_outage() {
        let (denied, lapsed, outage) = ((false, false), (true, false), (true, true));
        for (code, expected) in [
            ("AccessDeniedException", denied),
            ("OptInRequired", denied),
            ("IncompleteSignatureException", denied),
            ("MissingAuthenticationTokenException", denied),
            ("ResourceNotFoundException", denied),
            ("ValidationException", denied),
            ("ExpiredTokenException", lapsed),
            ("ExpiredToken", lapsed),
            ("RequestExpired", lapsed),
            ("InvalidSignatureException", lapsed),
            ("UnrecognizedClientException", lapsed),
            ("InvalidClientTokenId", lapsed),
            ("ThrottlingException", outage),
            ("SomethingNew", outage),
        ] {
            let error = explained(code, "It says why.");
            assert_eq!((error.is_retryable(), error.is_outage()), expected, "{code}");
            if expected == lapsed {
                assert!(error.to_string().contains("It says why."), "{error}");
                assert!(!error.to_string().contains("PutItem"), "{error}");
            }
        }
    }

    #[test]
    fn only_a_source_that_is_set_up_can_lapse() {
        use CredentialsError as E;
        for (error, expected) in [
            (E::not_loaded("no profile"), NoCredentials::Missing),
            (E::invalid_configuration("a bad profile"), NoCredentials::Missing),
            (E::provider_timed_out(Duration::from_secs(5)), NoCredentials::Lapsed),
            (E::provider_error("STS responded with 503"), NoCredentials::Lapsed),
            (E::unhandled("no JSON"), NoCredentials::Lapsed),
        ] {
            assert_eq!(NoCredentials::of(&error), Some(expected), "{error:?}");
            let explained = expected.explain();
            assert_eq!(explained.is_retryable(), expected == NoCredentials::Lapsed);
            assert!(!explained.is_outage());
        }
        let timed_out = std::io::Error::other("identity resolver timed out after 5s");
        assert_eq!(NoCredentials::of(&timed_out), Some(NoCredentials::Lapsed));
        assert_eq!(NoCredentials::of(&std::io::Error::other("connection reset")), None);
    }

    #[test]
    fn an_error_quotes_nothing_that_the_request_contains() {
        for code in ["ValidationException", "SerializationException", "SomethingNew"] {
            let error = explained(code, "Cannot convert secret\nERROR forged");
            let text = format!("{error:?}");
            assert!(!text.contains("secret") && text.contains(code), "{text}");
        }
    }
}
