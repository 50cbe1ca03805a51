//! What is spelled as it stands: strings without escapes, numbers, words.
//!
//! Most members are short: [`name`] and [`value`] read one in a window, a piece of the text of a fixed
//! length, in which no place has to be compared with the length of the text.

#![expect(clippy::inline_always, reason = "what is known of a place in a window is lost in a call")]

/// Where these bytes end, a name of seven bytes and a value of 23 bytes have ended, and one more follows.
pub(super) const WINDOW: usize = 36;

/// The end of the short plain name with which the window begins, behind its quote; `None` if it is
/// another one.
#[inline(always)]
pub(super) fn name(window: &[u8; WINDOW]) -> Option<usize> {
    let ends = string_ends(eight(window, 1));
    if ends == 0 {
        return None;
    }
    let end = 1 + first(ends);
    (window[end] == b'"').then_some(end + 1)
}

/// The end of the value at this place, at most the eleventh of the window, if it is a short plain string,
/// or a short whole number with which its member ends; `None` if it is another one.
#[expect(clippy::needless_range_loop, reason = "so each place is known to be in the window")]
#[inline(always)]
pub(super) fn value(window: &[u8; WINDOW], at: usize) -> Option<usize> {
    let initial = window[at];
    if initial == b'"' {
        for at in [at + 1, at + 9, at + 17] {
            let ends = string_ends(eight(window, at));
            if ends != 0 {
                let end = at + first(ends);
                return (window[end] == b'"').then_some(end + 1);
            }
        }
        return None;
    }
    if !matches!(initial, b'1'..=b'9') {
        return None;
    }
    // One after the other: how long numbers are is foreseen more often than not.
    for end in at + 1..at + 9 {
        if !window[end].is_ascii_digit() {
            return matches!(window[end], b',' | b'}').then_some(end);
        }
    }
    None
}

#[inline(always)]
fn eight(window: &[u8; WINDOW], at: usize) -> u64 {
    window[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

const EACH: u64 = u64::from_le_bytes([1; 8]);

/// The quotes, backslashes and control characters among eight bytes, each marked by its top bit. A
/// subtraction may borrow from the byte above it, but only where it marks its own: the lowest mark is
/// right.
#[inline(always)]
const fn string_ends(bytes: u64) -> u64 {
    // With its second bit turned, a quote is less than 0x21, as control characters stay, and a blank is
    // not.
    let quotes_and_controls = (bytes ^ (EACH * 0x02)).wrapping_sub(EACH * 0x21);
    let backslashes = (bytes ^ (EACH * 0x5c)).wrapping_sub(EACH);
    (quotes_and_controls | backslashes) & !bytes & (EACH * 0x80)
}

/// Which of eight bytes is the first one that is marked, if one is.
#[inline(always)]
const fn first(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// Where, from `at` on, the first quote, backslash or control character is, or the end.
#[inline]
pub(super) fn text_end(text: &[u8], mut at: usize) -> usize {
    while let Some(bytes) = text.get(at..at + 8).and_then(|bytes| bytes.first_chunk()) {
        let ends = string_ends(u64::from_le_bytes(*bytes));
        if ends != 0 {
            return at + first(ends);
        }
        at += 8;
    }
    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | ..b' ');
    while text.get(at).is_some_and(is_plain) {
        at += 1;
    }
    at
}

/// Behind the closing quote of the string that begins at `start`.
pub(super) fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = text_end(text, start + 1);
    while text.get(at) == Some(&b'\\') {
        at = text_end(text, at + 2);
    }
    at + 1
}

/// The byte there; zero, with which nothing begins, at the end.
#[inline(always)]
pub(super) fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or_default()
}

/// Behind the digits from `at` on.
#[inline]
pub(super) fn digits(text: &[u8], mut at: usize) -> usize {
    while byte(text, at).is_ascii_digit() {
        at += 1;
    }
    at
}

fn some_digits(text: &[u8], at: usize) -> Option<usize> {
    let end = digits(text, at);
    (end > at).then_some(end)
}

/// Behind what may follow the integer of a number.
#[inline(always)]
pub(super) fn fraction(text: &[u8], at: usize) -> Option<usize> {
    if matches!(byte(text, at), b'.' | b'e' | b'E') { some_fraction(text, at) } else { Some(at) }
}

#[inline(never)]
fn some_fraction(text: &[u8], mut at: usize) -> Option<usize> {
    if byte(text, at) == b'.' {
        at = some_digits(text, at + 1)?;
    }
    if matches!(byte(text, at), b'e' | b'E') {
        at += 1;
        if matches!(byte(text, at), b'+' | b'-') {
            at += 1;
        }
        at = some_digits(text, at)?;
    }
    Some(at)
}

/// Behind the number of which the minus sign was before `at`.
#[inline(never)]
pub(super) fn negative(text: &[u8], at: usize) -> Option<usize> {
    match byte(text, at) {
        b'0' => fraction(text, at + 1),
        b'1'..=b'9' => fraction(text, digits(text, at + 1)),
        _ => None,
    }
}

#[inline(never)]
pub(super) fn word(text: &[u8], at: usize, word: &str) -> Option<usize> {
    text[at..].starts_with(word.as_bytes()).then_some(at + word.len())
}
