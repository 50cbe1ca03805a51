//! The crate's own responses: problem details of RFC 9457.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use crate::error::{Details, Error, ErrorKind};

/// Why the crate answered a request instead of the handler.
///
/// ```
/// use dynamodb_idempotency::http::{Problem, ProblemKind};
///
/// /// The messages that the client shows.
/// fn message(problem: &Problem) -> &'static str {
///     match problem.kind {
///         ProblemKind::InProgress => "Your payment is being processed.",
///         ProblemKind::Mismatch => "This payment was made with other details.",
///         _ => "Please try again.",
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// 400: the request has no idempotency key and needs one.
    KeyMissing,
    /// 400: the key is empty, too long, repeated or malformed.
    KeyInvalid,
    /// 400: a tenant is required, but the request names none.
    TenantMissing,
    /// 400: the request names several tenants, or one that cannot be read.
    TenantInvalid,
    /// 401: a webhook is not signed by its sender, or was signed too long ago or too far in the future.
    /// Nothing ran.
    SignatureInvalid,
    /// 400: the request's body could not be read.
    BodyUnreadable,
    /// 413: the request's body is larger than [`Http::max_body_bytes`](super::Http::max_body_bytes).
    BodyTooLarge,
    /// 415: a gRPC or gRPC-Web request. Nothing ran. The status of a gRPC answer is in trailers, which
    /// are not stored.
    GrpcUnsupported,
    /// 422: the key was used before with another method, path, query or body.
    Mismatch,
    /// 409 with `Retry-After`: another request with this key is running.
    InProgress,
    /// 409 with `Retry-After`: this request lost its lease: another request took over, or the record
    /// was deleted. The other answer is not available yet, and this request's answer is not stored.
    LeaseLost,
    /// 409: an earlier request with this key ended without an answer, and must not run again.
    Abandoned,
    /// 409: a condition of the handler's transaction is false, and the handler has no answer for that
    /// case. Nothing was written. By default the key is free.
    ConditionFailed,
    /// 500: an earlier request with this key failed without an answer, and must not run again.
    Failed,
    /// 500: an earlier request with this key completed, but its answer is not available.
    AnswerUnavailable,
    /// 500: the handler ran, but it is unknown whether its answer is stored.
    OutcomeUnknown,
    /// 500: the handler panicked.
    HandlerPanicked,
    /// 500: the handler ran, but its response cannot be sent: its body failed, or it is larger than
    /// Lambda accepts. If the status of the response is one that is stored, the request counts as
    /// completed. A transaction with such a response writes nothing.
    BodyBroken,
    /// 500: this version does not understand the stored record or its answer; the log has the
    /// reason.
    RecordNotUnderstood,
    /// 500: the table, its permissions, or the program's use of the crate is wrong; the log has the
    /// reason.
    Misconfigured,
    /// 503 with `Retry-After`: DynamoDB failed. Nothing ran, or nothing of a commit was written.
    Unavailable,
    /// 503 with `Retry-After`: the lease expired or was lost while the handler ran, and the handler was
    /// stopped. All or part of its effect may have happened.
    LeaseExpired,
    /// 503 with `Retry-After`: no time was left for the request. Nothing ran.
    DeadlineExceeded,
    /// 503 with `Retry-After`: this server shuts down ([`drain`](super::IdempotencyLayer::drain)).
    /// Nothing ran.
    ShuttingDown,
    /// 503 with `Retry-After`: a newer version of the crate wrote the record of this key, and this
    /// instance cannot read the record. Nothing ran.
    NewerRecord,
    /// 503 with `Retry-After`: this instance cannot read the steps that an earlier request with this
    /// key completed; the log has the reason. Nothing ran.
    StepsUnreadable,
    /// 503 with `Retry-After`: an earlier request with this key ended without an answer, and the
    /// [hook](super::Http::reconcile) failed; the log has the reason. Nothing ran.
    ReconcileFailed,
}

