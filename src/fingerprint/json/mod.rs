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

mod escapes;
mod plain;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::escapes::respelled;
use self::plain::{byte, string_end};

/// The canonical spelling of `text`, or `None` if it is not JSON.
pub(crate) fn canonical(text: &str) -> Option<Cow<'_, [u8]>> {
    let mut writer = Writer {
        input: text.as_bytes(),
        pending: 0,
        shift: 0,
        out: Vec::new(),
        members: Vec::new(),
        sorted: Vec::new(),
        scratch: Vec::new(),
    };
    let at = writer.value(text.as_bytes(), 0, 0)?;
    let at = writer.skip_space(at);
    (at == text.len()).then(|| writer.finish())
}

/// Deeper text is not taken for JSON: the writer calls itself, and its stack is finite.
const MAX_DEPTH: usize = 128;

/// Its methods take the place in the input where they begin, and give the one behind what they have
/// read; `None` where that is not JSON. `input` is always the writer's own: as an argument it stays in
/// registers.
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

/// Of the members of an object that have been read.
struct Order {
    is_sorted: bool,
    /// The first letter of the last one's name.
    last_initial: u8,
}

// What is hottest is part of its callers: there each value's kind is foreseen by what was before it.
#[expect(clippy::inline_always, reason = "a tenth of the speed, by `benches`' parts")]
impl<'a> Writer<'a> {
    #[inline(always)]
    fn value(&mut self, input: &[u8], at: usize, depth: usize) -> Option<usize> {
        match byte(input, at) {
            b'"' => self.string(input, at),
            b'{' => self.object(at, depth + 1),
            b'[' => self.array(at, depth + 1),
            b'1'..=b'9' => plain::fraction(input, plain::digits(input, at + 1)),
            b'0' => plain::fraction(input, at + 1),
            b'-' => plain::negative(input, at + 1),
            b't' => plain::word(input, at, "true"),
            b'f' => plain::word(input, at, "false"),
            b'n' => plain::word(input, at, "null"),
            b' ' | b'\t' | b'\n' | b'\r' => self.spaced_value(at, depth),
            _ => None,
        }
    }

    #[inline(never)]
    fn spaced_value(&mut self, at: usize, depth: usize) -> Option<usize> {
        let at = self.skip_space(at);
        self.value(self.input, at, depth)
    }

    #[inline(never)]
    fn array(&mut self, at: usize, depth: usize) -> Option<usize> {
        let input = self.input;
        if depth > MAX_DEPTH {
            return None;
        }
        let mut at = self.skip_space(at + 1);
        if byte(input, at) == b']' {
            return Some(at + 1);
        }
        loop {
            at = self.value(input, at, depth)?;
            if byte(input, at) != b',' {
                at = self.skip_space(at);
                match byte(input, at) {
                    b',' => {}
                    b']' => return Some(at + 1),
                    _ => return None,
                }
            }
            at += 1;
        }
    }

    /// Most members are short and plain: their names, and their values, are read in one look.
    #[inline(never)]
    fn object(&mut self, at: usize, depth: usize) -> Option<usize> {
        let input = self.input;
        if depth > MAX_DEPTH {
            return None;
        }
        let mut at = self.skip_space(at + 1);
        if byte(input, at) == b'}' {
            return Some(at + 1);
        }
        let outer = self.members.len();
        let mut order = Order { is_sorted: true, last_initial: 0 };
        loop {
            at = self.find(input, at, b'"')?;
            let start = self.place(at);
            let window = input.get(at..).and_then(|rest| rest.first_chunk());
            if let Some(window) = window
                && let Some(name_end) = plain::name(window)
            {
                self.begin_member(start, window[1], &mut order);
                if window[name_end] == b':'
                    && let Some(end) = plain::value(window, name_end + 1)
                {
                    at += end;
                    match window[end] {
                        b',' => {
                            at += 1;
                            continue;
                        }
                        b'}' => break,
                        _ => {}
                    }
                } else {
                    at = self.find(input, at + name_end, b':')?;
                    at = self.value(input, at + 1, depth)?;
                }
            } else {
                at = self.string(input, at)?;
                self.begin_member(start, self.spelled_from(start)[1], &mut order);
                at = self.find(input, at, b':')?;
                at = self.value(input, at + 1, depth)?;
            }
            if byte(input, at) != b',' {
                at = self.skip_space(at);
                match byte(input, at) {
                    b',' => {}
                    b'}' => break,
                    _ => return None,
                }
            }
            at += 1;
        }
        if !order.is_sorted {
            self.sort(outer, at);
        }
        self.members.truncate(outer);
        Some(at + 1)
    }

    /// Notes the member whose name has been read.
    #[inline(always)]
    fn begin_member(&mut self, start: usize, initial: u8, order: &mut Order) {
        // Mostly the first letter tells.
        if initial <= order.last_initial {
            order.is_sorted = order.is_sorted && self.may_follow(start);
        }
        order.last_initial = initial;
        self.members.push(start);
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

    #[inline(always)]
    fn string(&mut self, input: &[u8], at: usize) -> Option<usize> {
        let end = plain::text_end(input, at + 1);
        if byte(input, end) == b'"' { Some(end + 1) } else { self.escaped(at) }
    }

    /// A string with escapes, or none at all.
    #[inline(never)]
    fn escaped(&mut self, at: usize) -> Option<usize> {
        let end = string_end(self.input, at);
        let literal = self.input.get(at..end)?;
        let spelled = respelled(literal)?;
        if spelled != literal {
            self.copy(at);
            self.out.extend_from_slice(&spelled);
            self.skip(end);
        }
        Some(end)
    }

    /// Where this byte is, white space aside.
    #[inline(always)]
    fn find(&mut self, input: &[u8], mut at: usize, wanted: u8) -> Option<usize> {
        if byte(input, at) != wanted {
            at = self.skip_space(at);
            if byte(input, at) != wanted {
                return None;
            }
        }
        Some(at)
    }

    #[inline]
    fn skip_space(&mut self, at: usize) -> usize {
        if byte(self.input, at) > b' ' { at } else { self.skip_some_space(at) }
    }

    #[inline(never)]
    fn skip_some_space(&mut self, at: usize) -> usize {
        let mut end = at;
        while matches!(byte(self.input, end), b' ' | b'\t' | b'\n' | b'\r') {
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
