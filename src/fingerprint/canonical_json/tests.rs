use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

fn form(text: &str) -> String {
    String::from_utf8(canonical(text).expect(text).into_owned()).unwrap()
}

#[test]
fn one_value_has_one_canonical_form() {
    for (text, expected) in [
        (" { } ", "{}"),
        ("[ ]", "[]"),
        (r#"{"b":2,"a":{"d":[1, 2 ,{}],"c":null}}"#, r#"{"a":{"c":null,"d":[1,2,{}]},"b":2}"#),
        (r#" "A\/é" "#, r#""A/é""#),
        (r#"{"\u0062":1,"a":"\""}"#, r#"{"a":"\"","b":1}"#),
        ("\t-0 ", "-0"),
        (r#""\uD800""#, r#""\ud800""#),
        (r#""a\uDC00\u0041\\uD800\uD83D\uD83D\uDE00""#, "\"a\\udc00A\\\\uD800\\ud83d\u{1F600}\""),
        (r#""\ud800\uDBFF\uDFFF""#, "\"\\ud800\u{10FFFF}\""),
        (r#"{"\uD800":1,"\ud800":2}"#, r#"{"\ud800":1,"\ud800":2}"#),
        (r#""\uD83D\uDE00""#, "\"\u{1F600}\""),
        ("\"\u{7f}\\u007f\\u0008\\n\"", "\"\u{7f}\u{7f}\\b\\n\""),
        (r#""\u001F""#, r#""\u001f""#),
        (r#""a b""#, r#""a b""#),
        // A name that is a prefix of another, and one that continues with a byte that sorts before the quote.
        (r#"{"ab":1,"a":2,"":3,"a!":4}"#, r#"{"":3,"a!":4,"a":2,"ab":1}"#),
        // Members are reordered before the end of the text is copied.
        (r#"[{"c":1, "b":2,"a":3,"d":4},5]"#, r#"[{"a":3,"b":2,"c":1,"d":4},5]"#),
        (r#"{"b":{"d":1,"c":[ ]},"a":0}"#, r#"{"a":0,"b":{"c":[],"d":1}}"#),
    ] {
        assert_eq!(form(text), expected, "{text}");
    }
}

#[test]
fn numbers_differ_by_their_text() {
    let texts =
        ["9007199254740993", "9007199254740992", "1", "1.0", "1e0", "1E0", "0", "-0", "0.0"];
    for (i, a) in texts.iter().enumerate() {
        for b in &texts[i + 1..] {
            assert_ne!(form(a), form(b));
        }
    }
}

#[test]
fn repeated_members_are_kept_in_their_order() {
    let texts = [r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, r#"{"a":1}"#, r#"{"a":2}"#];
    for (i, a) in texts.iter().enumerate() {
        for b in &texts[i + 1..] {
            assert_ne!(form(a), form(b));
        }
    }
    assert_eq!(form(r#"{"a":1,"b":0,"a":2}"#), form(r#"{"b":0,"a":1,"a":2}"#));
    assert_ne!(form(r#"{"b":0,"a":2,"a":1}"#), form(r#"{"b":0,"a":1,"a":2}"#));
}

#[test]
fn a_text_that_is_not_json_has_no_canonical_form() {
    let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
    assert!(canonical(&nested(MAX_DEPTH)).is_some());
    assert_eq!(canonical(&nested(MAX_DEPTH + 1)), None);
    let objects = r#"{"a":"#.repeat(MAX_DEPTH) + "[]" + &"}".repeat(MAX_DEPTH);
    assert_eq!(canonical(&objects), None);
    // Deep enough to overflow the stack.
    let deep = nested(1_000_000);
    let no_values = ["", "{", "nul", "1 2", "{'a':1}", r#"{"a":1 2}"#, r#"{"a" 1}"#];
    let no_scalars = ["01", "1.", "1e", "1e+", "-", "-a", "\"\u{1}\""];
    let texts = no_values.into_iter().chain(no_scalars);
    for text in texts.chain([deep.as_str()]) {
        assert_eq!(canonical(text), None, "{text:.20}");
    }
}

#[test]
fn nested_objects_are_each_sorted() {
    let text = r#"{"b":{"y":[{"q":1,"p":2}],"x":{"n":1,"m":2}},"a":{"k":1,"j":{"2":0,"1":0}}}"#;
    let sorted = r#"{"a":{"j":{"1":0,"2":0},"k":1},"b":{"x":{"m":2,"n":1},"y":[{"p":2,"q":1}]}}"#;
    assert_eq!(form(text), sorted);
}

#[test]
fn each_byte_is_copied_once_whatever_the_depth() {
    let mut text = "0".to_owned();
    let mut expected = text.clone();
    for _ in 0..MAX_DEPTH {
        text = format!(r#"{{"b":{text},"a":1}}"#);
        expected = format!(r#"{{"a":1,"b":{expected}}}"#);
    }
    assert_eq!(form(&text), expected);
    // The buffer of the sorted text has room for each byte once, and every level has an object to sort.
    let text = text.as_bytes();
    let mut writer = Writer { uncopied: text, length: text.len(), ..Writer::default() };
    writer.value(text, MAX_DEPTH).unwrap();
    assert_eq!(writer.unsorted.len(), MAX_DEPTH);
}

#[test]
fn a_text_in_canonical_form_is_not_copied() {
    let is_copied = |text| matches!(canonical(text), Some(Cow::Owned(_)));
    for text in ["1", r#""a\n""#, r#"{"a":[1,{}],"a":"\"","b":{"c":"","d":null}}"#] {
        assert!(!is_copied(text), "{text}");
    }
    // Also where the canonical form is as long as the text.
    for text in [" 1", "1 ", r#""\/""#, r#"{"b":1,"a":2}"#, r#""\uD800""#, r#""\u001F""#] {
        assert!(is_copied(text), "{text}");
    }
}

/// Strings and numbers are read 8 bytes at a time.
#[test]
fn a_byte_counts_wherever_it_is() {
    for (quote, filler) in [("\"", "a"), ("\"", "\u{e9}"), ("\"", "\u{7f}"), ("", "1")] {
        for (before, after) in (0..18).flat_map(|before| (0..18).map(move |after| (before, after)))
        {
            for byte in '\0'..='\u{7f}' {
                let (before, after) = (filler.repeat(before), filler.repeat(after));
                let text = format!("{quote}{before}{byte}{after}{quote}");
                let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
                assert_eq!(canonical(&text).is_some(), is_json, "{text:?}");
            }
        }
    }
}

/// Any value.
fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "[a\"\\\\\\u{1}é/]{0,4}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::hash_map("[ab\"é]{0,2}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Writes a value with white space, members in reverse and every letter escaped.
fn write_differently(value: &serde_json::Value) -> String {
    let string = |text: &str| {
        let units: Vec<_> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        format!("\"{}\"", units.concat())
    };
    match value {
        serde_json::Value::String(text) => string(text),
        serde_json::Value::Array(values) => {
            format!("[\n{} ]", values.iter().map(write_differently).collect::<Vec<_>>().join(" , "))
        }
        serde_json::Value::Object(map) => {
            let members: Vec<_> = map
                .iter()
                .rev()
                .map(|(k, v)| format!("{} :\t{}", string(k), write_differently(v)))
                .collect();
            format!("{{ {} }}", members.join(",\r\n"))
        }
        other => other.to_string(),
    }
}

/// Pieces of JSON, and pieces that look like it.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    " ",
    "\n",
    "\u{a0}",
    "\"a\"",
    "\"b\\u00e9\"",
    "\"",
    "\\",
    "\\ud800",
    "\\x",
    "0",
    "7",
    "12",
    "-",
    "+",
    ".",
    "e",
    "E",
    "true",
    "false",
    "null",
    "\0",
    "é",
];

proptest! {
    #[test]
    fn equal_values_have_one_canonical_form(a in value(), b in value()) {
        prop_assert_eq!(form(&a.to_string()), form(&write_differently(&a)));
        prop_assert_eq!(form(&a.to_string()) == form(&b.to_string()), a == b);
    }

    #[test]
    fn reversed_members_are_sorted_without_white_space_too(value in value()) {
        let compact = write_differently(&value).replace([' ', '\t', '\r', '\n'], "");
        prop_assert_eq!(form(&value.to_string()), form(&compact));
    }

    #[test]
    fn never_panics_and_is_idempotent(text in "[\\[\\]{},:\" \\\\a1.u-]{0,24}") {
        if let Some(once) = canonical(&text) {
            let again = str::from_utf8(&once).unwrap();
            prop_assert_eq!(canonical(again), Some(Cow::Borrowed(&*once)));
        }
    }

    #[test]
    fn a_text_is_json_if_serde_json_accepts_it(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..9),
    ) {
        let text = pieces.concat();
        let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(canonical(&text).is_some(), is_json, "{}", text);
    }

    #[test]
    fn a_text_with_one_byte_changed_is_json_if_serde_json_accepts_it(
        value in value(),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        is_removed in any::<bool>(),
    ) {
        let mut text = value.to_string().into_bytes();
        let place = place.index(text.len());
        if is_removed {
            text.remove(place);
        } else {
            text[place] = byte;
        }
        let Ok(text) = String::from_utf8(text) else { return Ok(()) };
        let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(canonical(&text).is_some(), is_json, "{:?}", text);
    }
}
