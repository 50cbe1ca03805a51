use std::borrow::Cow;

use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

/// The spelling, and the same where the text goes on: short members are read in one look that reaches
/// beyond them.
fn spelling(text: &str) -> Option<Cow<'_, [u8]>> {
    let spelled = canonical(text);
    let followed = text.to_owned() + &" ".repeat(plain::WINDOW);
    assert_eq!(canonical(&followed), spelled, "{text}");
    spelled
}

fn spelled(text: &str) -> String {
    String::from_utf8(spelling(text).expect(text).into_owned()).unwrap()
}

#[test]
fn one_value_one_spelling() {
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
        // Names of which one begins the other, and one that ends where the other has a blank.
        (r#"{"ab":1,"a":2,"":3,"a!":4}"#, r#"{"":3,"a!":4,"a":2,"ab":1}"#),
        // Members change places that stand half in the output, half still in the input.
        (r#"[{"c":1, "b":2,"a":3,"d":4},5]"#, r#"[{"a":3,"b":2,"c":1,"d":4},5]"#),
        (r#"{"b":{"d":1,"c":[ ]},"a":0}"#, r#"{"a":0,"b":{"c":[],"d":1}}"#),
    ] {
        assert_eq!(spelled(text), expected, "{text}");
    }
}

#[test]
fn number_text_counts() {
    let texts =
        ["9007199254740993", "9007199254740992", "1", "1.0", "1e0", "1E0", "0", "-0", "0.0"];
    for (i, a) in texts.iter().enumerate() {
        for b in &texts[i + 1..] {
            assert_ne!(spelled(a), spelled(b));
        }
    }
}

#[test]
fn repeated_members_all_count_in_their_order() {
    let texts = [r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, r#"{"a":1}"#, r#"{"a":2}"#];
    for (i, a) in texts.iter().enumerate() {
        for b in &texts[i + 1..] {
            assert_ne!(spelled(a), spelled(b));
        }
    }
    assert_eq!(spelled(r#"{"a":1,"b":0,"a":2}"#), spelled(r#"{"b":0,"a":1,"a":2}"#));
    assert_ne!(spelled(r#"{"b":0,"a":2,"a":1}"#), spelled(r#"{"b":0,"a":1,"a":2}"#));
}

#[test]
fn what_is_not_json_has_no_spelling() {
    let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
    assert!(spelling(&nested(MAX_DEPTH)).is_some());
    assert_eq!(spelling(&nested(MAX_DEPTH + 1)), None);
    let objects = r#"{"a":"#.repeat(MAX_DEPTH) + "[]" + &"}".repeat(MAX_DEPTH);
    assert_eq!(spelling(&objects), None);
    // Deep enough to end the process, were it followed.
    let deep = nested(1_000_000);
    let no_values = ["", "{", "nul", "1 2", "{'a':1}", r#"{"a":1 2}"#, r#"{"a" 1}"#];
    let no_scalars = ["01", "1.", "1e", "1e+", "-", "-a", "\"\u{1}\""];
    let texts = no_values.into_iter().chain(no_scalars);
    for text in texts.chain([deep.as_str()]) {
        assert_eq!(spelling(text), None, "{text:.20}");
    }
}

#[test]
fn what_is_spelled_canonically_is_not_copied() {
    for text in [r#"{"a":[1,"b",{"c":-0.5e+7,"d":null}],"é":"\n"}"#, " \n[1]"] {
        assert!(matches!(spelling(text), Some(Cow::Borrowed(_))), "{text}");
    }
}

#[test]
fn a_string_ends_where_it_ends_wherever_that_is() {
    // At each place of the eight bytes that are looked at together, and of those after the last
    // eight.
    for length in 0..20 {
        for rest in ["", ",0]", ",\"12345678901234567890\"]"] {
            let plain = "é".repeat(length / 2) + &"!".repeat(length % 2) + "~";
            let text = format!("[\"{plain}\"{}", if rest.is_empty() { "]" } else { rest });
            assert_eq!(spelled(&text), text);
            for special in ["\u{1f}", "\u{0}"] {
                let text = text.replace('~', special);
                assert_eq!(spelling(&text), None, "{text:?}");
            }
            let text = text.replace('~', "\\\"");
            assert_eq!(spelled(&text), text);
        }
    }
}

/// A value, and a writer that spells it in a random way.
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

/// Spells a value with white space, members in reverse and every letter escaped.
fn respell(value: &serde_json::Value) -> String {
    let string = |text: &str| {
        let units: Vec<_> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        format!("\"{}\"", units.concat())
    };
    match value {
        serde_json::Value::String(text) => string(text),
        serde_json::Value::Array(values) => {
            format!("[\n{} ]", values.iter().map(respell).collect::<Vec<_>>().join(" , "))
        }
        serde_json::Value::Object(map) => {
            let members: Vec<_> =
                map.iter().rev().map(|(k, v)| format!("{} :\t{}", string(k), respell(v))).collect();
            format!("{{ {} }}", members.join(",\r\n"))
        }
        other => other.to_string(),
    }
}

/// What JSON is made of, and what looks like it.
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
    fn equal_by_value_is_equal_in_spelling(a in value(), b in value()) {
        prop_assert_eq!(spelled(&a.to_string()), spelled(&respell(&a)));
        prop_assert_eq!(spelled(&a.to_string()) == spelled(&b.to_string()), a == b);
    }

    #[test]
    fn members_in_reverse_are_sorted_without_white_space_too(value in value()) {
        let compact = respell(&value).replace([' ', '\t', '\r', '\n'], "");
        prop_assert_eq!(spelled(&value.to_string()), spelled(&compact));
    }

    #[test]
    fn never_panics_and_is_idempotent(text in "[\\[\\]{},:\" \\\\a1.u-]{0,24}") {
        if let Some(once) = spelling(&text) {
            let again = String::from_utf8(once.clone().into_owned()).unwrap();
            prop_assert_eq!(spelling(&again), Some(once));
        }
    }

    #[test]
    fn json_is_what_serde_json_takes_for_it(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..9),
    ) {
        let text = pieces.concat();
        let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(spelling(&text).is_some(), is_json, "{}", text);
    }

    #[test]
    fn json_with_one_byte_changed_is_what_serde_json_takes_for_it(
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
        prop_assert_eq!(spelling(&text).is_some(), is_json, "{:?}", text);
    }
}
