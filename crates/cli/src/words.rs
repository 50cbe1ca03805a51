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

/// Whether a character does nothing to a terminal but appear on it.
pub(crate) fn is_plain(c: char) -> bool {
    !c.is_control() && !is_direction(c)
}

/// What turns the order of the characters around it.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
}
