//! Finds the tenants that Lambda provides, for [`Http::tenant`](crate::http::Http::tenant).
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
//! // The request has neither tenant isolation nor an authorizer.
//! let (parts, ()) = http::Request::new(()).into_parts();
//! assert_eq!((tenant_id()(&parts), authorizer_claim("sub")(&parts)), (None, None));
//! ```

use http::request::Parts;
use lambda_http::Context;
use lambda_http::request::RequestContext;
use serde_json::Value;

/// Takes the tenant that the invocation has in Lambda's tenant isolation mode. An empty tenant is
/// rejected with 400.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use dynamodb_idempotency::lambda::tenant::tenant_id;
///
/// let http = idempotency.http("payments").tenant(tenant_id());
/// # Ok(()) });
/// ```
pub fn tenant_id() -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    |parts| parts.extensions.get::<Context>()?.tenant_id.clone()
}

/// Takes the tenant from a claim of API Gateway's authorizer.
///
/// The claim belongs to a JWT or a Cognito user pool, or is a value in the context of a Lambda
/// authorizer. Integers of 64 bits and booleans become their JSON text. Lists and objects count as no
/// tenant. An empty claim and any other number are rejected with 400, even under
/// [`optional_tenant`](crate::http::Http::optional_tenant).
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
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
        // For a REST API, `lambda_http` stores all data of the authorizer in these fields. For an HTTP
        // API, it stores only the data of a Lambda authorizer.
        let cognito = authorizer.fields.get("claims").and_then(|claims| claims.get(name));
        let value = cognito.or_else(|| authorizer.fields.get(name))?;
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(truth) => Some(truth.to_string()),
            // The text of another number depends on the features of `serde_json`, and two such numbers can
            // have the same text. An empty tenant is rejected.
            Value::Number(number) => {
                let signed = || number.as_i64().map(|number| number.to_string());
                let whole = number.as_u64().map(|number| number.to_string()).or_else(signed);
                Some(whole.unwrap_or_default())
            }
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}
