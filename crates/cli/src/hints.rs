//! Commands that the program prints for its user to run next. They can be pasted into a shell: with
//! the same table, and with words that no shell and no option takes for something else.

use std::fmt::Write as _;

use dynamodb_idempotency::admin::StoredRecord;

use crate::args::Target;
use crate::words::is_plain;

/// The options of this run, to repeat in each command.
#[derive(Debug)]
pub(crate) struct Hints {
    /// Each after a space.
    options: String,
}

impl Hints {
    pub(crate) fn of(target: &Target) -> Self {
        let mut options = String::new();
        let mut add = |option: &str, value: &str| {
            let _ = write!(options, " {option} {}", word(value));
        };
        let in_environment = std::env::var("IDEMPOTENCY_TABLE").ok();
        if let Some(table) = target.table.as_deref().filter(|_| target.table != in_environment) {
            add("--table", table);
        }
        let named = [
            ("--endpoint-url", &target.endpoint_url),
            ("--region", &target.region),
            ("--profile", &target.profile),
            ("--partition-key", &target.partition_key),
            ("--ttl-attribute", &target.ttl_attribute),
        ];
        for (option, value) in named {
            if let Some(value) = value {
                add(option, value);
            }
        }
        if let Some(key) = &target.composite_key {
            add("--composite-key", &format!("{}={},{}", key.partition, key.value, key.sort));
        }
        Self { options }
    }

    /// A command on a record: `idempotency show payments order-42`.
    pub(crate) fn command(&self, command: &str, record: &StoredRecord) -> String {
        let name = name(&record.scope, &record.key);
        format!("idempotency{} {command} {name}", self.options)
    }

    /// The command that blocks a key in place of its record.
    pub(crate) fn block(&self, record: &StoredRecord) -> String {
        let (scope, key) = (word(&record.scope), word(&record.key));
        let end_of_options = if record.key.starts_with('-') { "-- " } else { "" };
        format!("idempotency{} block --force --scope={scope} {end_of_options}{key}", self.options)
    }
}

/// Scope and key as arguments, behind `--` if one of them looks like an option.
fn name(scope: &str, key: &str) -> String {
    let is_option = scope.starts_with('-') || key.starts_with('-');
    let end_of_options = if is_option { "-- " } else { "" };
    format!("{end_of_options}{} {}", word(scope), word(key))
}

/// Quotes text as one shell word, if necessary. Control characters are escaped in the form that
/// bash, zsh and ksh read.
fn word(text: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-./%:@+,".contains(c);
    if !text.is_empty() && text.chars().all(is_bare) {
        return text.to_owned();
    }
    if text.chars().all(is_plain) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut quoted = String::from("$'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if is_plain(c) => quoted.push(c),
            c if u32::from(c) > 0xffff => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
            c => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_pasted_into_a_shell() {
        for (text, expected) in [
            ("payments/%t/acme", "payments/%t/acme"),
            ("order 42", "'order 42'"),
            ("o'clock;rm", r"'o'\''clock;rm'"),
            ("", "''"),
            ("=ls", "'=ls'"),
            ("~", "'~'"),
            ("a\u{1b}[2J'b\\", r"$'a\u001b[2J\'b\\'"),
            ("\u{200b}\u{e0041}", r"$'\u200b\U000e0041'"),
        ] {
            assert_eq!(word(text), expected);
        }
    }

    #[test]
    fn a_key_that_looks_like_an_option_is_behind_two_dashes() {
        assert_eq!(name("payments", "-1"), "-- payments -1");
        assert_eq!(name("-payments", "1"), "-- -payments 1");
        assert_eq!(name("payments", "order-42"), "payments order-42");
    }
}
