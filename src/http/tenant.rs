//! Whose key it is: extractors for [`Http::tenant`](super::Http::tenant).

use http::HeaderValue;
use http::request::Parts;
use sha2::{Digest, Sha256};

use crate::key::push_hex;

/// The value of a header, for one that is no secret; `None` without it, where it is empty,
/// repeated (whose request would it be?) or not UTF-8.
pub fn header(name: &'static str) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    move |parts| {
        let value = single(parts, name)?;
        std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
    }
}

/// The SHA-256 of a header's value in hex, for API keys and tokens: the table's keys are no place
/// for a secret. `None` without it, where it is empty or repeated.
pub fn header_sha256(
    name: &'static str,
) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    move |parts| {
        let value = single(parts, name)?;
        let mut hex = String::with_capacity(64);
        push_hex(&mut hex, &Sha256::digest(value.as_bytes()));
        Some(hex)
    }
}

fn single<'a>(parts: &'a Parts, name: &str) -> Option<&'a HeaderValue> {
    let mut values = parts.headers.get_all(name).iter();
    values.next().filter(|value| !value.is_empty() && values.next().is_none())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn a_secret_is_hashed_and_a_name_is_not() {
        let request = Request::builder().header("x-api-key", "abc").body(()).unwrap();
        let (parts, ()) = request.into_parts();
        assert_eq!(header("x-api-key")(&parts).as_deref(), Some("abc"));
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(header_sha256("x-api-key")(&parts).as_deref(), Some(hash));
        assert_eq!(header("x-tenant")(&parts), None);
        assert_eq!(header_sha256("x-tenant")(&parts), None);
    }

    #[test]
    fn a_repeated_or_empty_header_names_nobody() {
        let repeated = Request::builder().header("x-tenant", "a").header("x-tenant", "b");
        for request in [repeated, Request::builder().header("x-tenant", "")] {
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(header("x-tenant")(&parts), None);
            assert_eq!(header_sha256("x-tenant")(&parts), None);
        }
    }
}
