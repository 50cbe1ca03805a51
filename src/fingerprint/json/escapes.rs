//! Strings with escapes, which `serde_json` judges and spells.

use serde::de::IgnoredAny;

/// A string with its escapes spelled one way; `None` if it is none.
pub(super) fn respelled(literal: &[u8]) -> Option<Vec<u8>> {
    unicode(literal).or_else(|| {
        serde_json::from_slice::<IgnoredAny>(literal).ok()?;
        around_halves(literal)
    })
}

/// `None` if there is no such Unicode string.
fn unicode(literal: &[u8]) -> Option<Vec<u8>> {
    serde_json::to_vec(&serde_json::from_slice::<String>(literal).ok()?).ok()
}

/// The same for a string with halves of surrogate pairs, which is valid JSON and no Unicode string. A
/// lone half is spelled as its escape, as nothing else ever is.
fn around_halves(literal: &[u8]) -> Option<Vec<u8>> {
    let content = &literal[1..literal.len() - 1];
    let respelled_part = |part: &[u8]| {
        let spelled = unicode(&[b"\"", part, b"\""].concat())?;
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
