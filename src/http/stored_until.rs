//! When the answer of a replay expires.

use std::time::SystemTime;

use crate::clock::Timestamp;

/// When the stored answer of a replay expires, by DynamoDB's clock. After that, a request with the same key
/// runs the handler.
///
/// The extensions of each replay contain this value, also for [`Http::on_replay`](super::Http::on_replay):
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use std::time::UNIX_EPOCH;
///
/// use bytes::Bytes;
/// use dynamodb_idempotency::http::StoredUntil;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// let http = idempotency.http("payments").on_replay(|mut response| {
///     if let Some(StoredUntil(end)) = response.extensions().get().copied()
///         && let Ok(end) = end.duration_since(UNIX_EPOCH)
///     {
///         response.headers_mut().insert("x-key-expires", end.as_secs().into());
///     }
///     response
/// });
/// let handler = service_fn(async |_: Request<Full<Bytes>>| {
///     Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from("paid"))))
/// });
/// let service = http.layer()?.layer(handler);
/// for replayed in [false, true] {
///     let request = Request::post("/payments").header("idempotency-key", "order-42");
///     let response = service.clone().oneshot(request.body(Full::default())?).await?;
///     assert_eq!(response.headers().contains_key("x-key-expires"), replayed);
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredUntil(pub SystemTime);

impl StoredUntil {
    /// `expires_at` is the attribute of the record, in seconds.
    pub(super) fn of(expires_at: i64) -> Self {
        Self(Timestamp::from_seconds(expires_at).to_system())
    }
}
