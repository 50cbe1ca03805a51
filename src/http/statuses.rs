//! How the status of a response decides whether it is stored.

use std::sync::Arc;

use http::StatusCode;

use crate::answer::reason::http as reason;
use crate::error::{Error, ErrorKind};
use crate::run::user_code;

/// Which responses are stored.
#[derive(Clone)]
pub(super) struct Statuses {
    stored: Arc<dyn Fn(StatusCode) -> bool + Send + Sync>,
    stores_interim: bool,
}

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
        let mut interim =
            [100, 101, 102, 103].into_iter().filter_map(|code| StatusCode::from_u16(code).ok());
        let stores_interim = interim.any(|status| is_stored(&stored, status) == Some(true));
        Self { stored: Arc::new(stored), stores_interim }
    }

    /// Checks the chosen statuses.
    pub(super) fn validate(&self) -> Result<(), Error> {
        if self.stores_interim {
            let message =
                "Http::store_if selects 1xx statuses: an interim response cannot be stored";
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        Ok(())
    }

    /// Decides how a handler's response is treated.
    pub(super) fn classify(&self, status: StatusCode) -> StatusClass {
        match is_stored(&*self.stored, status) {
            // The handler has run. Its effect must not happen again because the function panicked.
            None => StatusClass::Unstorable(reason::STORED_PANICKED),
            Some(true) => StatusClass::Stored,
            Some(false) if is_rejection(status) => StatusClass::Rejected,
            Some(false) => StatusClass::Failed,
        }
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Self { stored: Arc::new(stored_by_default), stores_interim: false }
    }
}

/// Calls the user's function; `None` if it panics.
fn is_stored(stored: &dyn Fn(StatusCode) -> bool, status: StatusCode) -> Option<bool> {
    user_code::call(|| stored(status)).ok()
}

/// Successes, redirects and final errors, without rejections and without statuses that ask the
/// client to retry.
fn stored_by_default(status: StatusCode) -> bool {
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
        let class_of = |status| Statuses::default().classify(StatusCode::from_u16(status).unwrap());
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
        assert!(Statuses::new(|status| status.as_u16() < 500).validate().is_err());
        assert!(
            Statuses::new(|status| status == StatusCode::SWITCHING_PROTOCOLS).validate().is_err()
        );
        assert!(Statuses::new(|status| status.as_u16() >= 200).validate().is_ok());
        assert!(Statuses::default().validate().is_ok());
    }
}
