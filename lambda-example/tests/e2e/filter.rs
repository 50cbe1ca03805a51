//! What a metric filter of `CloudWatch` finds in a log, for the patterns that the templates have.
//!
//! A term is looked for between other characters than letters, digits and `_`: whether `CloudWatch`
//! finds it inside a longer word too, nothing here depends on.

use serde::Deserialize;
use serde_json::Value;

/// A pattern, as it stands in a template.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum Pattern {
    /// `?"one" ?"another"`, or `"one"` alone: a line with one of them.
    AnyTerm(Vec<String>),
    /// `{ $.a.b = "*" }`: a line of JSON with a text there.
    Text(Selector),
}

/// `$.a.b`: a member of a line that is JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Selector(Vec<String>);

impl From<String> for Selector {
    fn from(text: String) -> Self {
        let path = text.strip_prefix("$.").expect("a selector of a member");
        Self(path.split('.').map(String::from).collect())
    }
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        if let Some(json) = text.strip_prefix("{ ") {
            let selector = json.strip_suffix(r#" = "*" }"#).expect("a text of any kind");
            return Self::Text(Selector::from(selector.to_owned()));
        }
        // What is outside of quotation marks, and what is inside.
        let mut parts = text.split('"');
        let mut terms = Vec::new();
        while let (Some(before), Some(term)) = (parts.next(), parts.next()) {
            let is_one_of_several = before.trim_start() == "?";
            let is_alone = before.is_empty() && text.matches('"').count() == 2;
            assert!(is_one_of_several || is_alone, "not known here: {text}");
            terms.push(term.to_owned());
        }
        assert!(!terms.is_empty(), "not known here: {text}");
        Self::AnyTerm(terms)
    }
}

impl Selector {
    pub fn text(&self, line: &str) -> Option<String> {
        let line: Value = serde_json::from_str(line).ok()?;
        let member = self.0.iter().try_fold(&line, |value, name| value.get(name))?;
        member.as_str().map(String::from)
    }
}

impl Pattern {
    pub fn matches(&self, line: &str) -> bool {
        match self {
            Self::AnyTerm(terms) => terms.iter().any(|term| has_term(line, term)),
            Self::Text(selector) => selector.text(line).is_some(),
        }
    }
}

fn has_term(line: &str, term: &str) -> bool {
    let continues = |next: Option<char>| next.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(term).any(|(start, found)| {
        let (before, after) = (&line[..start], &line[start + found.len()..]);
        !continues(before.chars().next_back()) && !continues(after.chars().next())
    })
}

#[test]
fn a_term_is_a_word_and_not_a_part_of_one() {
    let pattern = Pattern::from(r#"?"lease_lost" ?"the lease was lost""#.to_owned());
    for (line, is_found) in [
        (r#"{"fields":{"outcome":"lease_lost"}}"#, true),
        (r#" INFO idempotency: ended outcome="lease_lost""#, true),
        ("the lease was lost before", true),
        ("not_lease_lost", false),
        ("lease_lost_again", false),
        ("LEASE_LOST", false),
        ("the lease is lost", false),
    ] {
        assert_eq!(pattern.matches(line), is_found, "{line}");
    }
    assert!(Pattern::from(r#""ERROR""#.to_owned()).matches("ERROR no answer"));
    // As a terminal has it: CloudWatch would have to look into the word.
    assert!(!Pattern::from(r#""ERROR""#.to_owned()).matches("\u{1b}[31mERROR\u{1b}[0m no answer"));
}

#[test]
fn a_member_of_a_line_is_a_text_or_not_there() {
    let pattern = Pattern::from(r#"{ $.fields.outcome = "*" }"#.to_owned());
    for (line, is_found) in [
        (r#"{"fields":{"outcome":"replay"}}"#, true),
        (r#"{"fields":{"outcome":7}}"#, false),
        (r#"{"span":{"outcome":"replay"}}"#, false),
        (r#"outcome="replay""#, false),
    ] {
        assert_eq!(pattern.matches(line), is_found, "{line}");
    }
}
