//! What Lambda tells of a request beside the request itself.

use std::time::SystemTime;

use http::Extensions;

/// The end of the invocation, from the `Context` that `lambda_http` puts into each request's
/// extensions: always this invocation's, never one that was kept from an earlier one.
#[cfg(feature = "lambda")]
pub(crate) fn deadline(extensions: &Extensions) -> Option<SystemTime> {
    extensions.get::<lambda_http::Context>().map(lambda_http::Context::deadline)
}

/// The path as the event has it. The request's URI may not show all of it: an encoded `#` that the
/// event brings decoded ends it, and a router may have taken a prefix off.
#[cfg(feature = "lambda")]
pub(crate) fn raw_path(extensions: &Extensions) -> &str {
    lambda_http::RequestExt::raw_http_path(extensions)
}

/// Without Lambda there is none.
#[cfg(not(feature = "lambda"))]
pub(crate) fn deadline(_: &Extensions) -> Option<SystemTime> {
    None
}

/// Without Lambda there is none.
#[cfg(not(feature = "lambda"))]
pub(crate) fn raw_path(_: &Extensions) -> &'static str {
    ""
}
