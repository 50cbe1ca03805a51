//! The canonical form of a JSON text: two texts with equal values have the same bytes.
//!
//! White space is removed, members are sorted by the bytes of their names with quotes, and strings are
//! escaped in one way, as `serde_json` writes them. Two things differ from RFC 8785:
//!
//! - Numbers stay as they are written. RFC 8785 converts them to doubles, which makes
//!   9007199254740993 and 9007199254740992 equal.
//! - Repeated members are all kept, in their order, because parsers differ in which one they use.
//!
//! The text is read once, and members are written in the order in which they are read. Objects whose
//! members are out of order are recorded, and [`Writer::sorted`] copies the result once, in order. The
//! time is linear in the length of the text, whatever its depth.

#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::de::IgnoredAny;

/// The deepest nesting that is accepted, because each level uses a part of the stack.
const MAX_DEPTH: usize = 128;

/// The bytes of a string that cannot be copied with the rest.
const IS_SPECIAL: [bool; 256] = {
    let mut is_special = [false; 256];
    let mut control = 0;
    while control < b' ' {
        is_special[control as usize] = true;
        control += 1;
    }
    is_special[b'"' as usize] = true;
    is_special[b'\\' as usize] = true;
    is_special
};

/// The canonical form of `text`; `None` if it is not JSON or nested more than 128 levels deep.
pub(crate) fn canonical(text: &str) -> Option<Vec<u8>> {
    let mut writer = Writer {
        rest: text.as_bytes(),
        uncopied: text.as_bytes(),
        out: Vec::with_capacity(text.len()),
        ..Writer::default()
    };
    writer.value(0)?;
    writer.skip_space();
    writer.copy();
    writer.rest.is_empty().then(|| writer.sorted())
}

#[derive(Default)]
struct Writer<'a> {
    /// The input that is not read yet.
    rest: &'a [u8],
    /// The input that is not in `out` yet. The part of it that has been read is already in canonical form.
    uncopied: &'a [u8],
    /// The canonical form, except for the order of members.
    out: Vec<u8>,
    /// The members of the objects that are being read, those of the innermost object last.
    members: Vec<Member>,
    /// The objects in `out` whose members are out of order.
    unsorted: Vec<Object>,
}

/// The position of an object in `out`, without its closing brace.
struct Object {
    span: Range<usize>,
    members: Vec<Member>,
}

/// The position in `out` of a member with its name, `"name":value`, and of the name alone.
struct Member {
    span: Range<usize>,
    name_end: usize,
}

