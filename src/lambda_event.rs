//! What Lambda sends with a request.

use http::Extensions;

use crate::clock::{Clock, Deadline};

/// The deadline of this invocation, from the `Context` that `lambda_http` adds to the extensions of
/// each request.
#[cfg(feature = "lambda")]
pub(crate) fn deadline(clock: &Clock, extensions: &Extensions) -> Option<Deadline> {
    clock.deadline(extensions.get::<lambda_http::Context>()?.deadline())
}

/// Returns whether API Gateway's authorizer has identified the client.
#[cfg(feature = "lambda")]
pub(crate) fn is_authorized(extensions: &Extensions) -> bool {
    let context = extensions.get::<lambda_http::request::RequestContext>();
    context.and_then(|context| context.authorizer()).is_some_and(|authorizer| {
        let has_claims = authorizer.jwt.as_ref().is_some_and(|jwt| !jwt.claims.is_empty());
        has_claims || !authorizer.fields.is_empty()
    })
}

/// Returns the path in the event, and the names and values of the query, sorted by name. The URI of the
/// request can contain less: an encoded `#` is decoded there, which cuts off the rest of the path and
/// the query, and a router can have removed a prefix.
#[cfg(feature = "lambda")]
pub(crate) fn path_and_query(extensions: &Extensions) -> (&str, Vec<(&str, &str)>) {
    let query = lambda_http::RequestExt::query_string_parameters_ref(extensions);
    let mut parameters: Vec<_> = query.into_iter().flat_map(|query| query.iter()).collect();
    parameters.sort_by_key(|(name, _)| *name);
    (lambda_http::RequestExt::raw_http_path(extensions), parameters)
}

/// Without Lambda, there is no deadline.
#[cfg(not(feature = "lambda"))]
pub(crate) fn deadline(_: &Clock, _: &Extensions) -> Option<Deadline> {
    None
}

/// Without Lambda, there is no authorizer.
#[cfg(not(feature = "lambda"))]
pub(crate) fn is_authorized(_: &Extensions) -> bool {
    false
}

/// Without Lambda, there is no event.
#[cfg(not(feature = "lambda"))]
pub(crate) fn path_and_query(_: &Extensions) -> (&'static str, [(&'static str, &'static str); 0]) {
    ("", [])
}
