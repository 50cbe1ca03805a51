//! One spelling for each JSON value: no white space, members sorted, strings escaped one way,
//! numbers letter for letter.
//!
//! RFC 8785 would turn numbers into doubles, so that 9007199254740993 and 9007199254740992 became
//! one request; here a number is its text. Repeated members all count, in their order: parsers
//! differ in which one they take.
//!
//! One pass checks the text and spells it, without a copy of what stands as it is to be spelled.
//! `serde_json` judges and spells the strings that have escapes; that both agree about what is JSON
//! is what a test below is for.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// The canonical spelling of `text`, or `None` if it is not JSON.
pub(crate) fn canonical(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    std::str::from_utf8(text).ok()?;
    let mut writer = Writer {
        input: text,
        pending: 0,
        shift: 0,
        out: Vec::new(),
        members: Vec::new(),
        sorted: Vec::new(),
        scratch: Vec::new(),
    };
    let at = writer.value(0, 0)?;
    let at = writer.skip_space(at);
    (at == text.len()).then(|| writer.finish())
}

/// Deeper text is not taken for JSON: the writer calls itself, and its stack is finite.
const MAX_DEPTH: usize = 128;

/// Its methods take the place in the input where they begin, and give the one behind what they have
/// read; `None` where that is not JSON.
struct Writer<'a> {
    /// Valid UTF-8.
    input: &'a [u8],
    /// What is read from here on is spelled as it stands, and not in `out` yet.
    pending: usize,
    /// From a place in what is pending to its place in the spelling: `out.len() - pending`, wrapping.
    shift: usize,
    out: Vec<u8>,
    /// Where in the spelling the members of the open objects begin, those of the innermost one last.
    members: Vec<usize>,
    /// Where members change places.
    sorted: Vec<Member>,
    scratch: Vec<u8>,
}

/// Where a member stands in the spelling: `"name":value`, with `name_end` after the closing quote.
struct Member {
    start: usize,
    name_end: usize,
    end: usize,
}

impl<'a> Writer<'a> {
    // By far the hottest: where it is part of its callers, each value's kind is foreseen by what was
    // there before.
    #[expect(clippy::inline_always, reason = "a tenth of the speed, by `benches`' parts")]
    #[inline(always)]
    fn value(&mut self, at: usize, depth: usize) -> Option<usize> {
        match self.byte(at) {
            b'"' => self.string(at),
            b'{' => self.object(at, depth + 1),
            b'[' => self.array(at, depth + 1),
            b'1'..=b'9' => self.fraction(self.digits(at + 1)),
            b'0' => self.fraction(at + 1),
            b'-' => self.negative(at + 1),
            b't' => self.word(at, "true"),
            b'f' => self.word(at, "false"),
            b'n' => self.word(at, "null"),
            b' ' | b'\t' | b'\n' | b'\r' => self.spaced_value(at, depth),
            _ => None,
        }
    }

    #[inline(never)]
    fn spaced_value(&mut self, at: usize, depth: usize) -> Option<usize> {
        let at = self.skip_space(at);
        self.value(at, depth)
    }

