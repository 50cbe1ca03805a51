//! How the status of a response decides whether it is stored.

use std::sync::Arc;

use http::StatusCode;

use super::Http;
use crate::answer::reason::http as reason;
use crate::call::user_code;

/// The user's function that decides which responses are stored.
pub(super) type StoreIf = Arc<dyn Fn(StatusCode) -> bool + Send + Sync>;

impl Http {
    /// Returns whether a handler's response is stored for repeats.
    pub(super) fn is_stored(&self, status: StatusCode) -> Result<bool, &'static str> {
        match &self.store_if {
            Some(store_if) => selects(store_if, status),
            // Senders take every other status for a failed delivery, and deliver the event again.
            None if self.is_signed() => Ok(status.is_success()),
            None => Ok(stored_by_default(status)),
        }
    }
}

/// Returns what the user's function decides. If it panics, the error is the reason to store instead. The
/// request counts as completed then, because the handler has run.
fn selects(store_if: &StoreIf, status: StatusCode) -> Result<bool, &'static str> {
    user_code::call(|| store_if(status)).map_err(|_| reason::STORED_PANICKED)
}

/// Returns whether interim responses are stored.
pub(super) fn stores_interim(store_if: &StoreIf) -> bool {
    let mut interim = (100..200).map(StatusCode::from_u16).filter_map(Result::ok);
    interim.any(|status| selects(store_if, status) == Ok(true))
}

/// Successes, redirects and final errors. Not rejections, and not statuses that ask the client to
/// retry.
fn stored_by_default(status: StatusCode) -> bool {
    let try_again = matches!(status.as_u16(), 408 | 409 | 425 | 429);
    (200..500).contains(&status.as_u16()) && !is_rejection(status) && !try_again
}

/// Returns whether a status says that the request was rejected before anything was done. This includes
/// failed preconditions, which are evaluated before the method is performed (RFC 9110, section 13.2.1).
pub(super) fn is_rejection(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        304 | 400 | 401 | 403 | 405 | 406 | 407 | 411..=415 | 417 | 421 | 422 | 428 | 431
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the status is stored, and whether it is a rejection.
    fn verdict(store_if: fn(StatusCode) -> bool, status: u16) -> (bool, bool) {
        let (store_if, status): (StoreIf, _) = (Arc::new(store_if), StatusCode::from_u16(status));
        let status = status.unwrap();
        (selects(&store_if, status).unwrap(), is_rejection(status))
    }

    #[test]
    fn each_status_has_its_verdict() {
        let verdict = |status| verdict(stored_by_default, status);
        for status in [200, 201, 204, 299, 301, 303, 307, 402, 404, 410, 418, 423, 424, 451, 499] {
            assert_eq!(verdict(status), (true, false), "{status}");
        }
        for status in [304, 400, 401, 403, 405, 406, 407, 411, 412, 413, 414, 415, 417, 421] {
            assert_eq!(verdict(status), (false, true), "{status}");
        }
        for status in [422, 428, 431] {
            assert_eq!(verdict(status), (false, true), "{status}");
        }
        for status in [100, 101, 199, 408, 409, 425, 429, 500, 502, 503, 599] {
            assert_eq!(verdict(status), (false, false), "{status}");
        }
    }

    #[test]
    fn only_the_status_decides_whether_an_unstored_response_is_a_rejection() {
        let verdict = |status| verdict(|_| false, status);
        assert_eq!([201, 404, 502].map(verdict), [(false, false); 3]);
        assert_eq!(verdict(403), (false, true));
    }

    #[test]
    fn interim_responses_cannot_be_stored() {
        let stores_interim = |store_if: fn(StatusCode) -> bool| {
            let store_if: StoreIf = Arc::new(store_if);
            stores_interim(&store_if)
        };
        assert!(stores_interim(|status| status.as_u16() < 500));
        assert!(stores_interim(|status| status == StatusCode::SWITCHING_PROTOCOLS));
        assert!(stores_interim(|status| status.as_u16() == 199));
        assert!(!stores_interim(|status| status.as_u16() >= 200));
        assert!(!stores_interim(stored_by_default));
    }
}
