//! How the status of a response decides whether it is stored.

use std::sync::Arc;

use http::StatusCode;

use crate::answer::reason::http as reason;
use crate::run::user_code;

/// Which responses are stored.
#[derive(Clone)]
pub(super) struct Statuses(Arc<dyn Fn(StatusCode) -> bool + Send + Sync>);

/// How a response is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusClass {
    /// It is stored, and repeats get it.
    Stored,
    /// The request is completed, but its answer cannot be stored, for this reason.
    Unstorable(&'static str),
    /// The request was rejected before anything was done, so the acquisition is undone.
    Rejected,
    /// The policy for failures decides.
    Failed,
}

impl Statuses {
    pub(super) fn new(stored: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(stored))
    }

    /// Returns whether interim responses are stored.
    pub(super) fn store_interim(&self) -> bool {
        let mut interim = [100, 101, 102, 103].map(StatusCode::from_u16).into_iter().flatten();
        interim.any(|status| self.classify(status) == StatusClass::Stored)
    }

    /// Decides how a handler's response is treated.
    pub(super) fn classify(&self, status: StatusCode) -> StatusClass {
        match user_code::call(|| (self.0)(status)) {
            // The handler has run. Its effect must not happen again because the function panicked.
            Err(_) => StatusClass::Unstorable(reason::STORED_PANICKED),
            Ok(true) => StatusClass::Stored,
            Ok(false) if is_rejection(status) => StatusClass::Rejected,
            Ok(false) => StatusClass::Failed,
        }
    }
}

/// Successes, redirects and final errors, without rejections and without statuses that ask the
/// client to retry.
pub(super) fn stored_by_default(status: StatusCode) -> bool {
    let try_again = matches!(status.as_u16(), 408 | 409 | 425 | 429);
    (200..500).contains(&status.as_u16()) && !is_rejection(status) && !try_again
}

/// Returns whether a status says that the request was rejected before anything was done. This
/// includes failed preconditions, which are evaluated before the method is performed (RFC 9110,
/// section 13.2.1) and may hold in the next request.
fn is_rejection(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        304 | 400 | 401 | 403 | 405 | 406 | 407 | 411..=415 | 417 | 421 | 422 | 428 | 431
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_verdict() {
        let class_of = |status| {
            Statuses::new(stored_by_default).classify(StatusCode::from_u16(status).unwrap())
        };
        for status in [200, 201, 204, 299, 301, 303, 307, 402, 404, 410, 418, 423, 424, 451, 499] {
            assert_eq!(class_of(status), StatusClass::Stored, "{status}");
        }
        for status in [304, 400, 401, 403, 405, 406, 407, 411, 412, 413, 414, 415, 417, 421] {
            assert_eq!(class_of(status), StatusClass::Rejected, "{status}");
        }
        for status in [422, 428, 431] {
            assert_eq!(class_of(status), StatusClass::Rejected, "{status}");
        }
        for status in [100, 101, 199, 408, 409, 425, 429, 500, 502, 503, 599] {
            assert_eq!(class_of(status), StatusClass::Failed, "{status}");
        }
    }

    #[test]
    fn only_the_status_decides_whether_an_unstored_response_is_a_rejection() {
        let none = Statuses::new(|_| false);
        assert_eq!(none.classify(StatusCode::CREATED), StatusClass::Failed);
        assert_eq!(none.classify(StatusCode::NOT_FOUND), StatusClass::Failed);
        assert_eq!(none.classify(StatusCode::FORBIDDEN), StatusClass::Rejected);
        assert_eq!(none.classify(StatusCode::BAD_GATEWAY), StatusClass::Failed);
    }

    #[test]
    fn interim_responses_cannot_be_stored() {
        assert!(Statuses::new(|status| status.as_u16() < 500).store_interim());
        assert!(Statuses::new(|status| status == StatusCode::SWITCHING_PROTOCOLS).store_interim());
        assert!(!Statuses::new(|status| status.as_u16() >= 200).store_interim());
        assert!(!Statuses::new(stored_by_default).store_interim());
    }
}
