//! The guide's FAQ knows every error by name.

use dynamodb_idempotency::{Error, ErrorKind};

const FAQ: &str = include_str!("../../docs/guide/faq.md");

/// The variants of a public enum, as its source spells them.
fn variants<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let (_, rest) = source.split_once(&format!("pub enum {name}")).expect("the enum");
    let body = rest.lines().skip(1).take_while(|line| *line != "}");
    let names = body
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    names.map(|line| line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(line)).collect()
}

#[test]
fn the_faq_names_every_error() {
    for (source, name, at_least) in [
        (include_str!("../../src/error/mod.rs"), "ErrorKind", 21),
        (include_str!("../../src/http/problem.rs"), "ProblemKind", 23),
        (include_str!("../../src/messages/error.rs"), "BatchError", 3),
    ] {
        let variants = variants(source, name);
        assert!(variants.len() >= at_least, "{name}: {variants:?}");
        for variant in variants {
            assert!(FAQ.contains(&format!("`{variant}`")), "{name}::{variant} is not in the FAQ");
        }
    }
}

/// The message of an invalid transaction. The FAQ has it, up to its colon and whatever its numbers.
pub(crate) fn invalid(error: &Error) -> String {
    assert_eq!(error.kind(), ErrorKind::InvalidTransaction, "{error}");
    let message = error.to_string();
    let title = message.split(':').next().unwrap_or(&message);
    let is_explained = without_numbers(FAQ).contains(&format!("*{}*", without_numbers(title)));
    assert!(is_explained, "`{title}` is not in the FAQ");
    message
}

fn without_numbers(text: &str) -> String {
    let mut general = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '…' } else { c };
        if c != '…' || !general.ends_with(c) {
            general.push(c);
        }
    }
    general
}
