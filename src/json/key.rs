//! Keys that are parts of a JSON text.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::part::{part, without_bom};
use crate::error::{Error, ErrorKind, json_fault};

/// A key that consists of one or several parts of a JSON text.
///
/// Each part is named by its JSON pointer (RFC 6901), and is a string or a number. Messages, events,
/// webhooks and HTTP bodies take such a key. Where a method takes `impl Into<JsonKey>`, pass one pointer
/// (`"/order/id"`) or several (`["/order/id", "/line"]`).
///
/// | pointers | JSON | key |
/// |---|---|---|
/// | `"/order/id"` | `{"order":{"id":"o-1"}}` | `o-1` |
/// | `"/order/id"` | `{"order":{"id":18446744073709551616}}` | `18446744073709551616` |
/// | `["/order/id", "/line"]` | `{"order":{"id":"o-1"},"line":2}` | `["o-1",2]` |
///
/// Numbers keep the text in which they are written, so `1` and `1.0` are two keys. A key of several parts is
/// a JSON list, so other parts never give the same key. Under one pointer, the string `"1"` and the number
/// `1` are the same key.
///
/// ```
/// use dynamodb_idempotency::{ErrorKind, JsonKey};
///
/// let key = JsonKey::new(["/order/id", "/line"]);
/// assert_eq!(key.find_in(br#"{"order": {"id": "o-1"}, "line": 2}"#)?, r#"["o-1",2]"#);
///
/// let error = JsonKey::new(["order"]).find_in(b"{}").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Configuration);
/// assert!(error.to_string().contains("write `/order`"));
/// # Ok::<_, dynamodb_idempotency::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct JsonKey(Result<Arc<[Pointer]>, Arc<str>>);

#[derive(Debug)]
struct Pointer {
    text: String,
    /// Its reference tokens, without escapes.
    tokens: Vec<String>,
}

/// Why a JSON text has no key. Neither variant quotes the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// It lacks a part, or the part is `null`.
    Missing(String),
    /// It is not JSON, or a part is neither a string nor a number.
    Invalid(String),
}

impl JsonKey {
    /// Creates a key of the parts at these JSON pointers.
    ///
    /// A pointer begins with `/`. The empty pointer is the whole JSON text. A text that is not a pointer, or
    /// no pointer at all, is reported where the key is used: by
    /// [`Consumer::handler`](crate::messages::Consumer::handler),
    /// [`Idempotency::event_by`](crate::Idempotency::event_by), [`Http::layer`](crate::http::Http::layer)
    /// and similar methods, as a [`Configuration`](ErrorKind::Configuration) error.
    ///
    /// ```
    /// use dynamodb_idempotency::JsonKey;
    ///
    /// let key = JsonKey::new(["/id"]);
    /// assert_eq!(key.find_in(br#"{"id": 1.50}"#)?, "1.50");
    /// # Ok::<_, dynamodb_idempotency::Error>(())
    /// ```
    #[must_use]
    pub fn new<P: Into<String>>(pointers: impl IntoIterator<Item = P>) -> Self {
        let pointers: Result<Arc<[_]>, Arc<str>> =
            pointers.into_iter().map(|pointer| Pointer::parse(pointer.into())).collect();
        Self(match pointers {
            Ok(pointers) if pointers.is_empty() => {
                Err("a JsonKey has no JSON pointer: pass at least one, such as `/order/id`".into())
            }
            pointers => pointers,
        })
    }

    /// Returns the key in a JSON text. A byte order mark before it is ignored.
    ///
    /// ```
    /// use dynamodb_idempotency::{ErrorKind, JsonKey};
    ///
    /// let key = JsonKey::new(["/id"]);
    /// assert_eq!(key.find_in(br#"{"id": "o-1"}"#)?, "o-1");
    /// assert_eq!(key.find_in(b"{}").unwrap_err().kind(), ErrorKind::InvalidInput);
    /// # Ok::<_, dynamodb_idempotency::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if a pointer is invalid. [`ErrorKind::InvalidInput`] if the text is not
    /// JSON, or if a part is missing or is neither a string nor a number. The error quotes nothing of the
    /// text.
    pub fn find_in(&self, json: &[u8]) -> Result<String, Error> {
        if let Some(wrong) = self.wrong() {
            return Err(Error::new(ErrorKind::Configuration, wrong));
        }
        self.find(json).map_err(|none| match none {
            NoKey::Missing(reason) | NoKey::Invalid(reason) => {
                Error::new(ErrorKind::InvalidInput, reason)
            }
        })
    }

