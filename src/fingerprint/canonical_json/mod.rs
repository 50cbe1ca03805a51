//! The canonical form of a JSON text: two texts with equal values have the same bytes.
//!
//! White space is removed, members are sorted by the bytes of their names with quotes, and strings are
//! escaped in one way, as `serde_json` writes them. Two things differ from RFC 8785:
//!
//! - Numbers stay as they are written. RFC 8785 converts them to doubles, which makes
//!   9007199254740993 and 9007199254740992 equal.
//! - Repeated members are all kept, in their order, because parsers differ in which one they use.
//!
//! The [`Writer`] reads the text once. It copies only what comes before something that it changes, so a
//! text in canonical form is not copied at all. It records the objects whose members are out of order,
//! and the [`Sorter`] copies the result once more, in order. The time is linear in the length of the
//! text, whatever its depth, but for the sorting of an object's members.
//!
//! Functions that read take the rest of the text and return what follows the part that they read. They
//! return `None` if the rest does not begin with such a part.
#![expect(clippy::inline_always, reason = "a third of the instructions, under opt-level z too")]

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

/// The deepest nesting that is accepted, because each level uses a part of the stack.
const MAX_DEPTH: usize = 128;

/// The canonical form of `text`; `None` if it is not JSON or nested more than 128 levels deep.
pub(crate) fn canonical(text: &str) -> Option<Cow<'_, [u8]>> {
    let text = text.as_bytes();
    let mut writer = Writer { uncopied: text, length: text.len(), ..Writer::default() };
    let rest = writer.value(text, MAX_DEPTH)?;
    writer.skip_space(rest).is_empty().then(|| writer.finish(text))
}

#[derive(Default)]
struct Writer<'a> {
    /// The end of the text that is not in `out` yet. The part of it that has been read is already in
    /// canonical form.
    uncopied: &'a [u8],
    /// The canonical form, except for the order of members.
    out: Vec<u8>,
    /// The length of `out` if all of `uncopied` were copied.
    length: usize,
    /// The members of the objects that are being read, those of the innermost object last.
    members: Vec<Member>,
    /// The objects whose members are out of order, in the order of their ends.
    unsorted: Vec<Object>,
}

struct Object {
    /// The position in the canonical form, without the closing brace.
    span: Range<usize>,
    members: Vec<Member>,
    /// How many unsorted objects end before this one begins.
    before: usize,
}

struct Member {
    /// The position in the canonical form of `"name":value`.
    span: Range<usize>,
    /// The end of `"name"`.
    name_end: usize,
    /// How many unsorted objects end before this member ends.
    before_end: usize,
}

