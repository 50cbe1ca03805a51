//! What Lambda sends with a request.

use http::Extensions;

use crate::clock::{Clock, Deadline};

/// The end of the invocation, from the `Context` that `lambda_http` puts into each request's
/// extensions: always this invocation's, never one that was kept from an earlier one.
#[cfg(feature = "lambda")]
pub(crate) fn deadline(clock: &Clock, extensions: &Extensions) -> Option<Deadline> {
    crate::invocation::deadline(clock, extensions.get::<lambda_http::Context>()?)
}

/// The path, and the query's names and values sorted by name, as the event has them. The request's URI may
/// not show all of them: an encoded `#` that the event brings decoded ends the path and makes the query
/// its fragment, and a router may have taken a prefix off.
#[cfg(feature = "lambda")]
pub(crate) fn path_and_query(extensions: &Extensions) -> (&str, Vec<(&str, &str)>) {
    use lambda_http::RequestExt;

    let query = extensions.query_string_parameters_ref();
    let mut parameters: Vec<_> = query.into_iter().flat_map(|query| query.iter()).collect();
    parameters.sort_by_key(|(name, _)| *name);
    (extensions.raw_http_path(), parameters)
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
