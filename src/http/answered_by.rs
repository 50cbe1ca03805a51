//! What answered a request, for outer layers.

use http::Response;

use super::answer::REPLAYED;
use super::problem::ProblemKind;

/// Says what answered a request that did not pass through.
///
/// Outer layers find this value in the extensions of the response.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use bytes::Bytes;
/// use dynamodb_idempotency::http::{AnsweredBy, ProblemKind};
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// let handler = service_fn(async |_: Request<Full<Bytes>>| {
///     Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from("paid"))))
/// });
/// // A layer above sees what answered each request.
/// let service = idempotency.http("payments").layer()?.layer(handler).map_response(|response| {
///     match response.extensions().get::<AnsweredBy>() {
///         Some(AnsweredBy::Replay) => println!("replayed"),
///         Some(AnsweredBy::Problem(ProblemKind::Mismatch)) => println!("a key was used twice"),
///         _ => {}
///     }
///     response
/// });
/// for answered_by in [AnsweredBy::Handler, AnsweredBy::Replay] {
///     let request = Request::post("/payments").header("idempotency-key", "order-42");
///     let response = service.clone().oneshot(request.body(Full::default())?).await?;
///     assert_eq!(response.extensions().get(), Some(&answered_by));
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnsweredBy {
    /// The handler: it ran for this request.
    Handler,
    /// The record, with the stored response or failure of an earlier request.
    Replay,
    /// The [hook](super::Http::reconcile), because an earlier request was abandoned.
    Hook,
    /// The crate itself, with this problem.
    Problem(ProblemKind),
}

impl AnsweredBy {
    /// Marks the response. Removes the replay header that a handler may have set, unless this is a
    /// replay.
    pub(super) fn mark<B>(self, mut response: Response<B>) -> Response<B> {
        if self != Self::Replay {
            response.headers_mut().remove(REPLAYED);
        }
        response.extensions_mut().insert(self);
        response
    }
}
