//! Texts that the crate did not write, in errors and logs.

use std::error::Error as StdError;
use std::fmt::Write as _;

/// Escapes the characters that can end a line of a log, or make it look like another one: control
/// characters, line separators, and characters that are invisible or change the direction of the text.
///
/// Every text of an [`Error`](super::Error) passes through it. A text of others that is logged outside
/// of an error is a `&str` field, which `tracing` escapes.
pub(crate) fn one_line(text: String) -> String {
    if !text.contains(is_unsafe) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "{}", c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

fn is_unsafe(c: char) -> bool {
    let is_invisible = matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}')
        || matches!(c, '\u{2060}'..='\u{206F}' | '\u{FEFF}');
    c.is_control() || is_invisible
}

/// A cause of an error: only its text, in one line, and its own cause.
#[derive(derive_more::Debug, derive_more::Display)]
#[debug("{text}")]
#[display("{text}")]
pub(super) struct Cause {
    text: String,
    next: Option<Box<Cause>>,
}

impl Cause {
    pub(super) fn of(error: &(dyn StdError + 'static)) -> Self {
        let next = error.source().map(|next| Box::new(Self::of(next)));
        Self { text: one_line(error.to_string()), next }
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.next.as_deref().map(|next| next as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};

    #[test]
    fn no_text_of_an_error_can_begin_a_line() {
        let forged = "x\r\n2026-11-27 ERROR paid\u{1b}[2K\u{2028}\u{202e}\u{200b}\u{85}";
        let source = Error::new(ErrorKind::Unavailable, forged)
            .with_source(std::io::Error::other(forged.to_owned()));
        let error = Error::new(ErrorKind::OutcomeUnknown, forged).with_source(source);
        let mut texts = vec![format!("{error:?}"), format!("{error:#?}"), error.in_full()];
        let mut cause = Some(&error as &(dyn StdError + 'static));
        while let Some(error) = cause {
            texts.extend([error.to_string(), format!("{error:?}")]);
            cause = error.source();
        }
        assert_eq!(texts.len(), 9);
        for text in texts {
            assert!(!text.contains(is_unsafe), "{text:?}");
            assert!(text.contains(r"x\r\n2026-11-27 ERROR paid"), "{text:?}");
        }
        assert_eq!(one_line("Überweisung 😀".to_owned()), "Überweisung 😀");
    }
}
