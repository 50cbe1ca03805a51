//! Finds parts of a JSON text, exactly as they are written, in JSON of any depth.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Removes the byte order mark that some programs write before JSON, and that a reader may ignore
/// (RFC 8259, section 8.1).
pub(crate) fn without_bom(json: &[u8]) -> &[u8] {
    json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json)
}

/// Returns the part of a value to which the reference tokens of a JSON pointer lead.
pub(crate) fn part<'a, 't>(
    value: &'a RawValue,
    tokens: impl IntoIterator<Item = &'t str>,
) -> Option<&'a RawValue> {
    tokens.into_iter().try_fold(value, |value, token| child(value.get(), token))
}

/// Returns a member of an object, the last one of its name, or an element of a list.
fn child<'a>(value: &'a str, token: &str) -> Option<&'a RawValue> {
    let mut json = serde_json::Deserializer::from_str(value);
    match value.as_bytes().first()? {
        b'{' => json.deserialize_map(Child { token }).ok()?,
        b'[' => json.deserialize_seq(Child { token }).ok()?,
        _ => None,
    }
}

struct Child<'t> {
    token: &'t str,
}

impl Child<'_> {
    /// Returns whether this is the name of the member, which may be written with escapes.
    fn is_named(&self, name: &RawValue) -> bool {
        let text = name.get();
        let bare = text.get(1..text.len() - 1).unwrap_or_default();
        if bare.contains('\\') {
            return serde_json::from_str::<String>(text).is_ok_and(|name| name == self.token);
        }
        bare == self.token
    }

    /// Returns the index that the token is, without leading zeros (RFC 6901, section 4).
    fn index(&self) -> Option<usize> {
        let is_index = self.token == "0" || !self.token.starts_with(['0', '+']);
        self.token.parse().ok().filter(|_| is_index)
    }
}

impl<'a> Visitor<'a> for Child<'_> {
    type Value = Option<&'a RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = map.next_key::<&RawValue>()? {
            if self.is_named(name) {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (index, mut found) = (self.index(), None);
        let mut at = 0;
        while let Some(element) = list.next_element::<&RawValue>()? {
            if Some(at) == index {
                found = Some(element);
            }
            at += 1;
        }
        Ok(found)
    }
}

/// Returns the text of an object with another value of a member, which it may lack. Returns the text
/// of any other value unchanged.
#[cfg(feature = "messages")]
pub(crate) fn with_member(object: &str, name: &str, value: &str) -> String {
    if let Some(old) = child(object, name).map(RawValue::get) {
        let start = old.as_ptr().addr() - object.as_ptr().addr();
        return [&object[..start], value, &object[start + old.len()..]].concat();
    }
    match object.strip_prefix('{') {
        Some(rest) => {
            let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
            format!("{{\"{name}\":{value}{comma}{rest}")
        }
        None => object.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(json: &'a str, tokens: &[&str]) -> Option<&'a str> {
        part(serde_json::from_str(json).unwrap(), tokens.iter().copied()).map(RawValue::get)
    }

    #[test]
    fn a_part_keeps_its_text() {
        let json = r#" {"a":{"b/~c": 1.50 ,"\u00e9":[ 1e999,{"x":"\ud800"}]},"a2":0, "\ud800":2} "#;
        for (tokens, expected) in [
            (&["a", "b/~c"][..], Some("1.50")),
            (&["a", "é", "0"], Some("1e999")),
            (&["a", "é", "1", "x"], Some(r#""\ud800""#)),
            (&["a2"], Some("0")),
            (&["a", "é", "2"], None),
            (&["a", "é", "01"], None),
            (&["a", "é", "+1"], None),
            (&["a", "é", "-"], None),
            (&["a", "é", ""], None),
            (&["a2", "0"], None),
            (&["b"], None),
        ] {
            assert_eq!(found(json, tokens), expected, "{tokens:?}");
        }
        assert_eq!(found(json, &[]), Some(json.trim()));
        assert_eq!(found(r#"{"":7}"#, &[""]), Some("7"));
        assert_eq!(found(r#"{"a":1,"\u0061":2}"#, &["a"]), Some("2"), "the last one");
    }

    #[test]
    fn no_depth_hides_a_part() {
        let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
        let json = format!(r#"{{"a":{open}{close},"b":{{"c":1}}}}"#);
        assert_eq!(found(&json, &["b", "c"]), Some("1"));
        let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
        assert_eq!(found(&deep, &["0"; 300]), Some("1"));
    }

    #[cfg(feature = "messages")]
    #[test]
    fn a_member_is_replaced_or_added() {
        let with = |json: &str| with_member(json, "a", "2");
        assert_eq!(with(r#"{"b":1, "a" : [1] ,"c":3}"#), r#"{"b":1, "a" : 2 ,"c":3}"#);
        assert_eq!(with(r#"{"b":1}"#), r#"{"a":2,"b":1}"#);
        assert_eq!(with("{ }"), r#"{"a":2 }"#);
        assert_eq!(with("[1]"), "[1]");
    }
}
