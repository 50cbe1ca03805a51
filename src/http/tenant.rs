//! Finds the tenant of a request, for [`Http::tenant`](super::Http::tenant).
//!
//! ```
//! use dynamodb_idempotency::http::Tenant;
//! use dynamodb_idempotency::http::tenant::header;
//!
//! let (parts, ()) = http::Request::post("/").header("x-tenant", "acme").body(())?.into_parts();
//! assert_eq!(header("x-tenant")(&parts), Tenant::Known("acme".to_owned()));
//! # Ok::<_, http::Error>(())
//! ```

use http::request::Parts;
use sha2::{Digest, Sha256};

use super::key_header;

/// The tenant that a request names.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
/// use dynamodb_idempotency::http::Tenant;
/// use http::request::Parts;
///
/// let http = idempotency.http("payments").tenant(|parts: &Parts| match parts.uri.host() {
///     Some(host) => Tenant::Known(host.to_owned()),
///     None => Tenant::Unknown,
/// });
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tenant {
    /// The request names this tenant. An empty name is treated as [`Invalid`](Self::Invalid), because
    /// all requests with it would share one tenant.
    Known(String),
    /// The request names no tenant.
    Unknown,
    /// The request names several tenants, or one that cannot be read. The request is rejected with 400.
    Invalid,
}

impl From<Option<String>> for Tenant {
    fn from(tenant: Option<String>) -> Self {
        tenant.map_or(Self::Unknown, Self::Known)
    }
}

/// Takes the tenant from a header whose value is not secret.
///
/// An empty value names no tenant. If the header is repeated or not UTF-8, the request is rejected.
///
/// ```
/// use dynamodb_idempotency::http::{Tenant, tenant::header};
///
/// let (parts, ()) = http::Request::builder().header("x-tenant", "acme").body(())?.into_parts();
/// assert_eq!(header("x-tenant")(&parts), Tenant::Known("acme".to_owned()));
/// assert_eq!(header("x-other")(&parts), Tenant::Unknown);
/// # Ok::<_, http::Error>(())
/// ```
pub fn header(name: &'static str) -> impl Fn(&Parts) -> Tenant + Send + Sync + 'static {
    move |parts| single(parts, name, |value| std::str::from_utf8(value).ok().map(str::to_owned))
}

/// Takes the SHA-256 of a header's value, in hex, as the tenant.
///
/// Use it for API keys and tokens, which must not appear in the table. An empty value names no tenant.
/// If the header is repeated, the request is rejected.
///
/// ```
/// use dynamodb_idempotency::http::{Tenant, tenant::header_sha256};
///
/// let (parts, ()) = http::Request::builder().header("x-api-key", "secret").body(())?.into_parts();
/// let Tenant::Known(tenant) = header_sha256("x-api-key")(&parts) else { panic!("no tenant") };
/// assert_eq!(tenant.len(), 64);
/// # Ok::<_, http::Error>(())
/// ```
pub fn header_sha256(name: &'static str) -> impl Fn(&Parts) -> Tenant + Send + Sync + 'static {
    move |parts| single(parts, name, |value| Some(hex::encode(Sha256::digest(value))))
}

fn single(parts: &Parts, name: &str, read: impl Fn(&[u8]) -> Option<String>) -> Tenant {
    match key_header::only(&parts.headers, name) {
        Ok(Some(value)) if !value.is_empty() => {
            read(value.as_bytes()).map_or(Tenant::Invalid, Tenant::Known)
        }
        Ok(_) => Tenant::Unknown,
        // It is ambiguous which tenant sent the request.
        Err(_) => Tenant::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    fn parts(values: &[&[u8]]) -> Parts {
        let mut request = Request::new(());
        for value in values {
            request.headers_mut().append("x-api-key", HeaderValue::from_bytes(value).unwrap());
        }
        request.into_parts().0
    }

    #[test]
    fn a_secret_is_hashed_and_a_name_is_not() {
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let parts = parts(&[b"abc"]);
        assert_eq!(header("x-api-key")(&parts), Tenant::Known("abc".into()));
        assert_eq!(header_sha256("x-api-key")(&parts), Tenant::Known(hash.into()));
    }

    #[test]
    fn an_absent_or_empty_header_names_no_tenant() {
        for values in [&[][..], &[&b""[..]]] {
            assert_eq!(header("x-api-key")(&parts(values)), Tenant::Unknown);
            assert_eq!(header_sha256("x-api-key")(&parts(values)), Tenant::Unknown);
        }
    }

    #[test]
    fn a_repeated_or_unreadable_header_is_invalid() {
        for values in [&[&b"a"[..], b"b"][..], &[b"a", b"a"], &[b"", b"a"]] {
            assert_eq!(header("x-api-key")(&parts(values)), Tenant::Invalid);
            assert_eq!(header_sha256("x-api-key")(&parts(values)), Tenant::Invalid);
        }
        assert_eq!(header("x-api-key")(&parts(&[b"\xff"])), Tenant::Invalid);
    }
}