    /// Returns why this key cannot be used.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.0.as_ref().err().map(ToString::to_string)
    }

    pub(crate) fn find(&self, json: &[u8]) -> Result<String, NoKey> {
        let pointers = self.0.as_ref().map_err(|wrong| NoKey::Invalid(wrong.to_string()))?;
        let json = serde_json::from_slice(without_bom(json)).map_err(|error| {
            let fault = json_fault(&error);
            NoKey::Invalid(format!("the key cannot be found in the payload: {fault}"))
        })?;
        let parts = pointers.iter().map(|pointer| Ok((pointer, pointer.scalar(json)?)));
        Ok(match parts.collect::<Result<Vec<_>, _>>()?.as_slice() {
            [(pointer, part)] if part.starts_with('"') => pointer.text_of(part)?,
            [(_, number)] => (*number).to_owned(),
            several => {
                let spelled = several.iter().map(|(pointer, part)| pointer.spelled(part));
                format!("[{}]", spelled.collect::<Result<Vec<_>, _>>()?.join(","))
            }
        })
    }
}

impl Pointer {
    fn parse(text: String) -> Result<Self, Arc<str>> {
        let wrong = |fix: &str| Err(format!("the JSON pointer `{text}` of a key {fix}").into());
        if !text.is_empty() && !text.starts_with('/') {
            return wrong(&format!("does not begin with `/`: write `/{text}`"));
        }
        // Each `~` begins an escape (RFC 6901, section 3).
        if text.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1'])) {
            return wrong("has a `~` that is not escaped: write `~0` for `~`, and `~1` for `/`");
        }
        let plain = |token: &str| token.replace("~1", "/").replace("~0", "~");
        let tokens = text.split('/').skip(1).map(plain).collect();
        Ok(Self { text, tokens })
    }

    /// Returns the text of the string or number at this pointer, as it is written.
    fn scalar<'a>(&self, json: &'a RawValue) -> Result<&'a str, NoKey> {
        let found = part(json, self.tokens.iter().map(String::as_str)).map(RawValue::get);
        match found.and_then(|part| part.chars().next()) {
            None | Some('n') => {
                Err(NoKey::Missing(format!("the payload has no member `{}`", self.text)))
            }
            Some('"' | '-' | '0'..='9') => Ok(found.unwrap_or_default()),
            Some(_) => Err(self.invalid("is neither a string nor a number")),
        }
    }

    fn text_of(&self, string: &str) -> Result<String, NoKey> {
        serde_json::from_str(string).map_err(|_| self.invalid("is not valid Unicode"))
    }

    /// Returns a part in the one spelling that it has in a list.
    fn spelled(&self, part: &str) -> Result<String, NoKey> {
        if !part.starts_with('"') {
            return Ok(part.to_owned());
        }
        serde_json::to_string(&self.text_of(part)?).map_err(|_| self.invalid("cannot be written"))
    }

    fn invalid(&self, what: &str) -> NoKey {
        NoKey::Invalid(format!("the key at `{}` {what}", self.text))
    }
}

impl From<&str> for JsonKey {
    fn from(pointer: &str) -> Self {
        Self::new([pointer])
    }
}

impl From<String> for JsonKey {
    fn from(pointer: String) -> Self {
        Self::new([pointer])
    }
}

impl<P: Into<String>, const N: usize> From<[P; N]> for JsonKey {
    fn from(pointers: [P; N]) -> Self {
        Self::new(pointers)
    }
}

impl<P: Into<String>> From<Vec<P>> for JsonKey {
    fn from(pointers: Vec<P>) -> Self {
        Self::new(pointers)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn found(key: impl Into<JsonKey>, json: &str) -> Result<String, NoKey> {
        key.into().find(json.as_bytes())
    }

    #[test]
    fn a_part_is_a_string_or_a_number_as_it_is_written() {
        let json = r#"{"a":{"b/c":"k","~":1},"n":9007199254740993,"m":-1,"e":"","f":1.50,
            "big":18446744073709551616,"l":["k",0.10],"u":"\u00e9\n"}"#;
        for (pointer, key) in [
            ("/a/b~1c", "k"),
            ("/a/~0", "1"),
            ("/n", "9007199254740993"),
            ("/m", "-1"),
            ("/e", ""),
            ("/f", "1.50"),
            ("/big", "18446744073709551616"),
            ("/l/1", "0.10"),
            ("/u", "é\n"),
        ] {
            assert_eq!(found(pointer, json).as_deref(), Ok(key), "{pointer}");
        }
        assert_eq!(found("", "\"k\"").as_deref(), Ok("k"));
        assert_eq!(found("/a", "\u{feff}{\"a\":1}").as_deref(), Ok("1"));
    }

