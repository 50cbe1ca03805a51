//! Where a scan stopped, as text: the next one begins there.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How many digits of a hash are a mark, or half of one.
pub(crate) const MARK: usize = 8;

/// The parts of a scan that are not read to their end, and where each goes on; `None` at its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Resume {
    /// Of the command, the names of its tables and its scope, and of the table that was scanned, if it was described.
    pub(crate) mark: String,
    /// Whether the scan is the first of `copy`, of items that belong to records.
    pub(crate) is_first_of_copy: bool,
    pub(crate) parts: u32,
    pub(crate) rest: BTreeMap<u32, Option<String>>,
}

impl Resume {
    /// A scan that has not begun.
    pub(crate) fn of(mark: String, parts: u32) -> Self {
        let rest = (0..parts).map(|part| (part, None)).collect();
        Self { mark, is_first_of_copy: false, parts, rest }
    }

    /// Whether a scan with this mark may continue here. A table that could not be described is compared by its name.
    pub(crate) fn is_of(&self, mark: &str) -> bool {
        self.mark.starts_with(mark) || mark.starts_with(&self.mark)
    }
}

/// `MARK-4.0:CURSOR.2:` is the first and the third of four parts, and the third has not begun. An `a` is
/// before the place of the first scan of `copy`.
impl fmt::Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = if self.is_first_of_copy { "a" } else { "" };
        write!(f, "{}-{first}{}", self.mark, self.parts)?;
        for (part, cursor) in &self.rest {
            write!(f, ".{part}:")?;
            if let Some(cursor) = cursor {
                write!(f, "{cursor}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Resume {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text).ok_or_else(|| "it is not a place that a scan has printed".to_owned())
    }
}

fn read(text: &str) -> Option<Resume> {
    let (mark, text) = text.split_once('-')?;
    let is_mark =
        [MARK, 2 * MARK].contains(&mark.len()) && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (is_first_of_copy, text) = match text.strip_prefix('a') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut segments = text.split('.');
    let parts = segments.next()?.parse().ok()?;
    let mut rest = BTreeMap::new();
    for segment in segments {
        let (part, cursor) = segment.split_once(':')?;
        let part = part.parse().ok().filter(|part| *part < parts)?;
        rest.insert(part, (!cursor.is_empty()).then(|| cursor.to_owned()));
    }
    let mark = mark.to_owned();
    (is_mark && !rest.is_empty()).then_some(Resume { mark, is_first_of_copy, parts, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        // base64 of [["pk","payments#1"]]
        let text = "0123abcd-4.0:W1sicGsiLCJwYXltZW50cyMxIl1d.2:";
        let resume: Resume = text.parse().unwrap();
        assert_eq!((resume.parts, resume.rest.len()), (4, 2));
        assert!(resume.rest[&0].is_some() && resume.rest[&2].is_none());
        assert_eq!(resume.to_string(), text);
        assert_eq!(Resume::of("0123abcd".to_owned(), 2).to_string(), "0123abcd-2.0:.1:");
        let first = "0123abcd-a2.0:.1:";
        assert_eq!(first.parse::<Resume>().unwrap().to_string(), first);
    }

    #[test]
    fn a_place_is_of_one_table_as_far_as_that_is_known() {
        let place = |mark: &str| Resume::of(mark.to_owned(), 1);
        assert!(place("0123abcd").is_of("0123abcd") && place("0123abcd").is_of("0123abcd00000001"));
        assert!(place("0123abcd00000001").is_of("0123abcd"));
        assert!(!place("0123abcd00000001").is_of("0123abcd00000002"));
        assert!(!place("0123abcd").is_of("0123abce00000001"));
    }

    #[test]
    fn an_invalid_position_is_rejected() {
        for wrong in ["", "4", "x.0:", "4.4:", "4.0", "aa4.0:"] {
            assert!(format!("0123abcd-{wrong}").parse::<Resume>().is_err(), "{wrong}");
        }
        for wrong in ["4.0:", "-4.0:", "0123abc-4.0:", "0123abcg-4.0:"] {
            assert!(wrong.parse::<Resume>().is_err(), "{wrong}");
        }
    }
}