// Methods that read return `None` if the input at this position is not JSON.
#[expect(clippy::inline_always, reason = "a sixth of the instructions, under opt-level z too")]
impl Writer<'_> {
    #[inline(always)]
    fn value(&mut self, depth: usize) -> Option<()> {
        self.skip_space();
        match self.peek()? {
            b'"' => self.string(),
            b'{' => self.object(depth + 1),
            b'[' => self.list(depth + 1, b']', Self::value),
            _ => self.scalar(),
        }
    }

    /// Reads an array or object, whose last byte is `end`.
    fn list(
        &mut self,
        depth: usize,
        end: u8,
        item: impl Fn(&mut Self, usize) -> Option<()>,
    ) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.rest = &self.rest[1..];
        self.skip_space();
        if self.accept(end).is_some() {
            return Some(());
        }
        loop {
            item(self, depth)?;
            self.skip_space();
            if self.accept(b',').is_none() {
                return self.accept(end);
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        let (start, first) = (self.position(), self.members.len());
        self.list(depth, b'}', Self::member)?;
        self.copy();
        if !self.members[first..].is_sorted_by(|a, b| self.name(a) <= self.name(b)) {
            let mut members = self.members.split_off(first);
            members.sort_by(|a, b| self.name(a).cmp(self.name(b)));
            self.unsorted.push(Object { span: start..self.out.len() - 1, members });
        }
        self.members.truncate(first);
        Some(())
    }

    fn member(&mut self, depth: usize) -> Option<()> {
        self.skip_space();
        let start = self.position();
        self.string()?;
        let name_end = self.position();
        self.skip_space();
        self.accept(b':')?;
        self.value(depth)?;
        self.members.push(Member { span: start..self.position(), name_end });
        Some(())
    }

    fn name(&self, member: &Member) -> &[u8] {
        &self.out[member.span.start..member.name_end]
    }

    #[inline(always)]
    fn string(&mut self) -> Option<()> {
        self.accept(b'"')?;
        loop {
            let is_special = |byte: &u8| IS_SPECIAL[usize::from(*byte)];
            let length = self.rest.iter().position(is_special)?;
            self.rest = &self.rest[length..];
            if self.peek()? != b'\\' {
                return self.accept(b'"');
            }
            self.escape()?;
        }
    }

    fn escape(&mut self) -> Option<()> {
        match self.rest.get(1)? {
            b'u' => return self.unicode_escape(),
            b'/' => self.replace(2, b"/"),
            b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => self.rest = &self.rest[2..],
            _ => return None,
        }
        Some(())
    }

    /// Writes the character of `\uXXXX` or of a surrogate pair. A lone surrogate is valid JSON but no
    /// character, so its escape is kept, in lower case.
    fn unicode_escape(&mut self) -> Option<()> {
        let unit = self.code_unit(0)?;
        let pair = [unit, self.code_unit(6).unwrap_or(0)];
        if let Some(Ok(character)) = char::decode_utf16(pair).next() {
            let quoted = serde_json::to_string(&character).ok()?;
            self.replace(6 * character.len_utf16(), &quoted.as_bytes()[1..quoted.len() - 1]);
        } else {
            self.replace(6, format!("\\u{unit:04x}").as_bytes());
        }
        Some(())
    }

    /// The code unit of the escape `\uXXXX` at this position of the rest.
    fn code_unit(&self, at: usize) -> Option<u16> {
        let digits = self.rest.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, digit| {
            let digit = char::from(*digit).to_digit(16)?;
            Some(unit << 4 | u16::try_from(digit).ok()?)
        })
    }

    /// Reads a number, `true`, `false` or `null`.
    fn scalar(&mut self) -> Option<()> {
        let rest = self.rest;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let mut length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // Most numbers need no parser.
        let is_plain = length == 1 || (length > 1 && rest[0] != b'0');
        if !is_plain || rest.get(length).is_some_and(is_part) {
            length = rest.iter().take_while(|byte| is_part(byte)).count();
            serde_json::from_slice::<IgnoredAny>(&rest[..length]).ok()?;
        }
        self.rest = &rest[length..];
        Some(())
    }

    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Skips the next byte if it is `byte`.
    #[inline(always)]
    fn accept(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        (*first == byte).then(|| self.rest = rest)
    }

    #[inline(always)]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.replace(1, b"");
        }
    }

    /// Skips `count` bytes and writes their canonical form instead.
    fn replace(&mut self, count: usize, canonical: &[u8]) {
        self.copy();
        self.out.extend_from_slice(canonical);
        self.rest = &self.rest[count..];
        self.uncopied = self.rest;
    }

    fn copy(&mut self) {
        let read = self.uncopied.len() - self.rest.len();
        self.out.extend_from_slice(&self.uncopied[..read]);
        self.uncopied = self.rest;
    }

    /// The length of `out` if everything that has been read were copied.
    fn position(&self) -> usize {
        self.out.len() + self.uncopied.len() - self.rest.len()
    }

    /// The canonical form with all members in order. Each byte is copied once.
    fn sorted(mut self) -> Vec<u8> {
        if self.unsorted.is_empty() {
            return self.out;
        }
        self.unsorted.sort_by_key(|object| object.span.start);
        let mut sorted = Vec::with_capacity(self.out.len());
        self.copy_sorted(0..self.out.len(), &mut sorted);
        sorted
    }

    /// Copies this part of `out`. Objects are disjoint or nested, so the first one that begins in the
    /// part contains every other one that it overlaps.
    fn copy_sorted(&self, part: Range<usize>, sorted: &mut Vec<u8>) {
        let mut at = part.start;
        while let Some(object) = self.first_unsorted(at..part.end) {
            sorted.extend_from_slice(&self.out[at..object.span.start]);
            for (index, member) in object.members.iter().enumerate() {
                sorted.push(if index == 0 { b'{' } else { b',' });
                self.copy_sorted(member.span.clone(), sorted);
            }
            at = object.span.end;
        }
        sorted.extend_from_slice(&self.out[at..part.end]);
    }

    fn first_unsorted(&self, part: Range<usize>) -> Option<&Object> {
        let index = self.unsorted.partition_point(|object| object.span.start < part.start);
        self.unsorted.get(index).filter(|object| object.span.start < part.end)
    }
}
