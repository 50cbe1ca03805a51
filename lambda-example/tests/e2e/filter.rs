//! What a metric filter of `CloudWatch` finds in a log, for the patterns that the templates have: those
//! for lines that are JSON.

use serde::Deserialize;
use serde_json::Value;

/// A filter pattern of a template, such as `{ $.a = "b*" && $.c = "d" || $.e = "f" }`: it matches if
/// all conditions of one alternative hold. `&&` binds tighter than `||`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Pattern(Vec<Vec<Condition>>);

/// `$.a = "b*"`: the text at the selector matches; `*` matches any text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    selector: Selector,
    text: String,
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
        let inner = text.strip_prefix("{ ").and_then(|text| text.strip_suffix(" }"));
        let alternatives = inner.expect("a pattern for JSON").split(" || ");
        Self(alternatives.map(conditions).collect())
    }
}

fn conditions(alternative: &str) -> Vec<Condition> {
    let inner = alternative.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let conditions = inner.unwrap_or(alternative).split(" && ");
    let conditions = conditions.map(|condition| {
        let (selector, text) = condition.split_once(" = ").expect("an equality");
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let text = text.expect("a text in quotation marks").to_owned();
        assert!(!text.contains('"'), "not known here: {alternative}");
        Condition { selector: Selector::from(selector.to_owned()), text }
    });
    conditions.collect()
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
        self.0.iter().any(|conditions| conditions.iter().all(|condition| condition.holds(line)))
    }
}

impl Condition {
    fn holds(&self, line: &str) -> bool {
        let Some(found) = self.selector.text(line) else { return false };
        match self.text.split_once('*') {
            None => found == self.text,
            Some((start, end)) => {
                assert!(!end.contains('*'), "not known here: {}", self.text);
                let rest = found.strip_prefix(start);
                rest.is_some_and(|rest| rest.ends_with(end))
            }
        }
    }
}

#[test]
fn a_line_matches_by_its_whole_message_and_outcome() {
    let ended = r#"$.fields.message = "an idempotent call has ended""#;
    let pattern = format!(
        r#"{{ ({ended} && $.fields.outcome = "lease_lost") || $.fields.message = "the lease was lost*" }}"#
    );
    let pattern = Pattern::from(pattern);
    let ended = "an idempotent call has ended";
    for (message, outcome, is_found) in [
        (ended, "lease_lost", true),
        (ended, "replay", false),
        ("the lease was lost before the answer could be stored", "", true),
        ("we think that the lease was lost", "", false),
        ("the card was declined", "lease_lost", false),
    ] {
        let line = serde_json::json!({"fields": {"message": message, "outcome": outcome}});
        assert_eq!(pattern.matches(&line.to_string()), is_found, "{line}");
    }
    assert!(!pattern.matches(r"ERROR the lease was lost"));
}

#[test]
fn an_error_of_the_handler_is_not_the_crates() {
    let pattern = r#"{ $.level = "ERROR" && $.target = "dynamodb_idempotency*" }"#;
    let pattern = Pattern::from(pattern.to_owned());
    for (level, target, is_found) in [
        ("ERROR", "dynamodb_idempotency::http::respond", true),
        ("WARN", "dynamodb_idempotency::http::respond", false),
        ("ERROR", "payments::charge", false),
    ] {
        let line =
            serde_json::json!({"level": level, "target": target, "fields": {"message": "x"}});
        assert_eq!(pattern.matches(&line.to_string()), is_found, "{line}");
    }
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