impl<'a> Writer<'a> {
    /// Reads a value that contains at most this many levels of arrays and objects.
    #[inline(always)]
    fn value(&mut self, rest: &'a [u8], levels: usize) -> Option<&'a [u8]> {
        match self.skip_space(rest) {
            [b'"', rest @ ..] => self.string(rest),
            [b'-', rest @ ..] | rest @ [b'0'..=b'9', ..] => number(rest),
            rest @ [b'{', ..] => self.object(rest, levels.checked_sub(1)?),
            [b'[', rest @ ..] => self.array(rest, levels.checked_sub(1)?),
            [b't', b'r', b'u', b'e', rest @ ..]
            | [b'f', b'a', b'l', b's', b'e', rest @ ..]
            | [b'n', b'u', b'l', b'l', rest @ ..] => Some(rest),
            _ => None,
        }
    }

    /// Reads an array after its opening bracket.
    fn array(&mut self, rest: &'a [u8], levels: usize) -> Option<&'a [u8]> {
        let mut rest = self.skip_space(rest);
        if let [b']', rest @ ..] = rest {
            return Some(rest);
        }
        loop {
            rest = self.value(rest, levels)?;
            match self.skip_space(rest) {
                [b',', next @ ..] => rest = next,
                [b']', rest @ ..] => return Some(rest),
                _ => return None,
            }
        }
    }

    fn object(&mut self, rest: &'a [u8], levels: usize) -> Option<&'a [u8]> {
        let start = self.position(rest);
        let (first, before) = (self.members.len(), self.unsorted.len());
        let mut rest = self.skip_space(&rest[1..]);
        if let [b'}', rest @ ..] = rest {
            return Some(rest);
        }
        let (mut is_sorted, mut last_name) = (true, &b""[..]);
        let rest = loop {
            let [b'"', name @ ..] = self.skip_space(rest) else { return None };
            let start = self.position(name) - 1;
            rest = self.string(name)?;
            let name_end = self.position(rest);
            // A name that was changed is compared later, in `out`.
            let is_unchanged = name.len() <= self.uncopied.len();
            let name = &name[..name.len() - rest.len()];
            is_sorted = is_sorted && is_unchanged && last_name.iter().le(name);
            last_name = name;
            let [b':', value @ ..] = self.skip_space(rest) else { return None };
            rest = self.value(value, levels)?;
            let (end, before_end) = (self.position(rest), self.unsorted.len());
            self.members.push(Member { span: start..end, name_end, before_end });
            match self.skip_space(rest) {
                [b',', next @ ..] => rest = next,
                [b'}', rest @ ..] => break rest,
                _ => return None,
            }
        };
        if is_sorted {
            self.members.truncate(first);
        } else {
            let span = start..self.position(rest) - 1;
            let members = self.members.split_off(first);
            self.unsorted.push(Object { span, members, before });
        }
        Some(rest)
    }

    /// Reads a string after its opening quote.
    #[inline(always)]
    fn string(&mut self, mut rest: &'a [u8]) -> Option<&'a [u8]> {
        loop {
            match skip(rest, not_plain) {
                [b'"', rest @ ..] => return Some(rest),
                escape @ [b'\\', ..] => rest = self.escape(escape)?,
                _ => return None,
            }
        }
    }

    fn escape(&mut self, rest: &'a [u8]) -> Option<&'a [u8]> {
        match rest.get(1)? {
            b'u' => self.unicode_escape(rest),
            b'/' => Some(self.replace(rest, 2, b"/")),
            b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => Some(&rest[2..]),
            _ => None,
        }
    }

    /// Writes the character of `\uXXXX` or of a surrogate pair. A lone surrogate is valid JSON but no
    /// character, so its escape is kept, in lower case.
    fn unicode_escape(&mut self, rest: &'a [u8]) -> Option<&'a [u8]> {
        let unit = code_unit(rest)?;
        let pair = [unit, code_unit(&rest[6..]).unwrap_or(0)];
        Some(match char::decode_utf16(pair).next() {
            Some(Ok(character @ ('\0'..' ' | '"' | '\\'))) => {
                let quoted = serde_json::to_string(&character).ok()?;
                self.replace(rest, 6, &quoted.as_bytes()[1..quoted.len() - 1])
            }
            Some(Ok(character)) => {
                let length = 6 * character.len_utf16();
                self.replace(rest, length, character.encode_utf8(&mut [0; 4]).as_bytes())
            }
            _ => self.replace(rest, 6, format!("\\u{unit:04x}").as_bytes()),
        })
    }

    #[inline(always)]
    fn skip_space(&mut self, rest: &'a [u8]) -> &'a [u8] {
        match rest {
            [byte, ..] if *byte <= b' ' => self.remove_space(rest),
            _ => rest,
        }
    }

    fn remove_space(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.replace(rest, rest.iter().take_while(is_space).count(), b"")
    }

    /// Skips `count` bytes and writes their canonical form instead, which is not longer.
    fn replace(&mut self, rest: &'a [u8], count: usize, canonical: &[u8]) -> &'a [u8] {
        if self.out.capacity() == 0 {
            self.out.reserve_exact(self.length);
        }
        self.out.extend_from_slice(&self.uncopied[..self.uncopied.len() - rest.len()]);
        self.out.extend_from_slice(canonical);
        self.uncopied = &rest[count..];
        self.length = self.out.len() + self.uncopied.len();
        self.uncopied
    }

    /// The length of `out` if everything before the rest were copied.
    #[inline(always)]
    fn position(&self, rest: &[u8]) -> usize {
        self.length - rest.len()
    }

    fn finish(mut self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let written = if self.uncopied.len() == text.len() {
            Cow::Borrowed(text)
        } else {
            self.replace(b"", 0, b"");
            Cow::Owned(self.out)
        };
        if self.unsorted.is_empty() {
            return written;
        }
        let name = |member: &Member| &written[member.span.start..member.name_end];
        for object in &mut self.unsorted {
            object.members.sort_by(|a, b| name(a).cmp(name(b)));
        }
        let length = written.len();
        let sorted = vec![0; length];
        let mut copy = Sorter { written: &written, objects: &self.unsorted, sorted, free: length };
        copy.copy_part(0..length, copy.objects);
        copy.sorted.into()
    }
}

/// Copies the canonical form with all members in order, each byte once. It begins at the end, because an
/// object is recorded after those inside it.
struct Sorter<'a> {
    written: &'a [u8],
    objects: &'a [Object],
    sorted: Vec<u8>,
    /// The length of the part of `sorted` that is not filled yet, which is its beginning.
    free: usize,
}

impl<'a> Sorter<'a> {
    /// Copies this part of `written`. `objects` are those that end before its end.
    fn copy_part(&mut self, part: Range<usize>, mut objects: &'a [Object]) {
        let mut end = part.end;
        while let Some(object) = objects.last().filter(|object| object.span.start >= part.start) {
            self.copy_bytes(&self.written[object.span.end..end]);
            for (index, member) in object.members.iter().enumerate().rev() {
                self.copy_part(member.span.clone(), &self.objects[..member.before_end]);
                self.copy_bytes(if index == 0 { b"{" } else { b"," });
            }
            end = object.span.start;
            objects = &objects[..object.before];
        }
        self.copy_bytes(&self.written[part.start..end]);
    }

    fn copy_bytes(&mut self, bytes: &[u8]) {
        let end = self.free;
        self.free -= bytes.len();
        self.sorted[self.free..end].copy_from_slice(bytes);
    }
}

/// Reads a number without its sign (RFC 8259, section 6).
#[inline(always)]
fn number(rest: &[u8]) -> Option<&[u8]> {
    let mut rest = if let [b'0', rest @ ..] = rest { rest } else { digits(rest)? };
    if let [b'.', fraction @ ..] = rest {
        rest = digits(fraction)?;
    }
    if let [b'e' | b'E', b'+' | b'-', power @ ..] | [b'e' | b'E', power @ ..] = rest {
        rest = digits(power)?;
    }
    Some(rest)
}

/// Reads at least one digit.
#[inline(always)]
fn digits(rest: &[u8]) -> Option<&[u8]> {
    let after = skip(rest, not_digits);
    (after.len() < rest.len()).then_some(after)
}

/// The code unit of the escape `\uXXXX`.
fn code_unit(rest: &[u8]) -> Option<u16> {
    let digits = rest.get(..6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

/// Skips bytes until one that `ends` finds.
#[inline(always)]
fn skip(mut rest: &[u8], ends: fn(u64) -> u64) -> &[u8] {
    while let Some((bytes, next)) = rest.split_first_chunk() {
        let found = ends(u64::from_le_bytes(*bytes));
        if found != 0 {
            return &rest[found.trailing_zeros() as usize / 8..];
        }
        rest = next;
    }
    let is_end = |byte: &u8| ends(u64::from(*byte)) & 0x80 != 0;
    &rest[rest.iter().position(is_end).unwrap_or(rest.len())..]
}

/// A word with this byte eight times is the byte times `EACH`.
const EACH: u64 = u64::from_le_bytes([1; 8]);

/// Finds the first byte that ends the plain part of a string: a quote, a backslash or a control character.
/// Its highest bit is the lowest bit that is set. The bits above it mean nothing.
#[inline(always)]
fn not_plain(word: u64) -> u64 {
    // Exchanges the quote and the space, so that one comparison finds quotes and control characters.
    let below_21 = (word ^ (0x02 * EACH)).wrapping_sub(0x21 * EACH);
    let backslash = (word ^ (0x5c * EACH)).wrapping_sub(EACH);
    (below_21 | backslash) & !word & (0x80 * EACH)
}

/// Finds the first byte that is no digit, in the same way.
#[inline(always)]
fn not_digits(word: u64) -> u64 {
    let digits = word ^ (0x30 * EACH);
    (digits.wrapping_add((0x80 - 10) * EACH) | digits) & (0x80 * EACH)
}
