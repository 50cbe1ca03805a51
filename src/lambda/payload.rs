//! The size limits of Lambda's responses, and the size of a response as JSON.

use std::borrow::Cow;

use lambda_http::http::Extensions;
use lambda_http::request::RequestContext;
use lambda_http::{Body, Response};

use crate::call::errors::answer_unavailable;
use crate::http::exchange::{cannot_be_sent, explain};
use crate::http::{AnsweredBy, Http};
use crate::invocation::MAX_RESPONSE_BYTES;

/// "The maximum size of the response JSON that the Lambda function can send is 1 MB" (Elastic Load
/// Balancing, Lambda functions as targets).
const MAX_ALB_RESPONSE_BYTES: usize = 1024 * 1024;

/// The most bytes that the names of the response's members and its status take up.
const ENVELOPE_BYTES: usize = 256;

/// The longest escape in a JSON string: `\u001f`.
const MAX_ESCAPE_BYTES: usize = 6;

/// The limit for the response to one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    bytes: usize,
    /// An ALB gets each header twice: as a single value and in a list.
    copies_of_headers: usize,
}

impl Limit {
    pub(super) fn of(extensions: &Extensions) -> Self {
        let (bytes, copies_of_headers) = match extensions.get() {
            Some(RequestContext::Alb(_)) => (MAX_ALB_RESPONSE_BYTES, 2),
            _ => (MAX_RESPONSE_BYTES, 1),
        };
        Self { bytes, copies_of_headers }
    }

    /// Returns why Lambda would reject this response.
    pub(super) fn check(self, response: &Response<Body>) -> Result<(), Cow<'static, str>> {
        // Few responses are so long that their escapes must be counted.
        if self.json_bytes(response, |text| MAX_ESCAPE_BYTES * text.len()) <= self.bytes {
            return Ok(());
        }
        let bytes = self.json_bytes(response, in_json);
        if bytes <= self.bytes {
            return Ok(());
        }
        tracing::error!(
            bytes,
            limit = self.bytes,
            "a response is larger than Lambda accepts: return a smaller one, for example a link, or \
             stream it by Http::wrap_streaming and lambda::run_with_streaming_response"
        );
        Err(format!("it has {bytes} bytes as JSON, and Lambda accepts {}", self.bytes).into())
    }

    /// Returns the response, or a problem instead of it if Lambda would reject it.
    pub(super) fn enforce(self, config: &Http, response: Response<Body>) -> Response<Body> {
        match (self.check(&response), response.extensions().get()) {
            (Ok(()), _) => response,
            (Err(reason), Some(AnsweredBy::Replay)) => {
                explain(config, &answer_unavailable(&reason))
            }
            (Err(reason), _) => cannot_be_sent(config, &reason),
        }
    }

    /// Estimates the size of the JSON that `lambda_http` produces. `size` returns the size of a text in it.
    /// With [`in_json`], the estimate is too high by at most [`ENVELOPE_BYTES`] and four bytes per header.
    fn json_bytes(self, response: &Response<Body>, size: fn(&[u8]) -> usize) -> usize {
        let header = |name: &str, value: &[u8]| name.len() + size(value) + 8;
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| header(name.as_str(), value.as_bytes()));
        let body = match response.body() {
            Body::Text(text) => size(text.as_bytes()),
            Body::Binary(bytes) => bytes.len().div_ceil(3).saturating_mul(4),
            _ => 0,
        };
        ENVELOPE_BYTES + self.copies_of_headers * headers.sum::<usize>() + body
    }
}

/// Returns how many bytes a text takes up inside a JSON string, as `serde_json` writes it.
fn in_json(text: &[u8]) -> usize {
    let escaped = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | b'\x08' | b'\x0c' => 2,
        ..b' ' => MAX_ESCAPE_BYTES,
        _ => 1,
    };
    text.iter().map(escaped).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_is_as_long_as_serde_json_writes_it(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(in_json(text.as_bytes()), json.len() - 2);
        }
    }
}
