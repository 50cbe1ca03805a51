//! How the status of a response decides whether it is stored.

use std::sync::Arc;

use http::StatusCode;

use crate::answer::reason::http as reason;
use crate::error::{Error, ErrorKind};
use crate::user_code;

/// Which responses are stored.
#[derive(Clone)]
pub(super) struct Statuses {
    stored: Arc<dyn Fn(StatusCode) -> bool + Send + Sync>,
    stores_interim: bool,
}

/// How a response is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is stored, and repeats get it.
    Stored,
    /// The request is completed, but its answer cannot be stored, for this reason.
    Unstorable(&'static str),
    /// The request was rejected before anything was done, so the key is free.
    Refused,
    /// The policy for failures decides.
    Failed,
}

impl Statuses {
    pub(super) fn new(stored: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        let mut interim =
            [100, 101, 102, 103].into_iter().filter_map(|code| StatusCode::from_u16(code).ok());
        let stores_interim = interim.any(|status| ask(&stored, status) == Some(true));
        Self { stored: Arc::new(stored), stores_interim }
    }

    /// Checks the chosen statuses.
    pub(super) fn validate(&self) -> Result<(), Error> {
        if self.stores_interim {
            let message =
                "Http::stored says that responses of 1xx are stored, and those are no answers";
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        Ok(())
    }

    /// Decides how a handler's response is treated.
    pub(super) fn judge(&self, status: StatusCode) -> Verdict {
        match ask(&*self.stored, status) {
            // The handler has run. Its effect must not happen again because the function panicked.
            None => Verdict::Unstorable(reason::STORED_PANICKED),
            Some(true) => Verdict::Stored,
            Some(false) if is_refusal(status) => Verdict::Refused,
            Some(false) => Verdict::Failed,
        }
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Self { stored: Arc::new(stored_by_default), stores_interim: false }
    }
}

/// Calls the user's function; `None` if it panics.
fn ask(stored: &dyn Fn(StatusCode) -> bool, status: StatusCode) -> Option<bool> {
    user_code::call(|| stored(status)).ok()
}

/// Successes, redirects and final errors, without rejections and without statuses that ask the
/// client to retry.
fn stored_by_default(status: StatusCode) -> bool {
    let try_again = matches!(status.as_u16(), 408 | 409 | 425 | 429);
    (200..500).contains(&status.as_u16()) && !is_refusal(status) && !try_again
}

/// Returns whether a status says that the request was rejected before anything was done. This
/// includes failed preconditions, which are evaluated before the method is performed (RFC 9110,
/// section 13.2.1) and may hold in the next request.
fn is_refusal(status: StatusCode) -> bool {
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
        let judge = |status| Statuses::default().judge(StatusCode::from_u16(status).unwrap());
        for status in [200, 201, 204, 299, 301, 303, 307, 402, 404, 410, 418, 423, 424, 451, 499] {
            assert_eq!(judge(status), Verdict::Stored, "{status}");
        }
        for status in [304, 400, 401, 403, 405, 406, 407, 411, 412, 413, 414, 415, 417, 421] {
            assert_eq!(judge(status), Verdict::Refused, "{status}");
        }
        for status in [422, 428, 431] {
            assert_eq!(judge(status), Verdict::Refused, "{status}");
        }
        for status in [100, 101, 199, 408, 409, 425, 429, 500, 502, 503, 599] {
            assert_eq!(judge(status), Verdict::Failed, "{status}");
        }
    }

    #[test]
    fn what_is_not_stored_by_choice_is_a_refusal_by_its_status_alone() {
        let none = Statuses::new(|_| false);
        assert_eq!(none.judge(StatusCode::CREATED), Verdict::Failed);
        assert_eq!(none.judge(StatusCode::NOT_FOUND), Verdict::Failed);
        assert_eq!(none.judge(StatusCode::FORBIDDEN), Verdict::Refused);
        assert_eq!(none.judge(StatusCode::BAD_GATEWAY), Verdict::Failed);
    }

    #[test]
    fn interim_responses_are_no_choice() {
        assert!(Statuses::new(|status| status.as_u16() < 500).validate().is_err());
        assert!(
            Statuses::new(|status| status == StatusCode::SWITCHING_PROTOCOLS).validate().is_err()
        );
        assert!(Statuses::new(|status| status.as_u16() >= 200).validate().is_ok());
        assert!(Statuses::default().validate().is_ok());
    }
}
