//! The end of the Lambda invocation that a request belongs to.

use std::time::SystemTime;

use http::Extensions;

/// From the `Context` that `lambda_http` puts into each request's extensions: always this
/// invocation's, never one that was kept from an earlier one.
#[cfg(feature = "lambda")]
pub(crate) fn lambda_deadline(extensions: &Extensions) -> Option<SystemTime> {
    extensions.get::<lambda_http::Context>().map(lambda_http::Context::deadline)
}

/// Without Lambda there is none.
#[cfg(not(feature = "lambda"))]
pub(crate) fn lambda_deadline(_: &Extensions) -> Option<SystemTime> {
    None
}
