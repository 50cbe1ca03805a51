//! Tenants that Lambda knows: extractors for [`Http::tenant`](crate::http::Http::tenant).
//!
//! ```
//! use dynamodb_idempotency::http::Http;
//! use dynamodb_idempotency::lambda::tenant::{authorizer_claim, tenant_id};
//!
//! fn isolated(http: Http) -> Http {
//!     http.tenant(tenant_id())
//! }
//!
//! fn authorized(http: Http) -> Http {
//!     http.tenant(authorizer_claim("sub"))
//! }
//!
//! // A request that came neither under tenant isolation nor by an authorizer.
//! let (parts, ()) = http::Request::new(()).into_parts();
//! assert_eq!((tenant_id()(&parts), authorizer_claim("sub")(&parts)), (None, None));
//! ```

use http::request::Parts;
use lambda_http::Context;
use lambda_http::request::RequestContext;
use serde_json::Value;

/// The tenant that the function was invoked for, under Lambda's tenant isolation mode. An empty one is
/// refused with 400.
///
/// ```
/// # dynamodb_idempotency::testing::example(async |_, idempotency| {
/// use dynamodb_idempotency::lambda::tenant::tenant_id;
///
/// let http = idempotency.http("payments").tenant(tenant_id());
/// # Ok(()) });
/// ```
pub fn tenant_id() -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    |parts| parts.extensions.get::<Context>()?.tenant_id.clone()
}

/// A claim of API Gateway's authorizer: of a JWT, of a Cognito user pool, or a value that a Lambda
/// authorizer put into its context. Numbers and booleans count by their JSON text. An empty claim
/// is refused with 400, also under [`optional_tenant`](crate::http::Http::optional_tenant).
///
/// ```
/// # dynamodb_idempotency::testing::example(async |_, idempotency| {
/// use dynamodb_idempotency::lambda::tenant::authorizer_claim;
///
/// let http = idempotency.http("payments").tenant(authorizer_claim("sub"));
/// # Ok(()) });
/// ```
pub fn authorizer_claim(
    name: &'static str,
) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    move |parts| {
        let authorizer = parts.extensions.get::<RequestContext>()?.authorizer()?;
        if let Some(claim) = authorizer.jwt.as_ref().and_then(|jwt| jwt.claims.get(name)) {
            return Some(claim.clone());
        }
        // `lambda_http` puts all that a REST API says of its authorizer into these fields, and of
        // an HTTP API's what a Lambda authorizer said.
        let cognito = authorizer.fields.get("claims").and_then(|claims| claims.get(name));
        let value = cognito.or_else(|| authorizer.fields.get(name))?;
        match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}