impl ProblemKind {
    /// Returns the status and the title.
    const fn meaning(self) -> (StatusCode, &'static str) {
        use StatusCode as S;
        const INTERNAL: S = S::INTERNAL_SERVER_ERROR;
        const UNAVAILABLE: S = S::SERVICE_UNAVAILABLE;
        match self {
            Self::KeyMissing => (S::BAD_REQUEST, "Idempotency key is missing"),
            Self::KeyInvalid => (S::BAD_REQUEST, "Idempotency key is invalid"),
            Self::TenantMissing => (S::BAD_REQUEST, "Tenant is missing"),
            Self::TenantInvalid => (S::BAD_REQUEST, "Tenant is invalid"),
            Self::BodyUnreadable => (S::BAD_REQUEST, "Request body could not be read"),
            Self::SignatureInvalid => (S::UNAUTHORIZED, "Webhook signature is invalid"),
            Self::InProgress => (S::CONFLICT, "A request with this idempotency key is in progress"),
            Self::LeaseLost => (S::CONFLICT, "Another request with this idempotency key took over"),
            Self::Abandoned => (S::CONFLICT, "An earlier request ended without an answer"),
            Self::ConditionFailed => (S::CONFLICT, "A condition of the request does not hold"),
            Self::BodyTooLarge => (S::PAYLOAD_TOO_LARGE, "Request body is too large"),
            Self::GrpcUnsupported => (S::UNSUPPORTED_MEDIA_TYPE, "gRPC is not supported here"),
            Self::Mismatch => (S::UNPROCESSABLE_ENTITY, "Idempotency key is already used"),
            Self::Failed => (INTERNAL, "An earlier request failed"),
            Self::AnswerUnavailable => {
                (INTERNAL, "The request completed, its answer is not available")
            }
            Self::OutcomeUnknown => (INTERNAL, "The outcome is not known"),
            Self::HandlerPanicked | Self::BodyBroken => (INTERNAL, "Internal server error"),
            Self::RecordNotUnderstood => (INTERNAL, "The stored record is not understood"),
            Self::Misconfigured => (INTERNAL, "The server is misconfigured"),
            Self::Unavailable => (UNAVAILABLE, "Idempotency store is unavailable"),
            Self::LeaseExpired => (UNAVAILABLE, "The request took too long"),
            Self::DeadlineExceeded => (UNAVAILABLE, "No time is left for the request"),
            Self::ShuttingDown => (UNAVAILABLE, "The server is shutting down"),
            Self::NewerRecord => (UNAVAILABLE, "A newer version has this idempotency key"),
            Self::StepsUnreadable => (UNAVAILABLE, "An earlier request cannot be continued here"),
            Self::ReconcileFailed => {
                (UNAVAILABLE, "The outcome of an earlier request is not known")
            }
        }
    }
}

/// A problem that has not been rendered yet.
///
/// ```
/// use bytes::Bytes;
/// use dynamodb_idempotency::http::Problem;
/// use http::Response;
///
/// /// For [`Http::render_problem`](dynamodb_idempotency::http::Http::render_problem): one more header.
/// fn render(problem: &Problem) -> Response<Bytes> {
///     println!("{} {}: {}", problem.status(), problem.title(), problem.type_uri());
///     let mut response = problem.to_response();
///     response.headers_mut().insert("cache-control", http::HeaderValue::from_static("no-store"));
///     response
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// One sentence about this occurrence, which is safe to show to the client.
    pub detail: Cow<'static, str>,
    /// How long to wait before a retry, if a retry makes sense.
    pub retry_after: Option<Duration>,
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<Cow<'static, str>>) -> Self {
        let may_retry =
            kind == ProblemKind::LeaseLost || kind.meaning().0 == StatusCode::SERVICE_UNAVAILABLE;
        let retry_after = may_retry.then_some(DEFAULT_RETRY_AFTER);
        Self { kind, detail: detail.into(), retry_after }
    }

    /// Returns the status code of the kind.
    ///
    /// ```
    /// use dynamodb_idempotency::Scope;
    /// use dynamodb_idempotency::http::{Problem, ProblemKind};
    ///
    /// let problem = Problem::from(&Scope::from_encoded("%").unwrap_err());
    /// assert_eq!(problem.kind, ProblemKind::KeyInvalid);
    /// assert_eq!(problem.status(), 400);
    /// ```
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.kind.meaning().0
    }

    /// Returns the short text that all problems of this kind share.
    ///
    /// ```
    /// use dynamodb_idempotency::Scope;
    /// use dynamodb_idempotency::http::{Problem, ProblemKind};
    ///
    /// let problem = Problem::from(&Scope::from_encoded("%").unwrap_err());
    /// assert_eq!(problem.kind, ProblemKind::KeyInvalid);
    /// assert_eq!(problem.title(), "Idempotency key is invalid");
    /// ```
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.kind.meaning().1
    }

    /// Returns the URI of the kind: `urn:dynamodb-idempotency:problem:` and the name of its variant.
    ///
    /// `docs/guide/faq.md` lists problems by this name.
    ///
    /// ```
    /// use dynamodb_idempotency::Scope;
    /// use dynamodb_idempotency::http::{Problem, ProblemKind};
    ///
    /// let problem = Problem::from(&Scope::from_encoded("%").unwrap_err());
    /// assert_eq!(problem.kind, ProblemKind::KeyInvalid);
    /// assert_eq!(problem.type_uri(), "urn:dynamodb-idempotency:problem:KeyInvalid");
    /// ```
    #[must_use]
    pub fn type_uri(&self) -> String {
        format!("urn:dynamodb-idempotency:problem:{:?}", self.kind)
    }

    /// Renders the problem as `application/problem+json`.
    ///
    /// The body has `type`, `title`, `status` and `detail`. The header `Retry-After` is present if a
    /// retry makes sense.
    ///
    /// ```
    /// use dynamodb_idempotency::Scope;
    /// use dynamodb_idempotency::http::{Problem, ProblemKind};
    ///
    /// let problem = Problem::from(&Scope::from_encoded("%").unwrap_err());
    /// assert_eq!(problem.kind, ProblemKind::KeyInvalid);
    /// let response = problem.to_response();
    /// assert_eq!(response.status(), 400);
    /// assert_eq!(response.headers()["content-type"], "application/problem+json");
    /// ```
    #[must_use]
    pub fn to_response(&self) -> Response<Bytes> {
        let body = json!({
            "type": self.type_uri(),
            "title": self.title(),
            "status": self.status().as_u16(),
            "detail": self.detail,
        });
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(after) = self.retry_after {
            // RFC 9110, section 10.2.3: whole seconds. They are rounded up, so that no client retries
            // too early.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The retry delay of problems that have no better estimate.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Contains what the client may see of an error. The rest is in the log.
impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        Self::of(error.details())
    }
}

