//! The key in an `Idempotency-Key` header field.
//!
//! draft-ietf-httpapi-idempotency-key-header-07, section 2.1: the field is an Item of RFC 8941
//! whose value is a String. Many clients send the bare text without quotes, as Stripe's
//! documentation does. Both spellings name the same key.

use http::header::AsHeaderName;
use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{BareItem, Item, Parser};

/// The longest key, in bytes, the same as Stripe's.
const MAX_KEY_BYTES: usize = 255;

/// Reads the key. Returns `None` without the header, or why the header is malformed.
pub(crate) fn parse(
    headers: &HeaderMap,
    name: &HeaderName,
) -> Result<Option<String>, &'static str> {
    bounded(only(headers, name)?.map(read).transpose()?)
}

/// Returns the only value of a header.
pub(super) fn only(
    headers: &HeaderMap,
    name: impl AsHeaderName,
) -> Result<Option<&HeaderValue>, &'static str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    match values.next() {
        None => Ok(value),
        Some(_) => Err("the request has more than one idempotency key"),
    }
}

/// Reads an id that is not a structured field: quotes are part of it. A comma may join two ids, so it
/// is accepted only if `may_have_comma`, which means that a signature covers the id.
#[cfg(feature = "webhook")]
pub(crate) fn parse_verbatim(
    headers: &HeaderMap,
    name: impl AsHeaderName,
    may_have_comma: bool,
) -> Result<Option<String>, &'static str> {
    let Some(value) = only(headers, name)? else { return Ok(None) };
    match std::str::from_utf8(value.as_bytes()).map(|id| id.trim_matches([' ', '\t'])) {
        Err(_) => Err("the event's id is not valid UTF-8"),
        Ok("") => Err("the event's id is empty"),
        Ok(id) if id.contains(',') && !may_have_comma => {
            Err("the request has more than one idempotency key")
        }
        Ok(id) => Ok(Some(id.to_owned())),
    }
}

/// Checks the length of a key.
pub(super) fn bounded(key: Option<String>) -> Result<Option<String>, &'static str> {
    match key.as_ref().map(String::len) {
        Some(0) => Err("the idempotency key is empty"),
        None | Some(1..=MAX_KEY_BYTES) => Ok(key),
        Some(_) => Err("the idempotency key is longer than 255 bytes"),
    }
}

fn read(value: &HeaderValue) -> Result<String, &'static str> {
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| "the idempotency key is not valid UTF-8")?
        .trim_matches([' ', '\t']);
    if text.starts_with('"') { quoted(text) } else { bare(text) }
}

fn quoted(text: &str) -> Result<String, &'static str> {
    // Parameters after the value are allowed and ignored (RFC 8941, section 2).
    match Parser::new(text).parse::<Item>() {
        Ok(Item { bare_item: BareItem::String(key), .. }) => Ok(key.into()),
        _ => Err("the idempotency key begins with a quote but is not a string of RFC 8941"),
    }
}

fn bare(text: &str) -> Result<String, &'static str> {
    if text.chars().any(char::is_control) {
        return Err("the idempotency key contains a control character");
    }
    // API Gateway's HTTP APIs join repeated headers with a comma, as RFC 9110, section 5.2, allows.
    // Two keys must not become a third one.
    if text.contains(',') {
        return Err("the idempotency key contains a comma: send one key, or put it in quotes");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAME: HeaderName = HeaderName::from_static("idempotency-key");

    fn parsed(values: &[&[u8]]) -> Result<Option<String>, &'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(NAME, HeaderValue::from_bytes(value).unwrap());
        }
        parse(&headers, &NAME)
    }

    fn key(value: &str) -> Result<Option<String>, &'static str> {
        parsed(&[value.as_bytes()])
    }

    #[test]
    fn quoted_and_bare_spelling_name_the_same_key() {
        for spelling in ["8e03978e", "\"8e03978e\"", " \"8e03978e\"\t", "\"8e03978e\";v=1"] {
            assert_eq!(key(spelling), Ok(Some("8e03978e".into())), "{spelling}");
        }
        assert_eq!(key(r#""a\"b\\c""#), Ok(Some(r#"a"b\c"#.into())));
        assert_eq!(key("\"a,b\""), Ok(Some("a,b".into())));
        assert_eq!(key("clé#1/%"), Ok(Some("clé#1/%".into())));
    }

    #[test]
    fn a_request_without_the_header_has_no_key() {
        assert_eq!(parsed(&[]), Ok(None));
    }

    #[test]
    fn an_invalid_key_is_rejected() {
        let long = "k".repeat(256);
        for value in
            ["", " ", "\"\"", "\"", "\"a", "\"a\" b", "a,b", "\"a\", \"b\"", "\"é\"", &long]
        {
            assert!(key(value).is_err(), "{value}");
        }
        assert!(parsed(&[b"a\tb"]).is_err());
        assert!(parsed(&[b"\xff"]).is_err());
    }

    #[test]
    fn the_longest_key_is_255_bytes() {
        let longest = "k".repeat(255);
        assert_eq!(key(&longest), Ok(Some(longest.clone())));
        assert_eq!(key(&format!("\"{longest}\"")), Ok(Some(longest)));
        assert!(key(&"é".repeat(128)).is_err());
    }

    #[test]
    fn two_headers_are_rejected_even_with_equal_keys() {
        assert!(parsed(&[b"a", b"b"]).is_err());
        assert!(parsed(&[b"a", b"a"]).is_err());
    }

    /// A second implementation of the grammar of RFC 8941, section 3.3.3: returns the string that
    /// `text` begins with, and the rest after spaces.
    fn sf_string(text: &str) -> Option<(String, &str)> {
        let mut string = String::new();
        let mut chars = text.strip_prefix('"')?.chars();
        loop {
            match chars.next()? {
                '"' => return Some((string, chars.as_str().trim_end_matches(' '))),
                '\\' => match chars.next()? {
                    c @ ('"' | '\\') => string.push(c),
                    _ => return None,
                },
                c @ ' '..='~' => string.push(c),
                _ => return None,
            }
        }
    }

    proptest! {
        #[test]
        fn any_string_of_rfc_8941_round_trips(text in "[ -~]{1,255}") {
            let string = sfv::StringRef::from_str(&text).unwrap();
            let spelled = sfv::ItemSerializer::new().bare_item(string).finish();
            prop_assert_eq!(key(&spelled), Ok(Some(text)));
        }

        #[test]
        fn a_quoted_key_follows_the_grammar(value in "\"[ -~]{0,3}[a\"\\\\;= ]{0,8}") {
            let expected = match sf_string(&value) {
                Some((text, "")) if !text.is_empty() => Some(text),
                Some((_, "")) | None => None,
                // Only parameters can follow a string; sfv checks that they are well-formed.
                Some((text, rest)) if rest.trim_start().starts_with(';') => {
                    key(&value).is_ok().then_some(text)
                }
                Some(_) => None,
            };
            prop_assert_eq!(key(&value).ok().flatten(), expected);
        }

        #[test]
        fn a_bare_key_is_the_value_itself(value in "[!#-+\\--~é][!-+\\--~é]{0,40}") {
            prop_assert_eq!(key(&value), Ok(Some(value)));
        }

        #[test]
        fn no_header_value_panics(value in "[\\t -~é]{0,40}") {
            if let Ok(Some(key)) = key(&value) {
                prop_assert!(!key.is_empty() && key.len() <= 255);
            }
        }
    }
}
