//! The responses of handlers, whose status is known before the body is read.

use lambda_http::http::StatusCode;
use lambda_http::{IntoResponse, Response};
use serde_json::Value;

use super::service::LambdaResponse;

/// A response that [`Http::wrap`](crate::http::Http::wrap) accepts from a handler.
///
/// `lambda_http` panics if reading the body of a response fails, and then the status is lost. The
/// status decides whether the request is completed, so this trait provides it before the
/// conversion.
///
/// Every type for which `lambda_http` implements [`IntoResponse`] implements it. For your own type:
///
/// ```
/// use std::pin::Pin;
///
/// use dynamodb_idempotency::lambda::HandlerResponse;
/// use lambda_http::http::StatusCode;
/// use lambda_http::{Body, IntoResponse, Response};
///
/// struct Created(String);
///
/// impl IntoResponse for Created {
///     fn into_response(self) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
///         (self.status(), self.0).into_response()
///     }
/// }
///
/// impl HandlerResponse for Created {
///     fn status(&self) -> StatusCode {
///         StatusCode::CREATED
///     }
/// }
///
/// assert_eq!((StatusCode::ACCEPTED, "later").status(), 202);
/// ```
pub trait HandlerResponse: IntoResponse {
    /// Returns the status of the response that [`IntoResponse::into_response`] creates.
    ///
    /// ```
    /// use dynamodb_idempotency::lambda::HandlerResponse;
    ///
    /// assert_eq!("paid".status(), 200);
    /// ```
    fn status(&self) -> StatusCode;
}

impl<B> HandlerResponse for Response<B>
where
    Self: IntoResponse,
{
    fn status(&self) -> StatusCode {
        self.status()
    }
}

impl HandlerResponse for LambdaResponse {
    fn status(&self) -> StatusCode {
        self.0.status()
    }
}

impl<T> HandlerResponse for (StatusCode, T)
where
    Self: IntoResponse,
{
    fn status(&self) -> StatusCode {
        self.0
    }
}

macro_rules! always_ok {
    ($($type:ty),*) => {$(
        impl HandlerResponse for $type {
            fn status(&self) -> StatusCode {
                StatusCode::OK
            }
        }
    )*};
}

always_ok!(String, &str, Vec<u8>, &[u8], Value);