    #[inline(never)]
    fn array(&mut self, at: usize, depth: usize) -> Option<usize> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut at = self.skip_space(at + 1);
        if self.byte(at) == b']' {
            return Some(at + 1);
        }
        loop {
            at = self.value(at, depth)?;
            at = self.skip_space(at);
            match self.byte(at) {
                b',' => at += 1,
                b']' => return Some(at + 1),
                _ => return None,
            }
        }
    }

    #[inline(never)]
    fn object(&mut self, at: usize, depth: usize) -> Option<usize> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut at = self.skip_space(at + 1);
        if self.byte(at) == b'}' {
            return Some(at + 1);
        }
        let outer = self.members.len();
        let (mut is_sorted, mut last_initial) = (true, 0);
        loop {
            at = self.find(at, b'"')?;
            let (quote, start) = (at, self.place(at));
            at = self.string(at)?;
            // Mostly the first letter tells.
            let is_pending = self.pending <= quote;
            let initial = if is_pending { self.byte(quote + 1) } else { self.out[start + 1] };
            if initial <= last_initial {
                is_sorted = is_sorted && self.may_follow(start);
            }
            last_initial = initial;
            self.members.push(start);
            at = self.find(at, b':')?;
            at = self.value(at + 1, depth)?;
            at = self.skip_space(at);
            match self.byte(at) {
                b',' => at += 1,
                b'}' => break,
                _ => return None,
            }
        }
        if !is_sorted {
            self.sort(outer, at);
        }
        self.members.truncate(outer);
        Some(at + 1)
    }

    /// Whether the name that begins at `start` may stand behind the last one of the innermost object.
    #[inline(never)]
    fn may_follow(&self, start: usize) -> bool {
        let name = |start| {
            let from_it = self.spelled_from(start);
            &from_it[..string_end(from_it, 0)]
        };
        self.members.last().is_none_or(|&last| name(last) <= name(start))
    }

    /// Sorts the members of the innermost object, which have been read, by their spelled names;
    /// stable, so that repeated ones keep their order.
    #[inline(never)]
    fn sort(&mut self, outer: usize, at: usize) {
        self.copy(at);
        let Self { out, members, sorted, scratch, .. } = self;
        let members = &members[outer..];
        sorted.clear();
        sorted.extend(members.iter().enumerate().map(|(index, &start)| {
            // A comma stands between it and the next one.
            let end = members.get(index + 1).map_or(out.len(), |next| next - 1);
            Member { start, name_end: string_end(out, start), end }
        }));
        sorted.sort_by(|a, b| out[a.start..a.name_end].cmp(&out[b.start..b.name_end]));
        scratch.clear();
        for member in sorted {
            scratch.extend_from_slice(&out[member.start..member.end]);
            scratch.push(b',');
        }
        scratch.pop();
        out.truncate(members[0]);
        out.extend_from_slice(scratch);
    }

    #[inline]
    fn string(&mut self, at: usize) -> Option<usize> {
        let end = plain_end(self.input, at + 1);
        if self.byte(end) == b'"' { Some(end + 1) } else { self.escaped(at) }
    }

    /// A string with escapes, or none at all.
    #[inline(never)]
    fn escaped(&mut self, at: usize) -> Option<usize> {
        let end = string_end(self.input, at);
        let literal = self.input.get(at..end)?;
        let spelled = respelled(literal).or_else(|| {
            serde_json::from_slice::<IgnoredAny>(literal).ok()?;
            respelled_around_halves(literal)
        })?;
        if spelled != literal {
            self.copy(at);
            self.out.extend_from_slice(&spelled);
            self.skip(end);
        }
        Some(end)
    }

    #[inline(never)]
    fn negative(&mut self, at: usize) -> Option<usize> {
        match self.byte(at) {
            b'0' => self.fraction(at + 1),
            b'1'..=b'9' => self.fraction(self.digits(at + 1)),
            _ => None,
        }
    }

    /// What may follow the integer of a number.
    #[inline]
    fn fraction(&self, at: usize) -> Option<usize> {
        if matches!(self.byte(at), b'.' | b'e' | b'E') { self.some_fraction(at) } else { Some(at) }
    }

    #[inline(never)]
    fn some_fraction(&self, mut at: usize) -> Option<usize> {
        if self.byte(at) == b'.' {
            at = self.some_digits(at + 1)?;
        }
        if matches!(self.byte(at), b'e' | b'E') {
            at += 1;
            if matches!(self.byte(at), b'+' | b'-') {
                at += 1;
            }
            at = self.some_digits(at)?;
        }
        Some(at)
    }

    fn some_digits(&self, at: usize) -> Option<usize> {
        let end = self.digits(at);
        (end > at).then_some(end)
    }

    #[inline]
    fn digits(&self, mut at: usize) -> usize {
        while self.byte(at).is_ascii_digit() {
            at += 1;
        }
        at
    }

    #[inline(never)]
    fn word(&self, at: usize, word: &str) -> Option<usize> {
        self.input[at..].starts_with(word.as_bytes()).then_some(at + word.len())
    }

    /// The byte there; zero, with which nothing begins, at the end.
    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.input.get(at).copied().unwrap_or_default()
    }

    /// Where this byte is, white space aside.
    #[inline]
    fn find(&mut self, at: usize, byte: u8) -> Option<usize> {
        if self.byte(at) == byte {
            return Some(at);
        }
        let at = self.skip_space(at);
        (self.byte(at) == byte).then_some(at)
    }

    #[inline]
    fn skip_space(&mut self, at: usize) -> usize {
        if self.byte(at) > b' ' { at } else { self.skip_some_space(at) }
    }

    #[inline(never)]
    fn skip_some_space(&mut self, at: usize) -> usize {
        let mut end = at;
        while matches!(self.byte(end), b' ' | b'\t' | b'\n' | b'\r') {
            end += 1;
        }
        if end > at {
            self.copy(at);
            self.skip(end);
        }
        end
    }

    /// Copies what is pending before this place of the input.
    fn copy(&mut self, at: usize) {
        if self.out.capacity() == 0 {
            // No text has a longer spelling.
            self.out.reserve_exact(self.input.len());
        }
        self.out.extend_from_slice(&self.input[self.pending..at]);
        self.skip(at);
    }

    /// Goes on with the input at this place: what is before it is in `out`, or is not spelled at all.
    fn skip(&mut self, at: usize) {
        self.pending = at;
        self.shift = self.out.len().wrapping_sub(at);
    }

    /// The place in the spelling of this place of the input.
    #[inline]
    fn place(&self, at: usize) -> usize {
        at.wrapping_add(self.shift)
    }

    /// The spelling from this place of it on: up to the end of what is copied, or, for what is
    /// pending, of the input.
    #[inline]
    fn spelled_from(&self, place: usize) -> &[u8] {
        if place < self.out.len() {
            &self.out[place..]
        } else {
            &self.input[place.wrapping_sub(self.shift)..]
        }
    }

    fn finish(mut self) -> Cow<'a, [u8]> {
        if self.out.is_empty() {
            return Cow::Borrowed(&self.input[self.pending..]);
        }
        self.copy(self.input.len());
        Cow::Owned(self.out)
    }
}

