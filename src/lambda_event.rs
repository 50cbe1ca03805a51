//! What Lambda sends with a request.

use http::Extensions;

use crate::clock::{Clock, Deadline};

/// The end of the invocation, from the `Context` that `lambda_http` puts into each request's
/// extensions: always this invocation's, never one that was kept from an earlier one.
#[cfg(feature = "lambda")]
pub(crate) fn deadline(clock: &Clock, extensions: &Extensions) -> Option<Deadline> {
    clock.deadline(extensions.get::<lambda_http::Context>()?.deadline())
}

/// The path as the event has it. The request's URI may not show all of it: an encoded `#` that the
/// event brings decoded ends it, and a router may have taken a prefix off.
#[cfg(feature = "lambda")]
pub(crate) fn raw_path(extensions: &Extensions) -> &str {
    lambda_http::RequestExt::raw_http_path(extensions)
}

/// The query's names and values as the event has them, sorted by name. The request's URI has none of
/// them where an encoded `#` of the path, decoded, makes its fragment of them.
#[cfg(feature = "lambda")]
pub(crate) fn query(extensions: &Extensions) -> Vec<(&str, &str)> {
    let query = lambda_http::RequestExt::query_string_parameters_ref(extensions);
    let mut parameters: Vec<_> = query.into_iter().flat_map(|query| query.iter()).collect();
    parameters.sort_by_key(|(name, _)| *name);
    parameters
}

/// Without Lambda there is none.
#[cfg(not(feature = "lambda"))]
pub(crate) fn deadline(_: &Clock, _: &Extensions) -> Option<Deadline> {
    None
}

/// Without Lambda there is none.
#[cfg(not(feature = "lambda"))]
pub(crate) fn raw_path(_: &Extensions) -> &'static str {
    ""
}

/// Without Lambda there is none.
#[cfg(not(feature = "lambda"))]
pub(crate) fn query(_: &Extensions) -> [(&'static str, &'static str); 0] {
    []
}
