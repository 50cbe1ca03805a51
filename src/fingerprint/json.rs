//! One spelling for each JSON value: no white space, members sorted, strings escaped one way,
//! numbers letter for letter.
//!
//! RFC 8785 would turn numbers into doubles, so that 9007199254740993 and 9007199254740992 became
//! one request; here a number is its text. Repeated members all count, in their order: parsers
//! differ in which one they take.

use serde::de::IgnoredAny;

/// The canonical spelling of `text`, or `None` if it is not JSON.
pub(crate) fn canonical(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    // serde_json judges what is JSON; the writer below relies on it.
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let out = Vec::with_capacity(text.len());
    let (members, scratch) = (Vec::new(), Vec::new());
    let mut writer = Writer { input: text.as_bytes(), at: 0, depth: 0, out, members, scratch };
    writer.value()?;
    Some(writer.out)
}

struct Writer<'a> {
    /// Valid JSON.
    input: &'a [u8],
    at: usize,
    /// How many arrays and objects are open.
    depth: usize,
    out: Vec<u8>,
    /// Those of the objects that are open, the innermost one's last.
    members: Vec<Member>,
    /// Where members change places.
    scratch: Vec<u8>,
}

/// Deeper text is not taken for JSON: the writer calls itself, and its stack is finite.
const MAX_DEPTH: usize = 128;

/// Where a member stands in the output: `"name":value,` with `name_end` after the closing quote.
struct Member {
    start: usize,
    name_end: usize,
    end: usize,
}

impl Writer<'_> {
    /// Writes the next value; `None` if it is nested too deep.
    fn value(&mut self) -> Option<()> {
        let token = self.next_token();
        self.depth += 1;
        match token {
            b'{' | b'[' if self.depth > MAX_DEPTH => return None,
            b'{' => self.object()?,
            b'[' => self.array()?,
            b'"' => self.string(),
            _ => self.scalar(),
        }
        self.depth -= 1;
        Some(())
    }

    /// Skips white space; the byte that follows it.
    fn next_token(&mut self) -> u8 {
        while matches!(self.input[self.at], b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.input[self.at]
    }

    fn array(&mut self) -> Option<()> {
        self.at += 1;
        self.out.push(b'[');
        let first = self.out.len();
        while self.next_token() != b']' {
            self.value()?;
            self.separator();
        }
        self.close(first, b']');
        Some(())
    }

    fn object(&mut self) -> Option<()> {
        self.at += 1;
        self.out.push(b'{');
        let first = self.out.len();
        let outer = self.members.len();
        while self.next_token() != b'}' {
            let start = self.out.len();
            self.string();
            let name_end = self.out.len();
            self.next_token();
            self.at += 1; // the colon
            self.out.push(b':');
            self.value()?;
            self.separator();
            self.members.push(Member { start, name_end, end: self.out.len() });
        }
        self.sort(first, outer);
        self.members.truncate(outer);
        self.close(first, b'}');
        Some(())
    }

    /// After a value: skips the comma, if there is one, and writes one in any case, so that members
    /// can change places whole.
    fn separator(&mut self) {
        if self.next_token() == b',' {
            self.at += 1;
        }
        self.out.push(b',');
    }

    /// Writes the bracket in the place of the last comma.
    fn close(&mut self, first: usize, bracket: u8) {
        self.at += 1;
        if self.out.len() > first {
            self.out.pop();
        }
        self.out.push(bracket);
    }

    /// Sorts the members of the innermost object by their spelled names; stable, so that repeated
    /// ones keep their order. They stand in the output from `first` on, in the list from `outer` on.
    fn sort(&mut self, first: usize, outer: usize) {
        let Self { out, members, scratch, .. } = self;
        let members = &mut members[outer..];
        let name = |member: &Member| &out[member.start..member.name_end];
        if members.is_sorted_by(|a, b| name(a) <= name(b)) {
            return;
        }
        members.sort_by(|a, b| name(a).cmp(name(b)));
        scratch.clear();
        for member in members {
            scratch.extend_from_slice(&out[member.start..member.end]);
        }
        out.truncate(first);
        out.extend_from_slice(scratch);
    }

    fn scalar(&mut self) {
        let start = self.at;
        let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
        let length = self.input[start..].iter().position(is_end);
        self.at = length.map_or(self.input.len(), |length| start + length);
        self.out.extend_from_slice(&self.input[start..self.at]);
    }

    fn string(&mut self) {
        let start = self.at;
        let mut escaped = false;
        self.at += 1;
        loop {
            let rest = &self.input[self.at..];
            let is_special = |byte: &u8| matches!(byte, b'"' | b'\\');
            // Valid JSON closes what it opens.
            let length = rest.iter().position(is_special).unwrap_or(rest.len());
            self.at += length + 1;
            if rest.get(length) != Some(&b'\\') {
                break;
            }
            escaped = true;
            self.at += 1;
        }
        let literal = &self.input[start..self.at];
        if !escaped {
            self.out.extend_from_slice(literal);
            return;
        }
        // A lone surrogate is valid JSON and no Unicode string: its spelling stands for itself,
        // and no other string is ever spelled that way.
        let spelled = serde_json::from_slice::<String>(literal)
            .and_then(|string| serde_json::to_vec(&string));
        match spelled {
            Ok(spelled) => self.out.extend_from_slice(&spelled),
            Err(_) => self.out.extend_from_slice(literal),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spelled(text: &str) -> String {
        String::from_utf8(canonical(text.as_bytes()).expect(text)).unwrap()
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
            (r#""\ud800""#, r#""\ud800""#),
            (r#""\uD83D\uDE00""#, "\"\u{1F600}\""),
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
    }

    #[test]
    fn what_is_not_json_has_no_spelling() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(canonical(nested(MAX_DEPTH).as_bytes()).is_some());
        // Deep enough to end the process, were it followed.
        let deep = nested(1_000_000);
        for text in ["", "{", "01", "nul", "{'a':1}", "1 2", "\"\u{1}\"", deep.as_str()] {
            assert_eq!(canonical(text.as_bytes()), None, "{text:.20}");
        }
        assert_eq!(canonical(b"\"\xff\""), None);
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
                let members: Vec<_> = map
                    .iter()
                    .rev()
                    .map(|(k, v)| format!("{} :\t{}", string(k), respell(v)))
                    .collect();
                format!("{{ {} }}", members.join(",\r\n"))
            }
            other => other.to_string(),
        }
    }

    proptest! {
        #[test]
        fn equal_by_value_is_equal_in_spelling(a in value(), b in value()) {
            prop_assert_eq!(spelled(&a.to_string()), spelled(&respell(&a)));
            prop_assert_eq!(spelled(&a.to_string()) == spelled(&b.to_string()), a == b);
        }

        #[test]
        fn never_panics_and_is_idempotent(text in "[\\[\\]{},:\" \\\\a1.u-]{0,24}") {
            if let Some(once) = canonical(text.as_bytes()) {
                prop_assert_eq!(canonical(&once), Some(once.clone()));
            }
        }
    }
}