/// A string with its escapes spelled one way; `None` if there is no such Unicode string.
fn respelled(literal: &[u8]) -> Option<Vec<u8>> {
    serde_json::to_vec(&serde_json::from_slice::<String>(literal).ok()?).ok()
}

/// The same for a string with halves of surrogate pairs, which is valid JSON and no Unicode string. A
/// lone half is spelled as its escape, as nothing else ever is.
fn respelled_around_halves(literal: &[u8]) -> Option<Vec<u8>> {
    let content = &literal[1..literal.len() - 1];
    let respelled_part = |part: &[u8]| {
        let spelled = respelled(&[b"\"", part, b"\""].concat())?;
        Some(spelled[1..spelled.len() - 1].to_owned())
    };
    let mut spelled = vec![b'"'];
    let (mut part, mut at) = (0, 0);
    while at < content.len() {
        match surrogate(content, at) {
            Some(..0xdc00) if matches!(surrogate(content, at + 6), Some(0xdc00..)) => at += 12,
            Some(_) => {
                spelled.extend(respelled_part(&content[part..at])?);
                spelled.extend(content[at..at + 6].to_ascii_lowercase());
                at += 6;
                part = at;
            }
            None if content[at] == b'\\' => at += 2,
            None => at += 1,
        }
    }
    spelled.extend(respelled_part(&content[part..])?);
    spelled.push(b'"');
    Some(spelled)
}

/// The half of a surrogate pair of which the escape stands at `at`.
fn surrogate(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let unit = u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..0xe000).contains(&unit).then_some(unit)
}

/// Behind the closing quote of the string that begins at `start`.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = plain_end(text, start + 1);
    while text.get(at) == Some(&b'\\') {
        at = plain_end(text, at + 2);
    }
    at + 1
}

/// Where, from `at` on, the first quote, backslash or control character is, or the end.
#[inline]
fn plain_end(text: &[u8], mut at: usize) -> usize {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    // Eight bytes at once, each of them marked by its top bit. A subtraction may borrow from the byte
    // above it, but only where it marks its own: the lowest mark is right.
    while let Some(&bytes) = text.get(at..at + 8).and_then(|bytes| bytes.first_chunk()) {
        let bytes = u64::from_le_bytes(bytes);
        // With its second bit turned, a quote is less than 0x21, as control characters stay, and a
        // blank is not.
        let quotes_and_controls = (bytes ^ (EACH * 0x02)).wrapping_sub(EACH * 0x21);
        let backslashes = (bytes ^ (EACH * 0x5c)).wrapping_sub(EACH);
        let marks = (quotes_and_controls | backslashes) & !bytes & (EACH * 0x80);
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | ..b' ');
    while text.get(at).is_some_and(is_plain) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spelled(text: &str) -> String {
        String::from_utf8(canonical(text.as_bytes()).expect(text).into_owned()).unwrap()
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
            (
                r#""a\uDC00\u0041\\uD800\uD83D\uD83D\uDE00""#,
                "\"a\\udc00A\\\\uD800\\ud83d\u{1F600}\"",
            ),
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
        assert!(canonical(nested(MAX_DEPTH).as_bytes()).is_some());
        assert_eq!(canonical(nested(MAX_DEPTH + 1).as_bytes()), None);
        let objects = r#"{"a":"#.repeat(MAX_DEPTH) + "[]" + &"}".repeat(MAX_DEPTH);
        assert_eq!(canonical(objects.as_bytes()), None);
        // Deep enough to end the process, were it followed.
        let deep = nested(1_000_000);
        let no_values = ["", "{", "nul", "1 2", "{'a':1}", r#"{"a":1 2}"#, r#"{"a" 1}"#];
        let no_scalars = ["01", "1.", "1e", "1e+", "-", "-a", "\"\u{1}\""];
        let texts = no_values.into_iter().chain(no_scalars);
        for text in texts.chain([deep.as_str()]) {
            assert_eq!(canonical(text.as_bytes()), None, "{text:.20}");
        }
        assert_eq!(canonical(b"\"\xff\""), None);
    }

    #[test]
    fn what_is_spelled_canonically_is_not_copied() {
        for text in [r#"{"a":[1,"b",{"c":-0.5e+7,"d":null}],"é":"\n"}"#, " \n[1]"] {
            assert!(matches!(canonical(text.as_bytes()), Some(Cow::Borrowed(_))), "{text}");
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
                    assert_eq!(canonical(text.as_bytes()), None, "{text:?}");
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
            if let Some(once) = canonical(text.as_bytes()) {
                prop_assert_eq!(canonical(&once), Some(once.clone()));
            }
        }

        #[test]
        fn json_is_what_serde_json_takes_for_it(
            pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..9),
        ) {
            let text = pieces.concat();
            let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
            prop_assert_eq!(canonical(text.as_bytes()).is_some(), is_json, "{}", text);
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
            let is_json = str::from_utf8(&text)
                .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
            prop_assert_eq!(canonical(&text).is_some(), is_json, "{:?}", text);
        }
    }
}
