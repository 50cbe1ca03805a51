//! What Lambda sends with a request.

use http::Extensions;

use crate::clock::{Clock, Deadline};

/// The end of the invocation, from the `Context` that `lambda_http` puts into each request's
/// extensions: always this invocation's, never one that was kept from an earlier one.
#[cfg(feature = "lambda")]
pub(crate) fn deadline(clock: &Clock, extensions: &Extensions) -> Option<Deadline> {
    clock.deadline(extensions.get::<lambda_http::Context>()?.deadline())
}

/// The path as the event has it, and the query's names and values, sorted by name. The request's URI may
/// not show all of the path: an encoded `#` that the event brings decoded ends it, and a router may have taken
/// a prefix off. It has no query where that `#` makes its fragment of it.
#[cfg(feature = "lambda")]
pub(crate) fn path_and_query(extensions: &Extensions) -> (&str, Vec<(&str, &str)>) {
    let query = lambda_http::RequestExt::query_string_parameters_ref(extensions);
    let mut parameters: Vec<_> = query.into_iter().flat_map(|query| query.iter()).collect();
    parameters.sort_by_key(|(name, _)| *name);
    (lambda_http::RequestExt::raw_http_path(extensions), parameters)
}

/// Without Lambda there is none.
#[cfg(not(feature = "lambda"))]
pub(crate) fn deadline(_: &Clock, _: &Extensions) -> Option<Deadline> {
    None
}

/// Without Lambda there are none.
#[cfg(not(feature = "lambda"))]
pub(crate) fn path_and_query(_: &Extensions) -> (&'static str, [(&'static str, &'static str); 0]) {
    ("", [])
}