    #[test]
    fn a_missing_key_differs_from_an_invalid_key() {
        let json = r#"{"t":true,"o":{},"l":["k"],"z":null,"s":"\ud800","k":"k"}"#;
        for pointer in ["/x", "/o/x", "/l/1", "/l/00", "/z", "/k/x"] {
            let missing = Err(NoKey::Missing(format!("the payload has no member `{pointer}`")));
            assert_eq!(found(pointer, json), missing);
            assert_eq!(found(["/k", pointer], json), missing);
        }
        for pointer in ["/t", "/o", "/l", "/s", ""] {
            for key in [JsonKey::from(pointer), JsonKey::new(["/k", pointer])] {
                let Err(NoKey::Invalid(reason)) = key.find(json.as_bytes()) else {
                    panic!("{pointer}");
                };
                assert!(reason.contains(&format!("`{pointer}`")), "{reason}");
            }
        }
        for json in ["", "k", "{", "{\"f\":1", "{} {}", "\u{feff}\u{feff}{\"f\":1}"] {
            assert!(matches!(found("/f", json), Err(NoKey::Invalid(_))), "{json}");
        }
        assert!(matches!(JsonKey::from("/f").find(b"{\"f\":\"\xff\"}"), Err(NoKey::Invalid(_))));
    }

    #[test]
    fn a_text_that_is_not_a_pointer_names_its_fix() {
        for (pointer, fix) in [
            ("id", "write `/id`"),
            ("order/id", "write `/order/id`"),
            ("/a~b", "write `~0` for `~`"),
            ("/a~", "write `~0` for `~`"),
        ] {
            let wrong = JsonKey::new(["/a", pointer]).wrong().unwrap();
            assert!(wrong.contains(pointer) && wrong.contains(fix), "{wrong}");
        }
        assert!(JsonKey::new([""; 0]).wrong().unwrap().contains("pass at least one"));
        assert_eq!(JsonKey::new(["", "/", "/a~0~1"]).wrong(), None);
    }

    #[test]
    fn other_parts_never_give_the_same_key() {
        let scalars = [
            r#""a""#,
            r#""a,b""#,
            r#""a\",\"b""#,
            r#""\",\"""#,
            r#""1""#,
            "1",
            "1.0",
            "1e0",
            r#""""#,
            r#""[\"a\",1]""#,
            r#""a\\""#,
            r#""\u0000""#,
            r#""null""#,
            "18446744073709551616",
            "18446744073709551617",
            "-0",
            "0",
        ];
        let mut keys = HashMap::new();
        for one in scalars {
            for other in scalars {
                let json = format!(r#"{{"a":{one},"b":{other}}}"#);
                let key = found(["/a", "/b"], &json).unwrap();
                let earlier = keys.insert(key, (one, other));
                assert_eq!(earlier, None, "{one}, {other}");
            }
        }
        // Another spelling of the same strings is the same key.
        let spelled = found(["/a", "/b"], r#"{"a":"\u0061\/","b":1}"#);
        assert_eq!(spelled.as_deref(), Ok(r#"["a/",1]"#));
    }

    proptest! {
        #[test]
        fn strings_are_kept_apart(a in any::<(String, String)>(), b in any::<(String, String)>()) {
            let of = |(one, other): &(String, String)| {
                let json = serde_json::json!({"a": one, "b": other}).to_string();
                found(["/a", "/b"], &json).unwrap()
            };
            prop_assert_eq!(of(&a) == of(&b), a == b);
            let single = serde_json::json!({"a": a.0}).to_string();
            prop_assert_eq!(found("/a", &single), Ok(a.0));
        }

        #[test]
        fn no_payload_panics(payload in any::<Vec<u8>>()) {
            let _ = JsonKey::new(["", "/a", "/0"]).find(&payload);
        }
    }
}
