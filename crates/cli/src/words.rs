//! Times, durations and other people's text, for people.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};

/// Text from a table on one line, without what would drive a terminal: anybody may choose a key.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) {
            plain.push(c);
        } else {
            let _ = write!(plain, "{}", c.escape_unicode());
        }
    }
    plain
}

/// As [`plain`], of a text that may have lines.
pub(crate) fn plain_lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// Whether a character does nothing to a terminal but appear on it. Controls, separators and invisible
/// characters do not: two keys that differ look different.
pub(crate) fn is_plain(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // Behind a letter, so that an accent is not escaped.
    let mut text = [b'a', 0, 0, 0, 0];
    let length = 1 + c.encode_utf8(&mut text[1..]).len();
    std::str::from_utf8(&text[..length]).is_ok_and(|text| text.escape_debug().count() == 2)
}

/// `2026-11-21T17:00:00Z`
pub(crate) fn time(time: SystemTime) -> String {
    let read = DateTime::from(time);
    read.fmt(DateTimeFormat::DateTime).unwrap_or_else(|_| "beyond the calendar".to_owned())
}

/// The two largest units: `5 s`, `3 min 20 s`, `2 d 4 h`.
pub(crate) fn span(duration: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = duration.as_secs();
    let first = UNITS.iter().position(|(size, _)| seconds >= *size).unwrap_or(UNITS.len() - 1);
    let (size, unit) = UNITS[first];
    let mut words = format!("{} {unit}", seconds / size);
    if let Some((smaller, unit)) = UNITS.get(first + 1) {
        let rest = seconds % size / smaller;
        if rest > 0 {
            let _ = write!(words, " {rest} {unit}");
        }
    }
    words
}

/// `5 s ago`, `just now`, or `in 5 s`.
pub(crate) fn distance(time: SystemTime, now: SystemTime) -> String {
    let is_now = |distance: Duration| distance.as_secs() == 0;
    if is_now(now.duration_since(time).unwrap_or_else(|ahead| ahead.duration())) {
        return "just now".to_owned();
    }
    match now.duration_since(time) {
        Ok(past) => format!("{} ago", span(past)),
        Err(ahead) => format!("in {}", span(ahead.duration())),
    }
}

/// A time and how far it is.
pub(crate) fn time_and_distance(at: SystemTime, now: SystemTime) -> String {
    format!("{}, {}", time(at), distance(at, now))
}

/// A count with its word: `1 record`, `2 records`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_their_two_largest_units() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (200, "3 min 20 s"),
            (3_600, "1 h"),
            (3_659, "1 h"),
            (7_260, "2 h 1 min"),
            (187_200, "2 d 4 h"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), words);
        }
    }

    #[test]
    fn distances_go_both_ways() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        assert_eq!(distance(now - Duration::from_secs(5), now), "5 s ago");
        assert_eq!(distance(now + Duration::from_secs(5), now), "in 5 s");
        assert_eq!(distance(now + Duration::from_millis(5), now), "just now");
        assert_eq!(time_and_distance(now, now), "1970-01-01T00:01:40Z, just now");
    }

    #[test]
    fn a_key_does_not_drive_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\n\u{202e}é"), "a\\u{1b}[2Jb\\u{a}\\u{202e}é");
        assert_eq!(plain_lines("a\nb\u{7}"), "a\nb\\u{7}");
    }

    #[test]
    fn keys_that_differ_look_different() {
        for hidden in
            ['\u{200b}', '\u{2028}', '\u{2029}', '\u{feff}', '\u{a0}', '\u{e0041}', '\u{85}']
        {
            let key = format!("order{hidden}42");
            assert_eq!(plain(&key), format!("order{}42", hidden.escape_unicode()));
        }
        for shown in ["e\u{301}", "สวัสดี", "日本", "a'b\"c\\", "🙂"] {
            assert_eq!(plain(shown), shown);
        }
    }
}
