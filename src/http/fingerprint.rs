//! What the fingerprint of a request covers.

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Uri};

use crate::fingerprint::Fingerprint;
use crate::lambda_event;

/// Covers method, path, query and body, and the path and query of Lambda's event. JSON bodies are
/// compared by value.
pub(super) fn default_fingerprint(parts: &Parts, body: &[u8]) -> Fingerprint {
    let uri = original_uri(parts);
    let (event_path, event_query) = lambda_event::path_and_query(&parts.extensions);
    let mut builder = Fingerprint::builder()
        .bytes(parts.method.as_str().as_bytes())
        .bytes(uri.path().as_bytes())
        .bytes(event_path.as_bytes())
        .bytes(sorted_query(uri).as_bytes());
    if uri != &parts.uri {
        let nested = (parts.uri.path(), sorted_query(&parts.uri));
        builder = builder.bytes(nested.0.as_bytes()).bytes(nested.1.as_bytes());
    }
    for (name, value) in event_query {
        builder = builder.bytes(name.as_bytes()).bytes(value.as_bytes());
    }
    // Some adapters report an empty body as no body.
    let is_json = is_json(&parts.headers) && !body.is_empty();
    (if is_json { builder.json(body) } else { builder.bytes(body) }).finish()
}

/// Returns the default fingerprint of a request that is in memory.
#[cfg(feature = "testing")]
pub(crate) fn fingerprint_of<B: AsRef<[u8]>>(request: &http::Request<B>) -> Fingerprint {
    let mut head = http::Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.headers_mut() = request.headers().clone();
    *head.extensions_mut() = request.extensions().clone();
    default_fingerprint(&head.into_parts().0, request.body().as_ref())
}

/// Returns the URI that the client sent. Inside axum's `nest`, the request's URI lacks the prefix.
fn original_uri(parts: &Parts) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(::axum::extract::OriginalUri(uri)) = parts.extensions.get() {
        return uri;
    }
    &parts.uri
}

/// Returns the query with its parameters sorted by their decoded names; parameters of the same name
/// keep their order.
///
/// For REST APIs and ALBs `lambda_http` rebuilds the query from a hash map, so the order of
/// different names differs between processes.
fn sorted_query(uri: &Uri) -> String {
    let mut parameters: Vec<&str> = uri.query().unwrap_or_default().split('&').collect();
    parameters.sort_by_cached_key(|parameter| {
        form_urlencoded::parse(parameter.as_bytes()).next().map(|(name, _)| name.into_owned())
    });
    parameters.join("&")
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn fingerprint(uri: &str, content_type: Option<&str>, body: &str) -> Fingerprint {
        let mut request = Request::builder().method("POST").uri(uri);
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        default_fingerprint(&parts, body.as_bytes())
    }

    #[test]
    fn only_the_order_of_parameters_with_one_name_matters() {
        let query = |query: &str| fingerprint(&format!("/p?{query}"), None, "");
        assert_eq!(query("b=1&a=2&a=3"), query("a=2&a=3&b=1"));
        assert_ne!(query("a=2&a=3"), query("a=3&a=2"));
        assert_ne!(query("a=1"), query("a=2"));
        // All spellings are one name: the order of its values counts.
        for (first, second) in [("a", "%61"), ("a+b", "a%20b"), ("a[]", "a%5B%5d")] {
            let (one, other) = (format!("{first}=1&{second}=2"), format!("{second}=2&{first}=1"));
            assert_ne!(query(&one), query(&other), "{one}");
        }
        assert_ne!(query("a"), query("a="));
        assert_ne!(fingerprint("/p", None, ""), query("a=1"));
    }

    #[test]
    fn a_json_body_is_compared_by_value_and_any_other_by_bytes() {
        let json = |body| fingerprint("/p", Some("Application/JSON; charset=utf-8"), body);
        let text = |body| fingerprint("/p", Some("text/plain"), body);
        let problem = |body| fingerprint("/p", Some("application/vnd.api+json"), body);
        assert_eq!(json("{\"a\":1,\"b\":2}"), json("{ \"b\": 2, \"a\": 1 }"));
        assert_eq!(problem("[1]"), problem("[ 1 ]"));
        assert_ne!(text("{\"a\":1,\"b\":2}"), text("{ \"b\": 2, \"a\": 1 }"));
        assert_ne!(json("9007199254740993"), json("9007199254740992"));
        assert_ne!(json("not json"), json("not  json"));
        assert_eq!(json(""), text(""));
    }

    #[test]
    fn parts_are_delimited() {
        assert_ne!(fingerprint("/p?a=1", None, "b"), fingerprint("/p", None, "a=1b"));
        assert_ne!(fingerprint("/pa", None, ""), fingerprint("/p", None, "a"));
    }
}
