//! The guide's FAQ knows every error by name.

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
    let transaction = include_str!("../../src/error/transaction.rs");
    for (source, name, at_least) in [
        (include_str!("../../src/error/mod.rs"), "ErrorKind", 15),
        (include_str!("../../src/http/problem.rs"), "ProblemKind", 23),
        (include_str!("../../src/error/step.rs"), "StepError", 3),
        (include_str!("../../src/messages/error.rs"), "BatchError", 3),
        (transaction, "CommitError", 5),
        (transaction, "TransactionError", 4),
        (transaction, "InvalidTransaction", 10),
    ] {
        let variants = variants(source, name);
        assert!(variants.len() >= at_least, "{name}: {variants:?}");
        for variant in variants {
            assert!(FAQ.contains(&format!("`{variant}`")), "{name}::{variant} is not in the FAQ");
        }
    }
}