impl Problem {
    fn of(error: &Details) -> Self {
        let (kind, is_public) = match error.kind {
            ErrorKind::InvalidInput => (ProblemKind::KeyInvalid, true),
            ErrorKind::Mismatch => (ProblemKind::Mismatch, true),
            ErrorKind::InProgress { .. } => (ProblemKind::InProgress, true),
            ErrorKind::Failed => (ProblemKind::Failed, true),
            ErrorKind::Abandoned => (ProblemKind::Abandoned, true),
            ErrorKind::LeaseLost => (ProblemKind::LeaseLost, true),
            ErrorKind::LeaseExpired => (ProblemKind::LeaseExpired, true),
            ErrorKind::DeadlineExceeded => (ProblemKind::DeadlineExceeded, true),
            ErrorKind::OutcomeUnknown => (ProblemKind::OutcomeUnknown, true),
            ErrorKind::Unavailable | ErrorKind::NothingCommitted => {
                (ProblemKind::Unavailable, false)
            }
            ErrorKind::ConditionFailed => (ProblemKind::ConditionFailed, false),
            ErrorKind::AnswerUnavailable => (ProblemKind::AnswerUnavailable, false),
            ErrorKind::NewerRecord => (ProblemKind::NewerRecord, false),
            ErrorKind::StepsUnreadable => (ProblemKind::StepsUnreadable, false),
            ErrorKind::UnknownRecord | ErrorKind::AnswerUnreadable => {
                (ProblemKind::RecordNotUnderstood, false)
            }
            ErrorKind::Configuration
            | ErrorKind::InvalidUse
            | ErrorKind::InvalidTransaction
            | ErrorKind::AlreadyCommitted => (ProblemKind::Misconfigured, false),
        };
        let detail = if is_public {
            error.message.clone().into()
        } else if kind == ProblemKind::ConditionFailed {
            Cow::from("A condition of the request's effect does not hold: nothing was done.")
        } else {
            Cow::from("The reason is in the server's log.")
        };
        let mut problem = Self::new(kind, detail);
        if let ErrorKind::InProgress { retry_after } = error.kind {
            problem.retry_after = Some(retry_after);
        }
        problem
    }
}

/// The problem of a request whose body has more than `limit` bytes.
pub(super) fn body_too_large(limit: usize) -> Problem {
    let detail = format!("The largest body that is accepted has {limit} bytes.");
    Problem::new(ProblemKind::BodyTooLarge, detail)
}

/// The problem of a webhook that does not count as signed, for this reason.
pub(super) fn unsigned(reason: &'static str) -> Problem {
    tracing::warn!(reason, "a webhook's signature is not valid: nothing ran");
    let detail = "The request is not signed by the sender, or was signed too long ago.";
    Problem::new(ProblemKind::SignatureInvalid, detail)
}

/// Returns the problem of an error. Details that are not for the client go to the log.
pub(super) fn explain(operation: Option<&str>, error: &Details) -> Problem {
    let problem = Problem::of(error);
    if problem.status().is_server_error() {
        let (kind, source) = (error.kind, std::error::Error::source(error));
        let error = &error.message;
        tracing::error!(operation, ?kind, %error, source, "no answer for a request");
    }
    problem
}

/// Renders problems in an API's own format.
pub(super) type Renderer = Arc<dyn Fn(&Problem) -> Response<Bytes> + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_members_of_rfc_9457() {
        let error = Error::new(
            ErrorKind::InProgress { retry_after: Duration::from_millis(1500) },
            "another execution of this key is running",
        );
        let response = Problem::from(&error).to_response();
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["status"], 409);
        assert_eq!(body["detail"], "another execution of this key is running");
        assert_eq!(body["type"], "urn:dynamodb-idempotency:problem:InProgress");
        assert!(body["title"].is_string());
    }

    #[test]
    fn details_for_operators_are_not_sent_to_the_client() {
        for kind in [ErrorKind::Configuration, ErrorKind::Unavailable, ErrorKind::UnknownRecord] {
            let problem = Problem::from(&Error::new(kind, "table `secret-name`"));
            assert!(!problem.detail.contains("secret-name"));
        }
    }
}
